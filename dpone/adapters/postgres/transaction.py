"""What a change may do inside the fenced transaction of a PostgreSQL database.

Promise: statements that begin, end or prepare a transaction are refused before they are sent, and
nothing handed out leads to the connection. Should one slip through, the fence row of another
transaction gives it away at the end and nothing is called committed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg

from dpone.adapters.postgres.scanner import statements
from dpone.contracts.errors_fencing import TransactionControl
from dpone.ports.results import Result

_CONTROL = re.compile(
    r"\A\s*(COMMIT|END|ABORT|BEGIN|START\s+TRANSACTION|PREPARE\s+TRANSACTION"
    r"|ROLLBACK(?!\s+(?:WORK\s+|TRANSACTION\s+)?TO\b)|SET\s+SESSION|DISCARD)\b",
    re.IGNORECASE,
)


class PostgresResult(Result):
    """The rows of one statement, or of several sent together, one after the other."""

    __slots__ = ()

    @property
    def statusmessage(self) -> str | None:
        """The server's command tag."""
        message: str | None = self._cursor.statusmessage
        return message

    def nextset(self) -> bool:
        """Turn to the next statement's rows; False when there is none."""
        return bool(self._cursor.nextset())


class PostgresCopy:
    """An open COPY: `write` and `write_row` into the server, or `read` and iteration from it."""

    __slots__ = ("_copy",)

    def __init__(self, copy: psycopg.Copy) -> None:
        self._copy = copy

    @property
    def cursor(self) -> PostgresResult:
        """What the statement says; `rowcount` holds once the COPY is over."""
        return PostgresResult(self._copy.cursor)

    def write(self, data: str | bytes) -> None:
        """Send a block in the format of the COPY."""
        self._copy.write(data)

    def write_row(self, row: Sequence[Any]) -> None:
        """Send one row."""
        self._copy.write_row(row)

    def set_types(self, types: Sequence[int | str]) -> None:
        """Name the types of the rows' values."""
        self._copy.set_types(types)

    def read(self) -> Any:
        """The next block; empty at the end."""
        return self._copy.read()

    def read_row(self) -> tuple[Any, ...] | None:
        """The next row; None at the end."""
        return self._copy.read_row()

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows that are left."""
        yield from self._copy.rows()

    def __iter__(self) -> Iterator[Any]:
        yield from self._copy


class PostgresTransaction:
    """The transaction handed to a change: `execute`, `executemany`, `copy`."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Any = None) -> PostgresResult:
        """Run a statement with `%s` places. Raises `TransactionControl` for a forbidden one."""
        self._refuse(sql)
        return PostgresResult(self._connection.execute(sql, parameters))

    def executemany(self, sql: str, parameters: Iterable[Any]) -> PostgresResult:
        """Run a statement for each item."""
        self._refuse(sql)
        cursor = self._connection.cursor()
        cursor.executemany(sql, parameters)
        return PostgresResult(cursor)

    def copy(self, sql: str) -> AbstractContextManager[PostgresCopy]:
        """Open COPY in the given direction."""
        self._refuse(sql)
        return self._copying(sql)

    @contextmanager
    def _copying(self, sql: str) -> Iterator[PostgresCopy]:
        with self._connection.cursor().copy(sql) as copy:
            yield PostgresCopy(copy)

    def _refuse(self, sql: str) -> None:
        conforming = self._connection.pgconn.parameter_status(b"standard_conforming_strings")
        refuse_control(sql, backslashes=conforming == b"off")


def refuse_control(sql: str, *, backslashes: bool = False) -> None:
    """Raise `TransactionControl` when one of the statements in `sql` controls transactions.

    `backslashes`: whether a backslash escapes in the session's plain literals.
    """
    if not isinstance(sql, str):
        raise TypeError("a statement is a str")
    for statement in statements(sql, backslashes=backslashes):
        found = _CONTROL.match(statement)
        if found:
            raise TransactionControl(statement=" ".join(found.group(1).upper().split()))
