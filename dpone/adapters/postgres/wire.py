"""Statements to a PostgreSQL server with a bounded wait for each answer.

Promise: every call returns, raises what the server said, or raises `AnswerLost` after its bound,
with the connection closed; it never waits for ever. Nothing here relies on session state, so that
a transaction pooler may stand in between. Not promised: what became of a statement whose answer
was lost.
"""

from __future__ import annotations

import hashlib
import re
import select
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

ANSWER_WAIT_S = 30.0
CONNECT_WAIT_S = 10
_DEFAULTS = {
    "connect_timeout": str(CONNECT_WAIT_S),
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
Row = tuple[str | None, ...]


class AnswerLost(psycopg.OperationalError):
    """The server's answer did not come, or the connection broke while it was awaited."""


class DsnInvalid(psycopg.ProgrammingError):
    """The connection string is none; the driver's words would repeat parts of it."""


class Wire:
    """One connection in autocommit mode, opened when first used and again after it broke."""

    def __init__(self, dsn: str, *, answer_wait_s: float = ANSWER_WAIT_S) -> None:
        self.dsn = dsn
        self.answer_wait_s = answer_wait_s
        self._connection: psycopg.Connection[Any] | None = None
        self._planned: set[str] = set()
        self._wanted: set[str] = set()
        self._pooled = False

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The psycopg connection. Raises `psycopg.OperationalError` when none can be made."""
        if self._connection is None or self._connection.closed:
            self._planned.clear()
            try:
                given = conninfo_to_dict(self.dsn)
            except psycopg.ProgrammingError:
                raise DsnInvalid("the connection string cannot be read") from None
            merged = {**_DEFAULTS, **{key: str(value) for key, value in given.items()}}
            # The caller's own statements are never prepared behind a pooler's back.
            self._connection = psycopg.connect(
                make_conninfo(**merged), autocommit=True, prepare_threshold=None
            )
        return self._connection

    def query(self, sql: str, *parameters: str | int | None) -> list[Row]:
        """Run one statement with `$n` places; return the rows as text.

        Raises the `psycopg.Error` that the server's answer stands for, or `AnswerLost`.
        """
        bound = [None if value is None else str(value).encode() for value in parameters]
        pgconn = self.connection.pgconn
        try:
            pgconn.send_query_params(sql.encode(), bound)
        except psycopg.Error as error:
            self._lost(error)
        return _rows(self._last(self._results(pgconn, self.answer_wait_s)))

    def planned(self, sql: str, *parameters: str | int | None) -> list[Row]:
        """As `query`, planned once for each connection.

        The statement's name is the digest of its text, so that a session which a pooler shares
        can only hold the same statement under it. A session that has none says so before
        anything ran; from then on this connection plans each time. Inside a transaction that
        refusal is raised, as `psycopg.errors.InvalidSqlStatementName`.
        """
        if not self.prepare(sql):
            return self.query(sql, *parameters)
        bound = [None if value is None else str(value).encode() for value in parameters]
        pgconn = self.connection.pgconn
        idle = pgconn.transaction_status == pq.TransactionStatus.IDLE
        try:
            pgconn.send_query_prepared(_name(sql), bound)
        except psycopg.Error as error:
            self._lost(error)
        try:
            return _rows(self._last(self._results(pgconn, self.answer_wait_s)))
        except psycopg.errors.InvalidSqlStatementName:
            self._pooled = True
            if not idle:
                raise
        return self.query(sql, *parameters)

    def prepare(self, sql: str) -> bool:
        """Plan a statement on this connection if that helps; whether `planned` will use it."""
        pgconn = self.connection.pgconn
        if self._pooled:
            return False
        if sql in self._planned:
            return True
        if pgconn.transaction_status != pq.TransactionStatus.IDLE:
            # A refusal would break the transaction; it is planned before the next one.
            self._wanted.add(sql)
            return False
        try:
            pgconn.send_prepare(_name(sql), sql.encode())
        except psycopg.Error as error:
            self._lost(error)
        try:
            self._last(self._results(pgconn, self.answer_wait_s))
        except psycopg.errors.DuplicatePreparedStatement:
            # A pooler's session that somebody prepared before: the same text, by its name.
            self._pooled = True
            return False
        self._planned.add(sql)
        return True

    def prepare_wanted(self) -> None:
        """Plan what was last asked for inside a transaction; called between transactions."""
        while self._wanted and not self._pooled:
            self.prepare(self._wanted.pop())

    def script(self, sql: str, *, wait_s: float | None = None) -> str:
        """Run statements without parameters in one message; return the last command tag."""
        pgconn = self.connection.pgconn
        try:
            pgconn.send_query(sql.encode())
        except psycopg.Error as error:
            self._lost(error)
        last = self._last(self._results(pgconn, wait_s or self.answer_wait_s))
        return (last.command_status or b"").decode()

    def abandon(self) -> None:
        """Close the connection without a word to the server."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    close = abandon

    def is_open(self) -> bool:
        """Whether there is a connection that is not known to be broken."""
        return self._connection is not None and not self._connection.closed

    def in_transaction(self) -> bool:
        """Whether the server says that a transaction is open and sound."""
        connection = self._connection
        return connection is not None and (
            connection.pgconn.transaction_status == pq.TransactionStatus.INTRANS
        )

    def rollback(self) -> bool:
        """Roll back what is open; whether the server confirmed it."""
        if self._connection is None or self._connection.closed:
            return False
        if self._connection.pgconn.transaction_status == pq.TransactionStatus.IDLE:
            return True
        try:
            return self.script("ROLLBACK") == "ROLLBACK"
        except psycopg.Error:
            self.abandon()
            return False

    def _results(self, pgconn: pq.abc.PGconn, wait_s: float) -> list[pq.abc.PGresult]:
        until = time.monotonic() + wait_s
        results: list[pq.abc.PGresult] = []
        try:
            while True:
                while pgconn.is_busy():
                    _exchange(pgconn, until)
                result = pgconn.get_result()
                if result is None:
                    return results
                results.append(result)
        except (psycopg.Error, OSError, ValueError) as error:
            self._lost(error)
        except BaseException:
            # Whoever is interrupted here leaves a statement without its answer.
            self.abandon()
            raise

    def _last(self, results: list[pq.abc.PGresult]) -> pq.abc.PGresult:
        for result in results:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                error = psycopg.errors.error_from_result(result)
                if error.sqlstate is None:
                    self._lost(error)
                if _is_fatal(result):
                    self.abandon()
                raise error
        if not results:
            self._lost(None)
        return results[-1]

    def _lost(self, error: Exception | None) -> NoReturn:
        self.abandon()
        raise AnswerLost("the server's answer was lost") from error


def ready(socket: int, left_s: float, *, writing: bool = False) -> int:
    """Wait until a socket can be read, or also written; the events of `poll`, 0 for none.

    Not `select`, which takes no descriptor above 1023.
    """
    poll = select.poll()
    poll.register(socket, select.POLLIN | (select.POLLOUT if writing else 0))
    events = poll.poll(max(0.0, left_s) * 1000)
    return events[0][1] if events else 0


def _exchange(pgconn: pq.abc.PGconn, until: float) -> None:
    """Send what is unsent and take in what has come. Raises `TimeoutError` after the wait."""
    # A large statement goes out in pieces: nobody answers what is not sent.
    unsent = bool(pgconn.flush())
    events = ready(pgconn.socket, until - time.monotonic(), writing=unsent)
    if not events:
        raise TimeoutError("no answer")
    if events & ~select.POLLOUT:
        pgconn.consume_input()


def _name(sql: str) -> bytes:
    return b"dpone_" + hashlib.sha256(sql.encode()).hexdigest()[:32].encode()


def _is_fatal(result: pq.abc.PGresult) -> bool:
    severity = result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED)
    return severity in (b"FATAL", b"PANIC")


