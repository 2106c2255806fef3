"""The embedded journal: one SQLite file.

Promise: a write is durable when it returns, appends to the history in the same transaction, and
is refused when version or attempt id differ. A full disk leaves earlier rows as they are. Not
promised: use over a network file system (refused) or by several machines.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from dpone.adapters.sqlite.connection import (
    LOCK_WAIT_S,
    NOW_MS,
    cause_of,
    connect,
    create,
    is_not_a_database,
    keep_rollback_file,
)
from dpone.contracts.codec import encode
from dpone.contracts.errors_fencing import (
    JournalInvalid,
    JournalNetworkFilesystem,
    JournalUnavailable,
    ProtocolTooOld,
)
from dpone.contracts.journal import (
    HistoryRow,
    JournalEntry,
    Step,
    body_of,
    entry_of,
    history_row_of,
)
from dpone.ports.places import present

PROTOCOL = 1
PAGE_MAX = 1000

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS dpone_journal_meta(key TEXT PRIMARY KEY, value TEXT NOT NULL)"
    " STRICT, WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS dpone_journal("
    " operation_id TEXT PRIMARY KEY, family TEXT NOT NULL, route TEXT NOT NULL,"
    " state TEXT NOT NULL, version INTEGER NOT NULL, attempt_id TEXT NOT NULL,"
    " lease_until_ms INTEGER NOT NULL, created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,"
    " body TEXT NOT NULL) STRICT",
    "CREATE INDEX IF NOT EXISTS dpone_journal_family ON dpone_journal(family)",
    "CREATE INDEX IF NOT EXISTS dpone_journal_recent ON dpone_journal(updated_ms, operation_id)",
    "CREATE TABLE IF NOT EXISTS dpone_journal_history("
    " operation_id TEXT NOT NULL, version INTEGER NOT NULL, event TEXT NOT NULL,"
    " source TEXT NOT NULL, target TEXT NOT NULL, attempt INTEGER NOT NULL,"
    " attempt_id TEXT NOT NULL, at_ms INTEGER NOT NULL, detail TEXT NOT NULL,"
    " PRIMARY KEY(operation_id, version)) STRICT, WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS dpone_checkpoint(key TEXT PRIMARY KEY, scan_key TEXT NOT NULL,"
    " body TEXT NOT NULL) STRICT",
    "CREATE INDEX IF NOT EXISTS dpone_checkpoint_scan ON dpone_checkpoint(scan_key)",
)
_COLUMNS = f"body, lease_until_ms - {NOW_MS}, created_ms, updated_ms"


class SqliteJournal:
    """The journal port on one file. Thread-safe; one connection."""

    def __init__(
        self,
        path: Path,
        *,
        filesystem: Callable[[Path], tuple[str, bool]] | None = None,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> None:
        self.path = path
        self.lock_wait_s = lock_wait_s
        self._filesystem = filesystem
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self.store = f"sqlite:{path.absolute()}"

    # -- the port ------------------------------------------------------------------------------

    def read(self, operation_id: str) -> JournalEntry | None:
        """The current row, or None."""
        rows = self._rows("WHERE operation_id = ?", (operation_id,))
        return rows[0] if rows else None

    def family(self, family: str) -> list[JournalEntry]:
        """All revisions of one operation, by revision."""
        rows = self._rows("WHERE family = ?", (family,))
        return sorted(rows, key=lambda row: row.revision)

    def create(self, entry: JournalEntry, steps: Sequence[Step], lease_s: float) -> bool:
        """Insert row and history, or return False when the row exists."""
        with self.transaction() as connection:
            inserted = connection.execute(
                "INSERT INTO dpone_journal VALUES (?, ?, ?, ?, ?, ?, "
                f"{NOW_MS} + ?, {NOW_MS}, {NOW_MS}, ?) ON CONFLICT DO NOTHING",
                (
                    entry.operation_id,
                    entry.family,
                    entry.route,
                    entry.state,
                    entry.version,
                    entry.attempt_id,
                    int(lease_s * 1000),
                    body_of(entry),
                ),
            ).rowcount
            if inserted:
                _append(connection, entry, steps)
        return bool(inserted)

    def advance(
        self, before: JournalEntry, after: JournalEntry, steps: Sequence[Step], lease_s: float = 0.0
    ) -> bool:
        """Compare-and-set on version and attempt id."""
        with self.transaction() as connection:
            return _advance(connection, before, after, steps, lease_s)

    def advance_within(
        self, unit: Any, before: JournalEntry, after: JournalEntry, steps: Sequence[Step]
    ) -> bool:
        """Compare-and-set inside a transaction of the same file."""
        return _advance(unit, before, after, steps, 0.0)

    def renew(self, operation_id: str, attempt_id: str, lease_s: float) -> bool:
        """Extend the lease."""
        with self.transaction() as connection:
            changed = connection.execute(
                f"UPDATE dpone_journal SET lease_until_ms = {NOW_MS} + ?"
                " WHERE operation_id = ? AND attempt_id = ?",
                (int(lease_s * 1000), operation_id, attempt_id),
            ).rowcount
        return bool(changed)

    def history(self, operation_id: str) -> list[HistoryRow]:
        """Oldest first."""
        with self.reading() as connection:
            if connection is None:
                return []
            rows = connection.execute(
                "SELECT operation_id, version, event, source, target, attempt, attempt_id, at_ms,"
                " detail FROM dpone_journal_history WHERE operation_id = ? ORDER BY version",
                (operation_id,),
            ).fetchall()
        return [history_row_of(*row) for row in rows]

    def page(
        self, *, after: str = "", limit: int = 100, route: str = "", states: Sequence[str] = ()
    ) -> list[JournalEntry]:
        """Most recently changed first."""
        clauses, values = ["1"], []
        if after:
            clauses.append(
                "(updated_ms, operation_id) < (SELECT updated_ms, operation_id"
                " FROM dpone_journal WHERE operation_id = ?)"
            )
            values.append(after)
        if route:
            clauses.append("route = ?")
            values.append(route)
        if states:
            clauses.append(f"state IN ({','.join('?' * len(states))})")
            values.extend(states)
        where = "WHERE " + " AND ".join(clauses)
        tail = f" ORDER BY updated_ms DESC, operation_id DESC LIMIT {min(limit, PAGE_MAX)}"
        return self._rows(where + tail, tuple(values))

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    # -- access --------------------------------------------------------------------------------

    def _rows(self, tail: str, values: tuple[Any, ...]) -> list[JournalEntry]:
        with self.reading() as connection:
            if connection is None:
                return []
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM dpone_journal {tail}", values
            ).fetchall()
        return [entry_of(*row) for row in rows]

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """The connection, or None while there is no journal: reading creates nothing."""
        with self._lock:
            try:
                yield self._open(writing=False)
            except sqlite3.Error as error:
                _unavailable(error)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction of the store, committed at the end of the block."""
        with self._lock:
            try:
                connection = self._open(writing=True)
                assert connection is not None  # writing=True creates the file
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                _unavailable(error)

    def _open(self, *, writing: bool) -> sqlite3.Connection | None:
        if self._connection is None:
            try:
                if not writing and not present(self.path):
                    return None
                self._check_filesystem()
                create(self.path)
            except PermissionError as error:
                # No later run of this user would fare better.
                raise JournalInvalid(cause=(error.strerror or "error").lower()) from error
            except OSError as error:
                raise JournalUnavailable(cause=error.strerror or "error", known=_NOTHING) from error
            connection = connect(self.path, lock_wait_s=self.lock_wait_s)
            keep_rollback_file(connection)
            try:
                absent = not writing and not _has_journal(connection)
                if not absent:
                    _prepare(connection)
            except BaseException:
                connection.close()
                raise
            if absent:
                connection.close()
                return None
            self._connection = connection
        return self._connection

    def _check_filesystem(self) -> None:
        if self._filesystem is None:
            return
        kind, network = self._filesystem(self.path)
        if network:
            raise JournalNetworkFilesystem(filesystem=kind)


