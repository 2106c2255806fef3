"""What a retry asks, writes and leaves alone: one SQLite journal and one SQLite target."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import dpone
from dpone import wiring
from dpone.adapters.sqlite.journal import SqliteJournal
from dpone.contracts.codec import replaced
from dpone.contracts.effects import Effect
from dpone.contracts.errors_fencing import (
    CommitRejected,
    JournalUnavailable,
    ObligationFailed,
    OwnershipLost,
    RevisionBlocked,
    TargetDiverged,
    TargetHeld,
    TargetUnreachable,
)
from dpone.contracts.fence import Committed, Sealed, Unit
from dpone.contracts.journal import Event, JournalEntry, Note, State, Step
from dpone.fencing.ledger import Ledger, same_write
from dpone.ports.journal import Journal
from dpone.ports.probe import Probe, quiet
from dpone.ports.target import Target

OPERATION = dpone.Operation(route="r", target="t", intent={"columns": ["a"]})
SHORT_WAIT_S = 0.2
UNHURRIED_S = 30.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a target that has its table and no fence."""
    with sqlite3.connect(tmp_path / "target.db") as setup:
        setup.execute("CREATE TABLE loaded(a INTEGER)")
    setup.close()
    return tmp_path


@pytest.fixture
def journal(folder: Path) -> Iterator[Journal]:
    opened = dpone.open_journal(f"sqlite:{folder / 'journal.db'}")
    yield opened
    opened.close()


@pytest.fixture
def target(folder: Path) -> Iterator[Target]:
    opened = wiring.open_target(
        f"sqlite:{folder / 'target.db'}", options={"lock_wait_s": SHORT_WAIT_S}
    )
    yield opened
    opened.close()


def change(transaction: Any) -> Mapping[str, Any]:
    transaction.execute("INSERT INTO loaded VALUES (1)")
    return {"rows_written": 1}


def fails(transaction: Any) -> Mapping[str, Any]:
    change(transaction)
    raise ValueError("bad")


def never(transaction: Any) -> Mapping[str, Any]:
    raise AssertionError("nothing is to be changed")


def rows(folder: Path) -> int:
    with sqlite3.connect(folder / "target.db") as connection:
        count: int = connection.execute("SELECT count(*) FROM loaded").fetchone()[0]
    connection.close()
    return count


def row_of(journal: Journal) -> JournalEntry:
    row = journal.read(OPERATION.operation_id)
    assert row is not None
    return row


def events(journal: Journal) -> list[str]:
    return [line.event for line in journal.history(OPERATION.operation_id)]


class At:
    """A probe that notes every effect and acts before or after one of them."""

    def __init__(
        self,
        effect: Effect | None = None,
        *,
        before: Callable[[], object] = lambda: None,
        after: Callable[[], object] = lambda: None,
    ) -> None:
        self.effect, self.before, self.after = effect, before, after
        self.seen: list[Effect] = []

    @contextmanager
    def __call__(self, effect: Effect, /) -> Iterator[None]:
        self.seen.append(effect)
        if effect is self.effect:
            self.before()
        yield
        if effect is self.effect:
            self.after()


def commit(
    journal: Journal,
    target: Target,
    what: Callable[[Any], Mapping[str, Any]] = change,
    *,
    probe: Probe = quiet,
    **more: Any,
) -> dpone.Outcome:
    return wiring.committer(journal, target, probe=probe).commit(OPERATION, what, **more)


class Killed(BaseException):
    """The process ends here, as far as the protocol can tell."""


def die() -> None:
    raise Killed


@contextmanager
def held(folder: Path, mode: str = "IMMEDIATE") -> Iterator[None]:
    """Somebody else holds the write lock of the target; with EXCLUSIVE it cannot be asked."""
    holder = sqlite3.connect(folder / "target.db", isolation_level=None)
    holder.execute(f"BEGIN {mode}")
    yield
    holder.close()


# -- sealing ---------------------------------------------------------------------------------------


