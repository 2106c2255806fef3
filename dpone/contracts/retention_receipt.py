"""The receipt of a reviewed deletion: its identity, its items, and the states it goes through.

Promise: closed, at most `RECEIPT_BYTES_MAX` long; the operation id follows from what was reviewed;
a receipt in its last state has no pending item; nothing in it looks like a secret or a connection.
There is no way from `committed` to anything else. Source: ADR 0043.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from dpone.contracts.cache_layout import (
    ENTRIES_MAX,
    Digest,
    Environment,
    Path,
    Uuid4,
    check_revision,
    check_sorted,
    check_unique,
    durable,
    folder_name,
    holds,
    read_durable,
    refuse,
    sealed_digest,
)
from dpone.contracts.codec import convert, plain, schema_of
from dpone.contracts.errors import ContractInvalid

RECEIPT_SCHEMA = "dpone.deployment-cache-retention-apply-receipt.v2"
LEGACY_SCHEMA = "dpone.deployment-cache-retention-apply-receipt.v1"
OPERATION_SCHEMA = "dpone.deployment-cache-retention-operation.v2"
LEGACY_OPERATION_SCHEMA = "dpone.deployment-cache-retention-operation.v1"
RECEIPT_BYTES_MAX = 8 * 1024 * 1024
REASON_CHARS_MAX = 512
# What a pending item may say of the cause that keeps it from being deleted.
CAUSE_CHARS_MAX = 128

LEGACY_RECEIPT = "legacy_receipt_requires_fresh_review"
RECOVERY_RESTORED = "recovery_restored_requires_fresh_review"
AUTHORITY_CHANGED = "activation_authority_changed_requires_fresh_review"
BECAME_PROTECTED = "candidate_became_protected_requires_fresh_review"
OCCURRENCE_CHANGED = "occurrence_identity_changed_requires_fresh_review"
LEGACY_WAL = "legacy_wal_requires_fresh_review"
CLOSED_BY_PLAN = "closed_by_reviewed_plan"
ABORT_REASONS = (
    LEGACY_RECEIPT,
    RECOVERY_RESTORED,
    AUTHORITY_CHANGED,
    BECAME_PROTECTED,
    OCCURRENCE_CHANGED,
    LEGACY_WAL,
    CLOSED_BY_PLAN,
)

Status = Literal["applying", "committed", "aborted"]
_SECRET = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|credential|dsn|account[_-]?key)[\"']?\s*[=:]"
    r"|[a-z][a-z0-9+.-]*://[^/\s@]*@"
    r"|\b(?:postgres(?:ql)?|mysql|mariadb|mssql|sqlserver|oracle|clickhouse|mongodb|redis|amqps?"
    r"|snowflake|jdbc|odbc)(?:\+[a-z0-9]+)?:"
    r"|\b(?:server|data source|host)\s*=|-----BEGIN|\bbearer\s|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
)
# Without one of these nothing of the above can match; ten thousand paths are looked at often.
_SUSPECT = re.compile(r"[=:]|-----|(?i:bearer\s|AKIA|ASIA)")


class ReceiptItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One entry of the plan and what became of it."""

    deployment_id: Digest | None
    action: Literal["pending", "deleted", "skipped"]
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=REASON_CHARS_MAX)]
    path: Path
    error_code: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | msgspec.UnsetType = (
        msgspec.UNSET
    )


_Items = Annotated[tuple[ReceiptItem, ...], msgspec.Meta(min_length=1, max_length=ENTRIES_MAX)]
_Promoter = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]


class Receipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Version 2, bound to one review."""

    schema: Literal["dpone.deployment-cache-retention-apply-receipt.v2"]
    operation_id: Digest
    receipt_revision: Digest
    status: Status
    environment: Environment
    promoted_by: _Promoter
    current_deployment_id: Digest | None
    reviewed_plan_sha256: Digest
    review_id: Uuid4
    reviewed_protected_deployment_ids: Annotated[
        tuple[Digest, ...],
        msgspec.Meta(max_length=ENTRIES_MAX, extra_json_schema={"uniqueItems": True}),
    ]
    reviewed_recovery_revision: Digest | None
    activation_history_revision: Digest
    items: _Items

    def __post_init__(self) -> None:
        wanted = operation_id(self.environment, self.reviewed_plan_sha256, self.review_id)
        if self.operation_id != wanted:
            refuse("operation_id is not the one of plan and review")
        check_sorted(self.reviewed_protected_deployment_ids, "reviewed_protected_deployment_ids")
        _check(self)

    @property
    def pending(self) -> tuple[ReceiptItem, ...]:
        """The items that are still to be deleted."""
        return tuple(item for item in self.items if item.action == "pending")

    @property
    def deleted_ids(self) -> tuple[str, ...]:
        """The deployments whose deletion is confirmed, in the order of the items."""
        return tuple(
            item.deployment_id
            for item in self.items
            if item.action == "deleted" and item.deployment_id
        )


class LegacyReceipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Version 1, which knew no review: forensic, and never a proof for evidence of version 3."""

    schema: Literal["dpone.deployment-cache-retention-apply-receipt.v1"]
    operation_id: Digest
    receipt_revision: Digest
    status: Status
    environment: Environment
    promoted_by: _Promoter
    current_deployment_id: Digest | None
    reviewed_plan_sha256: Digest
    activation_history_revision: Digest
    items: _Items

    def __post_init__(self) -> None:
        if self.operation_id != legacy_operation_id(self.environment, self.reviewed_plan_sha256):
            refuse("operation_id is not the one of the plan")
        _check(self)


def _check(receipt: Receipt | LegacyReceipt) -> None:
    ids = tuple(item.deployment_id for item in receipt.items if item.deployment_id is not None)
    check_unique(ids, "the ids of items")
    for item in receipt.items:
        if item.deployment_id is None and item.action != "skipped":
            refuse("an item without an id is not skipped")
        if item.action == "pending" and receipt.status != "applying":
            refuse("a receipt in its last state has a pending item")
        if item.reason in ABORT_REASONS and receipt.status != "aborted":
            refuse("a reason of an abort stands in a receipt that is not aborted")
        if item.reason in ABORT_REASONS and item.action != "skipped":
            refuse("a reason of an abort stands at an item that is not skipped")
    _check_texts(receipt)
    check_revision(receipt, "receipt_revision")


def _check_texts(receipt: Receipt | LegacyReceipt) -> None:
    texts = {receipt.environment, receipt.promoted_by}
    for item in receipt.items:
        texts.update((item.reason, item.path))
        if isinstance(item.error_code, str):
            texts.add(item.error_code)
    if any(_SUSPECT.search(text) and _SECRET.search(text) for text in texts):
        refuse("a field holds what looks like a secret or a connection")


# -- identity --------------------------------------------------------------------------------------


def operation_id(environment: str, plan_sha256: str, review_id: str) -> str:
    """The identity of one approved attempt; the promoter is evidence and no part of it."""
    return sealed_digest(
        {
            "schema": OPERATION_SCHEMA,
            "environment": environment,
            "reviewed_plan_sha256": plan_sha256,
            "review_id": review_id,
        }
    )


def legacy_operation_id(environment: str, plan_sha256: str) -> str:
    """The identity of version 1."""
    return sealed_digest(
        {
            "schema": LEGACY_OPERATION_SCHEMA,
            "environment": environment,
            "reviewed_plan_sha256": plan_sha256,
        }
    )


def receipt_name(operation: str) -> str:
    """The file of an operation's receipt."""
    return folder_name(operation) + ".json"


R = TypeVar("R", Receipt, LegacyReceipt)


# -- states ----------------------------------------------------------------------------------------


def begun(
    *,
    environment: str,
    promoted_by: str,
    current_deployment_id: str | None,
    plan_sha256: str,
    review_id: str,
    protected_ids: Iterable[str],
    recovery_revision: str | None,
    history_revision: str,
    items: Iterable[ReceiptItem],
) -> Receipt:
    """A receipt that begins an operation. Raises `ContractInvalid`."""
    return _sealed(
        {
            "schema": RECEIPT_SCHEMA,
            "operation_id": operation_id(environment, plan_sha256, review_id),
            "status": "applying",
            "environment": environment,
            "promoted_by": promoted_by,
            "current_deployment_id": current_deployment_id,
            "reviewed_plan_sha256": plan_sha256,
            "review_id": review_id,
            "reviewed_protected_deployment_ids": sorted(set(protected_ids)),
            "reviewed_recovery_revision": recovery_revision,
            "activation_history_revision": history_revision,
            "items": [plain(item) for item in items],
        },
        Receipt,
    )


