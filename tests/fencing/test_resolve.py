"""An operator's answer: what the fence proves comes first, and who said what stays."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

import dpone
from dpone import wiring
from dpone.contracts.codec import decode
from dpone.contracts.effects import Effect
from dpone.contracts.errors_fencing import AnswerRefused
from dpone.contracts.fence import Committed, Sealed
from dpone.contracts.journal import State
from dpone.contracts.outcome import Stored
from dpone.fencing.check import check
from dpone.fencing.commit import Committer
from dpone.fencing.prune import prunable, prune
from dpone.fencing.resolve import Assertion, resolve
from dpone.fencing.settle import settle_alone

OPERATION = dpone.Operation(route="r", target="t", intent={"columns": ["a"]})
FAR_FUTURE_MS = 2**53


class Killed(BaseException):
    """The process ends here, as far as the protocol can tell."""


class KilledAfter:
    """A probe under which the process dies right after an effect."""

    def __init__(self, effect: Effect) -> None:
        self.effect = effect

    def __call__(self, effect: Effect, /) -> AbstractContextManager[None]:
        return self._dying() if effect is self.effect else nullcontext()

    @contextmanager
    def _dying(self) -> Iterator[None]:
        yield
        raise Killed


def change(transaction: Any) -> Mapping[str, Any]:
    transaction.execute("CREATE TABLE loaded(a INTEGER)")
    return {"rows_written": 1}


@pytest.fixture
def by(tmp_path: Path) -> Iterator[Committer]:
    """A committer on files that are not there yet."""
    journal = dpone.open_journal(f"sqlite:{tmp_path / 'journal.db'}")
    target = wiring.open_target(f"sqlite:{tmp_path / 'target.db'}", options={"lock_wait_s": 0.2})
    yield wiring.committer(journal, target)
    target.close()
    journal.close()


def doubted(by: Committer, effect: Effect) -> int:
    """Die after an effect of a load; the version that an operator looked at."""
    probe = KilledAfter(effect)
    target = wiring.open_target(f"sqlite:{by.target.path}", probe=probe)  # type: ignore[attr-defined]
    with pytest.raises(Killed):
        wiring.committer(by.journal, target, probe=probe).commit(OPERATION, change)
    target.close()
    row = by.journal.read(OPERATION.operation_id)
    assert row is not None
    assert row.state is State.COMMITTING
    return row.version


@pytest.mark.parametrize(
    ("died_after", "said", "proven"),
    [
        (Effect.FENCING_COMMIT, Assertion.NOT_COMMITTED, State.COMPLETE),
        (Effect.FENCING_INTENT, Assertion.COMMITTED, State.FAILED_PRE_COMMIT),
    ],
    ids=["it-is-there", "it-is-not"],
)
def test_a_fence_that_knows_overrides_the_operator(
    by: Committer, died_after: Effect, said: Assertion, proven: State
) -> None:
    version = doubted(by, died_after)
    row = resolve(
        by, OPERATION.operation_id, said, expect_version=version, operator="ann", why="I looked"
    )
    assert row.state is proven
    if row.outcome:
        assert decode(row.outcome, Stored).asserted_by == ""


def test_who_answered_and_why_stays_in_the_history(by: Committer, tmp_path: Path) -> None:
    version = doubted(by, Effect.FENCING_INTENT)
    holder = sqlite3.connect(tmp_path / "target.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    given: dict[str, Any] = {"operator": "ann", "why": "the rows are there"}
    with pytest.raises(AnswerRefused):
        resolve(
            by,
            OPERATION.operation_id,
            Assertion.NOT_COMMITTED,
            expect_version=version,
            **given,
        )
    # The refused answer took the row over, and so it has another version.
    seen = by.journal.read(OPERATION.operation_id)
    assert seen is not None
    answered = resolve(
        by,
        OPERATION.operation_id,
        Assertion.COMMITTED,
        expect_version=seen.version,
        **given,
    )
    holder.close()
    assert (answered.state, decode(answered.outcome, Stored).asserted_by) == (
        State.TARGET_COMMITTED,
        "ann",
    )
    last = by.journal.history(OPERATION.operation_id)[-1]
    assert last.event == "operator_committed"
    assert {name: last.detail[name] for name in given} == given
    assert last.detail["answer"] == "committed"


@pytest.mark.parametrize(
    ("died_after", "proven", "reason"),
    [
        (Effect.FENCING_COMMIT, State.COMPLETE, ""),
        (Effect.FENCING_INTENT, State.FAILED_PRE_COMMIT, "reconciled"),
    ],
    ids=["it-is-there", "it-is-not"],
)
def test_reconcile_writes_what_the_fence_or_a_won_seal_proves(
    by: Committer, died_after: Effect, proven: State, reason: str
) -> None:
    doubted(by, died_after)
    row = settle_alone(by, OPERATION.operation_id, take_over=True)
    assert (row.state, row.reason) == (proven, reason)
    verdict = by.target.ask(OPERATION.operation_id, None).verdict
    assert isinstance(verdict, Sealed if reason else Committed)


def test_a_check_reports_a_loss_and_writes_nothing(by: Committer, tmp_path: Path) -> None:
    by.commit(OPERATION, change)
    with sqlite3.connect(tmp_path / "target.db") as connection:
        connection.execute("DELETE FROM dpone_fence")
    connection.close()
    before = by.journal.read(OPERATION.operation_id)
    asked, findings = check(by.journal, lambda row: by.target)
    assert (asked, [found.what for found in findings]) == (1, ["target_diverged"])
    assert by.journal.read(OPERATION.operation_id) == before


def test_a_tombstone_keeps_identity_and_digests_and_answers_exit_0(by: Committer) -> None:
    by.commit(OPERATION, change)
    before = by.journal.read(OPERATION.operation_id)
    assert before is not None
    assert prune(by.ledger, by.target, prunable(by.journal, before_ms=FAR_FUTURE_MS)) == 1
    after = by.journal.read(OPERATION.operation_id)
    assert after is not None
    kept = ("identity", "intent_digest", "state", "attempt")
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    (digest,) = decode(after.outcome, Stored).result.values()
    assert digest.startswith("sha256:")
    assert by.journal.history(OPERATION.operation_id)[-1].detail == {"outcome_digest": digest}
    again = by.commit(OPERATION, change)
    assert (again.how, again.exit_code) == (dpone.How.REPLAYED, 0)
    assert again.notes[0] == "already loaded, details pruned"
    assert prunable(by.journal, before_ms=FAR_FUTURE_MS) == []
