"""`dpone route`: check a manifest, and say what it stands for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpone.cli.session import Format, FormatOption, plain_app, printable, session_of, table_of

if TYPE_CHECKING:
    from dpone.contracts.run_report import Protection
    from dpone.routes import Route

app = plain_app("Check a route and explain its operations.")

ManifestArgument = Annotated[Path, typer.Argument(help="The route's manifest.", show_default=False)]

_MEANS = {
    "TRANSACTIONAL": (
        "the rows and their fence commit in one transaction of the target, "
        "so a retry loads nothing twice"
    ),
    "RECONCILABLE": "the target keeps a marker that can be asked whether the load happened",
    "NONE": "nothing can be asked; a guard blocks the next run until a person has looked",
}


ProcessOption = Annotated[
    str, typer.Option("--process", help="The route of a pipeline that has several.")
]


def route_at(path: Path, process: str = "") -> Route:
    """The route of a manifest; a folder is told by its name."""
    from dpone import routes

    if path.is_dir():
        from dpone.contracts.errors_loading import ManifestUnreadable

        reason = "it is a folder; name the file in it, such as route.yaml"
        raise ManifestUnreadable(name=path.resolve().name or "/", reason=reason)
    return routes.read_route(path, process=process)


def _protection(route: Route) -> Protection:
    from contextlib import closing

    from dpone import wiring
    from dpone.contracts.run_report import Protection

    wiring.route_loader(route)
    with closing(wiring.route_target(route)) as target:
        capability = target.capability.value
    return Protection(
        connector=route.manifest.target.kind, capability=capability, means=_MEANS[capability]
    )


def _unread(route: Route) -> str:
    """What a check that reads no data leaves open."""
    source = route.manifest.source
    if source.query is not None:
        return "The query was not run; dpone run with --plan runs it."
    return f"Whether files fit {printable(source.pattern)} was not looked at; --plan reads them."


@app.command()
def validate(
    context: typer.Context,
    manifest: ManifestArgument,
    process: ProcessOption = "",
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Check a manifest, its project file and its connections; read no data."""
    session = session_of(context, chosen)
    from contextlib import closing

    from dpone import routes, wiring
    from dpone.contracts.run_report import RouteCheck

    route = route_at(manifest, process)
    protection = _protection(route)
    with closing(routes.route_source(route)), closing(wiring.route_journal(route)):
        pass
    spec = route.manifest
    check = RouteCheck(
        route=spec.route,
        manifest=route.name,
        source=spec.source.kind,
        target=spec.target.kind,
        strategy=spec.strategy_name,
        partition=spec.partition if isinstance(spec.partition, str) else spec.cut_column,
        protection=protection,
    )
    session.print(
        check,
        f"{route.name} is a valid route: {check.source} into {check.target}, {check.strategy}.\n"
        f"{_unread(route)}\n"
        f"{protection.connector} is {protection.capability}: {protection.means}.",
    )


@app.command()
def explain(
    context: typer.Context,
    manifest: ManifestArgument,
    process: ProcessOption = "",
    chosen: FormatOption = Format.TEXT,
) -> None:
    """List the operations of a route, their ids, and the protection they get."""
    session = session_of(context, chosen)
    from contextlib import closing

    from dpone import routes
    from dpone.contracts.run_report import ExplainedOperation, RouteExplanation
    from dpone.loading.operations import operations_of

    route = route_at(manifest, process)
    protection = _protection(route)
    environment = route.project.environment
    with closing(routes.route_source(route)) as source:
        planned = operations_of(route.manifest, source, environment=environment, name=route.name)
    operations = tuple(
        ExplainedOperation(
            partition=item.partition.label,
            operation_id=item.operation.operation_id,
            intent_digest=item.operation.intent_digest,
            identity=item.operation.identity(),
            intent=item.operation.intent,
        )
        for item in planned
    )
    explanation = RouteExplanation(
        route=route.manifest.route,
        environment=environment,
        manifest=route.name,
        protection=protection,
        operations=operations,
    )
    rows = [("partition", "operation", "intent")]
    rows += [
        (printable(item.partition), item.operation_id, item.intent_digest) for item in operations
    ]
    session.print(
        explanation,
        f"Route {route.manifest.route}, environment {environment}: {len(operations)} operations.\n"
        f"{protection.connector} is {protection.capability}: {protection.means}.\n"
        + table_of(rows),
    )
