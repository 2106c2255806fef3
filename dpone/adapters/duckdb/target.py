"""A DuckDB file as a fenced target: the fence lies in the same file as the data.

Promise: claim, change and fence commit together in one transaction of the file. The file is open
only while a call lasts, so that an idle process holds nobody up; who holds it during a change
holds its lock, and nothing is concluded while that process lives. Linearization point: COMMIT.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from dpone.adapters.duckdb.opening import LOCK_POLL_S, LOCK_WAIT_S, DuckdbFile, Settings
from dpone.adapters.duckdb.refusals import cause_of, is_held, refusal, refuse, unknown
from dpone.adapters.duckdb.rows import (
    Claim,
    below,
    claim_row,
    fence_row,
    finish_row,
    has_fence,
    stands,
    write_row,
)
from dpone.adapters.duckdb.transaction import DuckdbTransaction
from dpone.contracts.effects import Effect
from dpone.contracts.errors_fencing import ProtocolTooOld, TargetInvalid, TargetReadOnly
from dpone.contracts.fence import (
    Absent,
    Answer,
    Capability,
    Committed,
    CommitVerdict,
    Expired,
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

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS dpone_fence_meta(key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL)",
    "CREATE TABLE IF NOT EXISTS dpone_fence("
    " operation_id VARCHAR PRIMARY KEY, kind VARCHAR NOT NULL, epoch BIGINT NOT NULL,"
    " attempt_id VARCHAR NOT NULL, intent_digest VARCHAR NOT NULL, result VARCHAR NOT NULL,"
    " written_at TIMESTAMPTZ NOT NULL)",
)


class DuckdbTarget:
    """The target port on one DuckDB file.

    `settings` are DuckDB configuration values for every connection, such as memory_limit;
    `engine_kept` is `keeping` of `DuckdbFile`.
    """

    name = "duckdb"
    capability = Capability.TRANSACTIONAL
    store = ""

    def __init__(
        self,
        path: Path,
        *,
        identity: Callable[[Path], str],
        probe: Probe = quiet,
        lock_wait_s: float = LOCK_WAIT_S,
        settings: Settings | None = None,
        engine_kept: bool = False,
    ) -> None:
        self.path = path
        self.probe = probe
        self._file = DuckdbFile(path, settings, lock_wait_s, keeping=engine_kept)
        self._identity = identity

    # -- asking --------------------------------------------------------------------------------

    def ask(self, operation_id: str, floor: Floor | None) -> Answer:
        """What the fence shows."""
        if not self._present():
            return Answer(Absent())
        try:
            with self._file.glance() as connection:
                if not has_fence(connection):
                    return Answer(Absent())
                incarnation = self._incarnation(connection)
                if expired := below(connection, floor):
                    return Answer(expired, incarnation)
                row = fence_row(connection, operation_id)
        except duckdb.Error as error:
            refuse(error)
            return Answer(unknown(error))
        return Answer(verdict_of(row), incarnation)

    def install(self) -> str:
        """Create the fence tables where they are missing."""
        until = time.monotonic() + self._file.lock_wait_s
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            while True:
                try:
                    return self._install()
                except duckdb.TransactionException:
                    # Another thread of this process creates the same tables at this moment.
                    if time.monotonic() > until:
                        raise
                    time.sleep(LOCK_POLL_S)
        except (FileExistsError, NotADirectoryError) as error:
            raise TargetInvalid(target=self.name, cause="it lies below a file") from error
        except FileNotFoundError as error:
            cause = "its folder does not exist and cannot be made"
            raise TargetInvalid(target=self.name, cause=cause) from error
        except OSError as error:
            raise TargetReadOnly(target=self.name, cause=error.strerror or "error") from error
        except duckdb.Error as error:
            raise refusal(error) from error

    def _install(self) -> str:
        opened = self._file.glance() if self._present() else self._file.open()
        with opened as connection:
            connection.execute("BEGIN")
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute(
                "INSERT INTO dpone_fence_meta VALUES ('protocol', ?), ('incarnation', ?)"
                " ON CONFLICT DO NOTHING",
                [str(PROTOCOL), uuid.uuid4().hex],
            )
            connection.execute("COMMIT")
            return self._incarnation(connection)

    # -- contending ----------------------------------------------------------------------------

    def seal(self, unit: Unit) -> SealVerdict:
        """Contend for the file, then seal."""
        if not self._present():
            return Foreign("no file")
        try:
            with self._unit() as connection:
                if refused := self._refused(connection, unit):
                    return refused
                decision = seal(fence_row(connection, unit.operation_id), unit)
                if not isinstance(decision, Write):
                    return decision
                write_row(connection, unit, FenceKind.SEALED)
                connection.execute("COMMIT")
        except duckdb.Error as error:
            refuse(error)
            return unknown(error)
        return Sealed(unit.epoch, unit.attempt_id)

    def commit(self, unit: Unit, change: Change, also: Also | None = None) -> CommitVerdict:
        """Claim, change, commit. `also` does not apply: no journal lies in a DuckDB file."""
        assert also is None  # the store token is empty, so no journal can share the file
        entered = False
        if not self._present():
            return Foreign("no file")
        try:
            with self._unit() as connection:
                entered = True
                if refused := self._refused(connection, unit):
                    return refused
                decision = claim(fence_row(connection, unit.operation_id), unit)
                if not isinstance(decision, Write):
                    return decision
                with self.probe(Effect.FENCING_CLAIM):
                    claimed = claim_row(connection, unit)
                try:
                    receipt = self._change(connection, unit, change)
                    if not finish_row(connection, claimed, unit, receipt):
                        return _broken(connection, unit)
                except Exception as error:  # noqa: BLE001
                    # Whatever the change raised, the rollback proves that nothing stays.
                    stop_if_interrupted(error)
                    return _rejected(connection, unit, claimed, error)
                return self._commit(connection, receipt)
        except duckdb.Error as error:
            if entered:
                return unknown(error)
            refuse(error)
            return Rejected(cause_of(error), transient=True, error=error, held=is_held(error))

    def _change(self, connection: duckdb.DuckDBPyConnection, unit: Unit, change: Change) -> Receipt:
        with self.probe(Effect.FENCING_CHANGE):
            result = change(DuckdbTransaction(connection))
        return receipt_of(unit, result)

    def _commit(self, connection: duckdb.DuckDBPyConnection, receipt: Receipt) -> CommitVerdict:
        with self.probe(Effect.FENCING_COMMIT):
            try:
                connection.execute("COMMIT")
            except duckdb.ConstraintException as error:
                # Checked before anything is written: the transaction is rolled back whole.
                return Rejected(cause_of(error), error=error)
            except duckdb.Error as error:
                stop_if_interrupted(error)
                return Unknown(cause_of(error))
            except Exception as error:  # noqa: BLE001
                stop_if_interrupted(error)
                return Unknown(str(error) or type(error).__name__)
        return Committed(receipt)

    def end_sessions(self, operation_id: str, attempt_ids: Iterable[str]) -> int:
        """A file has no server sessions: the holder's own death frees the lock."""
        return 0

    # -- retention -----------------------------------------------------------------------------

    def shorten(self, operation_ids: Iterable[str]) -> int:
        """All but the result stays."""
        ids = list(operation_ids)
        with self._retaining() as connection, self.probe(Effect.FENCING_SHORTEN):
            rows = connection.execute(
                "UPDATE dpone_fence SET result = ''"
                " WHERE list_contains(?, operation_id) AND kind = 'committed'",
                [ids],
            ).fetchone()
            connection.execute("COMMIT")
        return int(rows[0]) if rows else 0

    def raise_floor(self, floor: Floor, operation_ids: Iterable[str]) -> int:
        """Raise the floor and remove the rows below it, together."""
        ids = list(operation_ids)
        with self._retaining() as connection, self.probe(Effect.FENCING_FLOOR):
            connection.execute(
                "INSERT INTO dpone_fence_meta VALUES (?, ?) ON CONFLICT(key)"
                " DO UPDATE SET value = greatest(value, excluded.value)",
                [f"floor:{floor.scope}", floor.position],
            )
            rows = connection.execute(
                "DELETE FROM dpone_fence WHERE list_contains(?, operation_id)", [ids]
            ).fetchone()
            connection.execute("COMMIT")
        return int(rows[0]) if rows else 0

    def close(self) -> None:
        """The file is not open between calls; an engine may be kept."""
        self._file.close()

    # -- access --------------------------------------------------------------------------------

    def _present(self) -> bool:
        """Whether there is a file. Raises when we may not even look."""
        try:
            return present(self.path)
        except OSError as error:
            raise TargetReadOnly(target=self.name, cause=error.strerror or "error") from error

    @contextmanager
    def _unit(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """An open transaction; closing the connection rolls back what was not committed."""
        with self._file.open() as connection:
            connection.execute("BEGIN")
            yield connection

    @contextmanager
    def _retaining(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A unit of retention: what the engine raises becomes an error with a type.

        A file without a fence has nothing to retain, and none is made for it.
        """
        if not self._present():
            raise TargetInvalid(target=self.name, cause="there is no file")
        try:
            with self._unit() as connection:
                if not has_fence(connection):
                    raise TargetInvalid(target=self.name, cause="it has no fence")
                yield connection
        except duckdb.Error as error:
            raise refusal(error) from error

    def _incarnation(self, connection: duckdb.DuckDBPyConnection) -> str:
        """The random id beside the fence, with the file's inode and birth time."""
        rows = dict(connection.execute("SELECT key, value FROM dpone_fence_meta").fetchall())
        if int(rows.get("protocol", 0)) > PROTOCOL:
            raise ProtocolTooOld(place="fence", found=rows["protocol"], ours=PROTOCOL)
        return f"{rows['incarnation']}@{self._identity(self.path)}"

    def _refused(
        self, connection: duckdb.DuckDBPyConnection, unit: Unit
    ) -> Foreign | Expired | None:
        """Claim and seal refuse another incarnation and what lies below the floor."""
        here = self._incarnation(connection) if has_fence(connection) else "no fence"
        if here != unit.incarnation:
            return Foreign(here)
        return below(connection, unit.floor)


def _rejected(
    connection: duckdb.DuckDBPyConnection, unit: Unit, claimed: Claim, error: Exception
) -> Rejected | Unknown:
    """Roll back; only the rollback of the transaction that claimed proves that nothing stays."""
    try:
        if not _aborted(connection, claimed) and not stands(connection, claimed):
            return _broken(connection, unit)
        connection.execute("ROLLBACK")
        row = fence_row(connection, unit.operation_id)
    except duckdb.Error as failed:
        return Unknown(cause_of(failed))
    if row is not None and row.kind == CLAIMED:
        return BROKEN
    cause = cause_of(error) if isinstance(error, duckdb.Error) else str(error)
    # A change may have asked for too little memory and know better next time.
    passing = isinstance(error, duckdb.OutOfMemoryException)
    return Rejected(cause or type(error).__name__, transient=passing, error=error)


def _aborted(connection: duckdb.DuckDBPyConnection, claimed: Claim) -> bool:
    """Whether a statement failed, after which the engine only takes a rollback."""
    try:
        stands(connection, claimed)
    except duckdb.TransactionException:
        return True
    return False


def _broken(connection: duckdb.DuckDBPyConnection, unit: Unit) -> Unknown:
    """Leave a claim that everybody sees: rows may stay, so that nobody may load them again."""
    with suppress(duckdb.Error):
        connection.execute("ROLLBACK")
    with suppress(duckdb.Error):
        connection.execute("BEGIN")
        if isinstance(claim(fence_row(connection, unit.operation_id), unit), Write):
            write_row(connection, unit, CLAIMED)
        connection.execute("COMMIT")
    return BROKEN