def test_a_first_attempt_seals_nothing_and_a_later_one_seals_before_it_is_prepared(
    journal: Journal, target: Target
) -> None:
    probe = At()
    with pytest.raises(CommitRejected):
        commit(journal, target, fails, probe=probe)
    # The only seal is the one that proves the failure.
    assert probe.seen.index(Effect.FENCING_SEAL) > probe.seen.index(Effect.FENCING_INTENT)
    assert probe.seen[-2:] == [Effect.FENCING_SEAL, Effect.FENCING_CONCLUDE]
    again = At()
    assert commit(journal, target, probe=again).attempt == 2
    wanted = [Effect.FENCING_TAKE_OVER, Effect.FENCING_SEAL, Effect.FENCING_INTENT]
    assert again.seen[:3] == wanted
    assert events(journal)[4:7] == ["new_attempt", "fence_ready", "commit_started"]


def test_in_one_database_the_acknowledgement_commits_with_the_change(
    folder: Path, target: Target
) -> None:
    beside = dpone.open_journal(f"sqlite:{folder / 'target.db'}")
    probe = At(Effect.FENCING_COMMIT, after=die)
    both = wiring.open_target(f"sqlite:{folder / 'target.db'}", probe=probe)
    with pytest.raises(Killed):
        commit(beside, both, probe=probe)
    # Nobody came to write a word after the commit, and the row is finished all the same.
    assert (row_of(beside).state, rows(folder)) == (State.COMPLETE, 1)
    assert events(beside)[-2:] == ["commit_acknowledged", "obligations_met"]
    both.close()
    beside.close()


@pytest.mark.parametrize("journal_knows", [False, True], ids=["lost", "behind"])
def test_a_new_epoch_is_above_that_of_journal_and_fence(
    journal: Journal, target: Target, journal_knows: bool
) -> None:
    if journal_knows:
        with pytest.raises(CommitRejected):
            commit(journal, target, fails)
    sealed = Unit(
        operation_id=OPERATION.operation_id,
        epoch=7,
        attempt_id=str(uuid.uuid4()),
        intent_digest=OPERATION.intent_digest,
        incarnation=target.install(),
    )
    assert isinstance(target.seal(sealed), Sealed)
    assert commit(journal, target).attempt == 8


def test_every_attempt_has_a_random_id_of_its_own(journal: Journal, target: Target) -> None:
    for number in range(3):
        with pytest.raises(CommitRejected):
            commit(journal, target, fails)
        assert row_of(journal).attempt == number + 1
    ids = {line.attempt_id for line in journal.history(OPERATION.operation_id)}
    assert len(ids) == 3
    assert {uuid.UUID(found).version for found in ids} == {4}


@pytest.mark.parametrize("left", [State.PREPARING, State.FAILED_PRE_COMMIT])
def test_a_seal_that_is_waited_for_in_vain_concludes_nothing(
    folder: Path, journal: Journal, target: Target, left: State
) -> None:
    with pytest.raises(CommitRejected):
        commit(journal, target, fails)
    if left is State.PREPARING:
        with pytest.raises(Killed):
            commit(journal, target, probe=At(Effect.FENCING_TAKE_OVER, after=die))
    assert row_of(journal).state is left
    with held(folder), pytest.raises(TargetHeld) as caught:
        commit(journal, target, never, take_over=True)
    assert caught.value.exit_code == 3
    # Neither failed nor in doubt: it has not begun.
    assert row_of(journal).state is State.PREPARING
    assert events(journal)[-1] in (Event.NEW_ATTEMPT, Event.TAKEN_OVER)
    assert commit(journal, target, take_over=True).how is dpone.How.COMMITTED
    assert rows(folder) == 1


# -- asking ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True], ids=["first", "retry"])
def test_a_server_that_does_not_answer_leaves_no_trace_in_the_journal(
    journal: Journal, target: Target, known: bool
) -> None:
    before = left_failed(journal, target) if known else []
    nobody = wiring.open_target("postgres:postgresql://x@127.0.0.1:1/x?connect_timeout=1")
    with pytest.raises(TargetUnreachable) as caught:
        commit(journal, nobody, never)
    assert caught.value.exit_code == 3
    assert events(journal) == before


@pytest.mark.parametrize("known", [False, True], ids=["first", "retry"])
def test_a_held_target_leaves_no_trace_in_the_journal(
    folder: Path, journal: Journal, target: Target, known: bool
) -> None:
    before = left_failed(journal, target) if known else []
    with held(folder, "EXCLUSIVE"), pytest.raises(TargetHeld) as caught:
        commit(journal, target, never)
    assert caught.value.exit_code == 3
    assert events(journal) == before


