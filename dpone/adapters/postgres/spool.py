"""Writes the rows of a query on a PostgreSQL server as CSV, by COPY.

Promise: one statement in a read-only transaction gives all rows, and they reach the file as the
server's own bytes, with a bounded buffer and a bounded wait. Instants are in UTC, flags are true
and false. Not promised: binary values, which no CSV spells for every target; they are refused.
"""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NoReturn

import psycopg
from psycopg import pq

from dpone.adapters.postgres.wire import (
    AnswerLost,
    DsnInvalid,
    Wire,
    cause_of,
    is_authentication,
    is_no_database,
    literal,
    ready,
)
from dpone.contracts.errors_fencing import TargetAuthentication
from dpone.contracts.errors_loading import SourceQuery, SourceUnreachable

QUIET_WAIT_S = 3600.0
"""How long a server may compute without sending a byte."""
BUFFER_BYTES = 1024 * 1024

_BOOLEAN, _BINARY, _INSTANT = 16, 17, 1184
_BEGIN = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL TimeZone = 'UTC';"
    " SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL IntervalStyle = 'postgres';"
    " SET LOCAL extra_float_digits = 1"
)
_LATER = ("08", "53", "57", "58")
_MISUSE = "08P01"  # A text with places for parameters.
_VALUE = re.compile(r'"[^"]*"')


def spool(dsn: str, sql: str, path: Path, null: str, *, connection_name: str) -> None:
    """Write a header and all rows to `path`; `null` stands for a missing value.

    Raises `SourceQuery` for what the server refuses, `SourceUnreachable` when it does not answer
    and `TargetAuthentication` when it refuses the credentials.
    """
    text = sql.strip().rstrip(";")
    wire = Wire(dsn, answer_wait_s=QUIET_WAIT_S)
    try:
        wire.script(_BEGIN)
        link = _Link(wire.connection.pgconn)
        columns = _columns(link, text, connection_name)
        with path.open("wb", buffering=BUFFER_BYTES) as file:
            file.write(_header([name for name, _ in columns]))
            _copy(link, _statement(text, columns, null), file)
    except psycopg.Error as error:
        _refuse(error, connection_name)
    finally:
        wire.close()


def _columns(link: _Link, text: str, connection_name: str) -> list[tuple[str, int]]:
    """Names and type oids of the query's columns.

    The extended protocol refuses a second statement, and nothing but a SELECT may stand in FROM.
    """
    link.pgconn.send_query_params(f"SELECT * FROM ({text}\n) AS rows LIMIT 0".encode(), [])
    described = link.result(pq.ExecStatus.TUPLES_OK)
    link.finish()
    columns = []
    for index in range(described.nfields):
        name = (described.fname(index) or b"").decode()
        if described.ftype(index) == _BINARY:
            reason = f"its column {name} is binary; write encode(…, 'hex') AS {name}"
            raise SourceQuery(connection=connection_name, reason=reason)
        columns.append((name, described.ftype(index)))
    if not columns:
        raise SourceQuery(connection=connection_name, reason="it has no columns")
    return columns


def _statement(text: str, columns: Sequence[tuple[str, int]], null: str) -> str:
    """COPY of the query's columns by their places, so that a name may come twice."""
    places = [f"c{index}" for index in range(len(columns))]
    values = ", ".join(
        _value(place, kind) for place, (_, kind) in zip(places, columns, strict=True)
    )
    return (
        f"COPY (SELECT {values} FROM ({text}\n) AS rows({', '.join(places)}))"
        f" TO STDOUT (FORMAT csv, NULL {literal(null)}, ENCODING 'UTF8')"
    )


def _value(place: str, kind: int) -> str:
    if kind == _BOOLEAN:
        return f"{place}::text"
    if kind == _INSTANT:
        # The session's zone is UTC; SQLite reads an offset only with its minutes.
        return f"{place}::text || CASE WHEN isfinite({place}) THEN ':00' ELSE '' END"
    return place


def _header(names: Sequence[str]) -> bytes:
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\n").writerow(names)
    return line.getvalue().encode()


def _copy(link: _Link, statement: str, file: BinaryIO) -> None:
    """Pass on what the server sends until it says that this was all."""
    link.pgconn.send_query(statement.encode())
    link.result(pq.ExecStatus.COPY_OUT)
    while True:
        size, data = link.pgconn.get_copy_data(1)
        if size > 0:
            file.write(data)
        elif size == 0:
            link.read(time.monotonic() + QUIET_WAIT_S)
        else:
            break
    link.result(pq.ExecStatus.COMMAND_OK)
    link.finish()


class _Link:
    """One connection, read with a bound on the server's silence."""

    def __init__(self, pgconn: pq.abc.PGconn) -> None:
        self.pgconn = pgconn

    def result(self, wanted: int) -> pq.abc.PGresult:
        """The next result. Raises what the server said when it is not what is wanted."""
        until = time.monotonic() + QUIET_WAIT_S
        while self.pgconn.flush() or self.pgconn.is_busy():
            self.read(until)
        found = self.pgconn.get_result()
        if found is None or found.status not in (wanted, pq.ExecStatus.FATAL_ERROR):
            raise AnswerLost("the server's answer was lost")
        if found.status != wanted:
            raise psycopg.errors.error_from_result(found)
        return found

    def finish(self) -> None:
        """Take the end of a statement, so that the next one may be sent."""
        while self.pgconn.get_result() is not None:
            pass

    def read(self, until: float) -> None:
        """Take in what has arrived. Raises `AnswerLost` when the wait is over."""
        left = until - time.monotonic()
        if left <= 0 or not ready(self.pgconn.socket, left, writing=bool(self.pgconn.flush())):
            raise AnswerLost("the server sent nothing more")
        self.pgconn.consume_input()


def _refuse(error: psycopg.Error, connection_name: str) -> NoReturn:
    """Raise the typed error; what the server quotes of rows is left out."""
    cause = cause_of(error)
    state = error.sqlstate or ""
    if is_authentication(error):
        raise TargetAuthentication(target="postgres", connection=connection_name) from None
    definite = isinstance(error, DsnInvalid) or is_no_database(error)
    if not definite and (not state or (state[:2] in _LATER and state != _MISUSE)):
        raise SourceUnreachable(connection=connection_name, cause=cause) from error
    if state[:2] in ("22", "23", "P0"):
        cause = _VALUE.sub('"…"', cause)
    raise SourceQuery(connection=connection_name, reason=cause) from error
