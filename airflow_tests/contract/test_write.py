"""`@task.dpone`: who a write is, what it leaves, and how a task ends."""

from __future__ import annotations

import datetime
import functools
import json
from pathlib import Path
from typing import Any

import pytest

from . import lab
from .lab import run, sql, task

MADE = "CREATE TABLE IF NOT EXISTS orders (note TEXT, amount INTEGER)"
ROWS = "SELECT note, amount FROM orders ORDER BY note, amount"


def insert(transaction: Any, note: str, amount: int) -> dict[str, int]:
    transaction.execute(MADE)
    transaction.execute("INSERT INTO orders VALUES (?, ?)", [note, amount])
    return {"rows": 1}


def test_the_xcom_is_the_receipt_in_the_fence(place: Path) -> None:
    def define() -> None:
        @task.dpone(target="warehouse")
        def write(transaction: Any, amount: int, ds: Any = None) -> dict[str, int]:
            return insert(transaction, ds, amount)

        write(5)

    done = run(define)
    assert (done.state, done.states) == ("success", {("write", -1): "success"})
    assert sql(place / "target.db", ROWS) == [("2024-01-02", 5)]
    (receipt,) = lab.fence(place / "target.db")
    assert done.receipt("write") == receipt
    assert receipt["result"] == {"rows": 1}
    assert sql(place / "journal.db", "SELECT state FROM dpone_journal") == [("COMPLETE",)]


