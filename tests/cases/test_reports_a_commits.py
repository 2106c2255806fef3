"""Public reports of commits whose outcome was misread: lost, late, refused or swallowed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
import psycopg
import pytest

from dpone.adapters.posix import identity
from dpone.adapters.sqlite.target import SqliteTarget
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_fencing import CommitBusy, CommitRejected, TransactionControl
from dpone.contracts.fence import CommitVerdict, Unit, Unknown
from dpone.ports.target import Also, Change
from faultinject import workloads
from faultinject.answers import false_failures, lost_answer
from faultinject.matrix import FENCED, World, fresh
from faultinject.proxy import Plan, Proxy, Step
from faultinject.rivals import code_of, how_of, loaded_once
from faultinject.workloads import change_of, operation_of
from faultinject.worlds import Databases
from faultinject.zygote import Zygote
from tests.cases.desk import (
    APPEND,
    BUSY,
    REJECTED,
    committer,
    every_target,
    failing_trigger,
    only_postgres,
    said,
    sleeping_trigger,
    sql,
    states,
    triggered,
)


@pytest.fixture(scope="module")
def proxy(databases: Databases) -> Iterator[Proxy]:
    with Proxy(databases.places[0]) as made:
        yield made


@only_postgres
def test_a09_a_commit_whose_answer_was_cut_off_is_found_in_the_fence(
    zygote: Zygote, proxy: Proxy, world: World
) -> None:
    with fresh(world, APPEND) as args:
        through = {**args, "target": "postgres:" + proxy.dsn(args["target"].partition(":")[2])}
        proxy.arm(Plan.CUT_AFTER, match=lambda text: b"INSERT INTO audit" in text)
        cut = len(proxy.steps(Plan.CUT_AFTER))
        assert said(zygote, through) == "settled"
        assert proxy.steps(Plan.CUT_AFTER)[cut:] == [
            Step.COMMIT_SEEN,
            Step.COMMIT_FORWARDED,
            Step.ANSWER_RECEIVED,
            Step.CLIENT_RESET,
        ]
        assert states(args)[-3:] == ["COMMIT_UNKNOWN", "TARGET_COMMITTED", "COMPLETE"]
        assert loaded_once(args, "append") == []


@only_postgres
@pytest.mark.parametrize("delay_s", [0.2, None], ids=["lands-while-asked", "lands-at-the-end"])
def test_a10_a_commit_that_lands_late_contends_with_the_retry(
    zygote: Zygote, proxy: Proxy, world: World, delay_s: float | None
) -> None:
    heard = lost_answer(zygote, proxy, world, Plan.DELAY, delay_s=delay_s)
    assert heard.faults == ()
    assert Step.CLIENT_RESET in heard.steps


class Forgetful(SqliteTarget):
    """Commits, and then cannot say so."""

    raises = False

    def commit(self, unit: Unit, change: Change, also: Also | None = None) -> CommitVerdict:
        super().commit(unit, change, also)
        if self.raises:
            raise OSError("the connection broke")
        return Unknown("the connection broke")


@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
@pytest.mark.parametrize("raises", [False, True], ids=["says-unknown", "raises"])
def test_a11_a_commit_of_unknown_outcome_is_not_cleaned_up(
    zygote: Zygote, world: World, raises: bool
) -> None:
    with fresh(world, APPEND) as args:
        place = args["target"].partition(":")[2]
        with committer(args) as by:
            from pathlib import Path

            target = Forgetful(Path(place), identity=identity.identity)
            target.raises = raises
            by.target = by.reconciler.target = target
            operation = operation_of(args)
            if raises:
                with pytest.raises(OSError, match="broke"):
                    by.commit(operation, change_of("append", "p"))
                assert states(args)[-1] == "COMMITTING"
            else:
                assert by.commit(operation, change_of("append", "p")).how == "settled"
            target.close()
        # Nothing that the commit may have made visible was removed.
        assert workloads.content(args["target"]) == workloads.expected("append", "p")
        assert said(zygote, args, take_over=True) == ("settled" if raises else "replayed")
        assert [*loaded_once(args, "append"), *false_failures(args)] == []


def swallowing(transaction: Any) -> Mapping[str, Any]:
    """A change that hides the failure of one of its statements."""
    change_of("append", "p")(transaction)
    try:
        transaction.execute("INSERT INTO nowhere VALUES (1)")
    except (psycopg.Error, duckdb.Error):
        return {"rows_written": 3}
    raise AssertionError("the statement did not fail")


@pytest.mark.parametrize("world", ["duckdb", "postgres"], indirect=True)
def test_a12_a_swallowed_failure_is_not_called_committed(world: World) -> None:
    with fresh(world, APPEND) as args:
        with committer(args) as by, pytest.raises(DponeError) as refused:
            by.commit(operation_of(args), swallowing)
        assert refused.value.code == REJECTED
        assert states(args)[-1] == "FAILED_PRE_COMMIT"
        assert workloads.mutations(args["target"]) == 0


@only_postgres
def test_a12_a_constraint_that_fails_at_commit_is_a_proven_failure(
    zygote: Zygote, world: World
) -> None:
    with fresh(world, APPEND) as args:
        sql(
            args,
            "ALTER TABLE audit ADD CONSTRAINT one UNIQUE (operation) DEFERRABLE INITIALLY DEFERRED",
            "INSERT INTO audit VALUES ('p')",
        )
        assert said(zygote, args) == REJECTED
        assert states(args)[-1] == "FAILED_PRE_COMMIT"
        assert workloads.content(args["target"]) == sorted([("before", 1, 0), ("before", 100, 0)])
        sql(args, "DELETE FROM audit")
        assert said(zygote, args) == "committed"
        assert loaded_once(args, "append") == []


@only_postgres
@pytest.mark.parametrize("deferred", [False, True], ids=["at-a-statement", "at-commit"])
@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_a20_a_definite_abort_is_retried_whole(
    zygote: Zygote, world: World, code: str, deferred: bool
) -> None:
    with fresh(world, APPEND) as args:
        failing_trigger(args, code, deferred=deferred)
        assert said(zygote, args) == "committed"
        assert triggered(args) == 2
        assert "COMMIT_UNKNOWN" not in states(args)
        assert "FAILED_PRE_COMMIT" in states(args)
        assert loaded_once(args, "append") == []


@only_postgres
@pytest.mark.parametrize("deferred", [False, True], ids=["at-a-statement", "at-commit"])
def test_a20_an_abort_that_comes_again_and_again_is_left_for_later(
    zygote: Zygote, world: World, deferred: bool
) -> None:
    with fresh(world, APPEND) as args:
        failing_trigger(args, "40001", deferred=deferred, times=4)
        ended = zygote.run(FENCED, args)
        assert (ended.exit_code, code_of(ended)) == (3, BUSY)
        assert states(args)[-1] == "FAILED_PRE_COMMIT"
        assert said(zygote, args) == "committed"
        assert loaded_once(args, "append") == []


@only_postgres
@pytest.mark.parametrize(
    ("lock_wait_s", "how"), [(0.2, "committed"), (5.0, "settled")], ids=["ended", "awaited"]
)
def test_a26_a_client_that_stops_waiting_does_not_call_it_failed(
    zygote: Zygote, world: World, lock_wait_s: float, how: str
) -> None:
    with fresh(world, APPEND) as args:
        sleeping_trigger(args, 1.5)
        options = {"commit_wait_s": 0.3, "lock_wait_s": lock_wait_s}
        ended = zygote.run(FENCED, {**args, "options": options})
        assert how_of(ended) == how, ended.result
        assert "COMMIT_UNKNOWN" in states(args)
        assert triggered(args) == (2 if how == "committed" else 1)
        assert [*loaded_once(args, "append"), *false_failures(args)] == []


@only_postgres
def test_a27_a_source_read_once_is_not_recorded_as_an_empty_load(world: World) -> None:
    def change_from(rows: Iterator[tuple[str, int, int]], calls: list[int]) -> Any:
        def change(transaction: Any) -> Mapping[str, Any]:
            given = list(rows)
            calls.append(len(given))
            transaction.executemany("INSERT INTO loaded VALUES (%s, %s, %s)", given)
            transaction.execute("INSERT INTO audit VALUES ('p')")
            return {"rows_written": len(given)}

        return change

    rows = [("p", key, key * 10) for key in range(1, 4)]
    with fresh(world, APPEND) as args:
        failing_trigger(args, "40001", deferred=True)
        calls: list[int] = []
        with committer(args) as by:
            with pytest.raises(CommitBusy) as aborted:
                by.commit(operation_of(args), change_from(iter(rows), calls))
            assert aborted.value.exit_code == 3
            # The emptied iterator was not asked again.
            assert calls == [3]
            outcome = by.commit(operation_of(args), change_from(iter(rows), calls))
        assert (outcome.how, outcome.result) == ("committed", {"rows_written": 3})
        assert calls == [3, 3]
        assert loaded_once(args, "append") == []


CONTROL: dict[str, list[str]] = {
    "sqlite": ["COMMIT", "ROLLBACK", "END", "SAVEPOINT s; COMMIT", "ATTACH ':memory:' AS other"],
    "duckdb": ["COMMIT", "ROLLBACK", "INSERT INTO audit VALUES ('x'); COMMIT; BEGIN"],
    "postgres": [
        "COMMIT",
        "/* a comment */ commit work",
        "INSERT INTO audit VALUES ('x'); COMMIT; BEGIN",
        "DO $$ BEGIN COMMIT; END $$",
        "PREPARE TRANSACTION 'x'",
    ],
}


def failing(statement: str, *, script: bool = False) -> Any:
    """A change that writes, makes a table, and then tries `statement`."""

    def change(transaction: Any) -> Mapping[str, Any]:
        change_of("append", "p")(transaction)
        transaction.execute("CREATE TABLE made_inside(n INTEGER)")
        run = transaction.executescript if script else transaction.execute
        run(statement)
        raise RuntimeError("on purpose")

    return change


@pytest.mark.parametrize(
    ("world", "statement"),
    [(name, text) for name, texts in CONTROL.items() for text in texts],
    indirect=["world"],
)
def test_a28_a_statement_that_would_commit_behind_the_fence_is_refused(
    zygote: Zygote, world: World, statement: str
) -> None:
    with fresh(world, APPEND) as args:
        with committer(args) as by, pytest.raises(CommitRejected) as refused:
            by.commit(operation_of(args), failing(statement))
        assert not isinstance(refused.value.__cause__, RuntimeError)
        nothing_stays(zygote, args)


@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
def test_a28_a_script_cannot_commit_the_fence(zygote: Zygote, world: World) -> None:
    with fresh(world, APPEND) as args:
        script = "INSERT INTO audit VALUES ('x'); CREATE TABLE other(n INTEGER);"
        with committer(args) as by, pytest.raises(CommitRejected) as refused:
            by.commit(operation_of(args), failing(script, script=True))
        assert isinstance(refused.value.__cause__, sqlite3.Error | TransactionControl)
        nothing_stays(zygote, args)


@every_target
def test_a28_tables_made_inside_go_with_the_fence(zygote: Zygote, world: World) -> None:
    with fresh(world, APPEND) as args:
        with committer(args) as by, pytest.raises(CommitRejected) as refused:
            by.commit(operation_of(args), failing("INSERT INTO made_inside VALUES (1)"))
        assert isinstance(refused.value.__cause__, RuntimeError)
        nothing_stays(zygote, args)


def nothing_stays(zygote: Zygote, args: Mapping[str, Any]) -> None:
    """Neither rows nor tables of the failed change are there, and the load can be repeated."""
    assert workloads.mutations(args["target"]) == 0
    assert workloads.mutations(args["target"], "x") == 0
    sql(args, "CREATE TABLE made_inside(n INTEGER)", "DROP TABLE made_inside")
    assert states(args)[-1] == "FAILED_PRE_COMMIT"
    assert said(zygote, args) == "committed"
    assert loaded_once(dict(args), "append") == []
