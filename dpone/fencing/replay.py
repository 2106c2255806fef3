"""A finished operation, answered again from what is stored of it.

Promise: one journal row and one fence row were read, nothing is written, and the outcome equals
the first one but for `how` and `notes`.
"""

from __future__ import annotations

from dpone.contracts.codec import decode
from dpone.contracts.fence import Answer, Committed
from dpone.contracts.journal import JournalEntry, moment_of
from dpone.contracts.outcome import How, Outcome, Stored
from dpone.fencing.reconcile import Reconciler


def replay(reconciler: Reconciler, own: JournalEntry, answer: Answer) -> Outcome:
    """Return the stored outcome of a COMPLETE row, unless the target lost what it stands for.

    Raises `TargetDiverged` after marking the row.
    """
    if not isinstance(answer.verdict, Committed):
        reconciler.check_still_committed(own, answer)
    notes = []
    if answer.incarnation and own.incarnation and answer.incarnation != own.incarnation:
        notes.append("the target is another incarnation than at the commit")
    if own.pruned:
        notes.append("already loaded, details pruned")
    # The row's last change: adopting or pruning came later, the load never did.
    notes.append(f"loaded by {moment_of(own.updated_ms)}")
    return outcome_of(own, How.REPLAYED, tuple(notes))


def outcome_of(entry: JournalEntry, how: How, notes: tuple[str, ...] = ()) -> Outcome:
    """The outcome that the row stands for; `entry.outcome` is set."""
    stored = decode(entry.outcome, Stored) if entry.outcome else None
    if not entry.intent_digest:
        notes = (*notes, "what it stood for is no longer recorded: any intent is taken for it")
    return Outcome(
        operation_id=entry.operation_id,
        state=entry.state,
        attempt=stored.epoch if stored else entry.attempt,
        attempt_id=stored.attempt_id if stored else entry.attempt_id,
        intent_digest=entry.intent_digest,
        result=stored.result if stored else {},
        how=how,
        incarnation=entry.incarnation,
        notes=notes,
    )
