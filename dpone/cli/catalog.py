"""`dpone catalog`: who owns a workload, and which DAG runs it."""

from __future__ import annotations

from typing import Annotated

import typer

from dpone.cli.desk_options import ApplyOption, RootOption, UnprovenOption, desk_of, finish
from dpone.cli.session import Format, FormatOption, plain_app, session_of

app = plain_app("Change who owns a workload and which DAG runs it.")


@app.callback()
def _group() -> None:
    """Commands on a domain's catalog."""


@app.command("apply")
def apply_catalog(
    context: typer.Context,
    domain: Annotated[str, typer.Argument(help="The domain's name.", show_default=False)],
    dag: Annotated[str, typer.Option(help="The DAG that gets the workloads.")] = "",
    workload: Annotated[
        list[str] | None, typer.Option("--workload", help="A workload of the domain; repeatable.")
    ] = None,
    owner: Annotated[str, typer.Option(help="Who owns the workloads.")] = "",
    apply: ApplyOption = False,
    root: RootOption = None,
    accept_unproven: UnprovenOption = False,
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Put workloads into a DAG, or name their owner; members and owners that are there stay."""
    session = session_of(context, chosen)
    from dpone.contracts.errors_project import OptionInvalid

    workloads = tuple(workload or ())
    if not workloads or not (dag or owner):
        reason = "name a workload, and a DAG or an owner for it"
        raise OptionInvalid(option="--workload", reason=reason)
    desk = desk_of(session, root, accept_unproven=accept_unproven)
    if dag:
        draft = desk.scaffold.membership(domain, dag, workloads)
    else:
        draft, _ = desk.scaffold.catalog(domain)
    for name in workloads if owner else ():
        desk.scaffold.ownership(draft, domain, name, owner)
    finish(session, desk.run("catalog apply", draft, apply=apply), f"catalog of {domain}")
