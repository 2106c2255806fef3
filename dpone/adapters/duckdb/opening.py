"""How a DuckDB file is opened, for one call, with a bounded wait for whoever holds its lock.

Promise: the file is open only while a call lasts. Not promised: who waits longest comes first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from dpone.adapters.duckdb.refusals import is_held, is_open_here
from dpone.contracts.columns import literal

LOCK_WAIT_S = 10.0
LOCK_POLL_S = 0.05
_NAME = "dpone_glanced_at"

Settings = dict[str, str | bool | int | float | list[str]]


class DuckdbFile:
    """One file. `settings` are DuckDB configuration values for every connection.

    `keeping`: short looks at the file share one engine, because to start an engine takes ten times
    as long as the look. Only for a process in which nobody else opens the file: while it is looked
    at, the engine refuses it to another one of the same process.
    """

    def __init__(
        self, path: Path, settings: Settings | None, lock_wait_s: float, *, keeping: bool
    ) -> None:
        self.path = path
        self.lock_wait_s = lock_wait_s
        self._settings = settings or {}
        self._keeping = keeping
        self._kept: duckdb.DuckDBPyConnection | None = None
        self._looking = threading.Lock()

    @contextmanager
    def open(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection to an engine of its own; a transaction left open is rolled back."""
        until = time.monotonic() + self.lock_wait_s
        while True:
            try:
                connection = duckdb.connect(str(self.path), config=self._settings)
                break
            except duckdb.Error as error:
                _wait(error, until)
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def glance(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for a few short statements on a file that is there."""
        if not self._keeping or not self._looking.acquire(blocking=False):
            with self.open() as connection:
                yield connection
            return
        try:
            kept = self._attached()
            if kept is None:
                with self.open() as connection:
                    yield connection
                return
            try:
                yield kept
            except duckdb.Error:
                # What broke may be the engine: the next look gets a new one.
                self.close()
                raise
            finally:
                self._detach(kept)
        finally:
            self._looking.release()

    def close(self) -> None:
        """End the engine that is kept; idempotent."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def _attached(self) -> duckdb.DuckDBPyConnection | None:
        """The kept engine with the file; None when another engine of this process has it open."""
        if self._kept is None:
            self._kept = duckdb.connect(":memory:", config=self._settings)
        kept = self._kept
        until = time.monotonic() + self.lock_wait_s
        while True:
            try:
                kept.execute(f"ATTACH {literal(str(self.path))} AS {_NAME}")
                break
            except duckdb.Error as error:
                if is_open_here(error):
                    return None
                _wait(error, until)
        try:
            kept.execute(f"USE {_NAME}")
        except BaseException:
            self._detach(kept)
            raise
        return kept

    def _detach(self, kept: duckdb.DuckDBPyConnection) -> None:
        """Let go of the file; an engine that cannot is ended, which lets go of everything."""
        if kept is not self._kept:
            return
        with suppress(duckdb.Error):
            kept.execute("ROLLBACK")
        try:
            kept.execute("USE memory")
            kept.execute(f"DETACH {_NAME}")
        except BaseException as error:
            self.close()
            if not isinstance(error, duckdb.Error):
                raise


def _wait(error: duckdb.Error, until: float) -> None:
    """Wait a moment for somebody else's lock; raise what does not pass, or takes too long."""
    if not (is_held(error) or is_open_here(error)) or time.monotonic() > until:
        raise error
    time.sleep(LOCK_POLL_S)
