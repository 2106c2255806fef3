"""A PostgreSQL database as a fenced target: the fence lies in the same database as the data.

Promise: claim, change and fence commit together in one transaction with synchronous commit; a
seal contends with a claim on the fence's primary key under a bounded wait. Only a COMMIT whose
command tag came back, or a fence that shows it, is called committed. Linearization point: COMMIT.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NoReturn

import psycopg

from dpone.adapters.postgres.fence_sql import (
    ASK,
    CLAIM_FIRST,
    CLAIM_SEALED,
    END_SESSIONS,
    FINISH,
    FLOOR_RAISE,
    FLOOR_REMOVE,
    INCARNATION,
    LOOK,
    PROTOCOL,
    SCHEMA,
    SEAL,
    SHORTEN,
    owners_statement,
)
from dpone.adapters.postgres.transaction import PostgresTransaction
from dpone.adapters.postgres.verdicts import (
    BEGUN,
    change_failed,
    commit_failed,
    fence_of,
    is_held,
    only_value,
    session_name,
    stands,
    values_of,
)
from dpone.adapters.postgres.wire import (
    DsnInvalid,
    Wire,
    cause_of,
    identifier,
    is_authentication,
    is_no_database,
    literal,
)
from dpone.contracts.codec import encode
from dpone.contracts.effects import Effect
from dpone.contracts.errors_fencing import (
    ProtocolTooOld,
    TargetAuthentication,
    TargetHeld,
    TargetInvalid,
    TargetPrivilege,
    TargetReadOnly,
    TargetUnreachable,
)
from dpone.contracts.fence import (
    Absent,
    Already,
    Answer,
    Capability,
    Committed,
    CommitVerdict,
    Expired,
    Fenced,
    Floor,
    Foreign,
    Receipt,
    Rejected,
    Sealed,
    SealVerdict,
    Unit,
    Unknown,
)
from dpone.contracts.fence_rules import BROKEN, FenceRow, claim, receipt_of, seal, verdict_of
from dpone.ports.interrupts import stop_if_interrupted
from dpone.ports.probe import Probe, quiet
from dpone.ports.target import Also, Change

LOCK_WAIT_S = 10.0
COMMIT_WAIT_S = 600.0


class PostgresTarget:
    """The target port on one database. One connection; not shared between threads at once.

    `fence_schema` holds the fence tables; by default the first one of the search path.
    """

    name = "postgres"
    capability = Capability.TRANSACTIONAL

    def __init__(
        self,
        dsn: str,
        *,
        probe: Probe = quiet,
        fence_schema: str = "",
        connection: str = "postgres",
        lock_wait_s: float = LOCK_WAIT_S,
        commit_wait_s: float = COMMIT_WAIT_S,
    ) -> None:
        self.wire = Wire(dsn, answer_wait_s=lock_wait_s + 5.0)
        self.probe = probe
        self.declared = connection
        self.lock_wait_s = lock_wait_s
        self.commit_wait_s = commit_wait_s
        self._prefix = identifier([fence_schema]) + "." if fence_schema else ""
        self._store = ""

    @property
    def store(self) -> str:
        """Server, database and schema; empty while they cannot be told."""
        if not self._store:
            try:
                row = self.wire.query(INCARNATION)[0]
            except psycopg.Error:
                return ""
            self._store = "postgres:" + "/".join(part or "" for part in row)
        return self._store

    # -- asking --------------------------------------------------------------------------------

    def ask(self, operation_id: str, floor: Floor | None) -> Answer:
        """What the fence shows."""
        try:
            row = self._look(ASK, operation_id, floor)
        except psycopg.errors.UndefinedTable:
            return Answer(Absent())
        except psycopg.Error as error:
            self._refuse(error)
            return Answer(Unknown(cause_of(error), held=is_held(error)))
        incarnation, expired, fence = row
        return Answer(expired or verdict_of(fence), incarnation)

    def install(self) -> str:
        """Create the fence tables where they are missing."""
        try:
            self.wire.script(self._sql(SCHEMA))
            return self._look(ASK, "", None)[0]
        except psycopg.Error as error:
            self.wire.rollback()
            self._refuse(error)
            raise TargetUnreachable(target=self.name, cause=cause_of(error)) from error

    def _refuse(self, error: psycopg.Error) -> None:
        """Raise what a person must mend; return for what may pass."""
        cause = cause_of(error)
        if is_authentication(error):
            raise TargetAuthentication(target=self.name, connection=self.declared) from None
        if error.sqlstate == "42501":
            raise self._privilege(cause) from error
        if error.sqlstate == "25006":
            raise TargetReadOnly(target=self.name, cause=cause) from error
        wrong = isinstance(error, DsnInvalid) or is_no_database(error)
        if wrong or (error.sqlstate or "")[:2] in ("3F", "42", "3D"):
            raise TargetInvalid(target=self.name, cause=cause) from error

    def _privilege(self, cause: str) -> TargetPrivilege:
        refused = TargetPrivilege(target=self.name, cause=cause, statement="")
        # Whole: a statement that is cut short could not be run.
        whole = owners_statement(self._prefix, self.wire.connection.info.user)
        refused.fields["statement"] = self._sql(whole)
        return refused

    # -- contending ----------------------------------------------------------------------------

    def seal(self, unit: Unit) -> SealVerdict:
        """Contend for the key under a bounded wait, then seal."""
        try:
            self._begin("", unit.floor)
            written = self.wire.query(self._sql(SEAL), *values_of(unit))
            if written:
                tag = self.wire.script("COMMIT")
                if tag != "COMMIT":
                    return Unknown(f"the server answered {tag}")
                return Sealed(unit.epoch, unit.attempt_id)
            return self._seal_refused(unit)
        except ProtocolTooOld:
            self.wire.rollback()
            raise
        except psycopg.Error as error:
            self.wire.rollback()
            return Unknown(cause_of(error), held=is_held(error))

    def _seal_refused(self, unit: Unit) -> SealVerdict:
        """Nothing was written: the row, the floor or the incarnation says why."""
        incarnation, expired, fence = self._look(LOOK, unit.operation_id, unit.floor)
        self.wire.rollback()
        if incarnation != unit.incarnation:
            return Foreign(incarnation)
        if expired:
            return expired
        decision = seal(fence, unit)
        if isinstance(decision, Committed | Sealed | Unknown):
            return decision
        return Unknown("the key changed while it was looked at", held=True)

    def commit(self, unit: Unit, change: Change, also: Also | None = None) -> CommitVerdict:
        """Claim, change, commit."""
        claimed = ""
        try:
            claimed = self._claim(unit)
            if not claimed:
                return self._claim_refused(unit)
            with self.probe(Effect.FENCING_CHANGE):
                result = change(PostgresTransaction(self.wire.connection))
            receipt = receipt_of(unit, result)
            if not self._finish(unit, receipt):
                return self._broken(unit)
            if also is not None and not also(self.wire, receipt):
                self.wire.rollback()
                return Fenced(unit.epoch)
        except ProtocolTooOld:
            self.wire.rollback()
            raise
        except Exception as error:  # noqa: BLE001
            # Whatever the change raised: COMMIT was not sent by us.
            return self._rejected(unit, claimed, error)
        except BaseException:
            self.wire.rollback()
            raise
        return self._commit(receipt)

    def _claim(self, unit: Unit) -> str:
        """Open the transaction and claim the key; its id, or '' when something refuses it."""
        statement = self._sql(CLAIM_FIRST if unit.epoch == 1 else CLAIM_SEALED)
        self.wire.prepare(statement)
        self.wire.prepare_wanted()
        self._begin(session_name(unit.operation_id, unit.attempt_id), unit.floor)
        try:
            with self.probe(Effect.FENCING_CLAIM):
                return only_value(self.wire.planned(statement, *values_of(unit)))
        except psycopg.errors.InvalidSqlStatementName:
            # A pooler moved us to a session without the plan; nothing ran.
            self.wire.rollback()
        self._begin(session_name(unit.operation_id, unit.attempt_id), unit.floor)
        return only_value(self.wire.query(statement, *values_of(unit)))

    def _finish(self, unit: Unit, receipt: Receipt) -> bool:
        """Complete our own claim; False when another transaction is open than the one that did."""
        return bool(
            self.wire.planned(
                self._sql(FINISH), encode(receipt.result), unit.operation_id, unit.attempt_id
            )
        )

    def _commit(self, receipt: Receipt) -> CommitVerdict:
        with self.probe(Effect.FENCING_COMMIT):
            try:
                tag = self.wire.script("COMMIT", wait_s=self.commit_wait_s)
            except psycopg.Error as error:
                return commit_failed(error)
            except Exception as error:  # noqa: BLE001
                # It was sent: whatever went wrong here says nothing of what the server did.
                self.wire.abandon()
                return Unknown(str(error) or type(error).__name__)
        if tag != "COMMIT":
            # The server turns the COMMIT of a failed transaction into a rollback, and says so.
            return Rejected(f"the server answered {tag} to COMMIT")
        return Committed(receipt)

    def _claim_refused(self, unit: Unit) -> CommitVerdict:
        incarnation, expired, fence = self._look(LOOK, unit.operation_id, unit.floor)
        self.wire.rollback()
        if incarnation != unit.incarnation:
            return Foreign(incarnation)
        if expired:
            return expired
        decision = claim(fence, unit)
        if isinstance(decision, Fenced):
            return decision
        if fence is not None and fence.receipt is not None:
            return Already(fence.receipt)
        return Rejected("the key changed while it was looked at", transient=True)

    def _broken(self, unit: Unit) -> CommitVerdict:
        """The change ended our transaction, so that rows of it may stay.

        A claim is left that everybody sees: nobody may load them again before somebody looked.
        """
        self.wire.rollback()
        with suppress(psycopg.Error):
            self._claim(unit)
            self.wire.script("COMMIT")
        self.wire.rollback()
        return BROKEN

    def _rejected(self, unit: Unit, claimed: str, error: Exception) -> CommitVerdict:
        """COMMIT was not sent by us; only our own transaction, still open, proves the rest."""
        try:
            stop_if_interrupted(error)
            standing = not claimed or stands(self.wire, claimed)
        except psycopg.Error as failed:
            self.wire.abandon()
            return Unknown(cause_of(error if isinstance(error, psycopg.Error) else failed))
        except KeyboardInterrupt:
            self.wire.rollback()
            raise
        if not standing:
            return self._broken(unit)
        self.wire.rollback()
        return change_failed(error, began=bool(claimed))

    def end_sessions(self, operation_id: str, attempt_ids: Iterable[str]) -> int:
        """Terminate the server sessions that name these attempts of this operation."""
        names = [session_name(operation_id, attempt_id) for attempt_id in attempt_ids]
        try:
            rows = self.wire.query(END_SESSIONS, ",".join(names))
        except psycopg.Error:
            return 0
        return int(rows[0][0] or 0)

    # -- retention -----------------------------------------------------------------------------

    def shorten(self, operation_ids: Iterable[str]) -> int:
        """All but the result stays."""
        with self.probe(Effect.FENCING_SHORTEN):
            return self._retain(SHORTEN, encode(list(operation_ids)))

    def raise_floor(self, floor: Floor, operation_ids: Iterable[str]) -> int:
        """Raise the floor and remove the rows below it, together."""
        with self.probe(Effect.FENCING_FLOOR):
            try:
                self._begin("", floor, raising=True)
                self.wire.query(self._sql(FLOOR_RAISE), f"floor:{floor.scope}", floor.position)
                rows = self.wire.query(self._sql(FLOOR_REMOVE), encode(list(operation_ids)))
                self.wire.script("COMMIT")
            except psycopg.Error as error:
                self._unreachable(error)
        return int(rows[0][0] or 0)

    def _retain(self, sql: str, value: str) -> int:
        try:
            return int(self.wire.query(self._sql(sql), value)[0][0] or 0)
        except psycopg.Error as error:
            self._unreachable(error)

    def _unreachable(self, error: psycopg.Error) -> NoReturn:
        self.wire.rollback()
        self._refuse(error)
        kind = TargetHeld if is_held(error) else TargetUnreachable
        raise kind(target=self.name, cause=cause_of(error)) from error

    def close(self) -> None:
        """Close the connection."""
        self.wire.close()

    # -- access --------------------------------------------------------------------------------

    def _sql(self, statement: str) -> str:
        return statement.replace("{fence}", self._prefix + "dpone_fence").replace(
            "{meta}", self._prefix + "dpone_fence_meta"
        )

    def _begin(self, session_name: str, floor: Floor | None, *, raising: bool = False) -> None:
        """Open a transaction whose waits are bounded and whose session can be told by name.

        Units of an ordered family share a lock that raising its floor takes alone: reading the
        floor in the unit would not conflict with raising it. The lock is the transaction's, so
        a pooler does no harm, and the statements after it see what was committed before.
        """
        wait_ms = int(self.lock_wait_s * 1000)
        named = f"SET LOCAL application_name = {literal(session_name)};" if session_name else ""
        if not session_name:
            named = f"SET LOCAL statement_timeout = {wait_ms + 2000};"
        shared = "" if raising else "_shared"
        locked = ""
        if floor is not None:
            key = literal(f"floor:{floor.scope}")
            locked = f"SELECT pg_advisory_xact_lock{shared}(hashtextextended({key}, 0));"
        self.wire.script(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
            f"SET LOCAL lock_timeout = {wait_ms};"
            f"SET LOCAL synchronous_commit = on;{named}{locked}SAVEPOINT {BEGUN}"
        )

    def _look(
        self, sql: str, operation_id: str, floor: Floor | None
    ) -> tuple[str, Expired | None, FenceRow | None]:
        """Incarnation, expiry and row. Raises `psycopg.Error`."""
        scope = f"floor:{floor.scope}" if floor else ""
        row = self.wire.planned(self._sql(sql), operation_id, scope)[0]
        incarnation, protocol, lowest = row[0] or "", row[1] or "0", row[2]
        if int(protocol) > PROTOCOL:
            raise ProtocolTooOld(place="fence", found=protocol, ours=PROTOCOL)
        below = floor is not None and lowest is not None and floor.position < lowest
        return incarnation, Expired(lowest or "") if below else None, fence_of(operation_id, row)
