"""The checkpoint that is due after the commit of each operation.

Promise: when an operation is COMPLETE its checkpoint says committed; a retry after a crash writes
it again. Not promised: that anybody may conclude from a checkpoint what the target holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpone.contracts.checkpoint import Status
from dpone.contracts.codec import replaced
from dpone.contracts.outcome import Outcome
from dpone.fencing.guard import checkpoint_of
from dpone.fencing.obligations import Obligation
from dpone.loading.operations import Planned
from dpone.ports.checkpoint import Checkpoints

STEP = "checkpoint"


def checkpoint_due(
    checkpoints: Checkpoints, now: Callable[[], str]
) -> Callable[[Planned], Sequence[Obligation]]:
    """Return what `Run` asks for the steps of one operation; `now` gives ISO 8601 in UTC."""

    def due(planned: Planned) -> Sequence[Obligation]:
        begun = now()

        def write(outcome: Outcome) -> None:
            rows = outcome.result.get("rows_written")
            checkpoints.write(
                [
                    replaced(
                        checkpoint_of(planned.operation, begun),
                        status=Status.COMMITTED,
                        completed_at=now(),
                        rows_exported=rows if isinstance(rows, int) else None,
                        diagnostics={"attempt": outcome.attempt, "result": outcome.result},
                    )
                ]
            )

        return (Obligation(STEP, write),)

    return due
