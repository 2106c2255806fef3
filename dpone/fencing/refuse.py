"""What keeps an attempt from starting: other revisions, and answers of operators."""

from __future__ import annotations

from collections.abc import Sequence

from dpone.contracts.errors_fencing import OperationDiscarded, RevisionBlocked, TargetDiverged
from dpone.contracts.journal import SETTLED, JournalEntry

ANSWERED = "answered"


def check_revisions(revision: int, rows: Sequence[JournalEntry]) -> None:
    """An earlier revision must be settled; a later one supersedes this attempt.

    `rows` are all revisions of one operation. Raises `RevisionBlocked`.
    """
    for row in rows:
        waiting = row.state not in SETTLED or bool(row.diverged)
        earlier_open = row.revision < revision and waiting and row.reason != ANSWERED
        if earlier_open or row.revision > revision:
            raise RevisionBlocked(
                blocking=row.revision,
                state=f"marked as diverged ({row.diverged})" if row.diverged else row.state,
                revision=revision,
                operation_id=row.operation_id,
            )


def check_answered(own: JournalEntry) -> None:
    """A diverged row blocks; an answered one says what the operator decided."""
    if not own.diverged:
        return
    if own.reason == ANSWERED:
        raise OperationDiscarded(
            operation_id=own.operation_id,
            answer=own.diverged,
            next_revision=own.revision + 1,
        )
    raise TargetDiverged(
        operation_id=own.operation_id, state=own.state, fence=own.diverged, version=own.version
    )
