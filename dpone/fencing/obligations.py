"""What is due after the target committed: named idempotent steps, each recorded when done.

Promise: a retry continues at the first step that is not recorded. Not promised: that a step runs
once; it may run again when a crash fell between its effect and its record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from dpone.contracts.effects import Effect
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_fencing import (
    CommitUnfinished,
    FencingError,
    ObligationFailed,
    TargetDiverged,
)
from dpone.contracts.journal import Event, JournalEntry, Note
from dpone.contracts.outcome import Outcome
from dpone.fencing.ledger import Ledger

CAUSE_CHARS_MAX = 200


class Obligation(NamedTuple):
    """A step after the commit: `name` is stable across attempts, `run` is idempotent."""

    name: str
    run: Callable[[Outcome], None]


@contextmanager
def after_commit(operation_id: str) -> Iterator[None]:
    """While open, whatever goes wrong is told as what it is: after a commit that stands."""
    try:
        yield
    except (CommitUnfinished, ObligationFailed, TargetDiverged):
        raise
    except FencingError as error:
        cause = error.fields.get("cause", error.reason)
        raise CommitUnfinished(operation_id=operation_id, cause=cause) from error


def meet(
    ledger: Ledger,
    entry: JournalEntry,
    obligations: Sequence[Obligation],
    outcome: Callable[[JournalEntry], Outcome],
) -> JournalEntry:
    """Run the unfinished steps in order and write COMPLETE.

    Raises `ObligationFailed` after writing COMMITTED_INCOMPLETE when a step raises. A recorded
    step that this attempt does not bring has failed too, and then none runs: the order holds.
    """
    brought = {step.name for step in obligations}
    missing = [name for name in entry.obligations if name not in brought | set(entry.done)]
    if missing:
        raise _failed(ledger, entry, missing[0], "this attempt does not bring it")
    due = [step for step in obligations if step.name not in entry.done]
    for step in due[:-1]:
        entry = _run(ledger, entry, step, outcome)
        entry = ledger.move(
            entry,
            Effect.FENCING_OBLIGATION,
            (Note.OBLIGATION_DONE, {"name": step.name}),
            done=(*entry.done, step.name),
        )
    if not due:
        return ledger.move(entry, Effect.FENCING_COMPLETE, (Event.OBLIGATIONS_MET, {}))
    last = due[-1]
    entry = _run(ledger, entry, last, outcome)
    return ledger.move(
        entry,
        Effect.FENCING_COMPLETE,
        (Note.OBLIGATION_DONE, {"name": last.name}),
        (Event.OBLIGATIONS_MET, {}),
        done=(*entry.done, last.name),
    )


def _run(
    ledger: Ledger,
    entry: JournalEntry,
    step: Obligation,
    outcome: Callable[[JournalEntry], Outcome],
) -> JournalEntry:
    try:
        step.run(outcome(entry))
    except Exception as error:
        # The only broad catch of policy: whatever the caller's step raised, the target holds
        # the change, and saying so comes before passing the cause on.
        cause = error.code if isinstance(error, DponeError) else type(error).__name__
        raise _failed(ledger, entry, step.name, cause) from error
    return entry


def _failed(ledger: Ledger, entry: JournalEntry, step: str, cause: str) -> ObligationFailed:
    """Write COMMITTED_INCOMPLETE; return the error that tells it."""
    cause = cause[:CAUSE_CHARS_MAX]
    ledger.move(
        entry, Effect.FENCING_COMPLETE, (Event.OBLIGATION_FAILED, {"name": step, "cause": cause})
    )
    return ObligationFailed(operation_id=entry.operation_id, step=step, cause=cause)
