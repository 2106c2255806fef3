"""The composition root: the only module that joins policy to adapters.

Adapters are imported when they are asked for, so that a missing extra costs one clear sentence.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from dpone.adapters.posix import identity
from dpone.adapters.posix.liveness import ProcLiveness
from dpone.adapters.projectfile.reading import Project, project_of
from dpone.contracts.errors_loading import ConnectorUnsupported, SpecInvalid
from dpone.contracts.fence import Capability
from dpone.fencing.commit import LEASE_S, Committer, new_attempt_id
from dpone.fencing.guard import GuardedCommitter
from dpone.fencing.heartbeat import HEARTBEAT_S, Heartbeat
from dpone.loading.checkpoints import checkpoint_due
from dpone.loading.run import Obliged, nothing_due
from dpone.ports.checkpoint import Checkpoints
from dpone.ports.guarded import GuardedTarget
from dpone.ports.journal import Journal
from dpone.ports.loader import Loader
from dpone.ports.probe import Probe, quiet
from dpone.ports.target import Target
from dpone.ports.telemetry import Telemetry
from dpone.routes import Route, adapter

if TYPE_CHECKING:
    from dpone.authoring.desk import Desk
    from dpone.ports.cachefiles import CacheFiles
    from dpone.retention.cache import Document

OpenProject = Project
_HEARTS: WeakKeyDictionary[Journal, dict[tuple[float, float], Heartbeat]] = WeakKeyDictionary()
JOURNAL_DEFAULT = ".dpone/journal.db"


def open_journal(
    spec: str = f"sqlite:{JOURNAL_DEFAULT}", *, root: Path | None = None, connection: str = ""
) -> Journal:
    """Open a journal: `sqlite:<path>` or `postgres:<connection string>`.

    Relative paths are taken from `root`, by default the working directory. `connection` is how
    messages call a server's connection. Nothing is created before the first write. Raises
    `SpecInvalid` or `ExtraMissing`.
    """
    kind, value = _split(spec)
    if kind == "sqlite":
        from dpone.adapters.sqlite.journal import SqliteJournal

        return SqliteJournal(_path(value, root), filesystem=filesystem_of)
    if kind == "postgres":
        module = adapter("postgres", "journal")
        journal: Journal = module.PostgresJournal(value, connection=connection or "journal")
        return journal
    raise SpecInvalid(what="journal", spec=kind, known="sqlite, postgres")


def open_target(
    spec: str, *, root: Path | None = None, probe: Probe = quiet, options: Mapping[str, Any] = {}
) -> Target:
    """Open a target: `duckdb:<path>`, `sqlite:<path>` or `postgres:<connection string>`.

    `options` are passed on to the adapter. Nothing is created before the first write.
    """
    kind, value = _split(spec)
    target: Target
    if kind == "sqlite":
        from dpone.adapters.sqlite.target import SqliteTarget

        target = SqliteTarget(
            _path(value, root), identity=identity.identity, probe=probe, **options
        )
        return target
    if kind == "duckdb":
        module = adapter("duckdb", "target")
        target = module.DuckdbTarget(
            _path(value, root), identity=identity.identity, probe=probe, **options
        )
        return target
    if kind == "postgres":
        module = adapter("postgres", "target")
        target = module.PostgresTarget(value, probe=probe, **options)
        return target
    raise SpecInvalid(what="target", spec=kind, known="duckdb, sqlite, postgres")


def committer(
    journal: Journal,
    target: Target,
    *,
    probe: Probe = quiet,
    lease_s: float = LEASE_S,
    heartbeat_s: float = HEARTBEAT_S,
) -> Committer:
    """Join journal and target under the fenced commit; a journal has one heartbeat."""
    key = (lease_s, heartbeat_s)
    hearts = _HEARTS.setdefault(journal, {})
    heart = hearts.setdefault(key, Heartbeat(journal, lease_s, heartbeat_s))
    return Committer(
        journal, target, ProcLiveness(), probe=probe, lease_s=lease_s, covering=heart.covering
    )


def route_committer(
    journal: Journal, target: Target | GuardedTarget, *, probe: Probe = quiet
) -> Committer | GuardedCommitter:
    """The fenced commit, or the guard for a target of capability NONE."""
    if target.capability is Capability.NONE:
        guarded = cast("GuardedTarget", target)
        return GuardedCommitter(
            checkpoints(journal), guarded, now=now, run_id=new_attempt_id(), probe=probe
        )
    return committer(journal, cast("Target", target), probe=probe)


def checkpoints(journal: Journal) -> Checkpoints:
    """The checkpoints in the journal's store."""
    package = type(journal).__module__.split(".")[-2]
    module = adapter(package, "checkpoint")
    found: Checkpoints = getattr(module, f"{package.capitalize()}Checkpoints")(journal)
    return found


