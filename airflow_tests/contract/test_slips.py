"""Slips in a DAG: what is written by mistake fails at once, and writes nothing."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpone.airflow import DponeRunOperator

from .lab import run, sql, task
from .test_load import _route
from .test_write import ROWS, insert

Define = Callable[[], None]


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """What the logs have said so far."""
    return lambda: caplog.text + "".join(capfd.readouterr())


def _fails_at_once(define: Define, place: Path) -> None:
    done = run(define, retries=2)
    assert set(done.states.values()) == {"failed"}
    assert set(done.tries.values()) == {1}
    assert not (place / "target.db").exists() or not sql(place / "target.db", _TABLES)


_TABLES = (
    "SELECT name FROM sqlite_master WHERE name NOT LIKE 'dpone_%' AND name NOT LIKE 'sqlite_%'"
)


# -- functions whose code does not run -------------------------------------------------------------


async def coroutine(transaction: Any) -> None:
    insert(transaction, "x", 1)


def generator(transaction: Any) -> Any:
    insert(transaction, "x", 1)
    yield 1


async def async_generator(transaction: Any) -> Any:
    insert(transaction, "x", 1)
    yield 1


class Called:
    """An object that is called as a coroutine function."""

    async def __call__(self, transaction: Any) -> None:
        insert(transaction, "x", 1)


def _wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


HIDDEN = [
    coroutine,
    generator,
    async_generator,
    Called(),
    _wrapped(coroutine),
    functools.partial(generator),
    _wrapped(functools.partial(_wrapped(async_generator))),
]


@pytest.mark.parametrize("function", HIDDEN)
def test_a_function_whose_code_does_not_run_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="writes nothing when it is called"):
        task.dpone(target="warehouse", task_id="write")(function)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("made", [coroutine, generator, async_generator])
def test_what_such_a_function_returned_is_refused(
    place: Path, said: Callable[[], str], made: Callable[..., Any]
) -> None:
    def define() -> None:
        @task.dpone(target="warehouse")
        def write(transaction: Any) -> Any:
            insert(transaction, "x", 1)
            return made(transaction)

        write()

    _fails_at_once(define, place)
    text = said()
    assert "wrote nothing" in text
    assert "never awaited" not in text


# -- names that name nothing -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "route", ["{{ none }}", "{{ '' }}", "{{ params.get('r', ' ') }}", "", "r_{{ params.get('r') }}"]
)
def test_a_route_that_names_nothing_is_refused(place: Path, route: str) -> None:
    def define() -> None:
        @task.dpone(target="warehouse", route=route)
        def write(transaction: Any) -> None:
            insert(transaction, "x", 1)

        write()

    _fails_at_once(define, place)


@pytest.mark.parametrize("argument", ["route", "partition"])
def test_what_another_task_does_not_name_is_refused(place: Path, argument: str) -> None:
    def define() -> None:
        @task
        def nothing() -> None:
            """Names nothing."""

        @task.dpone(target="warehouse", **{argument: nothing()})
        def write(transaction: Any) -> None:
            insert(transaction, "x", 1)

        write()

    done = run(define, retries=2)
    assert (done.states["write", -1], done.tries["write", -1]) == ("failed", 1)
    assert not (place / "target.db").exists()


@pytest.mark.parametrize("argument", ["manifest", "partition", "connections"])
def test_what_another_task_does_not_name_is_no_default_of_a_load(
    place: Path, argument: str
) -> None:
    manifest = str(_manifest(place, "none"))

    def define() -> None:
        @task
        def nothing() -> None:
            """Names nothing."""

        DponeRunOperator(**{"task_id": "load", "manifest": manifest, argument: nothing()})

    done = run(define, retries=2)
    assert (done.states["load", -1], done.tries["load", -1]) == ("failed", 1)
    assert not (place / "target.db").exists()


@pytest.mark.parametrize("key", [None, "", "None", "{{ none }}"])
def test_a_map_key_that_names_nothing_is_refused(place: Path, key: object) -> None:
    def define() -> None:
        @task.dpone(target="warehouse", map_key="key")
        def write(transaction: Any, key: object) -> None:
            insert(transaction, repr(key), 1)

        write.expand(key=[key])

    _fails_at_once(define, place)


def test_a_map_key_that_is_left_to_its_default_is_told_so(
    place: Path, said: Callable[[], str]
) -> None:
    def define() -> None:
        @task.dpone(target="warehouse", map_key="region")
        def write(transaction: Any, amount: int, region: str = "eu") -> None:
            insert(transaction, region, amount)

        write.expand(amount=[1, 2])

    _fails_at_once(define, place)
    assert "the function is not called with it" in said()


def test_a_partition_may_be_what_a_mapped_task_returned(place: Path) -> None:
    def define() -> None:
        @task
        def name(of: str) -> str:
            return of

        @task.dpone(target="warehouse", partition=name.expand(of=["a", "b"]))
        def write(transaction: Any) -> None:
            insert(transaction, "x", 1)

        write()

    assert run(define).state == "success"
    assert sql(place / "target.db", ROWS) == [("x", 1)]


# -- arguments of another type ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"partition": 5},
        {"partition": [None]},
        {"partition": {"day": "2024-01-01"}},
        {"connections": "warehouse"},
        {"connections": {"warehouse": 5}},
        {"connections": {"warehouse": "{{ none }}"}},
        {"manifest": 5},
        {"manifest": "{{ none }}"},
        {"process": 5},
        {"again": "yes"},
        {"data_interval": None},
        {"take_over": "no"},
        {"revision": [1]},
        {"process": "another"},
    ],
    ids=str,
)
def test_a_load_with_a_wrong_argument(place: Path, given: dict[str, Any]) -> None:
    manifest = _manifest(place, "none")

    def define() -> None:
        DponeRunOperator(**{"task_id": "load", "manifest": str(manifest), **given})

    _fails_at_once(define, place)


@pytest.mark.parametrize(
    "given",
    [
        {"partition": 5},
        {"partition": 1.5},
        {"partition": {"day": "x"}},
        {"route": 5},
        {"map_key": 5},
        {"target": 5},
        {"target": "{{ none }}"},
        {"journal": ""},
        {"journal": ["dpone_journal"]},
        {"take_over": "no"},
        {"replayable": 1},
        {"revision": {}},
    ],
    ids=str,
)
def test_a_write_with_a_wrong_argument(place: Path, given: dict[str, Any]) -> None:
    def define() -> None:
        @task.dpone(**{"target": "warehouse", **given})
        def write(transaction: Any) -> None:
            insert(transaction, "x", 1)

        write()

    _fails_at_once(define, place)


def _manifest(folder: Path, partition: str) -> Path:
    (folder / "orders.csv").write_text("id,day,region\n1,2024-01-01,eu\n2,2024-01-02,eu\n")
    return _route(folder, partition, "sqlite: target.db")


# -- what is said ----------------------------------------------------------------------------------


def test_a_missing_manifest_is_told_from_the_folder_of_the_dag(
    place: Path, said: Callable[[], str]
) -> None:
    def define() -> None:
        DponeRunOperator(task_id="load", manifest="orders/nowhere.yaml")

    _fails_at_once(define, place)
    text = said()
    assert "There is no manifest orders/nowhere.yaml." in text
    assert "taken from the folder of the DAG file" in text
    assert "working directory" not in text


def test_two_instances_with_one_key_are_told_of_it(place: Path, said: Callable[[], str]) -> None:
    def define() -> None:
        @task.dpone(target="warehouse", map_key="region")
        def write(transaction: Any, region: str, amount: int) -> None:
            insert(transaction, region, amount)

        write.partial(region="eu").expand(amount=[1, 2])

    done = run(define)
    assert sorted(done.states.values()) == ["failed", "success"]
    text = said()
    assert "look first at map_key" in text
    assert "revision=2" in text
    assert "--revision" not in text


def test_a_changed_source_is_told_in_the_words_of_a_dag(
    place: Path, said: Callable[[], str]
) -> None:
    manifest = _manifest(place, "file")

    def define() -> None:
        DponeRunOperator(task_id="load", manifest=str(manifest))

    assert run(define).state == "success"
    (place / "orders.csv").write_text("id,day,region\n3,2024-01-03,eu\n")
    said()
    assert run(define).state == "failed"
    text = said()
    assert "DPONE_TARGET_COMMIT_INTENT_MISMATCH" in text
    assert "say so: revision=2" in text
    assert "map_key" not in text


def test_a_skip_is_no_error_in_the_log(place: Path, said: Callable[[], str]) -> None:
    try:
        from airflow.sdk.exceptions import AirflowSkipException
    except ImportError:
        from airflow.exceptions import AirflowSkipException

    def define() -> None:
        @task.dpone(target="warehouse")
        def write(transaction: Any) -> None:
            raise AirflowSkipException("nothing to do")

        write()

    assert run(define).states == {("write", -1): "skipped"}
    lines = [line for line in said().splitlines() if "nothing of operation sha256:" in line]
    assert lines
    assert not [line for line in lines if "error" in line.lower()]


def test_a_load_of_many_parts_that_are_there_says_once_how_to_load_them_again(
    place: Path, said: Callable[[], str]
) -> None:
    manifest = str(_manifest(place, "{interval: {column: day, every: day}}"))

    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest, data_interval=False)

    run(define, dag_id="first")
    said()
    run(define, dag_id="second")
    # A log may be seen in more places than one.
    text = said()
    replayed = len(re.findall(r"dpone: operation \S+ replayed", text))
    assert replayed == 2 * text.count("dpone: this is try 1 of load") > 0
