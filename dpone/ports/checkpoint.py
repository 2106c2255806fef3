"""The checkpoint port: what is known of each partition, in the journal's store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dpone.contracts.checkpoint import Checkpoint


class Checkpoints(Protocol):
    """Durable checkpoints. Every method raises `JournalUnavailable` when the store is silent."""

    def scan(self, scan_key: str) -> list[Checkpoint]:
        """All checkpoints of one pair of tables, by partition id."""

    def read(self, transfer_partition_id: str) -> Checkpoint | None:
        """The checkpoint of one partition."""

    def write(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Replace these checkpoints, all or none; durable when the call returns."""
