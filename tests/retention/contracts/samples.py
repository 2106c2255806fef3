"""Good values of every contract, to be bent out of shape one at a time."""

from __future__ import annotations

import json
from typing import Any

from dpone.contracts import retention_log as log
from dpone.contracts import retention_receipt as receipts
from dpone.contracts import retention_wal as wal
from dpone.contracts.cache_layout import sealed_digest
from dpone.contracts.codec import encode, plain
from tests.retention.caches import number

REVIEW = "9be81f38-697b-4403-a60a-4b927284bb51"
PLAN = number(500)
OPERATION = receipts.operation_id("dev", PLAN, REVIEW)


def item(value: int, action: str = "pending", reason: str = "unreferenced") -> Any:
    return receipts.ReceiptItem(
        deployment_id=number(value),
        action=action,  # type: ignore[arg-type]
        reason=reason,
        path=f"deployments/dev/sha256-{value:064x}",
    )


def receipt(*items: Any, **changes: Any) -> receipts.Receipt:
    given: dict[str, Any] = {
        "environment": "dev",
        "promoted_by": "local://dpone",
        "current_deployment_id": number(1),
        "plan_sha256": PLAN,
        "review_id": REVIEW,
        "protected_ids": [number(1)],
        "recovery_revision": None,
        "history_revision": number(600),
        "items": items or (item(2), item(3), item(1, "skipped", "current")),
    }
    return receipts.begun(**{**given, **changes})


def as_json(value: Any) -> Any:
    """The value as a reader of its JSON sees it."""
    return json.loads(encode(value))


def sealed(value: Any, field: str = "revision", **changes: Any) -> dict[str, Any]:
    """Plain fields with changes and a revision that fits them; a change to None stays null."""
    body: dict[str, Any] = {**as_json(value), **changes}
    body.pop(field)
    return {**body, field: sealed_digest(body)}


def legacy_receipt(status: str = "applying", action: str = "pending") -> dict[str, Any]:
    body = plain(receipt(item(2)))
    for name in ("review_id", "reviewed_protected_deployment_ids", "reviewed_recovery_revision"):
        del body[name]
    body["items"][0]["action"] = action
    body |= {
        "schema": receipts.LEGACY_SCHEMA,
        "operation_id": receipts.legacy_operation_id("dev", PLAN),
        "status": status,
    }
    return sealed(body, "receipt_revision")


def transaction(value: int, phase: str = "prepared", operation: str = OPERATION) -> wal.Transaction:
    made = wal.prepared(
        deployment_id=number(value),
        environment="dev",
        original_path=f"deployments/dev/sha256-{value:064x}",
        detached_path=f".retention-trash/sha256-{value:064x}.{value:032x}",
        activation_path=f"activations/dev/sha256-{value:064x}",
        device=7,
        inode=value + 1,
        operation_id=operation,
    )
    return wal.in_phase(made, phase)


def snapshot(*transactions: wal.Transaction) -> wal.Recovery:
    return wal.snapshot_of({it.transaction_id: it for it in transactions})


def legacy_snapshot(value: int = 2, phase: str = "restored") -> dict[str, Any]:
    body = plain(transaction(value, phase))
    del body["operation_id"], body["transaction_id"]
    ended = phase == "restored"
    return sealed(
        {
            "schema": wal.LEGACY_WAL_SCHEMA,
            "revision": "",
            "status": "recovered" if phase in wal.ENDED else "recovering",
            "restored_deployment_ids": [number(value)] if ended else [],
            "pending_deployment_ids": [] if phase in wal.ENDED else [number(value)],
            "transactions": {number(value): body},
        }
    )


def prepared(value: int, **changes: Any) -> log.Prepared:
    place = log.Place(device=7, identity=f"{value + 1:016x}.{77:016x}")
    occurrence = log.Occurrence(deployment=place, activation=None)
    return log.Prepared(transaction=transaction(value, **changes), occurrence=occurrence)
