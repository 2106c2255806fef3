"""A SQLite file as a fenced target: the fence lies in the same file as the data.

Promise: claim, change and fence commit together in one transaction of the file; a seal contends
for the file's write lock under a bounded wait. A paused holder keeps that lock, so nothing is
concluded while it lives. Linearization point: COMMIT of that transaction.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from dpone.adapters.sqlite.connection import (
    LOCK_WAIT_S,
    cause_of,
    connect,
    create,
    is_busy,
    is_forbidden,
    is_not_a_database,
    is_read_only,
)
from dpone.adapters.sqlite.rows import below as _below
from dpone.adapters.sqlite.rows import fence_row as _row
from dpone.adapters.sqlite.rows import finish_row as _finish
from dpone.adapters.sqlite.rows import has_fence as _has_fence
from dpone.adapters.sqlite.rows import write_row as _write
from dpone.adapters.sqlite.transaction import SqliteTransaction, forbidding
from dpone.contracts.effects import Effect
from dpone.contracts.errors_fencing import (
    ProtocolTooOld,
    TargetHeld,
    TargetInvalid,
    TargetReadOnly,
    TargetUnreachable,
    TransactionControl,
)
from dpone.contracts.fence import (
    Absent,
    Answer,
    Capability,
    Committed,
    CommitVerdict,
    Expired,
    Fenced,
    FenceKind,
    Floor,
    Foreign,
    Receipt,
    Rejected,
    Sealed,
    SealVerdict,
    Unit,
    Unknown,
)
from dpone.contracts.fence_rules import (
    BROKEN,
    CLAIMED,
    Write,
    claim,
    receipt_of,
    seal,
    verdict_of,
)
from dpone.ports.interrupts import stop_if_interrupted
from dpone.ports.places import present
from dpone.ports.probe import Probe, quiet
from dpone.ports.target import Also, Change

PROTOCOL = 1
COMMIT_WAIT_S = 10.0

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS dpone_fence_meta(key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS dpone_fence("
    " operation_id TEXT PRIMARY KEY, kind TEXT NOT NULL, epoch INTEGER NOT NULL,"
    " attempt_id TEXT NOT NULL, intent_digest TEXT NOT NULL, result TEXT NOT NULL,"
    " at_ms INTEGER NOT NULL) WITHOUT ROWID",
)


class SqliteTarget:
    """The target port on one SQLite file. One connection; not shared between threads at once."""

    name = "sqlite"
    capability = Capability.TRANSACTIONAL

    def __init__(
        self,
        path: Path,
        *,
        identity: Callable[[Path], str],
        probe: Probe = quiet,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> None:
        self.path = path
        self.probe = probe
        self.lock_wait_s = lock_wait_s
        self._identity = identity
        self._connection: sqlite3.Connection | None = None
        self._opened_identity = ""
        self.store = f"sqlite:{path.absolute()}"

    # -- asking --------------------------------------------------------------------------------

    def ask(self, operation_id: str, floor: Floor | None) -> Answer:
        """What the fence shows."""
        if not self._present():
            return Answer(Absent())
        try:
            connection = self._open()
            if not _has_fence(connection):
                return Answer(Absent())
            connection.execute("BEGIN")
            try:
                incarnation = self._incarnation(connection)
                if expired := _below(connection, floor):
                    return Answer(expired, incarnation)
                row = _row(connection, operation_id)
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            self._refuse(error)
            return Answer(Unknown(cause_of(error), held=is_busy(error)))
        return Answer(verdict_of(row), incarnation)

    def install(self) -> str:
        """Create the fence tables where they are missing."""
        try:
            create(self.path)
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute(
                    "INSERT INTO dpone_fence_meta VALUES ('protocol', ?), ('incarnation', ?)"
                    " ON CONFLICT DO NOTHING",
                    (str(PROTOCOL), uuid.uuid4().hex),
                )
                connection.execute("COMMIT")
            except BaseException:
                _rollback(connection)
                raise
            return self._incarnation(connection)
        except (FileExistsError, NotADirectoryError) as error:
            raise TargetInvalid(target=self.name, cause="it lies below a file") from error
        except FileNotFoundError as error:
            cause = "its folder does not exist and cannot be made"
            raise TargetInvalid(target=self.name, cause=cause) from error
        except OSError as error:
            raise TargetReadOnly(target=self.name, cause=error.strerror or "error") from error
        except sqlite3.Error as error:
            self._raise(error)

    def _raise(self, error: sqlite3.Error) -> NoReturn:
        self._refuse(error)
        kind = TargetHeld if is_busy(error) else TargetUnreachable
        raise kind(target=self.name, cause=cause_of(error)) from error

    def _refuse(self, error: sqlite3.Error) -> None:
        """Raise what a person must mend; return for what may pass. No COMMIT was tried."""
        cause = cause_of(error)
        locked_out = is_forbidden(error, self.path)
        if locked_out or (is_read_only(error) and "DBMOVED" not in cause):
            raise TargetReadOnly(target=self.name, cause=cause) from error
        if is_not_a_database(error) or self.path.is_dir():
            raise TargetInvalid(target=self.name, cause=cause) from error

    # -- contending ----------------------------------------------------------------------------

    def seal(self, unit: Unit) -> SealVerdict:
        """Contend for the file's write lock, then seal."""
        if not self._present():
            return Foreign("no file")
        try:
            with self._unit() as connection:
                if refused := self._refused(connection, unit):
                    return refused
                decision = seal(_row(connection, unit.operation_id), unit)
                if not isinstance(decision, Write):
                    return decision
                _write(connection, unit, FenceKind.SEALED)
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._refuse(error)
            return Unknown(cause_of(error), held=is_busy(error))
        return Sealed(unit.epoch, unit.attempt_id)

    def commit(self, unit: Unit, change: Change, also: Also | None = None) -> CommitVerdict:
        """Claim, change, commit."""
        entered = False
        if not self._present():
            return Foreign("no file")
        try:
            with self._unit() as connection:
                entered = True
                if refused := self._refused(connection, unit):
                    return refused
                decision = claim(_row(connection, unit.operation_id), unit)
                if not isinstance(decision, Write):
                    return decision
                with self.probe(Effect.FENCING_CLAIM):
                    _write(connection, unit, CLAIMED)
                try:
                    receipt = self._change(connection, unit, change)
                    if not _finish(connection, unit, receipt):
                        return BROKEN
                    joined = also is None or also(connection, receipt)
                except Exception as error:  # noqa: BLE001
                    # Whatever the change raised, the rollback below proves that nothing stays.
                    stop_if_interrupted(error)
                    return _rejected(connection, error)
                if not joined:
                    return Fenced(unit.epoch)
                return self._commit(connection, receipt)
        except sqlite3.Error as error:
            if is_busy(error):
                # The file's write lock is taken first: without it nothing began.
                return Rejected(cause_of(error), transient=True, error=error, held=not entered)
            self._refuse(error)
            return Unknown(cause_of(error))

    def _change(self, connection: sqlite3.Connection, unit: Unit, change: Change) -> Receipt:
        with self.probe(Effect.FENCING_CHANGE), forbidding(connection) as denied:
            result = change(SqliteTransaction(connection, denied))
        if not connection.in_transaction:
            raise TransactionControl(statement="ROLLBACK")
        return receipt_of(unit, result)

    def _commit(self, connection: sqlite3.Connection, receipt: Receipt) -> CommitVerdict:
        """COMMIT, again while readers are in the way; rolled back by us means not applied."""
        until = time.monotonic() + COMMIT_WAIT_S
        with self.probe(Effect.FENCING_COMMIT):
            while True:
                try:
                    connection.execute("COMMIT")
                    break
                except sqlite3.Error as error:
                    stop_if_interrupted(error)
                    if not is_busy(error) or not connection.in_transaction:
                        return Unknown(cause_of(error))
                    if time.monotonic() > until:
                        return _rejected(connection, error, transient=True)
                except Exception as error:  # noqa: BLE001
                    return Unknown(str(error) or type(error).__name__)
        return Committed(receipt)

    def end_sessions(self, operation_id: str, attempt_ids: Iterable[str]) -> int:
        """A file has no server sessions: the holder's own death frees the lock."""
        return 0

    # -- retention -----------------------------------------------------------------------------

    def shorten(self, operation_ids: Iterable[str]) -> int:
        """All but the result stays."""
        with self._retaining() as connection, self.probe(Effect.FENCING_SHORTEN):
            changed = connection.executemany(
                "UPDATE dpone_fence SET result = '' WHERE operation_id = ? AND kind = 'committed'",
                [(operation_id,) for operation_id in operation_ids],
            ).rowcount
            connection.execute("COMMIT")
        return changed

    def raise_floor(self, floor: Floor, operation_ids: Iterable[str]) -> int:
        """Raise the floor and remove the rows below it, together."""
        with self._retaining() as connection, self.probe(Effect.FENCING_FLOOR):
            connection.execute(
                "INSERT INTO dpone_fence_meta VALUES (?, ?) ON CONFLICT(key)"
                " DO UPDATE SET value = max(value, excluded.value)",
                (f"floor:{floor.scope}", floor.position),
            )
            removed = connection.executemany(
                "DELETE FROM dpone_fence WHERE operation_id = ?",
                [(operation_id,) for operation_id in operation_ids],
            ).rowcount
            connection.execute("COMMIT")
        return removed

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- access --------------------------------------------------------------------------------

    def _present(self) -> bool:
        """Whether there is a file. Raises when we may not even look."""
        try:
            return present(self.path)
        except OSError as error:
            raise TargetReadOnly(target=self.name, cause=error.strerror or "error") from error

    def _open(self) -> sqlite3.Connection:
        """The connection, opened anew when the name now means another file."""
        identity = self._identity(self.path)
        if self._connection is not None and identity != self._opened_identity:
            self.close()
        if self._connection is None:
            self._connection = connect(self.path, lock_wait_s=self.lock_wait_s)
            self._opened_identity = identity
        return self._connection

    @contextmanager
    def _unit(self) -> Iterator[sqlite3.Connection]:
        """An open write transaction, rolled back unless the body committed it."""
        connection = self._open()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        finally:
            _rollback(connection)

    @contextmanager
    def _retaining(self) -> Iterator[sqlite3.Connection]:
        """A unit of retention: what the driver raises becomes an error with a type.

        A file without a fence has nothing to retain, and none is made for it.
        """
        if not self._present():
            raise TargetInvalid(target=self.name, cause="there is no file")
        try:
            with self._unit() as connection:
                if not _has_fence(connection):
                    raise TargetInvalid(target=self.name, cause="it has no fence")
                yield connection
        except sqlite3.Error as error:
            self._raise(error)

    def _incarnation(self, connection: sqlite3.Connection) -> str:
        """The random id beside the fence, with the file's inode and birth time."""
        rows = dict(
            connection.execute(
                "SELECT key, value FROM dpone_fence_meta WHERE key IN ('protocol', 'incarnation')"
            ).fetchall()
        )
        if int(rows.get("protocol", 0)) > PROTOCOL:
            raise ProtocolTooOld(place="fence", found=rows["protocol"], ours=PROTOCOL)
        return f"{rows['incarnation']}@{self._opened_identity}"

    def _refused(self, connection: sqlite3.Connection, unit: Unit) -> Foreign | Expired | None:
        """Claim and seal refuse another incarnation and what lies below the floor."""
        here = self._incarnation(connection) if _has_fence(connection) else "no fence"
        if here != unit.incarnation or self._identity(self.path) != self._opened_identity:
            return Foreign(here)
        return _below(connection, unit.floor)


def _rollback(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _rejected(
    connection: sqlite3.Connection, error: Exception, *, transient: bool = False
) -> Rejected | Unknown:
    """Roll back; only a rollback that worked proves that nothing was applied."""
    if not connection.in_transaction:
        return Unknown("the change ended the transaction of the fence")
    try:
        connection.execute("ROLLBACK")
    except sqlite3.Error as failed:
        return Unknown(cause_of(failed))
    cause = cause_of(error) if isinstance(error, sqlite3.Error) else str(error)
    return Rejected(cause or type(error).__name__, transient=transient, error=error)
