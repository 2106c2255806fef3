"""The archive of finished receipts: a chain of manifests, and what the desk commands print.

Promise: each manifest holds the digest of the one before and of every receipt's bytes, so that a
missing or changed one is noticed; a receipt in the archive has the bytes that it had among the
receipts. Source: ADR 0043.
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
    durable,
    read_durable,
    sealed_digest,
)
from dpone.contracts.codec import convert, plain

ARCHIVE = ".retention-apply-archive"
ARCHIVE_SCHEMA = "dpone.deployment-cache-retention-archive.v1"
MANIFEST = "manifest.json"
MANIFEST_BYTES_MAX = 16 * 1024 * 1024
SEGMENTS_MAX = 100_000

_Ids = Annotated[tuple[Digest, ...], msgspec.Meta(max_length=ENTRIES_MAX)]


class Archived(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One receipt in the archive: its operation, its state, and the digest of its bytes."""

    operation_id: Digest
    status: Literal["committed", "aborted"]
    sha256: Digest


class ArchiveManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One segment of the archive. `previous` is None for the first."""

    schema: Literal["dpone.deployment-cache-retention-archive.v1"]
    revision: Digest
    number: Annotated[int, msgspec.Meta(ge=1, le=SEGMENTS_MAX)]
    previous: Digest | None
    receipts: Annotated[tuple[Archived, ...], msgspec.Meta(max_length=ENTRIES_MAX)]
    transaction_ids: _Ids

    def __post_init__(self) -> None:
        check_sorted(tuple(it.operation_id for it in self.receipts), "receipts")
        check_sorted(self.transaction_ids, "transaction_ids")
        check_revision(self)


def manifest_of(
    number: int, previous: str | None, receipts: Iterable[Archived], transaction_ids: Iterable[str]
) -> ArchiveManifest:
    """A segment with its revision. Raises `ContractInvalid`."""
    ordered = sorted((plain(it) for it in receipts), key=lambda it: it["operation_id"])
    body: dict[str, Any] = {
        "schema": ARCHIVE_SCHEMA,
        "number": number,
        "previous": previous,
        "receipts": ordered,
        "transaction_ids": sorted(set(transaction_ids)),
    }
    return convert({**body, "revision": sealed_digest(body)}, ArchiveManifest)


def encode_manifest(manifest: ArchiveManifest) -> bytes:
    """The bytes of the file."""
    return durable(manifest)


def decode_manifest(data: bytes) -> ArchiveManifest:
    """Read a manifest. Raises `ContractInvalid`."""
    return read_durable(data, ArchiveManifest, bytes_max=MANIFEST_BYTES_MAX)


def segment_name(number: int) -> str:
    """The directory of a segment."""
    return f"{number:06d}"


# -- what is printed -------------------------------------------------------------------------------


class ReceiptRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One operation in a list."""

    operation_id: str
    status: str
    environment: str
    deleted: int
    pending: int
    archived: bool


class ReceiptList(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `dpone airflow cache-retention-receipts` prints.

    `repairs` are what `--repair` would set, or did; `stuck` counts trees in the trash that could
    not be deleted yet; `blocker` names a file that cannot be used.
    """

    environment: Environment
    receipts: tuple[ReceiptRow, ...]
    tolerated: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()
    applied: bool = False
    stuck: int = 0
    blocker: str | None = None
    warnings: tuple[str, ...] = ()
    exit_code: int = 0
    schema: str = "dpone.deployment-cache-retention-receipts.v1"


class AcknowledgeReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `dpone airflow cache-retention-acknowledge` found, and with `--apply` recorded."""

    environment: Environment
    restored: tuple[dict[str, str], ...]
    acknowledged: int
    applied: bool
    exit_code: int = 0
    schema: str = "dpone.deployment-cache-retention-acknowledge.v1"


class ArchiveReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `dpone airflow cache-retention-archive` would move, or moved.

    `archive_sha256` is the digest to review; `segments` is how many there are.
    """

    environment: Environment
    archive_sha256: str
    receipts: int
    transactions: int
    segments: int
    applied: bool
    exit_code: int = 0
    schema: str = "dpone.deployment-cache-retention-archive-report.v1"
