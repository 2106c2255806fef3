"""`dpone airflow`: the deployment cache of an Airflow, and reviewed deletions from it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpone.cli.cache_options import (
    CACHE_ROOT,
    CacheRootOption,
    EnvironmentOption,
    EvidenceOption,
    ProtectOption,
    cache_of,
    documents,
    opened,
)
from dpone.cli.desk_options import printable_text
from dpone.cli.retention_apply import apply_command
from dpone.cli.retention_desk import acknowledge_command, archive_command, receipts_command
from dpone.cli.session import Format, FormatOption, plain_app, session_of, table_of

app = plain_app("Plan and apply reviewed deletions from a deployment cache.")


app.command("cache-retention-apply")(apply_command)
app.command("cache-retention-receipts")(receipts_command)
app.command("cache-retention-acknowledge")(acknowledge_command)
app.command("cache-retention-archive")(archive_command)


@app.callback()
def airflow() -> None:
    """Plan and apply reviewed deletions from a deployment cache."""


@app.command("cache-retention-plan")
def retention_plan(
    context: typer.Context,
    cache_root: CacheRootOption = CACHE_ROOT,
    environment: EnvironmentOption = "dev",
    protect: ProtectOption = None,
    evidence: EvidenceOption = None,
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Show what a deletion would delete and why; nothing is changed."""
    session = session_of(context, chosen)
    from datetime import UTC, datetime

    from dpone.retention import table
    from dpone.retention.plan import Planner

    given = tuple(protect or ())
    with opened(cache_root, environment) as (files, root):
        planner = Planner(root, environment, user=files.user)
        planned = planner.show(given, documents(evidence), now=datetime.now(UTC))
    lines = [table_of(table.rows_of(planned))] if planned.rows else []
    lines += table.summary_of(planned)
    plan = planned.plan
    if plan is None:
        assert planned.blocker is not None, "without a plan there is a blocker"
        session.say(printable_text("\n".join(lines)))
        raise planned.blocker
    if plan.delete_candidates or plan.closings:
        command = table.apply_command(
            plan,
            cache_root=cache_root,
            given=given,
            evidence=[str(path) for path in evidence or ()],
        )
        lines += ["Review it, make one UUID of version 4 for the review, and apply:", command]
    else:
        lines.append("There is nothing to delete.")
    session.print(plan, printable_text("\n".join(lines)))


@app.command("cache-materialize")
def materialize(
    context: typer.Context,
    cache_root: CacheRootOption = CACHE_ROOT,
    environment: EnvironmentOption = "dev",
    dag: Annotated[
        list[str] | None, typer.Option("--dag", help="A DAG of the release; repeatable.")
    ] = None,
    fixture: Annotated[
        str, typer.Option(help="Any word; another word gives another deployment.")
    ] = "0",
    files: Annotated[
        int, typer.Option("--files", min=0, help="How many more files the deployment has.")
    ] = 0,
    activate: Annotated[
        bool, typer.Option("--activate", help="Make it what is current, too.")
    ] = False,
    loader_ack_file: Annotated[
        Path | None,
        typer.Option(help="With --activate: write a loader's acknowledgement there."),
    ] = None,
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Make a small local cache to try things on; a second run changes nothing."""
    session = session_of(context, chosen)
    from uuid import uuid4

    from dpone import wiring
    from dpone.cli.cache_options import check_environment, check_preview
    from dpone.retention.materialize import Materializer, Preview

    dag_ids = tuple(sorted(set(dag or ("DAG__preview",))))
    check_environment(environment)
    check_preview(dag_ids, fixture)
    maker = Materializer(
        cache_of(cache_root, create=True),
        nonces=lambda: str(uuid4()),
        now=wiring.now,
        probe=session.probe,
    )
    report = maker.run(
        Preview(environment, dag_ids, fixture, files),
        activate=activate,
        ack_file=None if loader_ack_file is None else wiring.open_document(loader_ack_file),
    )
    done = "written" if report.written else "there already"
    lines = [f"deployment {report.deployment_id}: {done}"]
    if activate:
        lines.append("it is current now" if report.activated else "it was current already")
    session.print(report, printable_text("\n".join(lines)))
