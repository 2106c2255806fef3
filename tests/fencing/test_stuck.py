"""Operations that a failure, a loss or an operator left open can always be brought to an end."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import dpone
from dpone import wiring
from dpone.contracts.codec import replaced
from dpone.contracts.effects import Effect
from dpone.contracts.errors_fencing import (
    CommitRejected,
    IncarnationChanged,
    IntentMismatch,
    ObligationFailed,
    OperationExpired,
    TargetDiverged,
    TargetHeld,
    TargetInvalid,
)
from dpone.contracts.errors_recovery import FloorBlocked
from dpone.contracts.journal import JournalEntry, Note, State, moment_of
from dpone.fencing.adopt import adopt_target
from dpone.fencing.explain import explain
from dpone.fencing.prune import prunable, prune, raise_floor
from dpone.fencing.resolve import Assertion, resolve
from dpone.fencing.settle import settle_alone
from dpone.ports.journal import Journal
from dpone.ports.probe import Probe, quiet
from dpone.ports.target import Target

FIRST = dpone.Operation(route="r", target="t", intent={"columns": ["a"]}, position="1")
MENDED = replaced(FIRST, intent={"columns": ["a", "b"]})
OTHER = replaced(FIRST, intent={"columns": ["c"]})
SAID: dict[str, Any] = {"operator": "ann", "why": "the target is gone"}
SHORT_WAIT_S = 0.2
FAR_FUTURE_MS = 2**53


class Killed(BaseException):
    """The process ends here, as far as the protocol can tell."""


def at(effect: Effect, act: Callable[[], object], *, after: bool = True) -> Probe:
    """A probe that acts around one effect."""

    @contextmanager
    def probe(seen: Effect, /) -> Iterator[None]:
        if seen is effect and not after:
            act()
        yield
        if seen is effect and after:
            act()

    return probe


def die() -> None:
    raise Killed


def change(transaction: Any) -> Mapping[str, Any]:
    transaction.execute("CREATE TABLE IF NOT EXISTS loaded(a INTEGER)")
    transaction.execute("INSERT INTO loaded VALUES (1)")
    return {"rows_written": 1}


def fails(transaction: Any) -> Mapping[str, Any]:
    raise ValueError("bad")


def never(transaction: Any) -> Mapping[str, Any]:
    raise AssertionError("nothing is to be changed")


class Place:
    """One journal and one target in a folder, opened anew for each question."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.kind = "sqlite" if kind == "joint" else kind
        self.file = folder / f"target.{self.kind}"
        self.journal: Journal = dpone.open_journal(
            f"sqlite:{self.file if kind == 'joint' else folder / 'journal.db'}"
        )
        self.target: Target = wiring.open_target(
            f"{self.kind}:{self.file}", options={"lock_wait_s": SHORT_WAIT_S}
        )
        self.joint = kind == "joint"

    def by(self, probe: Probe = quiet) -> Any:
        return wiring.committer(self.journal, self.target, probe=probe)

    def commit(self, operation: dpone.Operation, what: Any = change, **more: Any) -> dpone.Outcome:
        probe = more.pop("probe", quiet)
        made: dpone.Outcome = self.by(probe).commit(operation, what, take_over=True, **more)
        return made

    def row(self) -> JournalEntry:
        row = self.journal.read(FIRST.operation_id)
        assert row is not None
        return row

    def rows(self) -> int:
        return int(self.execute("SELECT count(*) FROM loaded")[0][0])

    def execute(self, *statements: str) -> Any:
        if self.kind == "sqlite":
            opened: Any = sqlite3.connect(self.file, isolation_level=None)
        else:
            import duckdb

            opened = duckdb.connect(str(self.file))
        with closing(opened) as connection:
            return [connection.execute(statement).fetchall() for statement in statements][-1]

    def lose(self) -> None:
        """Delete the target; where the journal lies in it, only its fence."""
        self.target.close()
        if self.joint:
            self.execute("DROP TABLE dpone_fence", "DROP TABLE dpone_fence_meta")
        else:
            self.file.unlink()

    def close(self) -> None:
        self.target.close()
        self.journal.close()


@pytest.fixture(params=["sqlite", "duckdb", "joint"])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    made = Place(tmp_path, request.param)
    yield made
    made.close()


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path, "sqlite")
    yield made
    made.close()


