"""What a run would do, found by reading only.

Promise: nothing is written, neither in the journal nor in the target. Not promised: that it still
holds when the run begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from dpone.contracts.fence import Answer, Capability, Committed, Expired, Sealed, Unknown, Verdict
from dpone.contracts.journal import COMMITTED, JournalEntry, State
from dpone.contracts.route import RouteManifest
from dpone.contracts.run_report import PlannedOperation, RunPlan
from dpone.fencing.reconcile import is_elsewhere
from dpone.loading.again import Reloads
from dpone.loading.operations import Planned
from dpone.ports.guarded import GuardedTarget
from dpone.ports.journal import Journal
from dpone.ports.target import Target


def plan_of(
    operations: Sequence[Planned],
    journal: Journal,
    target: Target | GuardedTarget,
    manifest: RouteManifest,
    name: str,
    environment: str,
    reloads: Reloads | None = None,
) -> RunPlan:
    """Ask journal and fence about every operation."""
    return RunPlan(
        route=manifest.route,
        environment=environment,
        manifest=name,
        operations=tuple(_planned(planned, journal, target, reloads) for planned in operations),
    )


def _planned(
    planned: Planned,
    journal: Journal,
    target: Target | GuardedTarget,
    reloads: Reloads | None,
) -> PlannedOperation:
    operation = planned.operation
    entry = journal.read(operation.operation_id)
    if target.capability is Capability.NONE:
        would, why = "unknown", "this target cannot be asked; its guard decides when it runs"
    else:
        would, why = _expected(planned, entry, cast("Target", target))
    unasked = target.capability is Capability.NONE
    if reloads and (would == "load" or unasked) and (earlier := reloads.added(planned)):
        would, why = _added(earlier, would, approved=reloads.approved)
    return PlannedOperation(
        partition=planned.partition.label,
        operation_id=operation.operation_id,
        intent_digest=operation.intent_digest,
        revision=operation.revision,
        would=would,
        why=why,
        state=entry.state.value if entry else "",
    )


def _added(earlier: int, would: str, *, approved: bool) -> tuple[str, str]:
    """What becomes of a load that adds rows to those of an earlier revision."""
    if approved:
        return would, f"--again: it adds every row to those of revision {earlier}, which stay"
    return "refuse", f"revision {earlier} is loaded and append adds every row again; see --again"


def _expected(planned: Planned, entry: JournalEntry | None, target: Target) -> tuple[str, str]:
    operation = planned.operation
    answer = target.ask(operation.operation_id, operation.floor)
    verdict = answer.verdict
    if isinstance(verdict, Unknown):
        return "unknown", f"the target did not answer: {verdict.cause}"
    if isinstance(verdict, Expired):
        return "refuse", "operation_expired: it lies below the floor of its route"
    if entry is not None and entry.diverged:
        return "refuse", "target_diverged: an operator must answer it first"
    recorded = _recorded(entry, verdict)
    if recorded and recorded != operation.intent_digest:
        return "refuse", f"intent_mismatch: it stands for {recorded}"
    return _expected_same(entry, answer)


def _recorded(entry: JournalEntry | None, verdict: Verdict) -> str:
    """The intent for which the operation already stands; empty when for none."""
    if isinstance(verdict, Committed):
        # A row shortened long ago keeps no intent; the journal's tombstone does.
        return verdict.receipt.intent_digest or (entry.intent_digest if entry else "")
    if entry is not None and entry.state is not State.FAILED_PRE_COMMIT:
        return entry.intent_digest
    return ""


def _expected_same(entry: JournalEntry | None, answer: Answer) -> tuple[str, str]:
    """What happens to an operation that still stands for the same intent."""
    verdict = answer.verdict
    if entry is None:
        if isinstance(verdict, Committed):
            return "recover", "the target holds it, and the journal does not know"
        return "load", "nobody has loaded it"
    if entry.state is State.COMPLETE:
        if isinstance(verdict, Committed):
            return "replay", "it is loaded; nothing is written"
        return "refuse", "target_diverged: the journal says COMPLETE, the fence shows nothing"
    if entry.lease_left_ms > 0:
        return "wait", "another attempt may still be at work"
    if isinstance(verdict, Committed):
        return "recover", "the target holds it, and the journal is not finished"
    if entry.state in COMMITTED:
        return "refuse", f"target_diverged: the journal says {entry.state.value}, the fence nothing"
    if is_elsewhere(entry, answer):
        return "refuse", "incarnation_changed: it began in another target; see dpone journal adopt"
    sealed = "sealed" if isinstance(verdict, Sealed) else "not there"
    return "recover", f"the journal says {entry.state.value}, the fence is {sealed}"
