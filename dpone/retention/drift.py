"""Tells what came back under the name of a committed deletion; the receipt stays as it is.

Promise: nothing else is written, and a drift that cannot be recorded keeps nobody from the receipt.
Source: ADR 0043.
"""

from __future__ import annotations

from contextlib import suppress

from dpone.contracts.cache_layout import deployment_path
from dpone.contracts.effects import Effect
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.retention_drift import (
    DRIFT,
    DRIFT_BYTES_MAX,
    decode_drift,
    drift_with,
    encode_drift,
)
from dpone.contracts.retention_receipt import Receipt
from dpone.ports.cachefiles import CacheFolder
from dpone.ports.files import FilesError
from dpone.ports.probe import Probe
from dpone.retention.cache import below
from dpone.retention.store import Nonces, put, read


def note_drift(
    root: CacheFolder, receipt: Receipt, *, probe: Probe, nonces: Nonces
) -> tuple[str, ...]:
    """The deployments of a committed receipt that are there again; recorded when new."""
    seen = tuple(it for it in receipt.deleted_ids if _is_there(root, receipt.environment, it))
    if not seen:
        return ()
    with suppress(FilesError, ContractInvalid):
        data = read(root, DRIFT, DRIFT_BYTES_MAX)
        before = None if data is None else decode_drift(data)
        after = drift_with(before, receipt.operation_id, seen)
        if before != after:
            put(
                root,
                DRIFT,
                encode_drift(after),
                effect=Effect.RETENTION_DRIFT,
                probe=probe,
                nonce=nonces(),
            )
    return seen


def _is_there(root: CacheFolder, environment: str, deployment_id: str) -> bool:
    parent, _, leaf = deployment_path(environment, deployment_id).rpartition("/")
    try:
        with below(root, parent) as folder:
            return folder.look(leaf) is not None
    except FilesError:
        return False
