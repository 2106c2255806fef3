"""`dpone authoring`: migrate between the authoring forms, and recover interrupted changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dpone.cli.desk_options import (
    ApplyOption,
    RootOption,
    UnprovenOption,
    desk_of,
    finish,
    relative,
)
from dpone.cli.session import Format, FormatOption, plain_app, printable, session_of

if TYPE_CHECKING:
    from dpone.contracts.authoring_report import RecoveryReport

app = plain_app("Migrate authoring forms; recover interrupted changes.")


@app.command()
def migrate(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            help="A manifest, or its path without ending, from the working folder or else from the "
            "project's.",
            show_default=False,
        ),
    ],
    to: Annotated[str, typer.Option("--to", help="classic, flow or folder.", show_default=False)],
    declared: Annotated[
        str, typer.Option("--from", help="The form that is there, to make sure.")
    ] = "",
    plan: Annotated[
        bool, typer.Option("--plan", help="Show the plan; this is the default.")
    ] = False,
    apply: ApplyOption = False,
    root: RootOption = None,
    accept_unproven: UnprovenOption = False,
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Bring a workload into another authoring form; its meaning stays the same."""
    session = session_of(context, chosen)
    from dpone.authoring.migrate import ENDINGS
    from dpone.contracts.errors_project import OptionInvalid

    if plan and apply:
        raise OptionInvalid(option="--plan", reason="it excludes --apply")
    desk = desk_of(session, root, accept_unproven=accept_unproven)
    path = relative(
        target,
        root,
        known=lambda name: any(desk.tree.is_there(name + end) for end in ("", *ENDINGS)),
    )
    report = desk.migrate(path, to, declared=declared, apply=apply)
    finish(session, report, f"{report.source.mode} to {report.target.mode}")


@app.command()
def recover(
    context: typer.Context,
    path: Annotated[
        str,
        typer.Argument(
            help="The project file, from the working folder or else from the project's.",
            show_default=False,
        ),
    ],
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Also move aside what cannot be read, such as a link or pipe."),
    ] = False,
    apply: ApplyOption = False,
    root: RootOption = None,
    accept_unproven: UnprovenOption = False,
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Finish or undo an interrupted change of a file, so that it can be changed again.

    Also lists what earlier changes left in its folder for a person to look at.
    """
    session = session_of(context, chosen)
    desk = desk_of(session, root, accept_unproven=accept_unproven)
    name = relative(path, root, known=desk.is_known)
    report = desk.recover(name, apply=apply, by_hand=keep)
    session.print(report, "\n".join(_lines(report)))
    raise typer.Exit(report.exit_code)


def _lines(report: RecoveryReport) -> list[str]:
    lines = [f"{printable(report.path)}: {_WORDS[report.status]}"]
    if report.reason and report.status != report.reason:
        lines[0] += f" ({report.reason})"
    names = ((report.recovery_name,) if report.recovery_name else ()) + report.kept
    lines += [f"kept: {printable(name)}" for name in names]
    lines += [f"stays, look whether you need it: {printable(name)}" for name in report.stays]
    if report.newer:
        newer = "the kept file" if report.newer == "recovery" else printable(report.path)
        lines.append(f"written last: {newer}")
    lies = [name for name in report.leftovers if name not in names]
    lines += [
        f"left by an earlier change, to look at or delete: {printable(name)}" for name in lies
    ]
    if report.status == "pending":
        lines.append("Nothing was written. Add --apply to recover it.")
    return lines


_WORDS = {
    "none": "no interrupted change",
    "pending": "an interrupted change waits",
    "committed": "the change is in force",
    "rolled_back": "the change was not made",
    "left": "somebody changed it since, so what the change had made was left as it is",
    "recovery_required": "bytes were kept that need a look",
}
