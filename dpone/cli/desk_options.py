"""What the authoring commands share: their options, and how a report is printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpone.cli.session import Session, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpone.authoring.desk import Desk
    from dpone.contracts.authoring_report import AuthoringReport, MigrationReport

ApplyOption = Annotated[
    bool, typer.Option("--apply", help="Change the files; without it only the plan is shown.")
]
RootOption = Annotated[
    Path | None,
    typer.Option("--root", help="The project's folder; by default the one with dpone.toml."),
]
NewRootOption = Annotated[
    Path | None,
    typer.Option("--root", help="The new project's folder; by default the working folder."),
]
UnprovenOption = Annotated[
    bool,
    typer.Option(
        "--accept-unproven",
        help="Vouch that nobody edits, where the system cannot tell; earlier bytes are not kept.",
    ),
]


def desk_of(
    session: Session, root: Path | None, *, accept_unproven: bool = False, new: bool = False
) -> Desk:
    """The authoring desk of the project in or above a folder. Raises `OptionInvalid`.

    `new`: of the folder itself, whatever lies above.
    """
    from dpone import wiring

    folder = _folder_of(root, new=new)
    return wiring.authoring_desk(folder, probe=session.probe, accept_unproven=accept_unproven)


def _folder_of(root: Path | None, *, new: bool = False) -> Path:
    from dpone import wiring
    from dpone.contracts.errors_project import OptionInvalid, WorkingFolderMissing

    try:
        if root is None:
            return Path.cwd() if new else wiring.project_root(Path.cwd())
        is_there = root.is_dir()
    except PermissionError:
        if root is None:
            reason = "a folder around it does not let this user in"
            raise WorkingFolderMissing(reason=reason) from None
        reason = "a folder on the way to it does not let this user in"
        raise OptionInvalid(option="--root", reason=reason) from None
    if not is_there:
        raise OptionInvalid(option="--root", reason="there is no such folder")
    return root.absolute()


def relative(path: str, root: Path | None, *, known: Callable[[str], bool]) -> str:
    """A path as one relative to the project: from the working folder, or else from the project's.

    The first that is in the project and `known` counts, or the first in the project. What is in
    neither stays as it was given, to be refused in these words.
    """
    import os

    from dpone.contracts.errors import DponeError

    folder = _folder_of(root)
    inside: list[str] = []
    for base in (Path.cwd(), folder):
        # The .. of a path are taken as they are written; links on the way are followed only when
        # it leads nowhere into the project without that.
        place = Path(os.path.normpath(base / path))
        for found, top in ((place, folder), (_resolved(place), folder.resolve())):
            if found != top and found.is_relative_to(top):
                inside.append(found.relative_to(top).as_posix())
                break
    for name in inside:
        try:
            if known(name):
                return name
        except DponeError:
            # Whoever works on it says why.
            return name
    return inside[0] if inside else Path(path).as_posix()


def _resolved(place: Path) -> Path:
    """The path with all links followed but its own."""
    try:
        return place.parent.resolve() / place.name
    except (OSError, RuntimeError):
        return place


def finish(session: Session, report: AuthoringReport | MigrationReport, title: str) -> None:
    """Print a report and end with its exit code."""
    from dpone.authoring.report import words_of as words_of_changes

    next_commands: tuple[str, ...] = getattr(report, "next_commands", ())
    lines = [f"{title}: {_words(report)}", printable_text(words_of_changes(report.changes))]
    lines += [f"note: {printable(warning)}" for warning in report.warnings]
    lines += _left(report)
    if report.status == "ready":
        lines.append("Nothing was written. Add --apply to change the files.")
    elif report.passed and next_commands:
        lines += ["next:", *(f"  {command}" for command in next_commands)]
    session.print(report, "\n".join(line for line in lines if line))
    if not session.is_json:
        for error in report.errors:
            session.complain(error)
    raise typer.Exit(report.exit_code)


def _left(report: AuthoringReport | MigrationReport) -> list[str]:
    """What a person has to look at beside the changes themselves."""
    unit = report.unit_of_work
    told = {change.recovery_name for change in report.changes}
    kept = [name for name in dict.fromkeys(unit.recovery_artifacts) if name not in told]
    return [
        *(f"earlier bytes kept: {printable(name)}" for name in kept),
        *(f"stays from an interrupted change: {printable(name)}" for name in unit.stays),
        *(f"not undone: {printable(issue)}" for issue in unit.issues),
    ]


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