def left(place: Place, state: State) -> None:
    """Leave the operation in a state before the commit."""
    if state is State.COMMITTING:
        with pytest.raises(Killed):
            place.commit(FIRST, probe=at(Effect.FENCING_INTENT, die))
    else:
        with pytest.raises(CommitRejected):
            place.commit(FIRST, fails)
    if state is State.PREPARING:
        with pytest.raises(Killed):
            place.commit(FIRST, probe=at(Effect.FENCING_TAKE_OVER, die))
    assert place.row().state is state


UNFINISHED = [State.FAILED_PRE_COMMIT, State.PREPARING, State.COMMITTING]


# -- another intent after a failure ----------------------------------------------------------------


def test_a_mended_intent_stands_from_the_first_write_of_its_attempt(place: Place) -> None:
    left(place, State.FAILED_PRE_COMMIT)
    with pytest.raises(Killed):
        place.commit(MENDED, probe=at(Effect.FENCING_TAKE_OVER, die))
    assert place.row().state is State.PREPARING
    with pytest.raises(IntentMismatch) as caught:
        place.commit(FIRST, never)
    assert caught.value.fields["recorded"] == MENDED.intent_digest
    assert place.commit(MENDED).how is dpone.How.COMMITTED
    assert (place.rows(), place.row().intent_digest) == (1, MENDED.intent_digest)


