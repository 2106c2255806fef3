"""What a change may do inside the fenced transaction of a PostgreSQL database.

Promise: statements that begin, end or prepare a transaction are refused before they are sent.
Should one slip through inside a procedure, the fence row of another transaction gives it away at
the end and nothing is called committed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import psycopg

from dpone.contracts.errors_fencing import TransactionControl

_QUOTED = re.compile(
    r"""--[^\n]*|/\*.*?\*/|\bE'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\w*)\$.*?\$\1\$""",
    re.DOTALL | re.IGNORECASE,
)
_CONTROL = re.compile(
    r"\A\s*(COMMIT|END|ABORT|BEGIN|START\s+TRANSACTION|PREPARE\s+TRANSACTION"
    r"|ROLLBACK(?!\s+(?:WORK\s+|TRANSACTION\s+)?TO\b)|SET\s+SESSION|DISCARD)\b",
    re.IGNORECASE,
)


class PostgresTransaction:
    """The transaction handed to a change: `execute`, `executemany`, `copy`, `cursor`."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Any = None) -> psycopg.Cursor[Any]:
        """Run a statement with `%s` places. Raises `TransactionControl` for a forbidden one."""
        refuse_control(sql)
        return self._connection.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any]) -> psycopg.Cursor[Any]:
        """Run a statement for each item."""
        refuse_control(sql)
        cursor = self._connection.cursor()
        cursor.executemany(sql, parameters)
        return cursor

    def copy(self, sql: str) -> AbstractContextManager[psycopg.Copy]:
        """Open COPY in the given direction."""
        refuse_control(sql)
        return self._connection.cursor().copy(sql)


def refuse_control(sql: str) -> None:
    """Raise `TransactionControl` when one of the statements in `sql` controls transactions."""
    for statement in _QUOTED.sub(" ", sql).split(";"):
        found = _CONTROL.match(statement)
        if found:
            raise TransactionControl(statement=" ".join(found.group(1).upper().split()))
