"""Real stores to put a suite on: one factory for each adapter package, and nothing else.

A package found at `dpone/adapters/<package>/<stem>.py` that has no factory here is reported by
`missing`, so that a new connector cannot go without its suite. A target that declares capability
NONE has no suite and no claim.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import pkgutil
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import dpone.adapters
from dpone import wiring
from dpone.contracts.fence import Capability
from dpone.ports.journal import Journal
from dpone.ports.probe import Probe, quiet
from dpone.ports.target import Target
from faultinject.postgres import PostgresServer
from faultinject.workloads import connect

LOCK_WAIT_S = 5.0
TABLE = "CREATE TABLE certified(key VARCHAR(200), value INTEGER)"
Step = Callable[[Any], object]


class Resources:
    """What the places of one run share: a folder of scratch files and one PostgreSQL server.

    `server` gives a server that somebody else starts and ends.
    """

    def __init__(self, server: Callable[[], PostgresServer] | None = None) -> None:
        self._stack = ExitStack()
        self._server: PostgresServer | None = None
        self._given = server
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        self.root = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="dpone-certify-"))
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def folder(self) -> Path:
        """An empty folder."""
        folder = self.root / f"f{next(self._numbers)}"
        folder.mkdir()
        return folder

    @property
    def server(self) -> PostgresServer:
        """The server, started when it is first asked for."""
        if self._server is None and self._given is not None:
            self._server = self._given()
        if self._server is None:
            self._server = self._stack.enter_context(PostgresServer.from_environment())
        return self._server


@dataclass
class _Place:
    """A store that may be opened as often as one likes; `close` ends what was opened."""

    spec: str
    opened: list[Any] = field(default_factory=list)

    def sql(self, *statements: str) -> list[Any]:
        """Run statements on a connection that knows nothing of this library."""
        rows: list[Any] = []
        connection = connect(self.spec)
        try:
            for statement in statements:
                cursor = connection.execute(statement)
                rows = cursor.fetchall() if cursor.description else []
        finally:
            connection.close()
        return [tuple(row) for row in rows]

    @property
    def file(self) -> Path | None:
        """The file that holds the store, if it is one."""
        kind, _, place = self.spec.partition(":")
        return None if kind == "postgres" else Path(place)

    def objects(self) -> list[str]:
        """The names of all tables, and whether the store is there at all."""
        if self.file is None:
            return sorted(str(row[0]) for row in self.sql(_PG_TABLES))
        if not self.file.exists():
            return ["no file"]
        sql = _DUCKDB_TABLES if self.spec.startswith("duckdb:") else _SQLITE_TABLES
        return sorted(str(row[0]) for row in self.sql(sql))

    def close(self) -> None:
        """Close everything that was opened here."""
        for adapter in self.opened:
            adapter.close()


_SQLITE_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table'"
_DUCKDB_TABLES = "SELECT table_name FROM duckdb_tables()"
_PG_TABLES = (
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
)


@dataclass
class JournalPlace(_Place):
    """A store for a journal. `joint` is a target in the same database, where there is one."""

    joint: Callable[[], Target] | None = None
    opener: Callable[[str], Journal] = wiring.open_journal

    def open(self) -> Journal:
        """Another object on this store, as another process would have."""
        journal = self.opener(self.spec)
        self.opened.append(journal)
        return journal

    def protocol(self, version: int) -> None:
        """Write another protocol version than ours."""
        self.sql(f"UPDATE dpone_journal_meta SET value = '{version}' WHERE key = 'protocol'")


@dataclass
class TargetPlace(_Place):
    """A store for a target, with one table for the data.

    `controls` try to end the fence's transaction; `breakers` end it, or try to, and go on.
    """

    opener: Callable[..., Target] = wiring.open_target
    controls: tuple[Step, ...] = ()
    breakers: tuple[Step, ...] = ()

    def open(self, *, lock_wait_s: float = LOCK_WAIT_S, probe: Probe = quiet) -> Target:
        """Another object on this store, as another process would have."""
        target = self.opener(self.spec, probe=probe, options={"lock_wait_s": lock_wait_s})
        self.opened.append(target)
        return target

    def prepare(self) -> None:
        """Make the table of the data."""
        self.sql(TABLE)

    @staticmethod
    def write(transaction: Any, key: str) -> None:
        """Write one row, which `rows` will show."""
        transaction.execute(f"INSERT INTO certified VALUES ('{key}', 1)")

    @staticmethod
    def define(transaction: Any) -> None:
        """Make a table inside the unit."""
        transaction.execute("CREATE TABLE defined(key INTEGER)")

    def rows(self) -> list[str]:
        """The keys of all rows, sorted."""
        return sorted(str(row[0]) for row in self.sql("SELECT key FROM certified"))

    def protocol(self, version: int) -> None:
        """Write another protocol version than ours."""
        self.sql(f"UPDATE dpone_fence_meta SET value = '{version}' WHERE key = 'protocol'")

    def reincarnate(self) -> None:
        """Replace the store by another one with the same content, as a restore does."""
        if self.file is None:
            fresh = uuid.uuid4().hex
            self.sql(f"UPDATE dpone_fence_meta SET value = '{fresh}' WHERE key = 'incarnation'")
            return
        copy = self.file.with_suffix(".copy")
        shutil.copyfile(self.file, copy)
        copy.replace(self.file)

    def vanish(self) -> bool:
        """Take the store away; False where that cannot be done."""
        if self.file is None:
            return False
        self.file.unlink()
        return True


def _say(sql: str) -> Step:
    return lambda transaction: transaction.execute(sql)


def _swallow(sql: str) -> Step:
    """Run a statement and go on whatever it says."""

    def step(transaction: Any) -> None:
        try:
            transaction.execute(sql)
        except Exception:  # noqa: BLE001 - what a careless change does
            return

    return step


def _sqlite_rollback(transaction: Any) -> None:
    """A constraint that rolls the whole transaction back, caught by a careless change."""
    transaction.execute("CREATE TABLE unique_keys(key INTEGER PRIMARY KEY)")
    transaction.execute("INSERT INTO unique_keys VALUES (1)")
    _swallow("INSERT OR ROLLBACK INTO unique_keys VALUES (1)")(transaction)


_COMMON = ("COMMIT", "ROLLBACK", "BEGIN", "/* x */ commit", "END")
_SQLITE = (
    *map(_say, _COMMON),
    _say("ATTACH ':memory:' AS other"),
    lambda transaction: transaction.executescript("SELECT 1"),
)
_DUCKDB = (*map(_say, _COMMON[:4]), _say("SELECT 1; COMMIT"), _say("ATTACH ':memory:' AS other"))
_POSTGRES = (
    *map(_say, _COMMON),
    _say("SELECT 1; COMMIT"),
    _say("START TRANSACTION"),
    _say("ABORT"),
    _say("PREPARE TRANSACTION 'x'"),
    _say("-- x\nCOMMIT AND CHAIN"),
)


@contextmanager
def _closing(place: Any) -> Iterator[Any]:
    try:
        yield place
    finally:
        place.close()


@contextmanager
def _sqlite_journal(resources: Resources) -> Iterator[JournalPlace]:
    spec = f"sqlite:{resources.folder() / 'journal.db'}"
    with _closing(JournalPlace(spec, joint=lambda: wiring.open_target(spec))) as place:
        yield place


@contextmanager
def _postgres_journal(resources: Resources) -> Iterator[JournalPlace]:
    with resources.server.database() as dsn:
        spec = f"postgres:{dsn}"
        with _closing(JournalPlace(spec, joint=lambda: wiring.open_target(spec))) as place:
            yield place


@contextmanager
def _sqlite_target(resources: Resources) -> Iterator[TargetPlace]:
    spec = f"sqlite:{resources.folder() / 'target.db'}"
    with _closing(TargetPlace(spec, controls=_SQLITE, breakers=(_sqlite_rollback,))) as place:
        yield place


@contextmanager
def _duckdb_target(resources: Resources) -> Iterator[TargetPlace]:
    spec = f"duckdb:{resources.folder() / 'target.duckdb'}"
    breakers = (_swallow("SELECT error('broken')"), _swallow("INSERT INTO nowhere VALUES (1)"))
    with _closing(TargetPlace(spec, controls=_DUCKDB, breakers=breakers)) as place:
        yield place


@contextmanager
def _postgres_target(resources: Resources) -> Iterator[TargetPlace]:
    with resources.server.database() as dsn:
        place = TargetPlace(
            f"postgres:{dsn}", controls=_POSTGRES, breakers=(_swallow("SELECT 1 / 0"),)
        )
        with _closing(place):
            yield place


JournalFactory = Callable[[Resources], AbstractContextManager[JournalPlace]]
TargetFactory = Callable[[Resources], AbstractContextManager[TargetPlace]]

JOURNALS: dict[str, JournalFactory] = {"sqlite": _sqlite_journal, "postgres": _postgres_journal}
TARGETS: dict[str, TargetFactory] = {
    "sqlite": _sqlite_target,
    "duckdb": _duckdb_target,
    "postgres": _postgres_target,
}


def discovered(stem: str) -> list[str]:
    """The adapter packages that have a module of this name and promise something by it."""
    return [name for name in _packages(stem) if not _promises_nothing(name, stem)]


def unfenced() -> list[str]:
    """The packages whose target declares that it can promise nothing: no suite, no claim."""
    return [name for name in _packages("target") if _promises_nothing(name, "target")]


def missing(stem: str, factories: Mapping[str, Any]) -> list[str]:
    """The packages that would escape the suite."""
    return sorted(set(discovered(stem)) - set(factories))


def _packages(stem: str) -> list[str]:
    packages = [found.name for found in pkgutil.iter_modules(dpone.adapters.__path__)]
    return [name for name in packages if _has(name, stem)]


def _has(package: str, stem: str) -> bool:
    full = f"dpone.adapters.{package}"
    spec = importlib.util.find_spec(full)
    is_package = spec is not None and spec.submodule_search_locations is not None
    return is_package and importlib.util.find_spec(f"{full}.{stem}") is not None


def _promises_nothing(package: str, stem: str) -> bool:
    """Whether the module's classes with a capability declare NONE; a doubt counts as a promise."""
    module = importlib.import_module(f"dpone.adapters.{package}.{stem}")
    declared = {
        getattr(value, "capability", None)
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__
    }
    return declared - {None} == {Capability.NONE}
