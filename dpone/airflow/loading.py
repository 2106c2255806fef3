"""A route, loaded inside a task of Airflow."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any, NamedTuple

from dpone import api_run, routes
from dpone.adapters.projectfile.reading import variable_of
from dpone.airflow import attempt as trying
from dpone.airflow.hooks import DponeHook
from dpone.airflow.interval import window
from dpone.contracts.airflow_report import AirflowRun, LoadedPartition, loaded
from dpone.contracts.codec import encode, parse
from dpone.contracts.run_report import ErrorReport, OperationReport
from dpone.loading.operations import Wanted


class Given(NamedTuple):
    """What the operator was given, with its templates filled in."""

    manifest: Path
    labels: tuple[str, ...]
    revision: int | None
    again: bool
    process: str
    within: tuple[str, str]
    connections: dict[str, str]
    take_over: bool


def load(given: Given, attempt: trying.Attempt, log: logging.Logger) -> dict[str, Any]:
    """Load the wanted parts; return the contract `dpone.airflow-run.v1` as plain values."""
    environ = {**os.environ, **_connections(given.connections)}
    route = routes.read_route(given.manifest, environ, process=given.process)
    since, until = ("", "") if given.labels else window(route.manifest, *given.within)
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
                trying.told(log, report.operation_id, report.how, report.partition, attempt)
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
    return f"{error.code}: {error.happened} {error.known} {error.next}"
