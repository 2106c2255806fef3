"""What a statement of a change gives back: rows to fetch, and no way to the connection.

Promise: nothing public of a result leads to the driver's cursor or connection, on which a change
could end the transaction that holds the fence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

CHUNK_ROWS = 1024


class Result:
    """The rows of one statement, as tuples.

    `around` surrounds each use of the cursor: it turns what a driver raises into what we mean.
    """

    __slots__ = ("_around", "_cursor")

    def __init__(
        self, cursor: Any, around: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> None:
        self._cursor = cursor
        self._around = around

    @property
    def description(self) -> Any:
        """The columns as DB-API tells them; None for a statement without rows."""
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        """How many rows the statement touched, as far as the driver says."""
        return int(self._cursor.rowcount)

    def fetchone(self) -> Any:
        """The next row, or None."""
        with self._around():
            return self._cursor.fetchone()

    def fetchmany(self, size: int = 1) -> list[Any]:
        """At most `size` rows."""
        with self._around():
            return list(self._cursor.fetchmany(size))

    def fetchall(self) -> list[Any]:
        """The rows that are left."""
        with self._around():
            return list(self._cursor.fetchall())

    def __iter__(self) -> Iterator[Any]:
        while rows := self.fetchmany(CHUNK_ROWS):
            yield from rows