def left_failed(journal: Journal, target: Target) -> list[str]:
    """Leave the operation in FAILED_PRE_COMMIT; what its history tells."""
    with pytest.raises(CommitRejected):
        commit(journal, target, fails)
    return events(journal)


def test_a_unit_that_could_not_begin_is_not_waited_for_twice(
    folder: Path, journal: Journal, target: Target
) -> None:
    target.install()
    probe = At()
    with held(folder), pytest.raises(TargetHeld) as caught:
        commit(journal, target, never, probe=probe)
    assert caught.value.exit_code == 3
    assert probe.seen == [Effect.FENCING_INTENT]
    assert row_of(journal).state is State.COMMITTING
    assert commit(journal, target, take_over=True).attempt == 3
    assert rows(folder) == 1


def test_a_receipt_of_another_attempt_is_accepted_and_noted(
    folder: Path, journal: Journal, target: Target
) -> None:
    first = commit(journal, target)
    (folder / "journal.db").rename(folder / "lost.db")
    journal.close()
    found = commit(journal, target, never)
    assert (found.how, found.attempt_id) == (dpone.How.SETTLED, first.attempt_id)
    noted = {line.event: line.detail for line in journal.history(OPERATION.operation_id)}
    assert noted[Note.FOREIGN_RECEIPT] == {"attempt_id": first.attempt_id}
    assert rows(folder) == 1


def test_a_new_revision_waits_for_an_earlier_one_that_is_not_settled(
    folder: Path, journal: Journal, target: Target
) -> None:
    with pytest.raises(Killed):
        commit(journal, target, probe=At(Effect.FENCING_INTENT, after=die))
    second = replaced(OPERATION, revision=2)
    with pytest.raises(RevisionBlocked) as caught:
        dpone.commit(second, journal=journal, target=target, change=never)
    assert caught.value.fields["blocking"] == 1
    assert journal.read(second.operation_id) is None
    assert commit(journal, target, take_over=True).how is dpone.How.COMMITTED
    dpone.commit(second, journal=journal, target=target, change=change)
    assert rows(folder) == 2


# -- steps after the commit ------------------------------------------------------------------------


def test_no_step_runs_when_the_target_lost_the_commit_meanwhile(
    folder: Path, journal: Journal, target: Target
) -> None:
    """Between commit and steps of one attempt: it asks the fence again."""

    def restore() -> None:
        with sqlite3.connect(folder / "target.db") as connection:
            connection.execute("DELETE FROM dpone_fence")
            connection.execute("DELETE FROM loaded")
        connection.close()

    ran: list[str] = []
    step = dpone.Obligation("step", lambda outcome: ran.append(outcome.operation_id))
    with pytest.raises(TargetDiverged) as caught:
        commit(
            journal,
            target,
            probe=At(Effect.FENCING_ACKNOWLEDGE, after=restore),
            obligations=[step],
        )
    assert caught.value.exit_code == 4
    assert (ran, row_of(journal).diverged) == ([], "absent")


def test_no_step_runs_in_another_incarnation_of_the_target(
    folder: Path, journal: Journal, target: Target
) -> None:
    ran: list[str] = []

    def breaks(outcome: dpone.Outcome) -> None:
        raise OSError("away")

    with pytest.raises(ObligationFailed):
        commit(journal, target, obligations=[dpone.Obligation("step", breaks)])
    whole = (folder / "target.db").read_bytes()
    (folder / "copy.db").write_bytes(whole)
    (folder / "copy.db").replace(folder / "target.db")
    step = dpone.Obligation("step", lambda outcome: ran.append(outcome.operation_id))
    with pytest.raises(TargetDiverged) as caught:
        commit(journal, target, never, obligations=[step])
    assert caught.value.fields["fence"] == "committed in another incarnation"
    assert ran == []


# -- the lease -------------------------------------------------------------------------------------