_NOTHING = "Nothing was written by this step."


def _has_journal(connection: sqlite3.Connection) -> bool:
    found = connection.execute(
        "SELECT count(*) FROM sqlite_schema WHERE name = 'dpone_journal_meta'"
    ).fetchone()
    return bool(found[0])


def _prepare(connection: sqlite3.Connection) -> None:
    """Create what is missing and refuse a journal of a newer protocol."""
    if not _has_journal(connection):
        connection.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute(
            "INSERT INTO dpone_journal_meta VALUES ('protocol', ?) ON CONFLICT DO NOTHING",
            (str(PROTOCOL),),
        )
        connection.execute("COMMIT")
    row = connection.execute(
        "SELECT value FROM dpone_journal_meta WHERE key = 'protocol'"
    ).fetchone()
    if row is None or not row[0].isdigit():
        raise JournalInvalid(cause="it names no protocol version")
    if int(row[0]) > PROTOCOL:
        raise ProtocolTooOld(place="journal", found=row[0], ours=PROTOCOL)


def _advance(
    connection: sqlite3.Connection,
    before: JournalEntry,
    after: JournalEntry,
    steps: Sequence[Step],
    lease_s: float,
) -> bool:
    changed = connection.execute(
        "UPDATE dpone_journal SET state = ?, version = ?, attempt_id = ?, "
        f"lease_until_ms = {NOW_MS} + ?, updated_ms = {NOW_MS}, body = ?"
        " WHERE operation_id = ? AND version = ? AND attempt_id = ?",
        (
            after.state,
            after.version,
            after.attempt_id,
            int(lease_s * 1000),
            body_of(after),
            before.operation_id,
            before.version,
            before.attempt_id,
        ),
    ).rowcount
    if changed:
        _append(connection, after, steps)
    return bool(changed)


def _append(connection: sqlite3.Connection, after: JournalEntry, steps: Sequence[Step]) -> None:
    first = after.version - len(steps) + 1
    connection.executemany(
        f"INSERT INTO dpone_journal_history VALUES (?, ?, ?, ?, ?, ?, ?, {NOW_MS}, ?)",
        [
            (
                after.operation_id,
                first + index,
                step.event,
                step.source,
                step.target,
                after.attempt,
                after.attempt_id,
                encode(step.detail),
            )
            for index, step in enumerate(steps)
        ],
    )


def _unavailable(error: sqlite3.Error) -> NoReturn:
    if is_not_a_database(error):
        raise JournalInvalid(cause=cause_of(error)) from error
    raise JournalUnavailable(cause=cause_of(error), known=_NOTHING) from error
