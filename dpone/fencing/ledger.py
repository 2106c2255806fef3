"""One operation's row, moved along the transition table by compare-and-set.

Promise: a move is durable and in the history, or it raises; a lost answer counts as applied only
if version, state and attempt id all equal what was written. Not promised: that the target agrees.
"""

from __future__ import annotations

from typing import Any

from dpone.contracts.codec import replaced
from dpone.contracts.effects import Effect
from dpone.contracts.errors_fencing import JournalUnavailable, OwnershipLost
from dpone.contracts.journal import VOID_ATTEMPT, Event, JournalEntry, Note, State, Step
from dpone.contracts.transitions import target_of
from dpone.ports.journal import Journal
from dpone.ports.probe import Probe

Move = tuple[Event | Note, dict[str, Any]]


def plan(
    before: JournalEntry, moves: tuple[Move, ...], **changes: Any
) -> tuple[JournalEntry, tuple[Step, ...]]:
    """Return the row after `moves` and their history rows. Pure."""
    state = before.state
    steps = []
    for event, detail in moves:
        source = state
        if isinstance(event, Event):
            state = target_of(state, event)
        steps.append(Step(event=event.value, source=source, target=state, detail=detail))
    after = replaced(before, state=state, version=before.version + len(steps), **changes)
    return after, tuple(steps)


class Ledger:
    """Writes moves of one journal under a probe."""

    def __init__(self, journal: Journal, probe: Probe, lease_s: float) -> None:
        self.journal = journal
        self.probe = probe
        self.lease_s = lease_s

    def begin(self, entry: JournalEntry, *more: Move) -> JournalEntry:
        """Create the row with `begin` and `more`. Raises `OwnershipLost` when it exists."""
        state = target_of(None, Event.BEGIN)
        first = Step(event=Event.BEGIN.value, source="", target=state)
        born = replaced(entry, state=state, version=1)
        after, steps = plan(born, more)
        with self.probe(Effect.FENCING_INTENT):
            try:
                created = self.journal.create(after, (first, *steps), self._lease(after))
            except JournalUnavailable:
                if not self._applied(after):
                    raise
                created = True
        if not created:
            raise OwnershipLost(operation_id=entry.operation_id)
        return after

    def move(
        self, before: JournalEntry, effect: Effect, *moves: Move, **changes: Any
    ) -> JournalEntry:
        """Apply `moves` and `changes` to the row. Raises `OwnershipLost` when it is not ours."""
        after, steps = plan(before, moves, **changes)
        with self.probe(effect):
            try:
                applied = self.journal.advance(before, after, steps, self._lease(after))
            except JournalUnavailable:
                # ADR 0022, decision 4: compare-and-set. The write may have been applied.
                if not self._applied(after):
                    raise
                applied = True
        if not applied:
            raise OwnershipLost(operation_id=before.operation_id)
        return after

    def _applied(self, after: JournalEntry) -> bool:
        """Whether a write whose answer was lost is what the journal now shows."""
        current = self.journal.read(after.operation_id)
        return current is not None and same_write(current, after)

    def _lease(self, after: JournalEntry) -> float:
        # A void attempt is nobody's: its row is free at once.
        nobody = after.attempt_id == VOID_ATTEMPT
        working = after.state in _WORKING and not after.reason and not nobody
        return self.lease_s if working else 0.0


_WORKING = frozenset(
    {State.PREPARING, State.PREPARED, State.COMMITTING, State.COMMIT_UNKNOWN}
    | {State.TARGET_COMMITTED}
)


def same_write(current: JournalEntry, after: JournalEntry) -> bool:
    """The rule for lost answers: version, state and attempt id all equal what was written."""
    return (current.version, current.state, current.attempt_id) == (
        after.version,
        after.state,
        after.attempt_id,
    )
