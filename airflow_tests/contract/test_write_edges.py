"""`@task.dpone` at its edges: names, exits, outlets, arguments of every shape."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from . import lab
from .lab import run, sql, task
from .test_write import ROWS, insert


def test_ids_with_dots_are_two_writes(place: Path) -> None:
    def plain() -> None:
        @task.dpone(target="warehouse")
        def load(transaction: Any) -> None:
            insert(transaction, "dag sales.eu", 1)

        load()

    def grouped() -> None:
        with lab.TaskGroup("eu"):

            @task.dpone(target="warehouse")
            def load(transaction: Any) -> None:
                insert(transaction, "dag sales, group eu", 1)

            load()

    run(plain, dag_id="sales.eu")
    run(grouped, dag_id="sales")
    assert sql(place / "target.db", ROWS) == [("dag sales, group eu", 1), ("dag sales.eu", 1)]


@pytest.mark.parametrize("code", [0, None, 3])
def test_an_exit_within_the_write_is_no_success(place: Path, code: int | None) -> None:
    (place / "count").mkdir()

    def define() -> None:
        @task.dpone(target="warehouse")
        def write(transaction: Any, folder: str) -> None:
            insert(transaction, "x", 1)
            tries = len(list(Path(folder).iterdir()))
            (Path(folder) / str(tries)).touch()
            if tries == 0:
                sys.exit(code)

        write(str(place / "count"))

    done = run(define, retries=1)
    assert (done.states, done.tries) == ({("write", -1): "success"}, {("write", -1): 2})
    assert sql(place / "target.db", ROWS) == [("x", 1)]


def test_an_error_of_dpone_in_the_function_is_retried_when_it_may_pass(place: Path) -> None:
    from dpone.contracts.errors_fencing import TargetUnreachable

    (place / "count").mkdir()

    def define() -> None:
        @task.dpone(target="warehouse")
        def write(transaction: Any, folder: str) -> None:
            insert(transaction, "x", 1)
            tries = len(list(Path(folder).iterdir()))
            (Path(folder) / str(tries)).touch()
            if tries == 0:
                raise TargetUnreachable(target="elsewhere", cause="it does not answer")

        write(str(place / "count"))

    done = run(define, retries=1)
    assert (done.states, done.tries) == ({("write", -1): "success"}, {("write", -1): 2})
    assert sql(place / "target.db", ROWS) == [("x", 1)]


@pytest.mark.parametrize(
    "partition",
    ["{{ none }}", "{{ '' }}", " ", "{{ dag_run.conf.get('day') }}-eu", ["a=1", "day={{ '' }}"]],
)
def test_a_partition_that_names_nothing_is_refused(place: Path, partition: Any) -> None:
    def define() -> None:
        @task.dpone(target="warehouse", partition=partition)
        def write(transaction: Any) -> None:
            raise AssertionError("nothing may be written")

        write()

    done = run(define, retries=2)
    assert (done.states["write", -1], done.tries["write", -1]) == ("failed", 1)
    assert not (place / "target.db").exists()


def test_a_map_key_may_be_among_what_a_function_takes_by_name(place: Path) -> None:
    def define() -> None:
        @task.dpone(target="warehouse", map_key="region")
        def write(transaction: Any, **row: Any) -> None:
            insert(transaction, row["region"], row["amount"])

        write.expand_kwargs([{"region": "eu", "amount": 1}, {"region": "us", "amount": 2}])

    assert run(define).state == "success"
    assert sql(place / "target.db", ROWS) == [("eu", 1), ("us", 2)]


def test_an_outlet_that_takes_no_receipt_fails_nothing(place: Path) -> None:
    outlet: Any = lab.Asset.ref(name="nobody knows it") if lab.SDK else lab.Asset("file://x")

    def define() -> None:
        @task.dpone(target="warehouse", outlets=[outlet])
        def write(transaction: Any) -> None:
            insert(transaction, "x", 1)

        write()

    assert run(define).states == {("write", -1): "success"}
    assert sql(place / "target.db", ROWS) == [("x", 1)]


def test_an_airflow_that_does_not_answer_fails_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpone.airflow import compat

    def silent(_instance: object) -> bool:
        raise ConnectionError("nobody answers")

    monkeypatch.setattr(compat, "_replaced" if lab.SDK else "_superseded", silent)

    def define() -> None:
        @task.dpone(target="warehouse")
        def write(transaction: Any) -> None:
            insert(transaction, "x", 1)

        write()

    done = run(define)
    assert done.states == {("write", -1): "success"}
    assert done.receipt("write") == lab.fence(place / "target.db")[0]


def test_what_a_mapped_task_returned_is_an_argument(place: Path) -> None:
    def define() -> None:
        @task
        def number(of: int) -> int:
            return of

        @task.dpone(target="warehouse")
        def write(transaction: Any, numbers: Any) -> None:
            insert(transaction, "sum", sum(numbers))

        write(number.expand(of=[1, 2, 3]))

    assert run(define).state == "success"
    assert sql(place / "target.db", ROWS) == [("sum", 6)]


def test_keys_of_other_types_are_other_writes(place: Path) -> None:
    keys = [1, "1", True, 0, False, "False", "none"]

    def define() -> None:
        @task.dpone(target="warehouse", route="orders", map_key="key")
        def write(transaction: Any, key: object) -> None:
            insert(transaction, repr(key), 1)

        write.expand(key=keys)

    assert run(define).state == "success"
    assert sql(place / "target.db", ROWS) == [(note, 1) for note in sorted(map(repr, keys))]


def test_functions_of_every_shape_get_what_they_ask_for(place: Path) -> None:
    def define() -> None:
        @task.dpone(target="warehouse")
        def open_ended(transaction: Any, *args: int, **kwargs: Any) -> None:
            insert(transaction, f"{args} {kwargs['z']} {'ds' in kwargs}", 1)

        @task.dpone(target="warehouse")
        def named(*, transaction: Any, a: int, ds: Any = None, b: int = 2) -> None:
            insert(transaction, f"named {a} {b} {ds}", 1)

        @task.dpone(target="warehouse")
        def placed(a: int, transaction: Any, /, b: int) -> None:
            insert(transaction, f"placed {a} {b}", 1)

        open_ended(1, 2, z=3)
        named(a=1)
        placed(1, b=2)

    assert run(define).state == "success"
    notes = [note for note, _ in sql(place / "target.db", ROWS)]
    assert notes == ["(1, 2) 3 True", "named 1 2 2024-01-02", "placed 1 2"]


def test_a_task_has_one_output() -> None:
    @task.dpone(target="warehouse", multiple_outputs=False)
    def write(transaction: Any) -> None:
        """Writes nothing."""

    with pytest.raises(TypeError, match="multiple_outputs"):

        @task.dpone(target="warehouse", multiple_outputs=True)
        def several(transaction: Any) -> None:
            """Writes nothing."""
