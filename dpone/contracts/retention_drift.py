"""What came back under the name of a deletion that is committed.

A committed receipt is evidence and never changes; what is found later is told here, beside the
receipts and never among them. Source: ADR 0043.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec

from dpone.contracts.cache_layout import (
    ENTRIES_MAX,
    Digest,
    check_revision,
    durable,
    read_durable,
    sealed_digest,
)
from dpone.contracts.codec import convert, plain

DRIFT = ".retention-drift.json"
DRIFT_SCHEMA = "dpone.deployment-cache-retention-drift.v1"
DRIFT_BYTES_MAX = 8 * 1024 * 1024


class Drift(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which deleted deployments were seen again, by operation."""

    schema: Literal["dpone.deployment-cache-retention-drift.v1"]
    revision: Digest
    seen_again: Annotated[dict[Digest, tuple[Digest, ...]], msgspec.Meta(max_length=ENTRIES_MAX)]

    def __post_init__(self) -> None:
        check_revision(self)


def drift_with(before: Drift | None, operation_id: str, ids: Iterable[str]) -> Drift:
    """The drift that is known now. Raises `ContractInvalid`."""
    seen: dict[str, Any] = dict(plain(before.seen_again)) if before else {}
    seen[operation_id] = sorted({*seen.get(operation_id, ()), *ids})
    body = {"schema": DRIFT_SCHEMA, "seen_again": seen}
    return convert({**body, "revision": sealed_digest(body)}, Drift)


def encode_drift(drift: Drift) -> bytes:
    """The bytes of the file."""
    return durable(drift)


def decode_drift(data: bytes) -> Drift:
    """Read the file. Raises `ContractInvalid`."""
    return read_durable(data, Drift, bytes_max=DRIFT_BYTES_MAX)
