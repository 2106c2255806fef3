"""The interim guard: a target that cannot be asked is written under a checkpoint that blocks.

Promise: after a run that died or failed between arming and closing, the next run of the same
tables stops before it touches the target. Not promised, and said in every outcome: no operation
identity, no compare-and-set, no exclusion of concurrent workers, no reconciliation.
Source: ADR 0022, implemented interim mitigation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dpone.contracts.canonical import digest
from dpone.contracts.checkpoint import (
    GUARD_FIELD,
    RULES,
    Checkpoint,
    Guard,
    Phase,
    Status,
    batch_id,
    guard_of,
)
from dpone.contracts.codec import plain, replaced
from dpone.contracts.effects import Effect
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_fencing import (
    CommitRejected,
    ObligationFailed,
)
from dpone.contracts.errors_guard import (
    GuardNotArmed,
    GuardOutcomeUnknown,
    GuardUnresolved,
)
from dpone.contracts.identity import Operation
from dpone.contracts.journal import State
from dpone.contracts.outcome import How, Outcome
from dpone.fencing.obligations import Obligation
from dpone.ports.checkpoint import Checkpoints
from dpone.ports.guarded import GuardedTarget
from dpone.ports.probe import Probe, quiet
from dpone.ports.target import Change

LIMITS = (
    "this target has no fence: only a guard blocks a retry after a failure; it excludes no "
    "concurrent worker and cannot reconcile"
)


class GuardedCommitter:
    """Commits to a target of capability NONE; the call is that of the fenced committer."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        target: GuardedTarget,
        *,
        now: Callable[[], str],
        run_id: str,
        probe: Probe = quiet,
    ) -> None:
        self.checkpoints = checkpoints
        self.target = target
        self.now = now
        self.run_id = run_id
        self.probe = probe

    def commit(
        self,
        operation: Operation,
        change: Change,
        *,
        obligations: Sequence[Obligation] = (),
        take_over: bool = False,
        replayable: bool = False,
    ) -> Outcome:
        """Write under the guard; a partition whose checkpoint is committed is not written again.

        Raises `GuardUnresolved` or `GuardInvalid` before the target is touched, and
        `GuardOutcomeUnknown` when it failed while being written; the cause is kept.
        """
        del take_over, replayable  # nobody can be taken over, and nothing is tried twice
        planned = checkpoint_of(operation, self.now())
        known = self._scan(planned, strategy_of(operation))
        before = known.get(planned.transfer_partition_id)
        if before is not None and before.status is Status.COMMITTED:
            return _outcome(operation, before, How.REPLAYED)
        armed = self._arm(operation, planned)
        result = self._mutate(armed, change)
        done = self._close(armed, result)
        outcome = _outcome(operation, done, How.COMMITTED)
        _meet(obligations, outcome)
        return outcome

    def _scan(self, planned: Checkpoint, strategy: str) -> dict[str, Checkpoint]:
        """Every checkpoint of the two tables, unless one of them blocks."""
        known = {}
        for found in self.checkpoints.scan(planned.scan_key):
            guard = guard_of(found)
            known[found.transfer_partition_id] = found
            if guard is None or guard.strategy not in (None, strategy):
                continue
            if RULES[guard.phase].blocks:
                raise GuardUnresolved(partition=found.transfer_partition_id, phase=guard.phase)
        return known

    def _arm(self, operation: Operation, planned: Checkpoint) -> Checkpoint:
        guard = Guard(
            checkpoint_batch_id=batch_id([planned.transfer_partition_id], self.run_id),
            phase=Phase.ARMED,
            strategy=strategy_of(operation),
        )
        armed = _guarded(planned, guard)
        with self.probe(Effect.GUARD_ARM):
            self.checkpoints.write([armed])
        return armed

    def _mutate(self, armed: Checkpoint, change: Change) -> dict[str, Any]:
        try:
            with self.probe(Effect.GUARD_MUTATE):
                return dict(self.target.mutate(change))
        except Exception as error:
            # Whatever was raised is kept as the cause; the guard says first what is known.
            if not self.target.touched:
                self._fail(armed, Phase.FAILED_BEFORE_TARGET, error)
                raise CommitRejected(
                    operation_id=armed.transfer_partition_id, cause=_cause(error)
                ) from error
            self._fail(armed, Phase.TARGET_OUTCOME_UNKNOWN, error)
            raise GuardOutcomeUnknown(boundary="target_invocation", cause=_cause(error)) from error

    def _close(self, armed: Checkpoint, result: dict[str, Any]) -> Checkpoint:
        rows = result.get("rows_written")
        done = replaced(
            moved(armed, Phase.CHECKPOINT_COMMITTED),
            completed_at=self.now(),
            rows_exported=rows if isinstance(rows, int) else None,
        )
        done = replaced(done, diagnostics={**done.diagnostics, "result": result})
        try:
            with self.probe(Effect.GUARD_CLOSE):
                self.checkpoints.write([done])
        except DponeError as error:
            self._fail(armed, Phase.CHECKPOINT_INCOMPLETE, error)
            raise GuardOutcomeUnknown(
                boundary="checkpoint_persistence", cause=_cause(error)
            ) from error
        return done

    def _fail(self, armed: Checkpoint, phase: Phase, error: Exception) -> None:
        """Write what is known; where even that fails, the guard stays armed and blocks."""
        failed = moved(armed, phase)
        failed = replaced(
            failed,
            completed_at=self.now(),
            diagnostics={**failed.diagnostics, "error": type(error).__name__},
        )
        try:
            with self.probe(Effect.GUARD_CLOSE):
                self.checkpoints.write([failed])
        except DponeError:
            return


