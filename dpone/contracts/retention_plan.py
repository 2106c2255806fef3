"""The plan of a deletion: what is protected, what would be deleted, what is left alone, and why.

Promise: the digest binds everything that a person reviews, with paths relative to the cache's root;
what is printed is what was digested. The digest binds ids, not occurrences. Source: ADR 0043.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec

from dpone.contracts.cache_layout import (
    END,
    ENTRIES_MAX,
    Digest,
    Environment,
    Path,
    check_revision,
    check_sorted,
    holds,
    refuse,
    sealed_digest,
)
from dpone.contracts.codec import convert, plain, schema_of

PLAN_SCHEMA = "dpone.deployment-cache-retention-plan.v1"
Reason = Literal["current", "retention_evidence", "unreferenced", "incomplete", "invalid"]
ErrorCode = Annotated[
    str,
    msgspec.Meta(
        pattern="^DPONE_(CACHE|RELEASE|DEPLOYMENT|AIRFLOW)_[A-Z0-9_]+" + END, max_length=256
    ),
]
REASONS = {
    "protect": ("current", "retention_evidence"),
    "delete": ("unreferenced",),
    "quarantine": ("incomplete", "invalid"),
}
_UNIQUE = {"uniqueItems": True}


class PlanItem(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the cache; `path` is relative to its root."""

    deployment_id: Digest | None
    action: Literal["protect", "delete", "quarantine"]
    reason: Reason
    path: Path
    error_code: ErrorCode | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.reason not in REASONS[self.action]:
            refuse("the reason is not one of the action")
        if self.deployment_id is None and self.action != "quarantine":
            refuse("an item without an id is not in quarantine")


class Closing(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An operation that has not ended, and that the apply of this plan closes."""

    operation_id: Digest
    receipt_revision: Digest


class RetentionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan. Readers carry unknown fields; what is printed has none.

    `recovery_revision` is there when the recovery log holds transactions of other operations;
    `closes` is there when an operation has not ended, sorted by its id.
    """

    schema: Literal["dpone.deployment-cache-retention-plan.v1"]
    environment: Environment
    current_deployment_id: Digest | None
    protected_deployment_ids: Annotated[tuple[Digest, ...], msgspec.Meta(extra_json_schema=_UNIQUE)]
    items: tuple[PlanItem, ...]
    delete_candidates: Annotated[tuple[Digest, ...], msgspec.Meta(extra_json_schema=_UNIQUE)]
    recovery_revision: Digest | msgspec.UnsetType = msgspec.UNSET
    closes: (
        Annotated[tuple[Closing, ...], msgspec.Meta(min_length=1, max_length=ENTRIES_MAX)]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    plan_sha256: Digest | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        check_sorted(self.protected_deployment_ids, "protected_deployment_ids")
        check_sorted(self.delete_candidates, "delete_candidates")
        if list(self.items) != sorted(self.items, key=item_order):
            refuse("items are not sorted by id and path")
        deleted = [item.deployment_id for item in self.items if item.action == "delete"]
        if deleted != list(self.delete_candidates):
            refuse("delete_candidates are not the ids of items to delete")
        if not set(deleted).isdisjoint(self.protected_deployment_ids):
            refuse("a protected deployment is to be deleted")
        if not isinstance(self.closes, msgspec.UnsetType):
            check_sorted(tuple(closing.operation_id for closing in self.closes), "closes")
        if isinstance(self.plan_sha256, str):
            check_revision(self, "plan_sha256")

    @property
    def sha256(self) -> str:
        """The plan's digest."""
        assert isinstance(self.plan_sha256, str), "plans are made with their digest"
        return self.plan_sha256

    @property
    def recovery(self) -> str | None:
        """The recovery revision, if there is one."""
        return self.recovery_revision if isinstance(self.recovery_revision, str) else None

    @property
    def closings(self) -> tuple[Closing, ...]:
        """The operations that its apply closes."""
        return self.closes if isinstance(self.closes, tuple) else ()


def item_order(item: PlanItem) -> tuple[str, str]:
    """Items stand in the order of their ids and paths; those without an id come first."""
    return item.deployment_id or "", item.path


def plan_of(
    *,
    environment: str,
    current_deployment_id: str | None,
    protected_ids: Iterable[str],
    items: Iterable[PlanItem],
    recovery_revision: str | None = None,
    closes: Iterable[Closing] = (),
) -> RetentionPlan:
    """A plan with its digest. Raises `ContractInvalid`."""
    ordered = sorted(items, key=item_order)
    body: dict[str, Any] = {
        "schema": PLAN_SCHEMA,
        "environment": environment,
        "current_deployment_id": current_deployment_id,
        "protected_deployment_ids": sorted(set(protected_ids)),
        "items": [plain(item) for item in ordered],
        "delete_candidates": [item.deployment_id for item in ordered if item.action == "delete"],
    }
    if recovery_revision is not None:
        body["recovery_revision"] = recovery_revision
    if closing := sorted((plain(closing) for closing in closes), key=lambda it: it["operation_id"]):
        body["closes"] = closing
    return convert({**body, "plan_sha256": sealed_digest(body)}, RetentionPlan)


def plan_schema(name: str = PLAN_SCHEMA) -> dict[str, Any]:
    """The JSON Schema of a plan as it is printed: closed, with the rules between fields."""
    schema = schema_of(RetentionPlan)
    for struct in ("RetentionPlan", "PlanItem"):
        schema["$defs"][struct]["additionalProperties"] = False
    schema["$defs"]["PlanItem"]["allOf"] = [
        *(
            {
                "if": holds(action={"const": action}),
                "then": holds(reason={"enum": list(reasons)}),
            }
            for action, reasons in REASONS.items()
        ),
        {
            "if": holds(deployment_id={"const": None}),
            "then": holds(action={"const": "quarantine"}),
        },
    ]
    body = schema["$defs"]["RetentionPlan"]
    body["properties"]["schema"] = {"const": name}
    body["required"] = sorted({*body["required"], "plan_sha256"})
    return schema
