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
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import WeakKeyDictionary

from dpone.adapters.posix import identity
from dpone.adapters.posix.liveness import ProcLiveness
from dpone.adapters.projectfile.reading import Project, project_of
from dpone.contracts.errors import ExtraMissing
from dpone.contracts.errors_loading import ConnectorUnsupported, SpecInvalid
from dpone.contracts.fence import Capability
from dpone.contracts.route import RouteManifest
from dpone.fencing.commit import LEASE_S, Committer, new_attempt_id
from dpone.fencing.guard import GuardedCommitter
from dpone.fencing.heartbeat import HEARTBEAT_S, Heartbeat
from dpone.loading.checkpoints import checkpoint_due
from dpone.loading.manifest import manifest_of
from dpone.loading.pipeline import Found, is_pipeline, route_in
from dpone.loading.run import Obliged, nothing_due
from dpone.ports.checkpoint import Checkpoints
from dpone.ports.guarded import GuardedTarget
from dpone.ports.journal import Journal
from dpone.ports.loader import Loader
from dpone.ports.probe import Probe, quiet
from dpone.ports.source import Source
from dpone.ports.target import Target

if TYPE_CHECKING:
    from dpone.authoring.desk import Desk
    from dpone.ports.cachefiles import CacheFiles
    from dpone.retention.cache import Document

OpenProject = Project
_HEARTS: WeakKeyDictionary[Journal, dict[tuple[float, float], Heartbeat]] = WeakKeyDictionary()
JOURNAL_DEFAULT = ".dpone/journal.db"
_CLIENTS = {"duckdb": "duckdb", "postgres": "psycopg"}


def open_journal(spec: str = f"sqlite:{JOURNAL_DEFAULT}", *, root: Path | None = None) -> Journal:
    """Open a journal: `sqlite:<path>` or `postgres:<connection string>`.

    Relative paths are taken from `root`, by default the working directory. Nothing is created
    before the first write. Raises `SpecInvalid` or `ExtraMissing`.
    """
    kind, value = _split(spec)
    if kind == "sqlite":
        from dpone.adapters.sqlite.journal import SqliteJournal

        return SqliteJournal(_path(value, root), filesystem=filesystem_of)
    if kind == "postgres":
        module = adapter("postgres", "journal")
        journal: Journal = module.PostgresJournal(value)
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


def now() -> str:
    """The time, ISO 8601 in UTC; for people, never for a decision."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def adapter(package: str, module: str) -> Any:
    """Import `dpone.adapters.<package>.<module>`. Raises `ExtraMissing` without its client."""
    client = _CLIENTS.get(package)
    if client is not None:
        try:
            importlib.import_module(client)
        except ModuleNotFoundError as error:
            if error.name == client:
                raise ExtraMissing(extra=package) from None
            raise
    return importlib.import_module(f"dpone.adapters.{package}.{module}")


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

DUCKDB_SETTINGS = {"memory_limit": "512MB", "preserve_insertion_order": "false"}
_FILE_KINDS = ("duckdb", "sqlite")


class Route(NamedTuple):
    """A manifest with the project it lies in; `name` is the manifest's file name."""

    name: str
    manifest: RouteManifest
    project: Project


def read_route(path: Path, environ: Mapping[str, str] | None = None, *, process: str = "") -> Route:
    """Read and check a manifest and its project file. Raises a `ManifestError`.

    Of a pipeline with several processes, `process` names the route.
    """
    from dpone.adapters.yamlfile.reading import read

    found = Found(*read(path), path.name)
    if is_pipeline(found.value):

        def sibling(name: str) -> Found:
            return Found(*read(path.with_name(name)), name)

        found = route_in(found, sibling, process)
    manifest = manifest_of(found.value, found.lines, found.name)
    project = project_of(path, os.environ if environ is None else environ)
    return Route(path.name, manifest, project)


def route_source(route: Route) -> Source:
    """Open the source of a route; nothing is read yet."""
    spec, project = route.manifest.source, route.project
    if spec.query is not None:
        return _query_source(route, spec.query.connection)
    from dpone.adapters.sources.filesource import FileSource

    if spec.connection:
        root = project.root / project.connection(spec.connection, "folder")[1]
        return FileSource(route.manifest, root)
    project.inside(spec.pattern, "source", "folder")
    return FileSource(route.manifest, project.root)


def _query_source(route: Route, name: str) -> Source:
    from dpone.adapters.sources.querysource import QuerySource

    kind, value = route.project.connection(name, *_FILE_KINDS, "postgres")
    place = route.project.root / value
    if kind == "duckdb":
        target = route.manifest.target
        if target.duckdb and place == route.project.path(target.duckdb, "target", "duckdb"):
            what = "a query on the file that is the target; use dpone.commit for it"
            raise ConnectorUnsupported(connector=kind, what=what)
        return QuerySource(route.manifest, place, None)
    if importlib.util.find_spec(f"dpone.adapters.{kind}.spool") is None:
        raise ConnectorUnsupported(connector=kind, what="a query as a source")
    write = adapter(kind, "spool").spool
    given = value if kind == "postgres" else place

    def spool(sql: str, path: Path, null: str) -> None:
        write(given, sql, path, null, connection_name=name)

    return QuerySource(route.manifest, place, spool)


def route_journal(route: Route) -> Journal:
    """Open the journal of a route; nothing is created before the first write."""
    spec = route.manifest.journal
    declared = f"postgres:{spec.postgres}" if spec.postgres else f"sqlite:{spec.sqlite or ''}"
    return declared_journal(route.project, declared)


def declared_journal(project: Project, declared: str) -> Journal:
    """Open `sqlite:<path in the project>` or `postgres:<connection name>`; '' is the default."""
    kind, _, place = declared.partition(":")
    if kind == "postgres":
        return open_journal("postgres:" + project.connection(place, "postgres")[1])
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
    given: dict[str, Any] = {"settings": DUCKDB_SETTINGS} if kind == "duckdb" else {}
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
