"""The append-only log beside the recovery snapshot: its records, their frames, and their replay.

A frame is a 4-byte big-endian length, the 4-byte CRC-32 of the payload, and the payload: one record
as canonical JSON. Promise: a frame is read whole or not at all, so the records of one `batch` hold
together. Where a frame is bad, everything behind it is the torn end of the last append, unless
a complete frame follows anywhere behind it: then the log is corrupt and nothing may be cut.
Source: ADR 0043.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

import msgspec

from dpone.contracts.cache_layout import END, ENTRIES_MAX, LOG, Digest, refuse
from dpone.contracts.errors_retention import RecoveryInvalid
from dpone.contracts.retention_wal import Phase, Transaction, in_phase

LOG_BYTES_MAX = 256 * 1024 * 1024
FRAME_BYTES_MAX = 160 * 1024 * 1024
_HEAD_BYTES = 8
_START = b'{"'

Identity = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{16}\.[0-9a-f]{16}" + END, max_length=33)]
_NO_BIRTH = "." + "0" * 16


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which directory it is: the device's number, and inode and birth time as text."""

    device: Annotated[int, msgspec.Meta(ge=0)]
    identity: Identity

    def __post_init__(self) -> None:
        if self.identity.endswith(_NO_BIRTH):
            refuse("an identity has no birth time")

    @property
    def inode(self) -> int:
        """The inode's number."""
        return int(self.identity[:16], 16)


class Occurrence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which directories a transaction is about: the deployment's, and its activation's if any."""

    deployment: Place
    activation: Place | None


class Intent(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    tag="intent",
    tag_field="kind",
):
    """An operation that is about to begin, and which others it closes, each with its revision.

    `recovery_revision` is what the reviewed plan bound of the log; settling what it closes changes
    the log, and a crash in between must not ask for a new plan.
    """

    operation_id: Digest
    plan_sha256: Digest
    recovery_revision: Digest | None = None
    closes: Annotated[tuple[tuple[Digest, Digest], ...], msgspec.Meta(max_length=ENTRIES_MAX)]


class Prepared(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    tag="prepared",
    tag_field="kind",
):
    """A transaction with its occurrence; in a checkpoint of the log in whatever phase it has."""

    transaction: Transaction
    occurrence: Occurrence

    def __post_init__(self) -> None:
        place = self.occurrence.deployment
        wanted = (self.transaction.expected_device, self.transaction.expected_inode)
        if (place.device, place.inode) != wanted:
            refuse("the occurrence is not the transaction's")


class Moved(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    tag="phase",
    tag_field="kind",
):
    """A transaction has come to a phase; `reason` says why it is blocked or restored."""

    transaction_id: Digest
    phase: Phase
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=512)] | msgspec.UnsetType = (
        msgspec.UNSET
    )


class Tombstone(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    tag="tombstone",
    tag_field="kind",
):
    """Transactions that are no longer kept, whatever stands before."""

    transaction_ids: Annotated[
        tuple[Digest, ...], msgspec.Meta(min_length=1, max_length=ENTRIES_MAX)
    ]


Record = Intent | Prepared | Moved | Tombstone


class Batch(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    tag="batch",
    tag_field="kind",
):
    """Records that are in force together or not at all."""

    records: Annotated[tuple[Record, ...], msgspec.Meta(min_length=1, max_length=2 * ENTRIES_MAX)]


_DECODER = msgspec.json.Decoder(Record | Batch)


class Decoded(NamedTuple):
    """What a log holds: its records, where its whole frames end, and whether more follows."""

    records: tuple[Record, ...]
    good_size: int
    torn: bool


def encode_record(record: Record | Batch) -> bytes:
    """One frame. Raises `ValueError` over the bound."""
    payload = msgspec.json.encode(record, order="sorted")
    if len(payload) > FRAME_BYTES_MAX:
        refuse(f"a record is over {FRAME_BYTES_MAX} bytes")
    return _head(payload) + payload


def encode_batch(records: Iterable[Record]) -> bytes:
    """One frame of several records: one append, one checksum, all or nothing."""
    return encode_record(Batch(records=tuple(records)))


def _head(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + zlib.crc32(payload).to_bytes(4, "big")


def decode_log(data: bytes) -> Decoded:
    """Read a log. Raises `RecoveryInvalid` when a bad frame stands before a good one.

    The caller cuts a torn end to `good_size` before it appends; a reading command never does.
    """
    records: list[Record] = []
    offset = 0
    while (frame := _frame(data, offset)) is not None:
        found, offset = frame
        records += found.records if isinstance(found, Batch) else (found,)
    if offset < len(data) and _is_followed(data, offset + 1):
        raise RecoveryInvalid(file=LOG, reason=f"a bad record at byte {offset} before a good one")
    return Decoded(tuple(records), offset, offset < len(data))


def _frame(data: bytes, offset: int) -> tuple[Record | Batch, int] | None:
    """The record at `offset` and where it ends; None when there is no whole and sound one."""
    start = offset + _HEAD_BYTES
    end = start + int.from_bytes(data[offset : offset + 4], "big")
    if not start < end <= min(len(data), start + FRAME_BYTES_MAX):
        return None
    payload = data[start:end]
    if data[offset:start] != _head(payload):
        return None
    try:
        record = _DECODER.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # Canonical bytes alone: no duplicate key and no odd number passes.
    return (record, end) if msgspec.json.encode(record, order="sorted") == payload else None


def _is_followed(data: bytes, offset: int) -> bool:
    """Whether a sound frame begins anywhere at or behind `offset`."""
    place = data.find(_START, offset + _HEAD_BYTES)
    while place >= 0:
        if _frame(data, place - _HEAD_BYTES) is not None:
            return True
        place = data.find(_START, place + 1)
    return False


# -- replay ----------------------------------------------------------------------------------------


class Replayed(NamedTuple):
    """The log over its snapshot, by transaction id; `intents` by operation id.

    An occurrence is known for the transactions that a `prepared` record names; `reasons` are those
    of the last phase record of a transaction.
    """

    transactions: dict[str, Transaction]
    occurrences: dict[str, Occurrence]
    intents: dict[str, Intent]
    reasons: dict[str, str]


def replay(snapshot: Mapping[str, Transaction], records: Iterable[Record]) -> Replayed:
    """Read the log over a snapshot; an older log over a newer snapshot changes nothing.

    Raises `RecoveryInvalid` for a phase of a transaction that nobody prepared.
    """
    listed = tuple(records)
    buried = {
        identity
        for record in listed
        if isinstance(record, Tombstone)
        for identity in record.transaction_ids
    }
    state = Replayed(dict(snapshot), {}, {}, {})
    for record in listed:
        if isinstance(record, Intent):
            state.intents[record.operation_id] = record
        elif isinstance(record, Prepared):
            identity = record.transaction.transaction_id
            state.transactions[identity] = record.transaction
            state.occurrences[identity] = record.occurrence
        elif isinstance(record, Moved) and record.transaction_id not in buried:
            _move(state, record)
    for identity in buried:
        state.transactions.pop(identity, None)
        state.occurrences.pop(identity, None)
        state.reasons.pop(identity, None)
    return state


def _move(state: Replayed, record: Moved) -> None:
    known = state.transactions.get(record.transaction_id)
    if known is None:
        raise RecoveryInvalid(file=LOG, reason="a phase of a transaction that nobody prepared")
    state.transactions[record.transaction_id] = in_phase(known, record.phase)
    if isinstance(record.reason, str):
        state.reasons[record.transaction_id] = record.reason
    else:
        state.reasons.pop(record.transaction_id, None)
