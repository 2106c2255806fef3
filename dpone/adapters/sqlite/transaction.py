"""What a change may do inside the fenced transaction of a SQLite file.

Promise: the change cannot begin, commit or roll back, nor attach another file: the database
itself refuses it, whichever way the statement is sent, scripts included; and nothing handed out
leads to the connection. A Ctrl-C stops a statement, however long it runs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dpone.contracts.errors_fencing import TransactionControl
from dpone.ports.interrupts import stop_if_interrupted
from dpone.ports.results import Result

ALIVE_STEPS = 1_000_000
"""How many steps of its machine SQLite runs before Python may look at its signals."""
_FORBIDDEN = frozenset({sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH})


class SqliteTransaction:
    """The transaction handed to a change: `execute`, `executemany`, rows as tuples.

    `denied` is what `forbidding` refused so far, where it is in force.
    """

    def __init__(self, connection: sqlite3.Connection, denied: list[int] | None = None) -> None:
        self._connection = connection
        self._denied = denied

    def execute(self, sql: str, parameters: Any = ()) -> Result:
        """Run one statement with qmark or named parameters."""
        self._demand_open()
        with self._interruptible():
            return self._result(self._connection.execute(sql, parameters))

    def executemany(self, sql: str, parameters: Iterable[Any]) -> Result:
        """Run one statement for each item of an iterable, at the driver's own speed."""
        self._demand_open()
        with self._interruptible():
            return self._result(self._connection.executemany(sql, parameters))

    def executescript(self, sql: str) -> None:
        """Refused by the database: the driver would commit the fence before the script."""
        self._connection.executescript(sql)

    def _result(self, cursor: sqlite3.Cursor) -> Result:
        return Result(cursor, self._interruptible)

    def _demand_open(self) -> None:
        """A conflict clause or a trigger may roll the unit back; what follows would stay."""
        if not self._connection.in_transaction:
            raise TransactionControl(statement="ROLLBACK")

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Let a Ctrl-C that struck inside a callback of ours stop the run.

        The driver drops what a callback raises: the progress handler's shows as an interrupt,
        the authorizer's as a refusal that the authorizer knows nothing of.
        """
        before = len(self._denied or ())
        try:
            yield
        except sqlite3.Error as error:
            stop_if_interrupted(error)
            refused = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_AUTH
            if refused and self._denied is not None and len(self._denied) == before:
                raise KeyboardInterrupt from error
            raise


@contextmanager
def forbidding(connection: sqlite3.Connection) -> Iterator[list[int]]:
    """While open, transaction control and ATTACH are refused by SQLite's authorizer."""
    denied: list[int] = []

    def authorize(action: int, *_: Any) -> int:
        if action not in _FORBIDDEN:
            return sqlite3.SQLITE_OK
        denied.append(action)
        return sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)
    connection.set_progress_handler(_alive, ALIVE_STEPS)
    try:
        yield denied
    finally:
        connection.set_progress_handler(None, 0)
        connection.set_authorizer(None)


def _alive() -> int:
    """Go on; that Python code runs at all lets it look at its signals."""
    return 0
