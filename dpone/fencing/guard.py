"""The interim guard: a target that cannot be asked is written under a checkpoint that blocks.

Promise: after a run that died or failed between arming and closing, the next run of the same
tables stops before it touches the target. Not promised, and said in every outcome: no operation
identity, no compare-and-set, no exclusion of concurrent workers, no reconciliation.
Source: ADR 0022, interim mitigation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    IntentMismatch,
    ObligationFailed,
)
from dpone.contracts.errors_guard import (
    GuardInvalid,
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

        Raises `GuardUnresolved`, `GuardInvalid` or, when it stands for something else,
        `IntentMismatch` before the target is touched, and `GuardOutcomeUnknown` when it failed
        while being written; the cause is kept.
        """
        del take_over, replayable  # nobody can be taken over, and nothing is tried twice
        planned = checkpoint_of(operation, self.now())
        known = self._scan(planned, strategy_of(operation))
        before = known.get(planned.transfer_partition_id)
        if before is not None and before.status is Status.COMMITTED:
            _check_intent(operation, before, known)
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
            raise GuardOutcomeUnknown(
                partition=armed.transfer_partition_id,
                boundary="target_invocation",
                cause=_cause(error),
            ) from error
        except KeyboardInterrupt as error:
            touched = self.target.touched
            phase = Phase.TARGET_OUTCOME_UNKNOWN if touched else Phase.FAILED_BEFORE_TARGET
            self._fail(armed, phase, error)
            raise

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
                partition=armed.transfer_partition_id,
                boundary="checkpoint_persistence",
                cause=_cause(error),
            ) from error
        return done

    def _fail(self, armed: Checkpoint, phase: Phase, error: BaseException) -> None:
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


def _check_intent(
    operation: Operation, before: Checkpoint, known: Mapping[str, Checkpoint]
) -> None:
    """What is written under a committed checkpoint is not skipped when it became something else.

    Raises `IntentMismatch`, which names the next revision that no checkpoint has.
    """
    if before.query_hash == operation.intent_digest:
        return
    free = operation.revision + 1
    while replaced(operation, revision=free).operation_id in known:
        free += 1
    raise IntentMismatch(
        operation_id=operation.operation_id,
        recorded=before.query_hash,
        offered=operation.intent_digest,
        state=State.COMPLETE,
        next_revision=free,
    )


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
    probe: Probe = quiet,
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
    guard, was = blocking
    said = {"operator": operator, "why": why, "at": now, "was": was}
    answer = _guarded(found, replaced(guard, phase=phase))
    with probe(Effect.GUARD_CLOSE):
        checkpoints.write([replaced(answer, diagnostics={**answer.diagnostics, "answered": said})])
    return 1


def _blocking(found: Checkpoint) -> tuple[Guard, str] | None:
    """The guard that blocks, and what is told of it; for one that cannot be read a new one."""
    try:
        guard = guard_of(found)
    except GuardInvalid:
        batch = batch_id([found.transfer_partition_id], "answered")
        return Guard(checkpoint_batch_id=batch, phase=Phase.ARMED), "unreadable"
    if guard is None or not RULES[guard.phase].blocks:
        return None
    return guard, guard.phase.value


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
    again = how is How.REPLAYED and bool(checkpoint.completed_at)
    when = (f"loaded by {checkpoint.completed_at}",) if again else ()
    return Outcome(
        operation_id=operation.operation_id,
        state=State.COMPLETE,
        attempt=1,
        attempt_id="",
        intent_digest=checkpoint.query_hash,
        result=result if isinstance(result, dict) else {},
        how=how,
        notes=(LIMITS, *when),
    )