def test_a_lease_is_renewed_while_the_change_runs(
    folder: Path, journal: Journal, target: Target
) -> None:
    watching = dpone.open_journal(f"sqlite:{folder / 'journal.db'}")

    def waits(transaction: Any) -> Mapping[str, Any]:
        # It only runs down, unless somebody renews it.
        left, until = row_of(watching).lease_left_ms, time.monotonic() + UNHURRIED_S
        while (now := row_of(watching).lease_left_ms) <= left:
            assert time.monotonic() < until, "nobody renewed the lease"
            left = now
        return change(transaction)

    by = wiring.committer(journal, target, lease_s=60.0, heartbeat_s=0.02)
    assert by.commit(OPERATION, waits).how is dpone.How.COMMITTED
    watching.close()


def test_the_waits_are_those_of_the_design(folder: Path) -> None:
    from dpone.adapters.duckdb.target import DuckdbTarget
    from dpone.adapters.postgres.target import PostgresTarget
    from dpone.adapters.sqlite.target import SqliteTarget
    from dpone.fencing.commit import Committer

    leases = wiring.committer.__kwdefaults__ or {}
    assert (leases["lease_s"], leases["heartbeat_s"]) == (60.0, 15.0)
    assert (Committer.__init__.__kwdefaults__ or {})["lease_s"] == 60.0
    for kind in (DuckdbTarget, PostgresTarget, SqliteTarget, SqliteJournal):
        assert (kind.__init__.__kwdefaults__ or {})["lock_wait_s"] == 10.0, kind


# -- the journal's answer is lost ------------------------------------------------------------------


class Forgetful(SqliteJournal):
    """Writes, lets somebody act, and cannot say that it wrote."""

    act: Callable[[], object] = staticmethod(lambda: None)

    def advance(
        self, before: JournalEntry, after: JournalEntry, steps: Sequence[Step], lease_s: float = 0.0
    ) -> bool:
        super().advance(before, after, steps, lease_s)
        self.act()
        raise JournalUnavailable(cause="the answer was lost", known="")


@pytest.mark.parametrize("rival", [False, True], ids=["ours", "overtaken"])
def test_a_lost_answer_counts_only_while_the_row_is_what_was_written(
    folder: Path, journal: Journal, rival: bool
) -> None:
    begun = JournalEntry(
        operation_id="o",
        identity="{}",
        family="f",
        route="r",
        partition="",
        revision=1,
        state=State.PREPARING,
        version=1,
        attempt=1,
        attempt_id="ours",
        intent_digest="i",
    )
    journal.create(begun, [Step(event="begin", source="", target="PREPARING")], 0.0)
    forgetful = Forgetful(folder / "journal.db")

    def overtake() -> None:
        current = journal.read("o")
        assert current is not None
        taken = replaced(current, version=current.version + 1, attempt_id="rival")
        assert journal.advance(current, taken, [Step(event="taken_over", source="", target="")])

    forgetful.act = overtake if rival else (lambda: None)
    ledger = Ledger(forgetful, quiet, 60.0)
    if rival:
        with pytest.raises(JournalUnavailable):
            ledger.move(begun, Effect.FENCING_INTENT, (Event.FENCE_READY, {}))
    else:
        moved = ledger.move(begun, Effect.FENCING_INTENT, (Event.FENCE_READY, {}))
        assert (moved.state, moved.version) == (State.PREPARED, 2)
    forgetful.close()
    other: list[dict[str, Any]] = [
        {"version": 2},
        {"state": State.PREPARED},
        {"attempt_id": "rival"},
    ]
    assert same_write(begun, begun)
    assert not any(same_write(replaced(begun, **changed), begun) for changed in other)


def test_who_lost_the_row_touches_the_target_no_more(
    folder: Path, journal: Journal, target: Target
) -> None:
    with pytest.raises(CommitRejected):
        commit(journal, target, fails)

    def overtake() -> None:
        assert commit(journal, target).attempt == 2

    probe = At(Effect.FENCING_TAKE_OVER, before=overtake)
    with pytest.raises(OwnershipLost) as caught:
        commit(journal, target, never, probe=probe)
    assert caught.value.exit_code == 3
    assert probe.seen == [Effect.FENCING_TAKE_OVER]
    assert isinstance(target.ask(OPERATION.operation_id, None).verdict, Committed)
    assert rows(folder) == 1