def telemetry(environ: Mapping[str, str], version: str) -> Telemetry:
    """What watches one call, as `DPONE_TELEMETRY` names it. Raises `SpecInvalid`, `ExtraMissing`.

    The trace that the caller is part of is taken from `TRACEPARENT` and `TRACESTATE`.
    """
    kind = environ["DPONE_TELEMETRY"]
    if kind != "opentelemetry":
        raise SpecInvalid(what="telemetry", spec=kind, known="opentelemetry")
    carrier = {
        name: environ[name.upper()]
        for name in ("traceparent", "tracestate")
        if name.upper() in environ
    }
    found: Telemetry = adapter(kind, "telemetry").OpenTelemetry(version, carrier)
    return found


def now() -> str:
    """The time, ISO 8601 in UTC; for people, never for a decision."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def filesystem_of(path: Path) -> tuple[str, bool]:
    """The type of the file system under `path`, and whether it is a network one."""
    kind = identity.filesystem(path)
    return kind, identity.is_network(kind)


def _split(spec: str) -> tuple[str, str]:
    kind, colon, value = spec.partition(":")
    if not colon or not value:
        raise SpecInvalid(what="connection", spec=kind, known="<kind>:<path or name>")
    return kind, value


def _path(value: str, root: Path | None) -> Path:
    path = Path(value)
    if path.name == ":memory:":
        # Engines mean no file by it. What ends with its process remembers nothing of a retry.
        raise SpecInvalid(what="place", spec=path.name, known="paths of files")
    return path if path.is_absolute() else (root or Path.cwd()) / path


# -- authoring -------------------------------------------------------------------------------------


def authoring_desk(root: Path, *, probe: Probe = quiet, accept_unproven: bool = False) -> Desk:
    """The authoring commands for the project in a folder."""
    from dpone.adapters.posix.files import PosixFiles
    from dpone.adapters.yamlfile.documents import YamlDocuments
    from dpone.authoring.desk import Desk

    return Desk(PosixFiles(root), YamlDocuments(), probe=probe, accept_unproven=accept_unproven)


def project_root(start: Path) -> Path:
    """The folder of the project file around `start`, or `start` itself without one."""
    folder = start.absolute()
    return next(
        (root for root in (folder, *folder.parents) if (root / "dpone.toml").is_file()), folder
    )


# -- retention -------------------------------------------------------------------------------------


def open_cache(root: Path, *, create: bool = False) -> CacheFiles:
    """Open a deployment cache; `create` makes its directory, whose parent must be there.

    Raises `CacheRootUnsafe` before anything is looked at, and `CacheRootMissing`.
    """
    from dpone.adapters.posix.cachefiles import PosixCache
    from dpone.contracts.cache_layout import unsafe_root
    from dpone.contracts.errors_cache import CacheRootMissing, CacheRootUnsafe

    resolved = root.resolve()
    try:
        home = str(Path.home().resolve())
    except RuntimeError:
        # A user of a container may have no home; then nothing is in it.
        home = ""
    reason = unsafe_root(str(root), str(resolved), str(Path.cwd().resolve()), home)
    if reason:
        raise CacheRootUnsafe(reason=reason)
    if create and resolved.parent.is_dir():
        resolved.mkdir(exist_ok=True)
    if not resolved.is_dir():
        raise CacheRootMissing(root=root.name)
    return PosixCache(resolved)


def open_document(path: Path) -> Document:
    """A file that an option names; links on the way to it are followed once, now."""
    from dpone.adapters.posix.cachefiles import PosixCache
    from dpone.retention.cache import Document

    resolved = path.resolve()
    return Document(PosixCache(resolved.parent), resolved.name)


# -- routes ----------------------------------------------------------------------------------------

DUCKDB_OPTIONS: Mapping[str, Any] = {
    "settings": {"memory_limit": "512MB", "preserve_insertion_order": "false"},
    "engine_kept": True,
}


def route_journal(route: Route) -> Journal:
    """Open the journal of a route; nothing is created before the first write."""
    spec = route.manifest.journal
    declared = f"postgres:{spec.postgres}" if spec.postgres else f"sqlite:{spec.sqlite or ''}"
    return declared_journal(route.project, declared)


def declared_journal(project: Project, declared: str) -> Journal:
    """Open `sqlite:<path in the project>` or `postgres:<connection name>`; '' is the default."""
    kind, _, place = declared.partition(":")
    if kind == "postgres":
        value = project.connection(place, "postgres")[1]
        return open_journal(f"postgres:{value}", connection=place)
    if kind not in ("", "sqlite"):
        raise SpecInvalid(what="journal", spec=kind, known="sqlite, postgres")
    path = project.path(place or JOURNAL_DEFAULT, "journal", "sqlite")
    return open_journal(f"sqlite:{path}")


def route_target(route: Route, *, probe: Probe = quiet) -> Target | GuardedTarget:
    """Open the target of a route; nothing is created before the first write."""
    spec, project = route.manifest.target, route.project
    if spec.kind == "csvdir":
        from dpone.adapters.csvdir.target import CsvdirTarget

        return CsvdirTarget(project.path(spec.place, "target", spec.kind), probe=probe)
    declared = {spec.kind: spec.place, "fence_schema": spec.fence_schema}
    return declared_target(project, declared, probe)


def declared_target(project: Project, declared: Mapping[str, Any], probe: Probe) -> Target:
    """Open the fenced target that a manifest, or the identity of an operation, declares."""
    if place := declared.get("postgres"):
        value = project.connection(place, "postgres")[1]
        options = {"fence_schema": declared.get("fence_schema") or "", "connection": place}
        return open_target("postgres:" + value, probe=probe, options=options)
    kind = "duckdb" if "duckdb" in declared else "sqlite"
    path = project.path(declared[kind], "target", kind)
    given = dict(DUCKDB_OPTIONS) if kind == "duckdb" else {}
    return open_target(f"{kind}:{path}", probe=probe, options=given)


def open_project(folder: Path) -> Project:
    """The project around a folder, with the environment's variables."""
    return project_of(folder / "dpone.toml", os.environ)


def route_obligations(journal: Journal, target: Target | GuardedTarget) -> Obliged:
    """The steps after each commit: a checkpoint, unless the guard keeps its own."""
    if target.capability is Capability.NONE:
        return nothing_due
    return checkpoint_due(checkpoints(journal), now)


def route_loader(route: Route) -> Loader:
    """The loader that fits the target of a route. Raises `ExtraMissing`."""
    kind = route.manifest.target.kind
    if importlib.util.find_spec(f"dpone.adapters.{kind}.loader") is None:
        raise ConnectorUnsupported(connector=kind, what="dpone run")
    loader: Loader = getattr(adapter(kind, "loader"), f"{kind.capitalize()}Loader")()
    return loader
