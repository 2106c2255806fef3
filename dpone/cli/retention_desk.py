"""`dpone airflow cache-retention-receipts`, `-acknowledge` and `-archive`."""

from __future__ import annotations

from typing import Annotated

import typer

from dpone.cli.cache_options import CACHE_ROOT, CacheRootOption, EnvironmentOption
from dpone.cli.retention_apply import desk_of
from dpone.cli.session import Format, FormatOption, Session, printable, session_of, table_of

ApplyOption = Annotated[bool, typer.Option("--apply", help="Write; without it only say what.")]


def receipts_command(
    context: typer.Context,
    cache_root: CacheRootOption = CACHE_ROOT,
    environment: EnvironmentOption = "dev",
    operation: Annotated[str, typer.Option(help="Print this operation's receipt.")] = "",
    repair: Annotated[
        bool, typer.Option("--repair", help="Set the modes of our own directories back.")
    ] = False,
    apply: ApplyOption = False,
    chosen: FormatOption = Format.TEXT,
) -> None:
    """List the receipts of all operations, or print one, also from the archive."""
    session = session_of(context, chosen)
    desk = desk_of(session, cache_root, environment)
    if operation:
        _print_one(session, desk.receipt(operation), operation)
        return
    report = desk.receipts(repair=repair, apply=apply)
    rows = [("operation", "status", "deleted", "pending", "where")]
    rows += [
        (
            row.operation_id,
            row.status,
            str(row.deleted),
            str(row.pending),
            "archive" if row.archived else "receipts",
        )
        for row in report.receipts
    ]
    lines = [table_of(rows)]
    lines += [f"repair: {printable(line)}" for line in report.repairs]
    lines += [f"note: {printable(line)}" for line in report.warnings]
    if report.blocker:
        lines.append(f"blocked: {printable(report.blocker)}")
    if report.stuck:
        lines.append(f"{report.stuck} trees in the trash could not be deleted yet.")
    session.print(report, "\n".join(lines))
    raise typer.Exit(report.exit_code)


def _print_one(session: Session, data: bytes | None, operation: str) -> None:
    from dpone.contracts.errors_retention import ReceiptInvalid

    if data is None:
        raise ReceiptInvalid(file=operation[:80], reason="there is no such receipt")
    session.pass_on(data.decode("utf-8"))


def acknowledge_command(
    context: typer.Context,
    cache_root: CacheRootOption = CACHE_ROOT,
    environment: EnvironmentOption = "dev",
    apply: ApplyOption = False,
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Say what recovery put back, and record that you saw it."""
    session = session_of(context, chosen)
    desk = desk_of(session, cache_root, environment)
    report = desk.acknowledge(apply=apply)
    lines = [f"{printable(row['path'])} has its name again" for row in report.restored]
    if not report.restored:
        lines = ["Nothing waits to be acknowledged."]
    elif not apply:
        lines.append("Nothing was written. Add --apply when you have looked.")
    session.print(report, "\n".join(lines))


def archive_command(
    context: typer.Context,
    cache_root: CacheRootOption = CACHE_ROOT,
    environment: EnvironmentOption = "dev",
    expected: Annotated[
        str, typer.Option("--expected-archive-sha256", help="The digest that was reviewed.")
    ] = "",
    apply: ApplyOption = False,
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Move finished receipts into the archive, where a replay still finds them."""
    session = session_of(context, chosen)
    from dpone.contracts.cache_layout import is_digest
    from dpone.contracts.errors_retention import PlanRequired

    if apply and not is_digest(expected):
        raise PlanRequired(reason="--expected-archive-sha256 is missing")
    desk = desk_of(session, cache_root, environment)
    report = desk.archive_receipts(expected, apply=apply)
    word = "moved" if report.applied else "would move"
    lines = [f"{word} {report.receipts} receipts and {report.transactions} restorations"]
    if not apply:
        option = f"--expected-archive-sha256 {report.archive_sha256} --apply"
        lines.append(f"Nothing was written. Apply with {option}")
    session.print(report, "\n".join(lines))