def checkpoint_of(operation: Operation, now: str) -> Checkpoint:
    """The planned checkpoint of an operation; its tables are the declared source and target."""
    intent = operation.intent if isinstance(operation.intent, dict) else {}
    return Checkpoint(
        transfer_partition_id=operation.operation_id,
        status=Status.PLANNED,
        query_hash=operation.intent_digest,
        schema_hash=digest(intent.get("columns")),
        source_table=digest(operation.source),
        target_table=digest(operation.target),
        partition_bounds={"partition": operation.partition},
        started_at=now,
    )


def strategy_of(operation: Operation) -> str:
    """The strategy's name as the guard records it; `unknown` when the caller named none."""
    intent = operation.intent if isinstance(operation.intent, dict) else {}
    strategy = intent.get("strategy", "unknown")
    name = next(iter(strategy)) if isinstance(strategy, dict) and strategy else strategy
    return name if isinstance(name, str) and name.isidentifier() else "unknown"


def moved(checkpoint: Checkpoint, phase: Phase) -> Checkpoint:
    """The checkpoint with its armed guard in another phase. Raises `GuardNotArmed`."""
    guard = guard_of(checkpoint)
    if guard is None or guard.phase is not Phase.ARMED:
        raise GuardNotArmed(partition=checkpoint.transfer_partition_id)
    return _guarded(checkpoint, replaced(guard, phase=phase))


def release(
    checkpoints: Checkpoints,
    partition_id: str,
    *,
    committed: bool,
    operator: str,
    why: str,
    now: str,
) -> int:
    """Record what a person found in the target; return how many guards this answered, 0 or 1.

    `committed`: the rows are all there, so the partition is done; otherwise none of them is
    there, so the partition may be loaded again.
    """
    found = checkpoints.read(partition_id)
    blocking = _blocking(found) if found is not None else None
    if found is None or blocking is None:
        return 0
    phase = Phase.CHECKPOINT_COMMITTED if committed else Phase.FAILED_BEFORE_TARGET
    said = {"operator": operator, "why": why, "at": now, "was": blocking.phase.value}
    answer = _guarded(found, replaced(blocking, phase=phase))
    checkpoints.write([replaced(answer, diagnostics={**answer.diagnostics, "answered": said})])
    return 1


def _blocking(found: Checkpoint) -> Guard | None:
    guard = guard_of(found)
    return guard if guard is not None and RULES[guard.phase].blocks else None


def _guarded(checkpoint: Checkpoint, guard: Guard) -> Checkpoint:
    return replaced(
        checkpoint,
        status=RULES[guard.phase].status,
        diagnostics={**checkpoint.diagnostics, GUARD_FIELD: _without_none(plain(guard))},
    )


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _meet(obligations: Sequence[Obligation], outcome: Outcome) -> None:
    """Run the steps; without a journal row none is recorded, so a failed one is only told."""
    for step in obligations:
        try:
            step.run(outcome)
        except Exception as error:
            raise ObligationFailed(
                operation_id=outcome.operation_id, step=step.name, cause=_cause(error)
            ) from error


def _cause(error: Exception) -> str:
    return error.code if isinstance(error, DponeError) else type(error).__name__


def _outcome(operation: Operation, checkpoint: Checkpoint, how: How) -> Outcome:
    result = checkpoint.diagnostics.get("result", {})
    return Outcome(
        operation_id=operation.operation_id,
        state=State.COMPLETE,
        attempt=1,
        attempt_id="",
        intent_digest=checkpoint.query_hash,
        result=result if isinstance(result, dict) else {},
        how=how,
        notes=(LIMITS,),
    )
