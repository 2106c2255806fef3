"""The journal that several machines share: tables in a PostgreSQL database.

Promise: each write is one statement and one transaction with synchronous commit; version and
attempt id are compared in it, and the history is appended by it. No session state is used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg

from dpone.adapters.postgres.wire import (
    DsnInvalid,
    Row,
    Wire,
    cause_of,
    is_authentication,
    is_no_database,
)
from dpone.contracts.codec import encode
from dpone.contracts.errors_fencing import (
    JournalInvalid,
    JournalUnavailable,
    ProtocolTooOld,
    TargetAuthentication,
)
from dpone.contracts.journal import (
    HistoryRow,
    JournalEntry,
    Step,
    body_of,
    entry_of,
    history_row_of,
)

PROTOCOL = 1
PAGE_MAX = 1000
ABORTED_TRIES_MAX = 5
_NOTHING = "Nothing was written by this step, as far as is known."
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_SCHEMA = """
BEGIN;
SELECT pg_advisory_xact_lock(6079413221);
CREATE TABLE IF NOT EXISTS dpone_journal_meta(key text PRIMARY KEY, value text NOT NULL);
CREATE TABLE IF NOT EXISTS dpone_journal(
 operation_id text PRIMARY KEY, family text NOT NULL, route text NOT NULL, state text NOT NULL,
 version bigint NOT NULL, attempt_id text NOT NULL, lease_until_ms bigint NOT NULL,
 created_ms bigint NOT NULL, updated_ms bigint NOT NULL, body text NOT NULL);
CREATE INDEX IF NOT EXISTS dpone_journal_family ON dpone_journal(family);
CREATE INDEX IF NOT EXISTS dpone_journal_recent ON dpone_journal(updated_ms, operation_id);
CREATE TABLE IF NOT EXISTS dpone_journal_history(
 operation_id text NOT NULL, version bigint NOT NULL, event text NOT NULL, source text NOT NULL,
 target text NOT NULL, attempt bigint NOT NULL, attempt_id text NOT NULL, at_ms bigint NOT NULL,
 detail text NOT NULL, PRIMARY KEY(operation_id, version));
CREATE TABLE IF NOT EXISTS dpone_checkpoint(
 key text PRIMARY KEY, scan_key text NOT NULL, body text NOT NULL);
