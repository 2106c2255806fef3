"""What recovery put back, and a person's word that it was seen.

Promise: the acknowledgement is cumulative by transaction id; an unrelated write to the log does not
reopen it; what is archived needs none any more. Version 1 is upgraded only when it is about exactly
this snapshot. Source: ADR 0043.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpone.contracts.cache_layout import ACKNOWLEDGEMENT
from dpone.contracts.effects import Effect
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_retention import RecoveryInvalid, RecoveryJournalFailed
from dpone.contracts.retention_ack import (
    ACK_BYTES_MAX,
    Acknowledgement,
    LegacyAcknowledgement,
    acknowledged,
    decode_acknowledgement,
    encode_acknowledgement,
    upgraded,
)
from dpone.contracts.retention_log import Replayed
from dpone.contracts.retention_wal import Transaction
from dpone.ports.cachefiles import CacheFolder
from dpone.ports.files import FilesError
from dpone.ports.probe import Probe, quiet
from dpone.retention.store import Nonces, put, read
from dpone.retention.wal import Wal


def bound(root: CacheFolder, recovery: Replayed) -> dict[str, Transaction]:
    """What a plan binds of the log: what is unfinished, or put back and not acknowledged.

    Raises `RecoveryInvalid`, also for an acknowledgement: an apply would refuse it.
    """
    known = acknowledged_ids(root, Wal(root, quiet, str).load())
    return {
        identity: it
        for identity, it in recovery.transactions.items()
        if it.phase != "committed" and identity not in known
    }


def read_acknowledgement(root: CacheFolder, wal: Wal) -> Acknowledgement | None:
    """What was acknowledged; None when nothing was. Raises `RecoveryInvalid`."""
    found = _read(root)
    if isinstance(found, LegacyAcknowledgement):
        return upgraded(found, wal.legacy) if wal.legacy is not None else None
    return found


def _read(root: CacheFolder) -> Acknowledgement | LegacyAcknowledgement | None:
    try:
        data = read(root, ACKNOWLEDGEMENT, ACK_BYTES_MAX)
        return None if data is None else decode_acknowledgement(data)
    except ContractInvalid as error:
        reason = str(error.fields["reason"])
        raise RecoveryInvalid(file=ACKNOWLEDGEMENT, reason=reason) from error
    except FilesError as error:
        raise RecoveryInvalid(file=ACKNOWLEDGEMENT, reason=error.reason) from error


def acknowledged_ids(root: CacheFolder, wal: Wal) -> frozenset[str]:
    """The ids of acknowledged transactions."""
    found = read_acknowledgement(root, wal)
    return frozenset(found.acknowledged_transaction_ids) if found else frozenset()


def taken_over(root: CacheFolder, wal: Wal, *, probe: Probe, nonces: Nonces) -> frozenset[str]:
    """The same, and an acknowledgement of version 1 is written anew before the log is.

    It is about this very snapshot, which the operation replaces. Raises `RecoveryInvalid`.
    """
    found = read_acknowledgement(root, wal)
    if found is not None and wal.legacy is not None:
        _write(root, found, probe=probe, nonces=nonces)
    return frozenset(found.acknowledged_transaction_ids) if found else frozenset()


def restored(wal: Wal, known: frozenset[str]) -> list[Transaction]:
    """What was put back and waits for a person."""
    return [it for it in wal.live() if it.phase == "restored" and it.transaction_id not in known]


def acknowledge(
    root: CacheFolder, wal: Wal, environment: str, *, probe: Probe, nonces: Nonces
) -> int:
    """Record that everything put back was seen; return how many were new."""
    before = read_acknowledgement(root, wal)
    known = frozenset(before.acknowledged_transaction_ids) if before else frozenset()
    waiting = restored(wal, known)
    if not waiting:
        return 0
    made = acknowledged(environment, (it.transaction_id for it in waiting), before=before)
    _write(root, made, probe=probe, nonces=nonces)
    return len(waiting)


def forget_acknowledged(
    root: CacheFolder, transaction_ids: Iterable[str], *, probe: Probe, nonces: Nonces
) -> None:
    """Drop the acknowledgements of transactions that the log no longer knows; again is no harm.

    One of version 1 says nothing of single transactions and is left. Raises `RecoveryInvalid`.
    """
    found = _read(root)
    if not isinstance(found, Acknowledgement):
        return
    known = set(found.acknowledged_transaction_ids)
    left = known.difference(transaction_ids)
    if left != known:
        _write(root, acknowledged(found.environment, left), probe=probe, nonces=nonces)


def _write(root: CacheFolder, made: Acknowledgement, *, probe: Probe, nonces: Nonces) -> None:
    try:
        put(
            root,
            ACKNOWLEDGEMENT,
            encode_acknowledgement(made),
            effect=Effect.RETENTION_ACKNOWLEDGE,
            probe=probe,
            nonce=nonces(),
        )
    except FilesError as error:
        raise RecoveryJournalFailed(file=ACKNOWLEDGEMENT, reason=error.reason) from error
