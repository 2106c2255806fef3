"""Finding out what became of an operation without bringing its change: `journal reconcile`.

Promise: writes only what the fence or a won seal proves. Not promised: that obligations ran; a
row whose steps are open stays TARGET_COMMITTED until its own load runs again.
"""

from __future__ import annotations

from dpone.contracts.errors_fencing import OperationNotFound, TargetDiverged
from dpone.contracts.fence import Committed, Floor
from dpone.contracts.journal import COMMITTED, IN_DOUBT, JournalEntry, Reason, State
from dpone.fencing.commit import Committer
from dpone.fencing.refuse import ANSWERED


def settle_alone(
    by: Committer, operation_id: str, floor: Floor | None = None, *, take_over: bool = False
) -> JournalEntry:
    """Ask, seal and settle one operation; return its row.

    Raises `OperationNotFound` without a row, and whatever keeps anything from being concluded.
    """
    entry = by.journal.read(operation_id)
    if entry is None:
        raise OperationNotFound(operation_id=operation_id)
    if entry.diverged and entry.reason != ANSWERED:
        raise TargetDiverged(
            operation_id=operation_id,
            state=entry.state,
            fence=entry.diverged,
            version=entry.version,
        )
    if entry.pruned or entry.diverged or entry.state is State.FAILED_PRE_COMMIT:
        return entry
    answer = by.reconciler.ask(operation_id, floor, entry)
    if entry.state is not State.COMPLETE:
        by.reconciler.check_lease(entry, take_over)
    if entry.state in COMMITTED:
        by.reconciler.check_still_committed(entry, answer)
        return by.finish_unobliged(entry)
    by.reconciler.check_incarnation(entry, answer)
    if entry.state in IN_DOUBT or isinstance(answer.verdict, Committed):
        settled = by.reconciler.settle(entry, answer, floor)
    else:
        taken = by.reconciler.take_over(entry, answer.verdict)
        sealed = by.reconciler.contend(taken, floor)
        if isinstance(sealed, Committed):
            settled = by.reconciler.accept(taken, sealed.receipt)
        else:
            settled = by.reconciler.conclude_sealed(taken, Reason.ABANDONED)
    return by.finish_unobliged(settled) if settled.state in COMMITTED else settled
