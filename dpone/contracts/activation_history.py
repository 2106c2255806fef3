"""Which activations were seen loaded: the history, its revision, and what it is going to be.

Promise: the prospective history follows from the present one and the acknowledgement alone; no
clock is read. Of version 1 only the digest is kept. Source: ADR 0043, step 11.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from dpone.contracts.cache_layout import (
    ENTRIES_MAX,
    Digest,
    Moment,
    Uuid4,
    check_revision,
    check_unique,
    durable,
    moment_of,
    read_durable,
    refuse,
    sealed_digest,
)
from dpone.contracts.codec import convert, plain
from dpone.contracts.desired_state import DAG_CHARS_MAX, DAGS_MAX
from dpone.contracts.errors_cache import ActivationHistoryConflict, ActivationHistoryFull
from dpone.contracts.loader_ack import LoaderAck

HISTORY_SCHEMA = "dpone.deployment-cache-activation-history.v2"
HISTORY_BYTES_MAX = 4 * 1024 * 1024
_UNIQUE = {"uniqueItems": True}


class Activation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One activation that a loader acknowledged."""

    activation_id: Uuid4
    release_id: Digest
    deployment_id: Digest
    airflow_index_sha256: Digest
    loaded_dag_ids: Annotated[
        tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=DAG_CHARS_MAX)], ...],
        msgspec.Meta(min_length=1, max_length=DAGS_MAX, extra_json_schema=_UNIQUE),
    ]
    verified_at: Moment

    def __post_init__(self) -> None:
        check_unique(self.loaded_dag_ids, "loaded_dag_ids")
        moment_of(self.verified_at)


class LegacyEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The digest of what version 1 said; its content is never copied."""

    entry_sha256: Digest


class ActivationHistory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All activations by their id."""

    schema: Literal["dpone.deployment-cache-activation-history.v2"]
    revision: Digest
    entries: Annotated[dict[Uuid4, Activation], msgspec.Meta(max_length=ENTRIES_MAX)]
    legacy_v1_diagnostics: Annotated[tuple[LegacyEntry, ...], msgspec.Meta(max_length=ENTRIES_MAX)]

    def __post_init__(self) -> None:
        for key, entry in self.entries.items():
            if key != entry.activation_id:
                refuse("an entry stands under another activation's id")
        check_revision(self)


def history_of(
    entries: dict[str, Activation], legacy: tuple[LegacyEntry, ...] = ()
) -> ActivationHistory:
    """A history with its revision. Raises `ContractInvalid`."""
    body: dict[str, Any] = {
        "schema": HISTORY_SCHEMA,
        "entries": plain(entries),
        "legacy_v1_diagnostics": plain(legacy),
    }
    return convert({**body, "revision": sealed_digest(body)}, ActivationHistory)


def prospective_history(
    present: ActivationHistory | None, ack: LoaderAck, *, legacy_sha256: str | None = None
) -> ActivationHistory:
    """What the history is going to be when `ack` is recorded; `present` itself when it is there.

    A newer time for the same activation changes nothing. `legacy_sha256` is the digest of the file
    of version 1, if there is one. Raises `ActivationHistoryConflict`, `ActivationHistoryFull`.
    """
    entries = dict(present.entries) if present else {}
    legacy = present.legacy_v1_diagnostics if present else ()
    known = entries.get(ack.activation_id)
    if known is not None:
        entry = _entry(ack, known.verified_at)
        if entry != known:
            raise ActivationHistoryConflict(activation_id=ack.activation_id)
    elif len(entries) >= ENTRIES_MAX:
        raise ActivationHistoryFull(limit=ENTRIES_MAX)
    else:
        entries[ack.activation_id] = _entry(ack, ack.acknowledged_at)
    mark = LegacyEntry(entry_sha256=legacy_sha256) if legacy_sha256 else None
    if mark is not None and mark not in legacy:
        legacy = (*legacy, mark)
    if present is not None and known is not None and legacy == present.legacy_v1_diagnostics:
        return present
    return history_of(entries, legacy)


def _entry(ack: LoaderAck, verified_at: str) -> Activation:
    return Activation(
        activation_id=ack.activation_id,
        release_id=ack.release_id,
        deployment_id=ack.deployment_id,
        airflow_index_sha256=ack.airflow_index_sha256,
        loaded_dag_ids=ack.loaded_dag_ids,
        verified_at=verified_at,
    )


def encode_history(history: ActivationHistory) -> bytes:
    """The bytes of the file. Raises `ActivationHistoryFull` when they are too many."""
    data = durable(history)
    if len(data) > HISTORY_BYTES_MAX:
        raise ActivationHistoryFull(limit=ENTRIES_MAX)
    return data


def decode_history(data: bytes) -> ActivationHistory:
    """Read a history. Raises `ContractInvalid`."""
    return read_durable(data, ActivationHistory, bytes_max=HISTORY_BYTES_MAX)
