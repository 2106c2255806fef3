"""What the authoring commands share: their options, and how a report is printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpone.cli.session import Session, printable

if TYPE_CHECKING:
    from dpone.authoring.desk import Desk
    from dpone.contracts.authoring_report import AuthoringReport, MigrationReport

ApplyOption = Annotated[
    bool, typer.Option("--apply", help="Change the files; without it only the plan is shown.")
]
RootOption = Annotated[
    Path | None,
    typer.Option("--root", help="The project's folder; by default the one with dpone.toml."),
]
UnprovenOption = Annotated[
    bool,
    typer.Option(
        "--accept-unproven",
        help="Vouch that nobody edits, where the system cannot tell; earlier bytes are not kept.",
    ),
]


def desk_of(session: Session, root: Path | None, *, accept_unproven: bool = False) -> Desk:
    """The authoring desk of the project in or above a folder. Raises `OptionInvalid`."""
    from dpone import wiring
    from dpone.contracts.errors_project import OptionInvalid

    if root is not None and not root.is_dir():
        raise OptionInvalid(option="--root", reason="there is no such folder")
    folder = root if root is not None else wiring.project_root(Path.cwd())
    return wiring.authoring_desk(folder, probe=session.probe, accept_unproven=accept_unproven)


def relative(path: str, root: Path | None) -> str:
    """A path given from the working directory, as one relative to the project."""
    from dpone import wiring

    start = Path.cwd()
    folder = (root if root is not None else wiring.project_root(start)).absolute()
    given = Path(path)
    if root is None and not given.is_absolute() and folder != start:
        given = start / given
    if given.is_absolute() and given.is_relative_to(folder):
        return given.relative_to(folder).as_posix()
    return given.as_posix()


def finish(session: Session, report: AuthoringReport | MigrationReport, title: str) -> None:
    """Print a report and end with its exit code."""
    from dpone.authoring.report import words_of as words_of_changes

    next_commands: tuple[str, ...] = getattr(report, "next_commands", ())
    lines = [f"{title}: {_words(report)}", printable_text(words_of_changes(report.changes))]
    lines += [f"note: {printable(warning)}" for warning in report.warnings]
    for issue in report.unit_of_work.issues:
        lines.append(f"not undone: {printable(issue)}")
    if report.status == "ready":
        lines.append("Nothing was written. Add --apply to change the files.")
    elif report.passed and next_commands:
        lines += ["next:", *(f"  {command}" for command in next_commands)]
    session.print(report, "\n".join(line for line in lines if line))
    if not session.is_json:
        for error in report.errors:
            session.complain(error)
    raise typer.Exit(report.exit_code)


def printable_text(text: str) -> str:
    """Several lines without what a terminal would obey."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _words(report: AuthoringReport | MigrationReport) -> str:
    count = sum(change.action not in ("no_op", "not_applied") for change in report.changes)
    files = "1 file" if count == 1 else f"{count} files"
    return {
        "ready": f"would change {files}",
        "no_op": "everything is as wanted, nothing to do",
        "applied": f"changed {files}",
        "rolled_back": "refused, and undone",
        "recovery_required": "stopped; something needs a look",
    }.get(report.status, report.status)
