"""DuckDB as a reader of files: types, distinct values, rows and a stream of CSV.

Promise: memory is bounded, results are streamed, nothing is written but the pipe. DuckDB is
imported when it is first needed; without it `ExtraMissing` says which extra to install.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

from dpone.contracts.errors import ExtraMissing

if TYPE_CHECKING:
    import duckdb

MEMORY_LIMIT = "128MB"
CHUNK_ROWS = 20_000
PIPE_BLOCK_BYTES = 1024 * 1024


class Engine:
    """One in-memory DuckDB; not shared between threads at once."""

    def __init__(self) -> None:
        self._connection: duckdb.DuckDBPyConnection | None = None

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection, opened at first use. Raises `ExtraMissing`."""
        if self._connection is None:
            try:
                import duckdb
            except ModuleNotFoundError as error:
                if error.name != "duckdb":
                    raise
                raise ExtraMissing(extra="duckdb") from None
            self._connection = duckdb.connect(
                ":memory:",
                config={
                    "memory_limit": MEMORY_LIMIT,
                    "preserve_insertion_order": "false",
                    # By default it would be a folder in the working directory.
                    "temp_directory": str(Path(gettempdir()) / f"dpone-{uuid.uuid4().hex}"),
                },
            )
            _prepare(self._connection)
        return self._connection

    def ready(self) -> None:
        """Open the connection in a moment that has nothing else to do."""
        with suppress(ExtraMissing):  # whoever needs the connection is told
            self.connection  # noqa: B018

    def all(self, sql: str) -> list[tuple[Any, ...]]:
        """A small result as a list."""
        return self.connection.execute(sql).fetchall()

    def described(self, sql: str) -> dict[str, str]:
        """DuckDB types by column of a SELECT."""
        return {row[0]: row[1] for row in self.all(f"DESCRIBE {sql}")}

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """A large result, in chunks that the driver makes."""
        cursor = self.connection.cursor()
        try:
            _prepare(cursor)
            cursor.execute(sql)
            while chunk := cursor.fetchmany(CHUNK_ROWS):
                yield from chunk
        finally:
            cursor.close()

    @contextmanager
    def csv(self, sql: str, *, quote_all: bool = False) -> Iterator[Iterator[bytes]]:
        """The result as header-less CSV, written by the engine into a pipe.

        Missing values are unquoted and empty, empty texts are quoted. An error of the engine is
        raised at the end of the blocks, so that nobody takes half a stream for a whole one.
        """
        reading, writing = os.pipe()
        failed: list[Exception] = []
        cursor = self.connection.cursor()
        target = f"/dev/fd/{writing}"
        options = "FORMAT csv, HEADER false" + (", FORCE_QUOTE *" if quote_all else "")

        def write() -> None:
            try:
                _prepare(cursor)
                # Whoever reads the stream works at the same time; one core is left for it.
                cursor.execute(f"SET threads = {max(1, (os.cpu_count() or 1) - 1)}")
                cursor.execute(f"COPY ({sql}) TO '{target}' ({options})")
            except Exception as error:  # noqa: BLE001 - handed over to the reading thread
                failed.append(error)
            finally:
                os.close(writing)

        thread = threading.Thread(target=write, name="dpone-csv", daemon=True)
        thread.start()
        try:
            yield _blocks(reading, thread, failed)
        finally:
            os.close(reading)
            thread.join()
            cursor.close()

    def close(self) -> None:
        """Close the connection; idempotent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _prepare(connection: duckdb.DuckDBPyConnection) -> None:
    """A text without an offset means UTC, and stdout belongs to the command."""
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")


def _blocks(reading: int, thread: threading.Thread, failed: list[Exception]) -> Iterator[bytes]:
    while block := os.read(reading, PIPE_BLOCK_BYTES):
        yield block
    thread.join()
    if failed:
        raise failed[0]