def test_one_route_and_interval_is_one_write(
    place: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def define() -> None:
        @task.dpone(target="warehouse", route="orders")
        def first(transaction: Any, amount: int) -> dict[str, int]:
            return insert(transaction, "x", amount)

        @task.dpone(target="warehouse", route="orders")
        def second(transaction: Any, amount: int) -> dict[str, int]:
            raise AssertionError("it is written already")

        first(5) >> second(5)

    done = run(define)
    assert set(done.states.values()) == {"success"}
    assert done.receipt("first") == done.receipt("second")
    assert sql(place / "target.db", ROWS) == [("x", 5)]
    said = caplog.text + "".join(capsys.readouterr())
    assert "finished before; its receipt is returned and nothing was written" in said
    assert "dpone: loaded by 20" in said
    assert "say so with the next revision" in said


def test_two_dags_with_one_task_id_are_two_writes(place: Path) -> None:
    def define() -> None:
        @task.dpone(target="warehouse")
        def write(transaction: Any) -> None:
            insert(transaction, "x", 1)

        write()

    ran = [run(define, dag_id=f"dag_of_{name}") for name in ("ann", "bob")]
    assert sql(place / "target.db", ROWS) == [("x", 1)] * 2
    assert len({done.receipt("write")["operation_id"] for done in ran}) == 2


def test_another_interval_is_another_write(place: Path) -> None:
    def define() -> None:
        @task.dpone(target="warehouse", route="orders")
        def write(transaction: Any, ds: Any = None) -> None:
            insert(transaction, ds, 1)

        write()

    run(define)
    run(define, day=lab.DAY + datetime.timedelta(days=1))
    assert sql(place / "target.db", ROWS) == [("2024-01-02", 1), ("2024-01-03", 1)]


def test_a_mapped_task_writes_for_each_key(place: Path) -> None:
    def define(*regions: str) -> None:
        @task.dpone(target="warehouse", route="orders", map_key="region")
        def write(transaction: Any, region: str) -> None:
            insert(transaction, region, 1)

        write.expand(region=list(regions))

    run(lambda: define("eu", "us"))
    # The list has grown at its front, so that every index means another region.
    run(lambda: define("asia", "eu", "us"))
    assert sql(place / "target.db", ROWS) == [("asia", 1), ("eu", 1), ("us", 1)]


def test_a_mapped_task_without_a_key_is_refused_and_not_retried(place: Path) -> None:
    def define() -> None:
        @task.dpone(target="warehouse")
        def write(transaction: Any, region: str) -> None:
            raise AssertionError("nothing may be written")

        write.expand(region=["eu", "us"])

    done = run(define, retries=2)
    assert done.states == {("write", 0): "failed", ("write", 1): "failed"}
    assert set(done.tries.values()) == {1}
    assert not (place / "target.db").exists()


def test_another_intent_is_refused_and_not_retried(place: Path) -> None:
    def define() -> None:
        @task.dpone(target="warehouse", route="orders")
        def first(transaction: Any, amount: int) -> None:
            insert(transaction, "x", amount)

        @task.dpone(target="warehouse", route="orders")
        def second(transaction: Any, amount: int) -> None:
            insert(transaction, "x", amount)

        first(5) >> second(6)

    done = run(define, retries=2)
    assert (done.states["second", -1], done.tries["second", -1]) == ("failed", 1)
    assert sql(place / "target.db", ROWS) == [("x", 5)]


def test_a_revision_writes_again_on_purpose(place: Path) -> None:
    def define(revision: Any) -> None:
        @task.dpone(target="warehouse", route="orders", revision=revision)
        def write(transaction: Any) -> None:
            insert(transaction, "x", 1)

        write()

    for number, revision in enumerate((1, "2", 2)):
        run(functools.partial(define, revision), dag_id=f"revised_{number}")
    assert sql(place / "target.db", ROWS) == [("x", 1)] * 2


def test_a_journal_that_does_not_answer_is_retried(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = "postgres:postgresql://x@127.0.0.1:1/x?connect_timeout=1"
    told = f'{{"conn_type": "dpone", "extra": {{"spec": "{nobody}"}}}}'
    monkeypatch.setenv("AIRFLOW_CONN_NOBODY", told)

    def define() -> None:
        @task.dpone(target="warehouse", journal="nobody")
        def write(transaction: Any) -> None:
            raise AssertionError("nothing may be written")

        write()

    done = run(define, retries=1)
    assert done.states == {("write", -1): "failed"}
    assert done.tries["write", -1] == 2
    assert not (place / "target.db").exists()


def test_what_the_function_raises_is_raised(place: Path) -> None:
    (place / "count").mkdir()

    def define() -> None:
        @task.dpone(target="warehouse")
        def write(transaction: Any, folder: str) -> None:
            insert(transaction, "x", 1)
            tries = len(list(Path(folder).iterdir()))
            (Path(folder) / str(tries)).touch()
            if tries == 0:
                raise ValueError("not this time")

        write(str(place / "count"))

    done = run(define, retries=1)
    assert (done.states, done.tries) == ({("write", -1): "success"}, {("write", -1): 2})
    assert sql(place / "target.db", ROWS) == [("x", 1)]


def test_a_function_may_skip_its_task(place: Path) -> None:
    try:
        from airflow.sdk.exceptions import AirflowSkipException
    except ImportError:
        from airflow.exceptions import AirflowSkipException

    def define() -> None:
        @task.dpone(target="warehouse")
        def write(transaction: Any) -> None:
            insert(transaction, "x", 1)
            raise AirflowSkipException("nothing to do")

        write()

    assert run(define).states == {("write", -1): "skipped"}
    assert lab.fence(place / "target.db") == []
    assert sql(place / "target.db", "SELECT name FROM sqlite_schema WHERE name = 'orders'") == []


@pytest.mark.parametrize("value", [1.5, object()])
def test_an_argument_that_stands_for_nothing_is_refused(place: Path, value: object) -> None:
    def define() -> None:
        @task.dpone(target="warehouse")
        def write(transaction: Any, amount: object) -> None:
            raise AssertionError("nothing may be written")

        write(value)

    done = run(define, retries=2)
    assert (done.states, done.tries["write", -1]) == ({("write", -1): "failed"}, 1)


def test_arguments_are_templates_and_come_from_other_tasks(place: Path) -> None:
    def define() -> None:
        @task
        def amount() -> int:
            return 7

        @task.dpone(target="warehouse", partition="{{ ds }}")
        def write(note: str, transaction: Any, amount: int, *, unit: str = "eur") -> None:
            insert(transaction, f"{note} {unit}", amount)

        write("{{ ds_nodash }}", amount())

    done = run(define)
    assert done.state == "success"
    assert sql(place / "target.db", ROWS) == [("20240102 eur", 7)]
    ((body,),) = sql(place / "journal.db", "SELECT body FROM dpone_journal")
    identity = json.loads(json.loads(body)["identity"])
    assert identity["partition"] == {"part": "2024-01-02"}


def test_a_decorator_of_the_function_stays(place: Path) -> None:
    def doubled(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return [function(*args, **kwargs) for _ in range(2)] and {"rows": 2}

        return wrapper

    def define() -> None:
        @task.dpone(target="warehouse")
        @doubled
        def write(transaction: Any, amount: int) -> None:
            insert(transaction, "x", amount)

        write(3)

    assert run(define).receipt("write")["result"] == {"rows": 2}
    assert sql(place / "target.db", ROWS) == [("x", 3)] * 2


def test_a_function_without_a_transaction_is_no_task() -> None:
    with pytest.raises(TypeError, match="transaction"):

        @task.dpone(target="warehouse")
        def write(amount: int) -> None:
            """Writes nowhere."""

    with pytest.raises(TypeError, match="coroutine"):

        @task.dpone(target="warehouse")
        async def later(transaction: Any) -> None:
            """Would write later."""
