"""How this package opens SQLite: explicit transactions, bounded waits, durable commits.

Pitfalls that the settings answer: a deferred BEGIN that reads first fails at once with a stale
snapshot, so every writer begins IMMEDIATE; the driver's own transaction handling is off; in
rollback-journal mode only `synchronous=EXTRA` syncs the directory after the journal is removed.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

LOCK_WAIT_S = 10.0
NOW_MS = "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)"


def connect(path: Path, *, lock_wait_s: float = LOCK_WAIT_S) -> sqlite3.Connection:
    """Open an existing database file for reading and writing.

    Raises `sqlite3.OperationalError` when it is missing: opening never creates.
    """
    uri = path.absolute().as_uri() + "?mode=rw"
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, timeout=lock_wait_s, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous=EXTRA")
    connection.execute("PRAGMA trusted_schema=OFF")
    return connection


def keep_rollback_file(connection: sqlite3.Connection) -> None:
    """Let this connection invalidate the rollback journal instead of removing it.

    As durable as removing it, without the two syncs of the directory; the setting is the
    connection's own. A file in WAL mode stays in it.
    """
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        connection.execute("PRAGMA journal_mode=PERSIST")


def create(path: Path) -> None:
    """Create an empty database file readable by its owner only, if there is none."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds what was asked for."""
    return _primary(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_full(error: sqlite3.Error) -> bool:
    """Whether the disk (or a quota) is full."""
    return _primary(error) == sqlite3.SQLITE_FULL


def is_read_only(error: sqlite3.Error) -> bool:
    """Whether the database cannot be written."""
    return _primary(error) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)


def is_forbidden(error: sqlite3.Error, path: Path) -> bool:
    """Whether the file could not be opened because this user may not."""
    return _primary(error) == sqlite3.SQLITE_CANTOPEN and not os.access(path, os.R_OK | os.W_OK)


def is_not_a_database(error: sqlite3.Error) -> bool:
    """Whether the file's bytes are not a usable database."""
    return _primary(error) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def cause_of(error: sqlite3.Error) -> str:
    """A short cause without paths: the driver's own words for it."""
    name = getattr(error, "sqlite_errorname", None)
    return f"{name}: {error}" if name else str(error)


def _primary(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
