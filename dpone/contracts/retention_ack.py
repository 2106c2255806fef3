"""The acknowledgement of what recovery put back, versions 1 and 2.

Version 2 is cumulative by transaction id, so that an unrelated write to the log does not reopen
what was acknowledged. Version 1 is upgraded only when revision and set are exactly those of the
snapshot. Promise: closed, at most `ACK_BYTES_MAX` long. Source: ADR 0043.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec

from dpone.contracts.cache_layout import (
    ENTRIES_MAX,
    Digest,
    Environment,
    check_revision,
    check_sorted,
    check_unique,
    durable,
    read_durable,
    sealed_digest,
)
from dpone.contracts.codec import convert
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.retention_wal import LegacyRecovery, projected

ACK_SCHEMA = "dpone.deployment-cache-retention-recovery-ack.v2"
LEGACY_ACK_SCHEMA = "dpone.deployment-cache-retention-recovery-ack.v1"
ACK_BYTES_MAX = 2 * 1024 * 1024
_Ids = Annotated[
    tuple[Digest, ...],
    msgspec.Meta(max_length=ENTRIES_MAX, extra_json_schema={"uniqueItems": True}),
]


class Acknowledgement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which restored transactions a person knows of."""

    schema: Literal["dpone.deployment-cache-retention-recovery-ack.v2"]
    revision: Digest
    environment: Environment
    acknowledged_transaction_ids: _Ids

    def __post_init__(self) -> None:
        check_sorted(self.acknowledged_transaction_ids, "acknowledged_transaction_ids")
        check_revision(self)


class LegacyAcknowledgement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Version 1: bound to one revision of the snapshot."""

    schema: Literal["dpone.deployment-cache-retention-recovery-ack.v1"]
    revision: Digest
    environment: Environment
    journal_revision: Digest
    restored_deployment_ids: _Ids

    def __post_init__(self) -> None:
        check_unique(self.restored_deployment_ids, "restored_deployment_ids")
        check_revision(self)


def acknowledged(
    environment: str, transaction_ids: Iterable[str], *, before: Acknowledgement | None = None
) -> Acknowledgement:
    """An acknowledgement of these transactions and of those before. Raises `ContractInvalid`."""
    earlier = before.acknowledged_transaction_ids if before else ()
    body: dict[str, Any] = {
        "schema": ACK_SCHEMA,
        "environment": environment,
        "acknowledged_transaction_ids": sorted({*earlier, *transaction_ids}),
    }
    return convert({**body, "revision": sealed_digest(body)}, Acknowledgement)


def upgraded(legacy: LegacyAcknowledgement, snapshot: LegacyRecovery) -> Acknowledgement | None:
    """Version 1 as version 2, if it is about exactly this snapshot; else None."""
    is_same = legacy.journal_revision == snapshot.revision and set(
        legacy.restored_deployment_ids
    ) == set(snapshot.restored_deployment_ids)
    if not is_same:
        return None
    transactions = projected(snapshot).transactions.values()
    restored = [it.transaction_id for it in transactions if it.phase == "restored"]
    return acknowledged(legacy.environment, restored)


def encode_acknowledgement(acknowledgement: Acknowledgement) -> bytes:
    """The bytes of the file. Raises `ContractInvalid` over the bound."""
    data = durable(acknowledgement)
    if len(data) > ACK_BYTES_MAX:
        raise ContractInvalid(contract=ACK_SCHEMA, reason=f"over {ACK_BYTES_MAX} bytes")
    return data


def decode_acknowledgement(data: bytes) -> Acknowledgement | LegacyAcknowledgement:
    """Read an acknowledgement of either version. Raises `ContractInvalid`."""
    if f'"{LEGACY_ACK_SCHEMA}"'.encode() in data:
        return read_durable(data, LegacyAcknowledgement, bytes_max=ACK_BYTES_MAX)
    return read_durable(data, Acknowledgement, bytes_max=ACK_BYTES_MAX)
