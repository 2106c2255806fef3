"""A route, loaded inside a task of Airflow."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dpone import api_run, routes
from dpone.adapters.projectfile.reading import variable_of
from dpone.airflow import attempt as trying
from dpone.airflow.hooks import resolved
from dpone.airflow.interval import window
from dpone.contracts.airflow_report import AirflowRun, loaded
from dpone.contracts.codec import encode, parse
from dpone.contracts.errors_airflow import AirflowManifestMissing
from dpone.contracts.errors_loading import ManifestNotFound
from dpone.contracts.route import RouteManifest
from dpone.contracts.run_report import OperationReport
from dpone.loading.operations import Wanted


class Given(NamedTuple):
    """What the operator was given, with its templates filled in; `folder` is that of the DAG."""

    folder: Path
    manifest: Path
    labels: tuple[str, ...]
    revision: int | None
    again: bool
    process: str
    within: tuple[str, str]
    partition_key: str
    connections: dict[str, str]
    take_over: bool


def load(given: Given, attempt: trying.Attempt, log: logging.Logger) -> dict[str, Any]:
    """Load the wanted parts; return the contract `dpone.airflow-run.v1` as plain values."""
    environ = {**os.environ, **_connections(given.connections)}
    route = _route(given, environ)
    for name in _strange(route.manifest, given.connections):
        log.warning("dpone: the route names no connection %s; nothing is read from there", name)
    since, until = "", ""
    if not given.labels:
        since, until = window(route.manifest, *given.within, given.partition_key)
    wanted = Wanted(
        revision=given.revision,
        labels=given.labels,
        again=given.again,
        since=since,
        until=until,
    )
    done: list[OperationReport] = []
    failed: list[OperationReport] = []
    with api_run.opened(route, wanted) as opened:
        flow = opened.flow(take_over=given.take_over, interrupted=lambda: False)
        for report in flow.reports(opened.operations):
            if report.error is not None or report.how == "not_tried":
                failed.append(report)
                _complain(log, report)
            else:
                trying.told(log, report, report.partition)
                done.append(report)
    trying.hinted(log, done, attempt)
    if failed:
        raise _failure(failed, len(done))
    if not done:
        log.warning("dpone: the source has no rows of this run, so there is nothing to load")
    run = AirflowRun(
        route=route.manifest.route,
        environment=route.project.environment,
        operations=tuple(map(loaded, done)),
    )
    # Lists, and no tuples: Airflow 3 would write their Python type into the XCom.
    return dict(parse(encode(run)))


def _route(given: Given, environ: Mapping[str, str]) -> routes.Route:
    """The route. Raises `AirflowManifestMissing` in the words of a DAG, and a `ManifestError`."""
    path = given.folder / given.manifest
    try:
        return routes.read_route(path, environ, process=given.process)
    except ManifestNotFound:
        if path.exists():
            # A fragment that it names.
            raise
        name = path.name if given.manifest.is_absolute() else given.manifest.as_posix()
        raise AirflowManifestMissing(name=name) from None


def _connections(named: dict[str, str]) -> dict[str, str]:
    return {variable_of(name): resolved(given)[0] for name, given in named.items()}


def _strange(manifest: RouteManifest, names: Iterable[str]) -> list[str]:
    """Names that stand nowhere in the route: a slip, or meant for another route of the DAG."""
    source, journal = manifest.source, manifest.journal
    query = source.query.connection if source.query else None
    places = (source.connection, query, manifest.target.place, journal.postgres, journal.sqlite)
    known = {variable_of(place) for place in places if place}
    return [name for name in names if variable_of(name) not in known]


def _complain(log: logging.Logger, report: OperationReport) -> None:
    if report.error is None:
        log.warning("dpone: %s was not tried: %s", report.partition, report.operation_id)
        return
    log.error("dpone: %s failed: %s", report.partition, trying.sentence_of(report.error))


def _failure(failed: list[OperationReport], done: int) -> Exception:
    """The exception for a run of which something is not loaded."""
    errors = [report.error for report in failed if report.error is not None]
    passing = [error for error in errors if trying.retried(error)]
    total = done + len(failed)
    text = f"{len(failed)} of {total} not loaded: {trying.sentence_of((passing or errors)[0])}"
    return trying.raised(text, retried=bool(passing))