def test_a_mended_intent_outlives_a_seal_that_is_waited_for_in_vain(lite: Place) -> None:
    left(lite, State.FAILED_PRE_COMMIT)
    with closing(sqlite3.connect(lite.file, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(TargetHeld):
            lite.commit(MENDED, never)
    assert lite.commit(MENDED).how is dpone.How.COMMITTED


def test_an_intent_that_was_mended_twice_is_settled_first(place: Place) -> None:
    left(place, State.FAILED_PRE_COMMIT)
    with pytest.raises(Killed):
        place.commit(MENDED, probe=at(Effect.FENCING_TAKE_OVER, die))
    with pytest.raises(IntentMismatch) as caught:
        place.commit(OTHER, never)
    assert f"dpone journal reconcile {FIRST.operation_id}" in caught.value.report()["next"]
    settled = settle_alone(place.by(), FIRST.operation_id, FIRST.floor, take_over=True)
    assert settled.state is State.FAILED_PRE_COMMIT
    assert place.commit(OTHER).how is dpone.How.COMMITTED
    assert place.rows() == 1


def test_a_rival_with_the_earlier_intent_loses_to_the_mended_one(place: Place) -> None:
    left(place, State.FAILED_PRE_COMMIT)
    # The rival has read the failed row when the mended attempt takes it.
    overtakes = at(Effect.FENCING_TAKE_OVER, lambda: place.commit(MENDED), after=False)
    with pytest.raises(dpone.DponeError) as caught:
        place.commit(FIRST, never, probe=overtakes)
    assert caught.value.exit_code == 3
    with pytest.raises(IntentMismatch):
        place.commit(FIRST, never)
    assert (place.rows(), place.row().state) == (1, State.COMPLETE)


def test_the_history_keeps_both_intents(lite: Place) -> None:
    left(lite, State.FAILED_PRE_COMMIT)
    lite.commit(MENDED)
    told = {line.event: line.detail for line in lite.journal.history(FIRST.operation_id)}
    assert told["new_attempt"]["from_intent"] == FIRST.intent_digest
    assert told["new_attempt"]["intent"] == MENDED.intent_digest


def test_a_retry_with_the_same_intent_has_none_to_keep(lite: Place) -> None:
    left(lite, State.FAILED_PRE_COMMIT)
    lite.commit(FIRST)
    told = {line.event: line.detail for line in lite.journal.history(FIRST.operation_id)}
    assert set(told["new_attempt"]) == {"from_attempt"}


# -- the target is gone ----------------------------------------------------------------------------


@pytest.mark.parametrize("state", UNFINISHED)
def test_an_unfinished_operation_outlives_its_target(place: Place, state: State) -> None:
    left(place, state)
    place.lose()
    before = place.row()
    with pytest.raises(IncarnationChanged) as caught:
        place.commit(FIRST, never)
    assert "without a fence" in str(caught.value)
    assert place.row().version == before.version
    answer = place.target.ask(FIRST.operation_id, FIRST.floor)
    said = explain(before, place.journal.history(FIRST.operation_id), answer)
    assert any("dpone journal adopt --target" in step for step in said.next)
    assert place.file.exists() is place.joint
    adopted = adopt_target(place.by().ledger, place.target, lambda row: True, **SAID)
    assert (adopted["adopted"], adopted["unknown"]) == (1, 0)
    assert place.commit(FIRST).how is dpone.How.COMMITTED
    assert place.rows() == 1
    again = adopt_target(place.by().ledger, place.target, lambda row: True, **SAID)
    assert again["unchanged"] == 1


@pytest.mark.parametrize("state", UNFINISHED)
def test_a_row_that_is_bound_to_no_target_is_adopted_by_one(place: Place, state: State) -> None:
    """Adopting an absent fence used to leave such rows, which nobody could bring to an end."""
    left(place, state)
    row = place.row()
    unbound = replaced(row, incarnation="")
    by = place.by()
    by.ledger.move(row, Effect.FENCING_REBIND, (Note.ADOPTED, {}), incarnation="")
    for lost in (False, True):
        if lost:
            place.lose()
        with pytest.raises(IncarnationChanged):
            place.commit(FIRST, never)
    assert place.row().incarnation == unbound.incarnation
    assert adopt_target(by.ledger, place.target, lambda row: True, **SAID)["adopted"] == 1
    assert place.commit(FIRST).how is dpone.How.COMMITTED


def test_what_was_loaded_into_a_target_that_is_gone_is_marked(place: Place) -> None:
    place.commit(FIRST)
    place.lose()
    assert adopt_target(place.by().ledger, place.target, lambda row: True, **SAID)["diverged"] == 1
    with pytest.raises(TargetDiverged):
        place.commit(FIRST, never)


@pytest.mark.parametrize("where", ["no file", "no fence"])
def test_retention_of_a_target_without_a_fence_makes_none(place: Place, where: str) -> None:
    place.commit(FIRST)
    if place.joint or where == "no fence":
        place.execute("DROP TABLE dpone_fence", "DROP TABLE dpone_fence_meta")
    else:
        place.lose()
    rows = prunable(place.journal, before_ms=FAR_FUTURE_MS)
    assert (len(rows), prune(place.by().ledger, place.target, rows)) == (1, 0)
    assert FIRST.floor is not None
    with pytest.raises(TargetInvalid) as caught:
        raise_floor(place.target, replaced(FIRST.floor, position="2"), rows)
    assert caught.value.exit_code == 4
    with pytest.raises(TargetInvalid):
        place.target.shorten([FIRST.operation_id])
    assert place.file.exists() is (place.joint or where == "no fence")


@pytest.mark.parametrize("after", [False, True])
def test_an_answer_about_a_target_that_is_gone_makes_its_fence_inside_an_effect(
    place: Place, after: bool
) -> None:
    place.commit(FIRST)
    place.lose()
    with pytest.raises(TargetDiverged):
        place.commit(FIRST, never)
    version = place.row().version

    def answer(probe: Probe) -> JournalEntry:
        accept = Assertion.ACCEPT_LOSS
        return resolve(place.by(probe), FIRST.operation_id, accept, expect_version=version, **SAID)

    with pytest.raises(Killed):
        answer(at(Effect.FENCING_FENCE, die, after=after))
    assert bool(place.target.ask(FIRST.operation_id, None).incarnation) is after
    assert answer(quiet).diverged == Assertion.ACCEPT_LOSS


# -- floors ----------------------------------------------------------------------------------------


def answered(place: Place, assertion: Assertion) -> JournalEntry:
    """A load that the target lost and an operator answered."""
    place.commit(FIRST)
    place.execute("DELETE FROM dpone_fence", "DELETE FROM loaded")
    with pytest.raises(TargetDiverged):
        place.commit(FIRST, never)
    version = place.row().version
    return resolve(
        place.by(),
        FIRST.operation_id,
        assertion,
        expect_version=version,
        floor=FIRST.floor,
        **SAID,
    )


@pytest.mark.parametrize("assertion", [Assertion.ACCEPT_LOSS, Assertion.RELOAD])
def test_an_answered_loss_does_not_hold_a_floor_down(place: Place, assertion: Assertion) -> None:
    row = answered(place, assertion)
    assert FIRST.floor is not None
    assert raise_floor(place.target, replaced(FIRST.floor, position="2"), [row]) == 1
    with pytest.raises(OperationExpired):
        place.commit(FIRST, never)
    if not place.joint:
        place.journal.close()
        (place.folder / "journal.db").unlink()
        with pytest.raises(OperationExpired):
            place.commit(FIRST, never)
    assert place.rows() == 0


def test_a_loss_that_nobody_answered_holds_a_floor_down(lite: Place) -> None:
    lite.commit(FIRST)
    lite.execute("DELETE FROM dpone_fence")
    with pytest.raises(TargetDiverged):
        lite.commit(FIRST, never)
    assert FIRST.floor is not None
    with pytest.raises(FloorBlocked) as caught:
        raise_floor(lite.target, replaced(FIRST.floor, position="2"), [lite.row()])
    assert "marked as diverged (absent)" in str(caught.value)


def test_what_a_floor_answers_for_already_does_not_hold_the_next_one_down(place: Place) -> None:
    floor = FIRST.floor
    assert floor is not None
    rises = at(
        Effect.FENCING_INTENT,
        lambda: place.target.raise_floor(replaced(floor, position="2"), []),
    )
    with pytest.raises(OperationExpired):
        place.commit(FIRST, never, probe=rises)
    assert place.row().state is State.COMMIT_UNKNOWN
    assert raise_floor(place.target, replaced(floor, position="3"), [place.row()]) == 0
    with pytest.raises(OperationExpired):
        place.commit(FIRST, never)


def test_an_open_row_above_the_earlier_floor_holds_the_next_one_down(place: Place) -> None:
    floor = FIRST.floor
    assert floor is not None
    left(place, State.COMMITTING)
    assert raise_floor(place.target, replaced(floor, position="0"), []) == 0
    with pytest.raises(FloorBlocked):
        raise_floor(place.target, replaced(floor, position="2"), [place.row()])


# -- steps, tombstones, replays --------------------------------------------------------------------


def test_a_recorded_step_that_is_not_brought_is_not_passed_over(lite: Place) -> None:
    ran: list[str] = []

    def step(name: str, *, breaks: bool = False) -> dpone.Obligation:
        def run(outcome: dpone.Outcome) -> None:
            if breaks:
                raise OSError("away")
            ran.append(name)

        return dpone.Obligation(name, run)

    with pytest.raises(ObligationFailed):
        lite.commit(FIRST, obligations=[step("a"), step("b", breaks=True), step("c")])
    for brought in ([], [step("a"), step("c")]):
        with pytest.raises(ObligationFailed) as caught:
            lite.commit(FIRST, never, obligations=brought)
        assert (caught.value.fields["step"], caught.value.exit_code) == ("b", 4)
        assert lite.row().state is State.COMMITTED_INCOMPLETE
    assert ran == ["a"]
    last = lite.commit(FIRST, never, obligations=[step("a"), step("b"), step("c"), step("d")])
    assert (last.state, ran) == (State.COMPLETE, ["a", "b", "c", "d"])


def test_a_pruned_fence_still_refuses_another_intent_without_the_journal(lite: Place) -> None:
    lite.commit(FIRST)
    assert prune(lite.by().ledger, lite.target, prunable(lite.journal, before_ms=FAR_FUTURE_MS))
    lite.journal.close()
    (lite.folder / "journal.db").unlink()
    with pytest.raises(IntentMismatch):
        lite.commit(OTHER, never)
    found = lite.commit(FIRST, never)
    assert (found.how, found.intent_digest) == (dpone.How.SETTLED, FIRST.intent_digest)
    assert found.notes == ()


def test_an_intent_that_nobody_recorded_is_told(lite: Place) -> None:
    """Fence rows that earlier versions shortened have lost it."""
    lite.commit(FIRST)
    lite.execute("UPDATE dpone_fence SET intent_digest = '', result = ''")
    lite.journal.close()
    (lite.folder / "journal.db").unlink()
    for how in (dpone.How.SETTLED, dpone.How.REPLAYED):
        found = lite.commit(OTHER, never)
        assert found.how is how
        assert any("no longer recorded" in note for note in found.notes)


def test_a_replay_says_when_it_was_loaded(lite: Place) -> None:
    assert lite.commit(FIRST).notes == ()
    noted = lite.commit(FIRST, never).notes
    assert noted == lite.commit(FIRST, never).notes
    (note,) = noted
    ends = [line.at_ms for line in lite.journal.history(FIRST.operation_id)][-1]
    assert note == f"loaded by {moment_of(ends)}"
