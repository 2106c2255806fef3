"""What an apply shows of itself: the evidence in versions 1, 2 and 3.

Versions 1 and 2 have exactly their historical fields. Version 3 is strict: a deletion is shown only
with its review and its committed receipt, and without a deletion none of those fields is there.
Promise: nothing is made up; the version changes what is shown and nothing else. Source: ADR 0043.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec

from dpone.contracts.cache_layout import (
    Digest,
    Environment,
    Path,
    Uuid4,
    check_unique,
    holds,
    refuse,
)
from dpone.contracts.codec import convert, plain, schema_of
from dpone.contracts.errors_retention import EvidenceUnavailable, EvidenceVersionInvalid
from dpone.contracts.retention_plan import ErrorCode, Reason
from dpone.contracts.retention_receipt import LegacyReceipt, Receipt

APPLY_SCHEMA = "dpone.deployment-cache-retention-apply."
VERSIONS = ("v1", "v2", "v3")
_RECEIPT_FIELDS = (
    "reviewed_plan_sha256",
    "activation_history_revision",
    "operation_id",
    "review_id",
    "receipt_revision",
    "transaction_status",
)
_PLAN_FIELDS = _RECEIPT_FIELDS[:2]
CONDITIONAL = {"v1": (), "v2": _PLAN_FIELDS, "v3": _RECEIPT_FIELDS}

_Promoter = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
_UniqueIds = Annotated[tuple[Digest, ...], msgspec.Meta(extra_json_schema={"uniqueItems": True})]


class AppliedItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What became of one entry."""

    deployment_id: Digest | None
    action: Literal["deleted", "skipped"]
    reason: Reason
    path: Path
    error_code: ErrorCode | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.deployment_id is None:
            if self.action != "skipped" or self.reason not in ("incomplete", "invalid"):
                refuse("an item without an id is skipped as incomplete or invalid")
        elif self.action == "deleted" and self.reason != "unreferenced":
            refuse("only what is unreferenced is deleted")


_Items = Annotated[
    tuple[AppliedItem, ...],
    msgspec.Meta(extra_json_schema={"x-dpone-authoritative-field": "items"}),
]


class ApplyV1(msgspec.Struct, frozen=True, kw_only=True):
    """Version 1. Readers carry unknown fields; what is printed has none."""

    schema: Literal["dpone.deployment-cache-retention-apply.v1"]
    environment: Environment
    promoted_by: _Promoter
    current_deployment_id: Digest | None
    items: tuple[AppliedItem, ...]
    deleted_deployment_ids: tuple[Digest, ...]
    skipped_deployment_ids: tuple[Digest, ...]


