"""Fresh targets and journals, made from a template file so that a round costs little."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from faultinject import workloads
from faultinject.matrix import World
from faultinject.postgres import PostgresServer

LOCK_WAIT_S = 0.5


@cache
def _template(kind: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="dpone-template-"))
    workloads.prepare(f"{kind}:{folder / 'target'}")
    return folder / "target"


@contextmanager
def _file(kind: str, folder: Path) -> Iterator[dict[str, Any]]:
    target = folder / "target"
    shutil.copyfile(_template(kind), target)
    yield {
        "journal": f"sqlite:{folder / 'journal.db'}",
        "target": f"{kind}:{target}",
        "options": {"lock_wait_s": LOCK_WAIT_S},
    }


@contextmanager
def sqlite(folder: Path) -> Iterator[dict[str, Any]]:
    """A SQLite target with a SQLite journal beside it."""
    with _file("sqlite", folder) as args:
        yield args


@contextmanager
def duckdb(folder: Path) -> Iterator[dict[str, Any]]:
    """A DuckDB target with a SQLite journal beside it."""
    with _file("duckdb", folder) as args:
        yield args


@contextmanager
def joint_sqlite(folder: Path) -> Iterator[dict[str, Any]]:
    """Target and journal in one SQLite file: the acknowledgement commits with the change."""
    with _file("sqlite", folder) as args:
        yield {**args, "journal": args["target"]}


class Databases:
    """Two databases of one server in which every world is a schema of its own, which costs
    milliseconds where a database costs a tenth of a second. A context manager."""

    def __init__(self, server: PostgresServer) -> None:
        self._held = ExitStack()
        self._numbers = itertools.count(1)
        self.places = [self._held.enter_context(server.database()) for _ in range(2)]
        self._admin = [
            self._held.enter_context(psycopg.connect(place, autocommit=True))
            for place in self.places
        ]
        self._lock = threading.Lock()

    def __enter__(self) -> Databases:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    @contextmanager
    def schema(self, number: int = 0) -> Iterator[str]:
        """Yield a connection string whose search path is a fresh schema, dropped at the end."""
        name = f"w{next(self._numbers)}"
        with self._lock:
            self._admin[number].execute(f"CREATE SCHEMA {name}")
        try:
            # The journal waits for a row as long as its session says.
            options = f"-csearch_path={name} -clock_timeout={int(LOCK_WAIT_S * 1000)}"
            yield make_conninfo(self.places[number], options=options)
        finally:
            with self._lock:
                self._admin[number].execute(
                    "SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l JOIN pg_class c"
                    " ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace"
                    " WHERE n.nspname = %s AND l.pid <> pg_backend_pid()",
                    [name],
                )
                self._admin[number].execute(f"DROP SCHEMA {name} CASCADE")


def postgres(databases: Databases, *, journal: str = "sqlite") -> World:
    """A world in a fresh schema; `journal`: sqlite, postgres (another database) or joint (the
    target's own)."""

    @contextmanager
    def world(folder: Path) -> Iterator[dict[str, Any]]:
        with ExitStack() as stack:
            dsn = stack.enter_context(databases.schema())
            workloads.prepare(f"postgres:{dsn}")
            place = f"sqlite:{folder / 'journal.db'}"
            if journal == "joint":
                place = f"postgres:{dsn}"
            elif journal == "postgres":
                place = f"postgres:{stack.enter_context(databases.schema(1))}"
            options = {"lock_wait_s": LOCK_WAIT_S}
            yield {"journal": place, "target": f"postgres:{dsn}", "options": options}

    return world
