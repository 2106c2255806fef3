"""What a change may do inside the fenced transaction of a DuckDB file.

Promise: statements that begin, commit or roll back are refused before they run, in whichever
string they come. Not promised: what an extension does on its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import duckdb

from dpone.contracts.errors_fencing import TransactionControl

_FORBIDDEN = frozenset(
    {
        duckdb.StatementType.TRANSACTION,
        duckdb.StatementType.ATTACH,
        duckdb.StatementType.DETACH,
    }
)


class DuckdbTransaction:
    """The transaction handed to a change: `execute` and `executemany` return the connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Any = None) -> duckdb.DuckDBPyConnection:
        """Run one or several statements. Raises `TransactionControl` for a forbidden one."""
        for statement in self._connection.extract_statements(sql):
            if statement.type in _FORBIDDEN:
                raise TransactionControl(statement=statement.type.name)
        return self._connection.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any]) -> duckdb.DuckDBPyConnection:
        """Run one statement for each item."""
        for statement in self._connection.extract_statements(sql):
            if statement.type in _FORBIDDEN:
                raise TransactionControl(statement=statement.type.name)
        return self._connection.executemany(sql, list(parameters))

    def register(self, name: str, value: object) -> None:
        """Make an Arrow table or another replaceable relation readable under `name`."""
        self._connection.register(name, value)
