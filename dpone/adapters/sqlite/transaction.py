"""What a change may do inside the fenced transaction of a SQLite file.

Promise: the change cannot begin, commit or roll back, nor attach another file: the database
itself refuses it, whichever way the statement is sent, scripts included.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dpone.contracts.errors_fencing import TransactionControl

_FORBIDDEN = frozenset({sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH})


class SqliteTransaction:
    """The transaction handed to a change: `execute`, `executemany`, rows as tuples."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        """Run one statement with qmark or named parameters."""
        self._demand_open()
        return self._connection.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any]) -> sqlite3.Cursor:
        """Run one statement for each item of an iterable, at the driver's own speed."""
        self._demand_open()
        return self._connection.executemany(sql, parameters)

    def executescript(self, sql: str) -> None:
        """Refused by the database: the driver would commit the fence before the script."""
        self._connection.executescript(sql)

    def _demand_open(self) -> None:
        """A conflict clause or a trigger may roll the unit back; what follows would stay."""
        if not self._connection.in_transaction:
            raise TransactionControl(statement="ROLLBACK")


@contextmanager
def forbidding(connection: sqlite3.Connection) -> Iterator[None]:
    """While open, transaction control and ATTACH are refused by SQLite's authorizer."""
    connection.set_authorizer(_authorize)
    try:
        yield
    finally:
        connection.set_authorizer(None)


def _authorize(action: int, *_: Any) -> int:
    return sqlite3.SQLITE_DENY if action in _FORBIDDEN else sqlite3.SQLITE_OK
