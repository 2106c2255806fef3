"""`dpone init`: write a project, a domain, a workload or a DAG."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from dpone.cli.desk_options import (
    ApplyOption,
    NewRootOption,
    RootOption,
    UnprovenOption,
    desk_of,
    finish,
)
from dpone.cli.session import Format, FormatOption, plain_app, session_of

if TYPE_CHECKING:
    from dpone.contracts.authoring_report import WorkloadDetails
    from dpone.contracts.catalog import Dag

SourceOption = Annotated[
    str, typer.Option(help="csv, parquet or jsonl[:PATTERN], or query[:CONNECTION].")
]
TargetOption = Annotated[
    str,
    typer.Option(
        "--target",
        "--sink",
        help="duckdb[:PATH], sqlite[:PATH], csvdir[:PATH] or postgres[:CONNECTION].",
    ),
]
TableOption = Annotated[str, typer.Option(help="The target's table; by default the name.")]
StrategyOption = Annotated[
    str, typer.Option(help="append, full_refresh, merge or replace_partition.")
]
KeyOption = Annotated[
    list[str] | None, typer.Option("--key", help="A column of merge or replace_partition.")
]
PartitionOption = Annotated[str, typer.Option(help="none, or file: one operation a file.")]
SqlOption = Annotated[str, typer.Option(help="The statement of a query source.")]
DagOption = Annotated[str, typer.Option(help="Also declare a DAG that runs it.")]
ScheduleOption = Annotated[str, typer.Option(help="When the DAG runs.")]
TimezoneOption = Annotated[str, typer.Option(help="The DAG's time zone.")]
RetriesOption = Annotated[int, typer.Option(min=0, help="How often Airflow retries.")]
OwnerOption = Annotated[str, typer.Option(help="Who owns it.")]
LayoutOption = Annotated[str, typer.Option(help="classic, flow or folder.")]

_OF_A_DAG = ("schedule", "timezone", "retries")

app = plain_app("Write a project, a domain, a workload or a DAG; plan first.")
app.info.no_args_is_help = False


@app.callback(invoke_without_command=True)
def init(
    context: typer.Context,
    apply: ApplyOption = False,
    root: NewRootOption = None,
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Write a new project: dpone.toml, the workload set and the ignore file."""
    if context.invoked_subcommand is not None:
        reason = f"it stands before {context.invoked_subcommand} and belongs behind it"
        _refuse_given(context, reason)
        return
    _project(context, apply=apply, root=root, chosen=chosen)


@app.command()
def project(
    context: typer.Context,
    apply: ApplyOption = False,
    root: NewRootOption = None,
    chosen: FormatOption = Format.TEXT,
) -> None:
    """The same as dpone init alone."""
    _project(context, apply=apply, root=root, chosen=chosen)


def _refuse_given(context: typer.Context, reason: str, names: Collection[str] = ()) -> None:
    """Refuse options that were said and do nothing: all, or `names`. Raises `OptionInvalid`."""
    from dpone.contracts.errors_project import OptionInvalid

    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        is_said = source is not None and source.name == "COMMANDLINE"
        if is_said and (not names or option.name in names):
            raise OptionInvalid(option=option.opts[0], reason=reason)


def _project(context: typer.Context, *, apply: bool, root: NewRootOption, chosen: Format) -> None:
    session = session_of(context, chosen)
    # A new project is made where one stands, whatever lies above.
    desk = desk_of(session, root, new=True)
    report = desk.run(
        "init",
        desk.drafted(desk.scaffold.project, apply=apply),
        apply=apply,
        next_commands=("dpone init domain NAME --owner-team TEAM --owner-contact MAIL",),
    )
    finish(session, report, "project")


