"""Checkpoints in the SQLite journal's file."""

from __future__ import annotations

from collections.abc import Sequence

from dpone.adapters.sqlite.journal import SqliteJournal
from dpone.contracts.checkpoint import Checkpoint
from dpone.contracts.codec import decode, encode


class SqliteCheckpoints:
    """The checkpoint port, on the connection of a journal."""

    def __init__(self, journal: SqliteJournal) -> None:
        self.journal = journal

    def scan(self, scan_key: str) -> list[Checkpoint]:
        """By partition id."""
        with self.journal.reading() as connection:
            if connection is None:
                return []
            rows = connection.execute(
                "SELECT body FROM dpone_checkpoint WHERE scan_key = ? ORDER BY key", (scan_key,)
            ).fetchall()
        return [decode(row[0], Checkpoint) for row in rows]

    def read(self, transfer_partition_id: str) -> Checkpoint | None:
        """One checkpoint."""
        with self.journal.reading() as connection:
            if connection is None:
                return None
            row = connection.execute(
                "SELECT body FROM dpone_checkpoint WHERE key = ?", (transfer_partition_id,)
            ).fetchone()
        return decode(row[0], Checkpoint) if row else None

    def write(self, checkpoints: Sequence[Checkpoint]) -> None:
        """All or none."""
        with self.journal.transaction() as connection:
            connection.executemany(
                "INSERT INTO dpone_checkpoint VALUES (?, ?, ?) ON CONFLICT(key)"
                " DO UPDATE SET scan_key = excluded.scan_key, body = excluded.body",
                [
                    (entry.transfer_partition_id, entry.scan_key, encode(entry))
                    for entry in checkpoints
                ],
            )
