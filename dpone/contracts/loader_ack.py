"""What the loader says it loaded, versions 1 and 2.

Promise: closed, at most `ACK_BYTES_MAX` long, without duplicate keys and numbers that are none;
loaded and skipped DAGs are sorted, unique and disjoint. Retention accepts version 2 alone, and only
when everything was loaded. Source: ADR 0043.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from dpone.contracts.cache_layout import (
    END,
    Digest,
    Moment,
    Uuid4,
    check_sorted,
    moment_of,
    refuse,
)
from dpone.contracts.codec import convert, parse
from dpone.contracts.errors import ContractInvalid

ACK_BYTES_MAX = 64 * 1024
LoadedDag = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_.~-]+" + END, min_length=1)]
LoaderCode = Annotated[str, msgspec.Meta(pattern="^DPONE_[A-Z0-9_]+" + END, max_length=256)]
_UNIQUE = msgspec.Meta(extra_json_schema={"uniqueItems": True})


class EarlierLoaderAck(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Version 1, which does not say which activation it is about."""

    schema: Literal["dpone.airflow_loader_ack.v1"]
    release_id: Digest
    deployment_id: Digest
    airflow_index_sha256: Digest
    loaded_dag_ids: Annotated[tuple[LoadedDag, ...], _UNIQUE]
    skipped_dag_ids: Annotated[tuple[LoadedDag, ...], _UNIQUE]
    error_codes: Annotated[tuple[LoaderCode, ...], _UNIQUE]
    fatal: bool
    acknowledged_at: Moment

    def __post_init__(self) -> None:
        _check(self)


class LoaderAck(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Version 2: which activation was loaded, what of it, and when."""

    schema: Literal["dpone.airflow_loader_ack.v2"]
    release_id: Digest
    deployment_id: Digest
    airflow_index_sha256: Digest
    activation_id: Uuid4
    loaded_dag_ids: Annotated[tuple[LoadedDag, ...], _UNIQUE]
    skipped_dag_ids: Annotated[tuple[LoadedDag, ...], _UNIQUE]
    error_codes: Annotated[tuple[LoaderCode, ...], _UNIQUE]
    fatal: bool
    acknowledged_at: Moment

    def __post_init__(self) -> None:
        _check(self)

    @property
    def incomplete(self) -> str:
        """Why it does not say that everything was loaded; empty when it does."""
        if self.fatal:
            return "the loader met a fatal error"
        if self.skipped_dag_ids:
            return "the loader skipped a DAG"
        return "the loader reports an error code" if self.error_codes else ""


def _check(ack: EarlierLoaderAck | LoaderAck) -> None:
    check_sorted(ack.loaded_dag_ids, "loaded_dag_ids")
    check_sorted(ack.skipped_dag_ids, "skipped_dag_ids")
    if len(set(ack.error_codes)) != len(ack.error_codes):
        refuse("error_codes are not unique")
    if not set(ack.loaded_dag_ids).isdisjoint(ack.skipped_dag_ids):
        refuse("a DAG is both loaded and skipped")
    moment_of(ack.acknowledged_at)


def decode_ack(data: bytes) -> LoaderAck | EarlierLoaderAck:
    """Read an acknowledgement by its version. Raises `ContractInvalid`."""
    value = parse(data, bytes_max=ACK_BYTES_MAX)
    schema = value.get("schema") if isinstance(value, dict) else None
    if schema == "dpone.airflow_loader_ack.v1":
        return convert(value, EarlierLoaderAck)
    if schema == "dpone.airflow_loader_ack.v2":
        return convert(value, LoaderAck)
    raise ContractInvalid(contract="dpone.airflow_loader_ack", reason="the version is unknown")