@app.command()
def domain(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The domain's name.", show_default=False)],
    owner_team: Annotated[str, typer.Option(help="The team that owns it.")] = "data_platform",
    owner_contact: Annotated[str, typer.Option(help="How the team is reached.")] = "data_platform",
    approver_team: Annotated[str, typer.Option(help="The team that approves.")] = "",
    apply: ApplyOption = False,
    root: RootOption = None,
    accept_unproven: UnprovenOption = False,
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Write a domain: who owns it, and its empty catalog."""
    session = session_of(context, chosen)
    from dpone.contracts.catalog import Owner

    owner = Owner(team=owner_team, contact=owner_contact, approver_team=approver_team or owner_team)
    desk = desk_of(session, root, accept_unproven=accept_unproven)
    report = desk.run(
        "init domain",
        desk.drafted(lambda: desk.scaffold.domain(name, owner), apply=apply),
        apply=apply,
        next_commands=(f"dpone init workload {name}/NAME --source csv --target duckdb",),
    )
    finish(session, report, f"domain {name}")


@app.command()
def workload(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="DOMAIN/WORKLOAD.", show_default=False)],
    source: SourceOption = "csv",
    target: TargetOption = "duckdb",
    table: TableOption = "",
    strategy: StrategyOption = "full_refresh",
    key: KeyOption = None,
    partition: PartitionOption = "none",
    sql: SqlOption = "",
    dag: DagOption = "",
    schedule: ScheduleOption = "0 6 * * *",
    timezone: TimezoneOption = "UTC",
    retries: RetriesOption = 2,
    owner: OwnerOption = "data_platform",
    layout: LayoutOption = "classic",
    apply: ApplyOption = False,
    root: RootOption = None,
    accept_unproven: UnprovenOption = False,
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Write a workload: a route manifest that runs, and its place in the catalog."""
    session = session_of(context, chosen)
    from dpone.authoring.workload import plan_workload
    from dpone.contracts.catalog import WorkloadOptions

    domain_name, workload_id = split_name(name)
    options = WorkloadOptions(
        source=source,
        target=target,
        table=table,
        strategy=strategy,
        keys=tuple(key or ()),
        partition=partition,
        sql=sql,
        owner=owner,
        form=layout,
    )
    declared = _dag_if(context, dag, (workload_id,), schedule, timezone, owner, retries)
    desk = desk_of(session, root, accept_unproven=accept_unproven)
    wanted = partial(plan_workload, desk.scaffold, domain_name, workload_id, options, declared)
    details = _details(domain_name, workload_id, dag, layout)
    report = desk.run(
        "init workload",
        desk.drafted(wanted, apply=apply),
        apply=apply,
        next_commands=(f"dpone route validate {details.manifest}", f"dpone run {details.manifest}"),
        details=details,
    )
    finish(session, report, f"workload {name}")


def _dag_if(
    context: typer.Context,
    dag: str,
    workloads: tuple[str, ...],
    schedule: str,
    timezone: str,
    owner: str,
    retries: int,
) -> Dag | None:
    if dag:
        return _dag(dag, workloads, schedule, timezone, owner, retries)
    _refuse_given(context, "it says something of a DAG, and there is no --dag", _OF_A_DAG)
    return None


def _details(domain: str, workload: str, dag: str, layout: str) -> WorkloadDetails:
    from dpone.contracts.authoring_report import WorkloadDetails
    from dpone.contracts.catalog import WORKLOAD_SET, manifest_path

    return WorkloadDetails(
        layout=layout,
        domain=domain,
        workload_id=workload,
        dag_id=dag or None,
        workload_set=WORKLOAD_SET,
        manifest=manifest_path(domain, workload, layout),
        # The manifest was decoded as a run decodes it before anything was planned.
        validation={"status": "passed"},
    )


@app.command()
def dag(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="DOMAIN/DAG.", show_default=False)],
    workload: Annotated[
        list[str] | None, typer.Option("--workload", help="A workload that it runs; repeatable.")
    ] = None,
    schedule: ScheduleOption = "0 6 * * *",
    start_date: Annotated[str, typer.Option(help="Its first day.")] = "2026-01-01",
    timezone: TimezoneOption = "UTC",
    owner: OwnerOption = "data_platform",
    retries: RetriesOption = 2,
    description: Annotated[str, typer.Option(help="One line about it.")] = "",
    apply: ApplyOption = False,
    root: RootOption = None,
    accept_unproven: UnprovenOption = False,
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Declare a DAG in a domain's catalog."""
    session = session_of(context, chosen)
    domain_name, dag_id = split_name(name)
    declared = _dag(
        dag_id, tuple(workload or ()), schedule, timezone, owner, retries, start_date, description
    )
    desk = desk_of(session, root, accept_unproven=accept_unproven)
    report = desk.run("init dag", desk.scaffold.dag(domain_name, declared), apply=apply)
    finish(session, report, f"DAG {name}")


def _dag(
    dag_id: str,
    workloads: tuple[str, ...],
    schedule: str,
    timezone: str,
    owner: str,
    retries: int,
    start_date: str = "2026-01-01",
    description: str = "",
) -> Dag:
    from dpone.contracts.catalog import Dag

    return Dag(
        dag_id=dag_id,
        workloads=tuple(dict.fromkeys(workloads)),
        schedule=schedule,
        timezone=timezone,
        owner=owner,
        retries=retries,
        start_date=start_date,
        description=description,
    )


def split_name(name: str) -> tuple[str, str]:
    """DOMAIN/NAME in its two parts. Raises `OptionInvalid`."""
    from dpone.contracts.errors_project import OptionInvalid

    first, slash, second = name.partition("/")
    if not slash or not first or not second or "/" in second:
        raise OptionInvalid(option="NAME", reason="it reads DOMAIN/NAME")
    return first, second