def _rows(result: pq.abc.PGresult) -> list[Row]:
    return [
        tuple(_text(result.get_value(row, column)) for column in range(result.nfields))
        for row in range(result.ntuples)
    ]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_HINT = "Is the server running"
_REFUSED = re.compile(
    "authentication failed|no password supplied|no pg_hba.conf entry|pg_hba.conf rejects"
    '|role ".*" (does not exist|is not permitted to log in)'
)


def cause_of(error: psycopg.Error) -> str:
    """A short cause: the server's primary message, or the last failure without addresses."""
    if error.diag.message_primary:
        return f"{error.sqlstate}: {error.diag.message_primary}"
    lines = [line.strip() for line in str(error).splitlines()]
    text = next((line for line in reversed(lines) if line and _HINT not in line), "no answer")
    if "FATAL:" in text:
        return text.partition("FATAL:")[2].strip()
    return _QUOTED.sub("…", text.rpartition("failed: ")[2])


def is_authentication(error: psycopg.Error) -> bool:
    """Whether the server refused who we say we are (no code comes with that at connect time)."""
    return error.sqlstate in ("28P01", "28000") or _REFUSED.search(str(error)) is not None


def is_no_database(error: psycopg.Error) -> bool:
    """Whether the server answered that it has no such database (without a code, too)."""
    text = str(error)
    return error.sqlstate is None and 'database "' in text and "does not exist" in text


def literal(value: str) -> str:
    """`value` as an SQL string literal; backslashes keep their meaning of themselves."""
    return "'" + value.replace("'", "''") + "'"


def identifier(names: Sequence[str]) -> str:
    """A quoted, possibly qualified identifier."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)
