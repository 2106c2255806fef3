"""Partition checkpoints, and the interim guard in their diagnostics.

The shapes are those in use since before the fence existed and stay readable: `diagnostics` is
open, the guard inside it is closed. Source: ADR 0022, interim mitigation.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import msgspec

from dpone.contracts.canonical import digest
from dpone.contracts.codec import convert
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_guard import GuardInvalid

GUARD_FIELD = "target_commit_guard"
GUARD_SCHEMA = "dpone.native_transfer.target_commit_guard.v1"
RECOVERY = "manual_reconciliation_required"


class Status(StrEnum):
    """How far a partition came."""

    PLANNED = "planned"
    EXPORTED = "exported"
    LOADED = "loaded"
    FINALIZED = "finalized"
    COMMITTED = "committed"
    FAILED = "failed"


class Phase(StrEnum):
    """What the guard knows of the target."""

    ARMED = "armed"
    FAILED_BEFORE_TARGET = "failed_before_target"
    CHECKPOINT_COMMITTED = "checkpoint_committed"
    CHECKPOINT_INCOMPLETE = "checkpoint_incomplete"
    TARGET_OUTCOME_UNKNOWN = "target_outcome_unknown"


class Rule(NamedTuple):
    """The checkpoint status that a phase goes with, and whether it blocks a later run."""

    status: Status
    blocks: bool


RULES: dict[Phase, Rule] = {
    Phase.ARMED: Rule(Status.EXPORTED, True),
    Phase.FAILED_BEFORE_TARGET: Rule(Status.FAILED, False),
    Phase.CHECKPOINT_COMMITTED: Rule(Status.COMMITTED, False),
    Phase.CHECKPOINT_INCOMPLETE: Rule(Status.FAILED, True),
    Phase.TARGET_OUTCOME_UNKNOWN: Rule(Status.FAILED, True),
}


class Guard(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The guard itself; a guard without a strategy blocks every strategy of the same tables."""

    schema_version: Annotated[str, msgspec.Meta(pattern=rf"\A{GUARD_SCHEMA}\Z")] = GUARD_SCHEMA
    checkpoint_batch_id: Annotated[str, msgspec.Meta(pattern=r"\Asha256:[0-9a-f]{64}\Z")]
    phase: Phase
    recovery: Annotated[str, msgspec.Meta(pattern=rf"\A{RECOVERY}\Z")] = RECOVERY
    strategy: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_]{1,128}\Z")] | None = None


class Checkpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One partition of one route; times are ISO 8601 in UTC."""

    transfer_partition_id: str
    status: Status
    query_hash: str
    schema_hash: str
    source_table: str
    target_table: str
    partition_bounds: dict[str, Any]
    started_at: str
    completed_at: str | None = None
    rows_exported: int | None = None
    bytes_exported: int | None = None
    diagnostics: dict[str, Any] = {}

    @property
    def scan_key(self) -> str:
        """What a later run scans by: the two tables; the strategy is compared in the guard."""
        return scan_key(self.source_table, self.target_table)


def scan_key(source_table: str, target_table: str) -> str:
    """Digest of the two tables."""
    return digest({"source_table": source_table, "target_table": target_table})


def batch_id(partition_ids: list[str], run_id: str) -> str:
    """Digest of the partitions that one run arms together."""
    return digest({"partition_ids": sorted(partition_ids), "run_id": run_id})


def guard_of(checkpoint: Checkpoint) -> Guard | None:
    """The checkpoint's guard, or None for one that never had any.

    Raises `GuardInvalid` for a guard that is malformed, unknown, or does not fit the status; the
    message never repeats what was read.
    """
    if GUARD_FIELD not in checkpoint.diagnostics:
        return None
    partition = checkpoint.transfer_partition_id
    try:
        guard = convert(checkpoint.diagnostics[GUARD_FIELD], Guard)
    except ContractInvalid:
        raise GuardInvalid(partition=partition, why="it is malformed or unknown") from None
    if RULES[guard.phase].status is not checkpoint.status:
        raise GuardInvalid(partition=partition, why="it does not fit the checkpoint's status")
    return guard