class ApplyV2(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Version 2: a deletion names the reviewed plan and the activation history."""

    schema: Literal["dpone.deployment-cache-retention-apply.v2"]
    environment: Environment
    promoted_by: _Promoter
    current_deployment_id: Digest | None
    items: _Items
    deleted_deployment_ids: _UniqueIds
    skipped_deployment_ids: _UniqueIds
    reviewed_plan_sha256: Digest | msgspec.UnsetType = msgspec.UNSET
    activation_history_revision: Digest | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        _check(self, _PLAN_FIELDS)


class ApplyV3(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Version 3: a deletion names its review and its committed receipt too."""

    schema: Literal["dpone.deployment-cache-retention-apply.v3"]
    environment: Environment
    promoted_by: _Promoter
    current_deployment_id: Digest | None
    items: _Items
    deleted_deployment_ids: _UniqueIds
    skipped_deployment_ids: _UniqueIds
    reviewed_plan_sha256: Digest | msgspec.UnsetType = msgspec.UNSET
    activation_history_revision: Digest | msgspec.UnsetType = msgspec.UNSET
    operation_id: Digest | msgspec.UnsetType = msgspec.UNSET
    review_id: Uuid4 | msgspec.UnsetType = msgspec.UNSET
    receipt_revision: Digest | msgspec.UnsetType = msgspec.UNSET
    transaction_status: Literal["committed"] | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        _check(self, _RECEIPT_FIELDS)
        given = [name for name in _RECEIPT_FIELDS if getattr(self, name) is not msgspec.UNSET]
        if given and not self.deleted_deployment_ids:
            refuse(f"nothing was deleted, and yet there is: {', '.join(given)}")


ApplyReport = ApplyV1 | ApplyV2 | ApplyV3


def _check(report: ApplyV2 | ApplyV3, fields: tuple[str, ...]) -> None:
    check_unique(report.deleted_deployment_ids, "deleted_deployment_ids")
    check_unique(report.skipped_deployment_ids, "skipped_deployment_ids")
    deleted = [item.deployment_id for item in report.items if item.action == "deleted"]
    if deleted != list(report.deleted_deployment_ids):
        refuse("deleted_deployment_ids are not those of the items")
    missing = [name for name in fields if getattr(report, name) is msgspec.UNSET]
    if deleted and missing:
        refuse(f"a deletion is shown without: {', '.join(missing)}")


_KINDS: dict[str, type[ApplyV1] | type[ApplyV2] | type[ApplyV3]] = {
    "v1": ApplyV1,
    "v2": ApplyV2,
    "v3": ApplyV3,
}


def check_version(version: str) -> None:
    """Raises `EvidenceVersionInvalid` for a version that there is not."""
    if version not in _KINDS:
        raise EvidenceVersionInvalid(version=version)


def report_of_receipt(receipt: Receipt | LegacyReceipt, version: str) -> ApplyReport:
    """A receipt in its last state as evidence.

    Raises `EvidenceVersionInvalid`, and `EvidenceUnavailable` with what is missing.
    """
    check_version(version)
    fields: dict[str, Any] = {name: getattr(receipt, name, None) for name in _RECEIPT_FIELDS[:-1]}
    if receipt.status == "committed":
        fields["transaction_status"] = "committed"
    return apply_report(
        version,
        environment=receipt.environment,
        promoted_by=receipt.promoted_by,
        current_deployment_id=receipt.current_deployment_id,
        items=(
            AppliedItem(
                deployment_id=item.deployment_id,
                action=item.action,  # type: ignore[arg-type]
                reason=item.reason,  # type: ignore[arg-type]
                path=item.path,
                error_code=item.error_code,
            )
            for item in receipt.items
        ),
        receipt_fields=fields,
    )


def apply_report(
    version: str,
    *,
    environment: str,
    promoted_by: str,
    current_deployment_id: str | None,
    items: Iterable[AppliedItem],
    receipt_fields: dict[str, Any] | None = None,
) -> ApplyReport:
    """Evidence of a version; without a deletion the receipt's fields are left out.

    Raises `EvidenceVersionInvalid`, `EvidenceUnavailable`, `ContractInvalid`.
    """
    check_version(version)
    listed = tuple(items)
    deleted = [item.deployment_id for item in listed if item.action == "deleted"]
    skipped = [
        item.deployment_id for item in listed if item.action == "skipped" and item.deployment_id
    ]
    body: dict[str, Any] = {
        "schema": APPLY_SCHEMA + version,
        "environment": environment,
        "promoted_by": promoted_by,
        "current_deployment_id": current_deployment_id,
        "items": [plain(item) for item in listed],
        "deleted_deployment_ids": deleted,
        "skipped_deployment_ids": skipped,
    }
    if deleted:
        given = {name: value for name, value in (receipt_fields or {}).items() if value}
        wanted = CONDITIONAL[version]
        missing = [name for name in wanted if name not in given]
        if missing:
            raise EvidenceUnavailable(missing=", ".join(missing))
        body |= {name: given[name] for name in wanted}
    return convert(body, _KINDS[version])


def apply_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of evidence as it is printed: closed, with the rules between fields."""
    version = name.removeprefix(APPLY_SCHEMA)
    kind = _KINDS[version]
    schema = schema_of(kind)
    schema["$defs"]["AppliedItem"]["allOf"] = [
        {
            "if": holds(deployment_id={"const": None}),
            "then": holds(action={"const": "skipped"}, reason={"enum": ["incomplete", "invalid"]}),
        },
        {
            "if": holds(action={"const": "deleted"}),
            "then": holds(reason={"const": "unreferenced"}),
        },
    ]
    body = schema["$defs"][kind.__name__]
    body["additionalProperties"] = False
    body["properties"]["schema"] = {"const": name}
    if fields := list(CONDITIONAL[version]):
        body["if"] = holds(deleted_deployment_ids={"minItems": 1})
        body["then"] = {"required": fields}
        if version == "v3":
            body["else"] = {"not": {"anyOf": [{"required": [field]} for field in fields]}}
    return schema