CREATE INDEX IF NOT EXISTS dpone_checkpoint_scan ON dpone_checkpoint(scan_key);
INSERT INTO dpone_journal_meta VALUES ('protocol', '1') ON CONFLICT DO NOTHING;
COMMIT;
"""
_COLUMNS = f"body, lease_until_ms - {_NOW}, created_ms, updated_ms"
_HISTORY = (
    "INSERT INTO dpone_journal_history SELECT j.operation_id, x.version, x.event, x.source,"
    f" x.target, x.attempt, x.attempt_id, {_NOW}, x.detail FROM j CROSS JOIN"
    " jsonb_to_recordset({place}::jsonb) AS x(version bigint, event text, source text,"
    " target text, attempt bigint, attempt_id text, detail text)"
)
# The setting must be read by something, or the planner drops it; the row comes from it.
# A row may be held by an open unit of a target in the same database: the wait has a bound, that
# of the session where it has one.
_SYNCED = (
    "s AS (SELECT set_config('synchronous_commit', 'on', true) AS mode, set_config('lock_timeout',"
    " CASE current_setting('lock_timeout') WHEN '0' THEN '10s' ELSE current_setting('lock_timeout')"
    " END, true) AS wait)"
)
_CREATE = (
    f"WITH {_SYNCED}, j AS (INSERT INTO dpone_journal SELECT $1, $2, $3, $4, $5::bigint, $6,"
    f" {_NOW} + $7::bigint, {_NOW}, {_NOW}, $8 FROM s WHERE mode = 'on' AND wait <> ''"
    " ON CONFLICT DO NOTHING RETURNING operation_id), "
    f"h AS ({_HISTORY.format(place='$9')}) SELECT count(*) FROM j"
)
_ADVANCE = (
    f"WITH {_SYNCED}, j AS (UPDATE dpone_journal SET state = $1, version = $2::bigint,"
    f" attempt_id = $3, lease_until_ms = {_NOW} + $4::bigint, updated_ms = {_NOW}, body = $5"
    " FROM s WHERE mode = 'on' AND wait <> '' AND operation_id = $6 AND version = $7::bigint"
    " AND attempt_id = $8 RETURNING operation_id), "
    f"h AS ({_HISTORY.format(place='$9')}) SELECT count(*) FROM j"
)
T = TypeVar("T")


class PostgresJournal:
    """The journal port on one connection, which messages name. Thread-safe."""

    def __init__(self, dsn: str, *, connection: str = "journal") -> None:
        self.wire = Wire(dsn)
        self.declared = connection
        self._lock = threading.RLock()
        self._store = ""
        self._checked = False

    @property
    def store(self) -> str:
        """Server, database and schema; empty while they cannot be told."""
        if not self._store:
            with self._lock:
                try:
                    self._store = store_of(self.wire)
                except psycopg.Error:
                    return ""
        return self._store

    # -- the port ------------------------------------------------------------------------------

    def read(self, operation_id: str) -> JournalEntry | None:
        """The current row, or None."""
        rows = self._rows("WHERE operation_id = $1", operation_id)
        return rows[0] if rows else None

    def family(self, family: str) -> list[JournalEntry]:
        """All revisions of one operation, by revision."""
        return sorted(self._rows("WHERE family = $1", family), key=lambda row: row.revision)

    def create(self, entry: JournalEntry, steps: Sequence[Step], lease_s: float) -> bool:
        """Insert row and history, or return False when the row exists."""
        return self.write(
            _CREATE,
            entry.operation_id,
            entry.family,
            entry.route,
            entry.state,
            entry.version,
            entry.attempt_id,
            int(lease_s * 1000),
            body_of(entry),
            _steps(entry, steps),
        )

    def advance(
        self, before: JournalEntry, after: JournalEntry, steps: Sequence[Step], lease_s: float = 0.0
    ) -> bool:
        """Compare-and-set on version and attempt id."""
        return self.write(_ADVANCE, *_advance_values(before, after, steps, lease_s))

    def advance_within(
        self, unit: Any, before: JournalEntry, after: JournalEntry, steps: Sequence[Step]
    ) -> bool:
        """Compare-and-set inside the transaction that `unit`, a `Wire`, has open."""
        rows = unit.planned(_ADVANCE, *_advance_values(before, after, steps, 0.0))
        return bool(rows[0][0] != "0")

    def renew(self, operation_id: str, attempt_id: str, lease_s: float) -> bool:
        """Extend the lease."""
        return self.write(
            f"WITH j AS (UPDATE dpone_journal SET lease_until_ms = {_NOW} + $1::bigint"
            " WHERE operation_id = $2 AND attempt_id = $3 RETURNING 1) SELECT count(*) FROM j",
            int(lease_s * 1000),
            operation_id,
            attempt_id,
        )

    def history(self, operation_id: str) -> list[HistoryRow]:
        """Oldest first."""
        rows = self.select(
            "SELECT operation_id, version, event, source, target, attempt, attempt_id, at_ms,"
            " detail FROM dpone_journal_history WHERE operation_id = $1 ORDER BY version",
            operation_id,
        )
        return [_history_row(*row) for row in rows]

    def page(
        self, *, after: str = "", limit: int = 100, route: str = "", states: Sequence[str] = ()
    ) -> list[JournalEntry]:
        """Most recently changed first."""
        return self._rows(
            "WHERE ($1 = '' OR (updated_ms, operation_id) < (SELECT updated_ms, operation_id"
            " FROM dpone_journal WHERE operation_id = $1)) AND ($2 = '' OR route = $2)"
            " AND ($3 = '' OR state = ANY(string_to_array($3, ',')))"
            " ORDER BY updated_ms DESC, operation_id DESC LIMIT $4::bigint",
            after,
            route,
            ",".join(states),
            min(limit, PAGE_MAX),
        )

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self.wire.close()

    # -- access --------------------------------------------------------------------------------

    def _rows(self, tail: str, *values: str | int) -> list[JournalEntry]:
        rows = self.select(f"SELECT {_COLUMNS} FROM dpone_journal {tail}", *values)
        return [_entry(*row) for row in rows]

    def select(self, sql: str, *values: str | int) -> list[Row]:
        """Rows, or none while there is no journal: reading creates nothing."""

        def run() -> list[Row]:
            try:
                self._check()
                return self.wire.planned(sql, *values)
            except psycopg.errors.UndefinedTable:
                return []

        return self._call(run)

    def write(self, sql: str, *values: str | int) -> bool:
        """Run one writing statement that returns a count; whether it is 1 or more."""

        def run() -> bool:
            try:
                self._check()
            except psycopg.errors.UndefinedTable:
                self.wire.rollback()
                self.wire.script(_SCHEMA)
            for _ in range(ABORTED_TRIES_MAX):
                try:
                    return self.wire.planned(sql, *values)[0][0] != "0"
                except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                    # One statement, one transaction: the server aborted it whole.
                    continue
            return self.wire.planned(sql, *values)[0][0] != "0"

        return self._call(run)

    def _check(self) -> None:
        """Refuse a journal of a newer protocol, once for each connection object."""
        if self._checked:
            return
        rows = self.wire.query("SELECT value FROM dpone_journal_meta WHERE key = 'protocol'")
        found = rows[0][0] if rows else None
        if found is None or not found.isdigit():
            raise JournalInvalid(cause="it names no protocol version")
        if int(found) > PROTOCOL:
            raise ProtocolTooOld(place="journal", found=found, ours=PROTOCOL)
        self._checked = True

    def _call(self, run: Callable[[], T]) -> T:
        with self._lock:
            try:
                return run()
            except psycopg.Error as error:
                if is_authentication(error):
                    kind = TargetAuthentication
                    raise kind(target="journal", connection=self.declared) from None
                if isinstance(error, DsnInvalid) or is_no_database(error):
                    raise JournalInvalid(cause=cause_of(error)) from error
                raise JournalUnavailable(cause=cause_of(error), known=_NOTHING) from error


def store_of(wire: Wire) -> str:
    """Token of server, database and schema."""
    row = wire.query(
        "SELECT (SELECT system_identifier FROM pg_control_system()), current_database(),"
        " current_schema()"
    )[0]
    return "postgres:" + "/".join(part or "" for part in row)


def _advance_values(
    before: JournalEntry, after: JournalEntry, steps: Sequence[Step], lease_s: float
) -> tuple[str | int, ...]:
    return (
        after.state,
        after.version,
        after.attempt_id,
        int(lease_s * 1000),
        body_of(after),
        before.operation_id,
        before.version,
        before.attempt_id,
        _steps(after, steps),
    )


def _steps(after: JournalEntry, steps: Sequence[Step]) -> str:
    first = after.version - len(steps) + 1
    return encode(
        [
            {
                "version": first + index,
                "event": step.event,
                "source": step.source,
                "target": step.target,
                "attempt": after.attempt,
                "attempt_id": after.attempt_id,
                "detail": encode(step.detail),
            }
            for index, step in enumerate(steps)
        ]
    )


def _entry(
    body: str | None, lease_left: str | None, created: str | None, updated: str | None
) -> JournalEntry:
    return entry_of(body or "", int(lease_left or 0), int(created or 0), int(updated or 0))


def _history_row(*row: str | None) -> HistoryRow:
    text = [value or "" for value in row]
    return history_row_of(
        text[0],
        int(text[1]),
        text[2],
        text[3],
        text[4],
        int(text[5]),
        text[6],
        int(text[7]),
        text[8],
    )
