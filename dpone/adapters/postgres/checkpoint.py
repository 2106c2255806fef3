"""Checkpoints in the PostgreSQL journal's database."""

from __future__ import annotations

from collections.abc import Sequence

from dpone.adapters.postgres.journal import PostgresJournal
from dpone.contracts.checkpoint import Checkpoint
from dpone.contracts.codec import decode, encode


class PostgresCheckpoints:
    """The checkpoint port, on the connection of a journal."""

    def __init__(self, journal: PostgresJournal) -> None:
        self.journal = journal

    def scan(self, scan_key: str) -> list[Checkpoint]:
        """By partition id."""
        rows = self.journal.select(
            "SELECT body FROM dpone_checkpoint WHERE scan_key = $1 ORDER BY key", scan_key
        )
        return [decode(row[0] or "", Checkpoint) for row in rows]

    def read(self, transfer_partition_id: str) -> Checkpoint | None:
        """One checkpoint."""
        rows = self.journal.select(
            "SELECT body FROM dpone_checkpoint WHERE key = $1", transfer_partition_id
        )
        return decode(rows[0][0] or "", Checkpoint) if rows else None

    def write(self, checkpoints: Sequence[Checkpoint]) -> None:
        """All or none: one statement."""
        rows = [
            {"key": entry.transfer_partition_id, "scan_key": entry.scan_key, "body": encode(entry)}
            for entry in checkpoints
        ]
        self.journal.write(
            "WITH s AS (SELECT set_config('synchronous_commit', 'on', true) AS mode), j AS ("
            "INSERT INTO dpone_checkpoint SELECT x.key, x.scan_key, x.body FROM s CROSS JOIN"
            " json_to_recordset($1::json) AS x(key text, scan_key text, body text)"
            " WHERE s.mode = 'on' ON CONFLICT (key) DO UPDATE SET"
            " scan_key = excluded.scan_key, body = excluded.body RETURNING 1)"
            " SELECT count(*) FROM j",
            encode(rows),
        )
