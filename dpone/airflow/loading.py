"""A route, loaded inside a task of Airflow."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dpone import api_run, routes
from dpone.adapters.projectfile.reading import variable_of
from dpone.airflow import attempt as trying
from dpone.airflow.hooks import DponeHook
from dpone.airflow.interval import window
from dpone.contracts.airflow_report import AirflowRun, LoadedPartition, loaded
from dpone.contracts.codec import encode, parse
from dpone.contracts.errors_airflow import AirflowManifestMissing
from dpone.contracts.errors_loading import ManifestNotFound
from dpone.contracts.run_report import ErrorReport, OperationReport
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
    done: list[LoadedPartition] = []
    failed: list[OperationReport] = []
    with api_run.opened(route, wanted) as opened:
        flow = opened.flow(take_over=given.take_over, interrupted=lambda: False)
        for report in flow.reports(opened.operations):
            if report.error is not None or report.how == "not_tried":
                failed.append(report)
                _complain(log, report)
            else:
                trying.told(log, report, report.partition, attempt)
                done.append(loaded(report))
    if failed:
        raise _failure(failed, len(done))
    if not done:
        log.info("dpone: the source has no rows of this run, so there is nothing to load")
    run = AirflowRun(
        route=route.manifest.route,
        environment=route.project.environment,
        operations=tuple(done),
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
    return {variable_of(name): DponeHook(given).spec for name, given in named.items()}


def _complain(log: logging.Logger, report: OperationReport) -> None:
    if report.error is None:
        log.warning("dpone: %s was not tried: %s", report.partition, report.operation_id)
        return
    log.error("dpone: %s failed: %s", report.partition, _sentence(report.error))


def _failure(failed: list[OperationReport], done: int) -> Exception:
    """The exception for a run of which something is not loaded."""
    errors = [report.error for report in failed if report.error is not None]
    passing = [error for error in errors if trying.retried(error)]
    total = done + len(failed)
    text = f"{len(failed)} of {total} not loaded: {_sentence((passing or errors)[0])}"
    return trying.raised(text, retried=bool(passing))


def _sentence(error: ErrorReport) -> str:
    advice = trying.ADVICE.get(error.code)
    # A template of the same fields as the error's own advice.
    told = error.next if advice is None else advice.format_map(error.fields)
    return f"{error.code}: {error.happened} {error.known} {told}"