def advanced(
    receipt: R, *, deleted: Iterable[str] = (), causes: Mapping[str, str] | None = None
) -> R:
    """The receipt after some pending items were deleted, or kept by a cause.

    Ids that are not pending are left alone. Raises `ContractInvalid` unless it is applying.
    """
    _must_apply(receipt)
    gone = frozenset(deleted)
    kept = causes or {}
    return _with_items(receipt, "applying", (_moved(item, gone, kept) for item in receipt.items))


def _moved(item: ReceiptItem, gone: frozenset[str], kept: Mapping[str, str]) -> ReceiptItem:
    identity = item.deployment_id
    if item.action != "pending" or identity is None:
        return item
    if identity in gone:
        return _item(item, "deleted", "unreferenced")
    if identity in kept:
        return _item(item, "pending", kept[identity][:CAUSE_CHARS_MAX])
    return item


def committed(receipt: Receipt) -> Receipt:
    """The receipt in its last state. Raises `ContractInvalid` while an item is pending."""
    _must_apply(receipt)
    return _with_items(receipt, "committed", receipt.items)


def aborted(receipt: R, reason: str) -> R:
    """The receipt closed for `reason`; what was deleted stays so. Raises `ContractInvalid`."""
    _must_apply(receipt)
    if reason not in ABORT_REASONS:
        raise ContractInvalid(contract=receipt.schema, reason="the reason of the abort is unknown")
    items = (
        _item(item, "skipped", reason) if item.action == "pending" else item
        for item in receipt.items
    )
    return _with_items(receipt, "aborted", items)


def _must_apply(receipt: Receipt | LegacyReceipt) -> None:
    if receipt.status != "applying":
        raise ContractInvalid(contract=receipt.schema, reason=f"it is {receipt.status} for ever")


def _item(item: ReceiptItem, action: str, reason: str) -> ReceiptItem:
    return msgspec.structs.replace(item, action=action, reason=reason)


def _with_items(receipt: R, status: str, items: Iterable[ReceiptItem]) -> R:
    body = plain(receipt)
    del body["receipt_revision"]
    body |= {"status": status, "items": [plain(item) for item in items]}
    return _sealed(body, type(receipt))


def _sealed(body: dict[str, Any], kind: type[R]) -> R:
    return convert({**body, "receipt_revision": sealed_digest(body)}, kind)


# -- bytes -----------------------------------------------------------------------------------------


def encode_receipt(receipt: Receipt | LegacyReceipt) -> bytes:
    """The bytes of the file. Raises `ContractInvalid` over the bound."""
    data = durable(receipt)
    if len(data) > RECEIPT_BYTES_MAX:
        raise ContractInvalid(contract=receipt.schema, reason=f"over {RECEIPT_BYTES_MAX} bytes")
    return data


def decode_receipt(data: bytes) -> Receipt | LegacyReceipt:
    """Read a receipt of either version. Raises `ContractInvalid`."""
    if f'"{LEGACY_SCHEMA}"'.encode() in data:
        return read_durable(data, LegacyReceipt, bytes_max=RECEIPT_BYTES_MAX)
    return read_durable(data, Receipt, bytes_max=RECEIPT_BYTES_MAX)


def final_bytes_max(receipt: Receipt) -> int:
    """How long the file can become at most until its last state."""
    longest = max(CAUSE_CHARS_MAX, *(len(reason) for reason in ABORT_REASONS))
    growth = sum(max(0, longest - len(item.reason)) for item in receipt.pending)
    return len(durable(receipt)) + growth + len("committed")


def receipt_schema(name: str = RECEIPT_SCHEMA) -> dict[str, Any]:
    """The JSON Schema of a receipt, with the rules between fields."""
    kind = LegacyReceipt if name == LEGACY_SCHEMA else Receipt
    schema = schema_of(kind)
    schema["$defs"]["ReceiptItem"]["if"] = holds(deployment_id={"const": None})
    schema["$defs"]["ReceiptItem"]["then"] = holds(action={"const": "skipped"})
    body = schema["$defs"][kind.__name__]
    body["properties"]["schema"] = {"const": name}
    ended = holds(action={"enum": ["deleted", "skipped"]})
    body["if"] = holds(status={"enum": ["committed", "aborted"]})
    body["then"] = holds(items={"items": ended})
    return schema
