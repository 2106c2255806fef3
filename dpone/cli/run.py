"""`dpone run`: load a route."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpone.cli.session import (
    Format,
    FormatOption,
    Session,
    plain_app,
    printable,
    session_of,
    table_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpone.cli.interrupt import Interrupts
    from dpone.contracts.run_report import OperationReport, RunPlan
    from dpone.loading.operations import Wanted
    from dpone.routes import Route

app = plain_app()

_WORDS = {
    "committed": "loaded",
    "replayed": "already loaded",
    "settled": "found loaded by an earlier attempt",
    "resumed": "already loaded, steps after the commit finished",
    "failed": "failed",
    "not_tried": "not tried",
}


@app.command()
def run(
    context: typer.Context,
    manifest: Annotated[Path, typer.Argument(help="The route's manifest.", show_default=False)],
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", help="Load only this part, such as month=1; repeatable."),
    ] = None,
    revision: Annotated[
        int | None,
        typer.Option("--revision", min=1, help="Load again on purpose, as this revision."),
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="Add rows of an append route beside those of a revision."),
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what would happen; write nothing.")
    ] = False,
    process: Annotated[
        str, typer.Option("--process", help="The route of a pipeline that has several.")
    ] = "",
    take_over: Annotated[
        bool,
        typer.Option("--take-over", help="Do not wait for the lease of an attempt that is gone."),
    ] = False,
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Load every part of a route once; a retry loads nothing twice."""
    session = session_of(context, chosen)
    from dpone.cli.route import route_at
    from dpone.loading.operations import Wanted

    wanted = Wanted(revision=revision, labels=tuple(partition or ()), again=again)
    with session.signals.told():
        route = route_at(manifest, process)
        code = _run(session, route, wanted, session.signals, plan=plan, take_over=take_over)
    raise typer.Exit(code)


def _run(
    session: Session,
    route: Route,
    wanted: Wanted,
    signals: Interrupts,
    *,
    plan: bool,
    take_over: bool,
) -> int:
    from dpone import api_run

    def started() -> None:
        session.progress(f"reading {route.manifest.source.kind} source")

    with api_run.opened(route, wanted, probe=session.probe, started=started) as opened:
        if plan:
            _print_plan(session, opened.plan())
            return 0
        flow = opened.flow(probe=session.probe, take_over=take_over, interrupted=signals.seen)
        labels = (printable(item.partition.label) for item in opened.operations)
        width = max(map(len, labels), default=0)
        return _load(session, route, flow.reports(opened.operations), width, signals)


def _load(
    session: Session,
    route: Route,
    reports: Iterator[OperationReport],
    width: int,
    signals: Interrupts,
) -> int:
    from dpone.contracts.run_report import RunReport
    from dpone.loading.run import exit_code_of

    done: list[OperationReport] = []
    for report in reports:
        with signals.held():
            done.append(report)
            session.say(_line(report, width))
            if report.error is not None:
                session.complain(report.error)
    with signals.held():
        code = _code(done, exit_code_of(done), signals)
        whole = RunReport(
            route=route.manifest.route,
            environment=route.project.environment,
            manifest=route.name,
            exit_code=code,
            operations=tuple(done),
        )
        # The lines of the operations are there already, where they are not one object.
        told = [_line(item, width) for item in done] if session.is_json else []
        session.print(whole, "\n".join([*told, _summary(done)]))
    return code


def _code(done: list[OperationReport], code: int, signals: Interrupts) -> int:
    """The exit code of a run; one that was ended between two operations says so too."""
    from dpone.contracts.errors_run import EXIT_INTERRUPTED

    cut = signals.seen() and any(report.how == "not_tried" for report in done)
    return EXIT_INTERRUPTED if cut else code


def _line(report: OperationReport, width: int) -> str:
    parts = [printable(report.partition).ljust(width), _WORDS[report.how]]
    if "rows_written" in report.result:
        count = report.result["rows_written"]
        parts.append(f"{count} row" if count == 1 else f"{count} rows")
        if report.result.get("rows_deleted"):
            parts.append(f"in place of {report.result['rows_deleted']}")
    if report.attempt:
        parts.append(f"attempt {report.attempt}")
    parts.append(report.operation_id)
    return "  ".join([*parts, *report.notes])


def _summary(done: list[OperationReport]) -> str:
    if not done:
        return "The source has no rows, so there is nothing to load."
    counts: dict[str, int] = {}
    for report in done:
        word = _WORDS[report.how]
        counts[word] = counts.get(word, 0) + 1
    total = f"{len(done)} operation" + ("s" if len(done) > 1 else "")
    return f"{total}: " + ", ".join(f"{count} {word}" for word, count in counts.items())


def _print_plan(session: Session, plan: RunPlan) -> None:
    rows = [("partition", "would", "operation", "why")]
    rows += [
        (printable(item.partition), item.would, item.operation_id, item.why)
        for item in plan.operations
    ]
    session.print(plan, table_of(rows) + "\nNothing was written.")
