"""What a run opens first: a route's manifest, its project and its source.

Promise: nothing of the policy is imported here, so that the files of a source are already being
digested while a run imports the rest; clients are imported when they are asked for, so that a
missing extra costs one clear sentence. `wiring` joins what this opens to journal and target.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dpone.adapters.projectfile.reading import Project, project_of
from dpone.contracts.errors import ExtraMissing
from dpone.contracts.errors_loading import ConnectorUnsupported, ManifestInvalid
from dpone.contracts.route import RouteManifest
from dpone.loading.manifest import manifest_of
from dpone.loading.pipeline import Found, is_pipeline, route_in
from dpone.ports.source import Source

_CLIENTS = {"duckdb": "duckdb", "opentelemetry": "opentelemetry.trace", "postgres": "psycopg"}
_FILE_KINDS = ("duckdb", "sqlite")


def adapter(package: str, module: str) -> Any:
    """Import `dpone.adapters.<package>.<module>`. Raises `ExtraMissing` without its client."""
    client = _CLIENTS.get(package)
    if client is not None:
        try:
            importlib.import_module(client)
        except ModuleNotFoundError as error:
            if error.name in (client, client.partition(".")[0]):
                raise ExtraMissing(extra=package) from None
            raise
    return importlib.import_module(f"dpone.adapters.{package}.{module}")


class Route(NamedTuple):
    """A manifest with the project it lies in; `name` is the manifest's file name."""

    name: str
    manifest: RouteManifest
    project: Project


def read_route(path: Path, environ: Mapping[str, str] | None = None, *, process: str = "") -> Route:
    """Read and check a manifest and its project file. Raises a `ManifestError`.

    Of a pipeline with several processes, `process` names the route; a manifest of one route must
    be that route.
    """
    from dpone.adapters.yamlfile.reading import read

    found = Found(*read(path), path.name)
    if is_pipeline(found.value):

        def sibling(name: str) -> Found:
            return Found(*read(path.with_name(name)), name)

        found = route_in(found, sibling, process)
    manifest = manifest_of(found.value, found.lines, found.name)
    if process and manifest.route != process:
        raise ManifestInvalid(
            name=found.name,
            line=found.lines.get("$.route", 1),
            place="at $.route",
            reason=f"it is the route {manifest.route}, and the process {process} was asked for",
        )
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
