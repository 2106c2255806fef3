"""What the commands on routes print for machines: one closed, versioned object each."""

from __future__ import annotations

from typing import Any

import msgspec


class ErrorReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An error: what happened, what is known to be true, what to run next."""

    code: str
    exit_code: int
    happened: str
    known: str
    next: str
    fields: dict[str, str] = {}
    schema: str = "dpone.error.v1"


class OperationReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One operation of a run.

    `how` is committed, replayed, settled, resumed, failed or not_tried; `error` is set for
    failed. `result` holds the counts of the load that the target holds; `attempt` and
    `attempt_id` name the attempt that made it.
    """

    partition: str
    operation_id: str
    intent_digest: str
    revision: int
    how: str
    state: str = ""
    attempt: int = 0
    attempt_id: str = ""
    result: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    error: ErrorReport | None = None


class RunReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `dpone run` did; `exit_code` is the highest of its operations."""

    route: str
    environment: str
    manifest: str
    exit_code: int
    operations: tuple[OperationReport, ...]
    schema: str = "dpone.run-report.v1"


class PlannedOperation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a run would do with one operation.

    `would` is load, replay, recover, wait or refuse, or unknown when the target did not answer.
    """

    partition: str
    operation_id: str
    intent_digest: str
    revision: int
    would: str
    why: str
    state: str = ""


class RunPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `dpone run --plan` found; nothing was written."""

    route: str
    environment: str
    manifest: str
    operations: tuple[PlannedOperation, ...]
    schema: str = "dpone.run-plan.v1"


class Protection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a connector really gives: its capability and one sentence."""

    connector: str
    capability: str
    means: str


class RouteCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `dpone route validate` found."""

    route: str
    manifest: str
    source: str
    target: str
    strategy: str
    partition: str
    protection: Protection
    schema: str = "dpone.route-check.v1"


class ExplainedOperation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One operation of a route: identity and intent, and their digests."""

    partition: str
    operation_id: str
    intent_digest: str
    identity: dict[str, Any]
    intent: dict[str, Any]


class RouteExplanation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `dpone route explain` says."""

    route: str
    environment: str
    manifest: str
    protection: Protection
    operations: tuple[ExplainedOperation, ...]
    schema: str = "dpone.route-explanation.v1"


class SchemaList(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The names of all public contracts."""

    names: tuple[str, ...]
    schema: str = "dpone.schema-list.v1"
