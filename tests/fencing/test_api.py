"""`dpone.commit`, `dpone.acommit` and `dpone.reconcile` as a caller meets them."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

import dpone
from dpone import wiring
from dpone.contracts.effects import Effect
from dpone.contracts.errors_fencing import (
    CommitRejected,
    CommitUnfinished,
    IntentMismatch,
    ObligationFailed,
    RevisionBlocked,
)
from dpone.contracts.journal import State
from dpone.fencing.settle import settle_alone
from dpone.ports.journal import Journal
from dpone.ports.target import Target


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = dpone.open_journal(f"sqlite:{tmp_path / 'journal.db'}")
    yield opened
    opened.close()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    with sqlite3.connect(tmp_path / "target.db") as setup:
        setup.execute("CREATE TABLE loaded(a INTEGER)")
    setup.close()
    opened = dpone.open_target(f"sqlite:{tmp_path / 'target.db'}")
    yield opened
    opened.close()


def _count(target: Any) -> int:
    with sqlite3.connect(target.path) as connection:
        count: int = connection.execute("SELECT count(*) FROM loaded").fetchone()[0]
    connection.close()
    return count


def _change(transaction: Any) -> Mapping[str, Any]:
    transaction.execute("INSERT INTO loaded VALUES (1)")
    return {"rows_written": 1}


OPERATION = dpone.Operation(route="r", target="t", intent={"columns": ["a"]})


def test_a_replay_calls_nothing_and_returns_the_same_outcome(
    journal: Journal, target: Target
) -> None:
    first = dpone.commit(OPERATION, journal=journal, target=target, change=_change)
    second = dpone.commit(OPERATION, journal=journal, target=target, change=_never)
    assert (first.how, second.how) == (dpone.How.COMMITTED, dpone.How.REPLAYED)
    assert first.result == second.result == {"rows_written": 1}
    assert first.attempt_id == second.attempt_id
    assert _count(target) == 1


def _never(transaction: Any) -> Mapping[str, Any]:
    raise AssertionError("a finished operation was changed again")


def test_another_intent_is_refused_naming_both_digests(journal: Journal, target: Target) -> None:
    dpone.commit(OPERATION, journal=journal, target=target, change=_change)
    other = dpone.Operation(route="r", target="t", intent={"columns": ["a", "b"]})
    with pytest.raises(IntentMismatch) as caught:
        dpone.commit(other, journal=journal, target=target, change=_never)
    assert OPERATION.intent_digest in str(caught.value)
    assert other.intent_digest in str(caught.value)
    assert _count(target) == 1


def test_a_revision_loads_once_more_and_supersedes(journal: Journal, target: Target) -> None:
    dpone.commit(OPERATION, journal=journal, target=target, change=_change)
    second = dpone.Operation(route="r", target="t", revision=2)
    dpone.commit(second, journal=journal, target=target, change=_change)
    assert _count(target) == 2
    third = dpone.Operation(route="r", target="t", revision=3)

    def fails(transaction: Any) -> Mapping[str, Any]:
        _change(transaction)
        raise ValueError("bad")

    with pytest.raises(CommitRejected):
        dpone.commit(third, journal=journal, target=target, change=fails)
    fourth = dpone.Operation(route="r", target="t", revision=4)
    dpone.commit(fourth, journal=journal, target=target, change=_change)
    with pytest.raises(RevisionBlocked):
        dpone.commit(third, journal=journal, target=target, change=_change)
    assert _count(target) == 3


def test_the_callers_own_exception_is_the_cause(journal: Journal, target: Target) -> None:
    def fails(transaction: Any) -> Mapping[str, Any]:
        _change(transaction)
        raise KeyError("mine")

    with pytest.raises(CommitRejected) as caught:
        dpone.commit(OPERATION, journal=journal, target=target, change=fails)
    assert isinstance(caught.value.__cause__, KeyError)
    assert _count(target) == 0
    outcome = dpone.commit(OPERATION, journal=journal, target=target, change=_change)
    assert outcome.attempt == 2
    assert _count(target) == 1


def test_a_failed_step_is_continued_and_nothing_is_loaded_again(
    journal: Journal, target: Target
) -> None:
    ran: list[str] = []

    def breaks(outcome: dpone.Outcome) -> None:
        ran.append("second")
        raise OSError("away")

    steps = [
        dpone.Obligation("first", lambda outcome: ran.append("first")),
        dpone.Obligation("second", breaks),
    ]
    with pytest.raises(ObligationFailed) as caught:
        dpone.commit(OPERATION, journal=journal, target=target, change=_change, obligations=steps)
    assert caught.value.fields["step"] == "second"
    mended = [steps[0], dpone.Obligation("second", lambda outcome: ran.append("mended"))]
    outcome = dpone.commit(
        OPERATION, journal=journal, target=target, change=_never, obligations=mended
    )
    assert (outcome.how, outcome.state) == (dpone.How.RESUMED, State.COMPLETE)
    assert ran == ["first", "second", "mended"]
    assert _count(target) == 1


def test_a_coroutine_change_runs_on_the_callers_loop(journal: Journal, target: Target) -> None:
    async def change(transaction: Any) -> Mapping[str, Any]:
        await asyncio.sleep(0)
        return _change(transaction)

    async def run() -> dpone.Outcome:
        return await dpone.acommit(OPERATION, journal=journal, target=target, change=change)

    assert asyncio.run(run()).how is dpone.How.COMMITTED
    assert _count(target) == 1


def test_a_cancelled_caller_waits_for_the_outcome(journal: Journal, target: Target) -> None:
    async def run() -> None:
        started = asyncio.Event()
        loop = asyncio.get_running_loop()

        def change(transaction: Any) -> Mapping[str, Any]:
            loop.call_soon_threadsafe(started.set)
            return _change(transaction)

        task = asyncio.create_task(
            dpone.acommit(OPERATION, journal=journal, target=target, change=change)
        )
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    entry = journal.read(OPERATION.operation_id)
    assert entry is not None
    assert entry.state is State.COMPLETE
    assert _count(target) == 1


def test_reconcile_finds_out_without_the_change(journal: Journal, target: Target) -> None:
    dpone.commit(OPERATION, journal=journal, target=target, change=_change)
    assert dpone.reconcile(OPERATION, journal=journal, target=target).state is State.COMPLETE


def test_an_empty_result_and_equal_content_under_two_identities_are_two_loads(
    journal: Journal, target: Target
) -> None:
    def empty(transaction: Any) -> None:
        return None

    for partition in ("1", "2"):
        operation = dpone.Operation(route="e", target="t", partition=partition)
        outcome = dpone.commit(operation, journal=journal, target=target, change=empty)
        assert (outcome.how, outcome.result) == (dpone.How.COMMITTED, {})


def test_many_commits_leave_one_heartbeat(journal: Journal, target: Target) -> None:
    for number in range(5):
        operation = dpone.Operation(route="h", target="t", partition=str(number))
        dpone.commit(operation, journal=journal, target=target, change=_change)
    beating = [t for t in threading.enumerate() if t.name == "dpone-heartbeat" and t.is_alive()]
    hearts = wiring._HEARTS[journal]
    assert len(hearts) == 1
    assert sum(heart._thread in beating for heart in hearts.values()) == 1


def test_losing_the_row_after_the_commit_is_told_as_committed(
    journal: Journal, target: Target
) -> None:
    other = dpone.open_journal(f"sqlite:{journal.path}")  # type: ignore[attr-defined]

    class Steals:
        """Settles the operation for another attempt between our commit and our word of it."""

        def __call__(self, effect: Effect) -> AbstractContextManager[None]:
            if effect is Effect.FENCING_ACKNOWLEDGE:
                rival = wiring.committer(other, target)
                settle_alone(rival, OPERATION.operation_id, take_over=True)
            return nullcontext()

    with pytest.raises(CommitUnfinished) as caught:
        wiring.committer(journal, target, probe=Steals()).commit(OPERATION, _change)
    assert caught.value.exit_code == 3
    assert "holds operation" in str(caught.value)
    assert _count(target) == 1
    other.close()


def test_the_advised_revision_is_one_that_nobody_has_used(journal: Journal, target: Target) -> None:
    for revision in (1, 2, 3):
        operation = dpone.Operation(route="r", target="t", revision=revision, intent={"a": 1})
        dpone.commit(operation, journal=journal, target=target, change=_change)
    with pytest.raises(IntentMismatch) as caught:
        dpone.commit(
            dpone.Operation(route="r", target="t", intent={"a": 2}),
            journal=journal,
            target=target,
            change=_never,
        )
    assert caught.value.fields["next_revision"] == 4
