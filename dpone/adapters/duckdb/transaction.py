"""What a change may do inside the fenced transaction of a DuckDB file.

Promise: statements that begin, commit or roll back are refused before they run, in whichever
string they come, and nothing handed out leads to the connection. Not promised: what an extension
does on its own; the fence's transaction id gives that away at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb

from dpone.contracts.errors_fencing import TransactionControl
from dpone.ports.interrupts import stop_if_interrupted
from dpone.ports.results import Result

_FORBIDDEN = frozenset(
    {
        duckdb.StatementType.TRANSACTION,
        duckdb.StatementType.ATTACH,
        duckdb.StatementType.DETACH,
    }
)


class DuckdbTransaction:
    """The transaction handed to a change: `execute` and `executemany` return rows to fetch.

    The engine holds one result at a time: the next statement ends the one before it.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._statements = 0

    def execute(self, sql: str, parameters: Any = None) -> Result:
        """Run one or several statements. Raises `TransactionControl` for a forbidden one."""
        self._refuse(sql)
        with interruptible():
            self._connection.execute(sql, parameters)
        return self._result()

    def executemany(self, sql: str, parameters: Iterable[Any]) -> Result:
        """Run one statement for each item."""
        self._refuse(sql)
        with interruptible():
            self._connection.executemany(sql, list(parameters))
        return self._result()

    def register(self, name: str, value: object) -> None:
        """Make an Arrow table or another replaceable relation readable under `name`."""
        self._connection.register(name, value)

    def _refuse(self, sql: str) -> None:
        # A statement object would be run as it is, whatever its text looks like.
        for statement in self._connection.extract_statements(str(sql)):
            if statement.type in _FORBIDDEN:
                raise TransactionControl(statement=statement.type.name)

    def _result(self) -> Result:
        self._statements += 1
        number = self._statements

        @contextmanager
        def current() -> Iterator[None]:
            if number != self._statements:
                raise duckdb.InvalidInputException("a later statement ended this result")
            with interruptible():
                yield

        return Result(self._connection, current)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let a Ctrl-C that the engine noticed stop the run."""
    try:
        yield
    except Exception as error:
        stop_if_interrupted(error)
        raise
