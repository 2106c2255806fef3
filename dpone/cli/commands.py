"""All commands: finds the one that is called, runs it, and says truthfully how it ended.

Promise: the exit code is the one of the published table, an error says what happened, what is
known and what to do next. A command's module is imported when the command is called.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

import dpone
from dpone.cli.interrupt import Interrupts
from dpone.cli.session import Session, format_of, session_of

if TYPE_CHECKING:
    from dpone.contracts.errors import DponeError
    from dpone.ports.probe import Probe

_HIDDEN = ("workload", "migrate")
_COMMANDS = {
    "run": ("dpone.cli.run", "Load a route; a retry loads nothing twice."),
    "route": ("dpone.cli.route", "Check a route and explain its operations."),
    "init": ("dpone.cli.init", "Write a project, a domain, a workload or a DAG; plan first."),
    "catalog": ("dpone.cli.catalog", "Change who owns a workload and which DAG runs it."),
    "authoring": ("dpone.cli.authoring", "Migrate authoring forms; recover interrupted changes."),
    "workload": ("dpone.cli.alias_workload", "An older name of dpone init workload."),
    "migrate": ("dpone.cli.alias_migrate", "An older name of dpone authoring migrate."),
    "journal": ("dpone.cli.journal", "Look at operations and recover them."),
    "airflow": ("dpone.cli.airflow", "Plan and apply reviewed deletions from a cache."),
    "schema": ("dpone.cli.schema", "Print the JSON Schema of a public contract."),
}


class _LazyGroup(TyperGroup):
    """Commands that are imported when they are called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands that exist."""
        return [
            name
            for name, (module, _) in _COMMANDS.items()
            if name not in _HIDDEN and _exists(module)
        ]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command by its name."""
        module = _COMMANDS.get(cmd_name, ("", ""))[0]
        if not module or not _exists(module):
            return None
        command = typer.main.get_command(importlib.import_module(module).app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands, without importing one of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in self.list_commands(ctx)])


def _exists(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


app = typer.Typer(
    name="dpone",
    cls=_LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(context: typer.Context, wanted: bool) -> None:
    if wanted:
        session_of(context, context.obj.format).pass_on(f"dpone {dpone.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Loads that an orchestrator may kill and retry, with proof that a retry is safe."""


def run(arguments: Sequence[str], signals: Interrupts, probe: Probe | None) -> int:
    """Run a command and return its exit code; everything that it had to say is said then."""
    session = Session(probe, signals)
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding lacks is no reason to stop a load.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # A misuse is found before the command runs, and is reported in the format asked for too.
    session.format = format_of(arguments)
    code = _watched(session, list(arguments))
    with signals.held():
        return session.ended(code)


def _watched(session: Session, arguments: list[str]) -> int:
    """Run a command; where the environment asks for telemetry, it is watched."""
    if os.environ.get("DPONE_TELEMETRY"):
        from dpone import wiring
        from dpone.contracts.errors import DponeError

        try:
            session.telemetry = wiring.telemetry(os.environ, dpone.__version__)
        except DponeError as error:
            return session.fail(error)
    return _run(session, arguments)


def _run(session: Session, arguments: list[str]) -> int:
    from dpone.contracts.errors_run import EXIT_INTERRUPTED, Interrupted

    command = typer.main.get_command(app)
    try:
        code = command.main(arguments, prog_name="dpone", standalone_mode=False, obj=session)
    except KeyboardInterrupt:
        return session.fail(Interrupted())
    except Exception as error:
        return _failed(session, error)
    if code == EXIT_INTERRUPTED and not session.answered:
        # A command that only reads or writes files ends where the signal meets it.
        return session.fail(Interrupted())
    return code if isinstance(code, int) else 0


def _failed(session: Session, error: Exception) -> int:
    """Say what is the matter: an error of this library, a misuse, or what nobody foresaw."""
    from dpone.contracts.errors import EXIT_DONE, EXIT_USAGE, DponeError
    from dpone.contracts.errors_loading import InternalFailure, Usage
    from dpone.contracts.errors_project import PathClosed
    from dpone.contracts.errors_run import Interrupted

    if session.signals.came and not isinstance(error, Interrupted):
        # Whatever is raised after the signal is a part of the end.
        return session.fail(Interrupted())
    if isinstance(error, DponeError):
        return session.fail(error)
    kind = type(error).__name__
    if kind == "NoArgsIsHelpError":
        session.tell(getattr(error, "message", ""))
        return EXIT_USAGE
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "dpone"
        return session.fail(Usage(reason=error.format_message(), command=path))
    if isinstance(error, OSError):
        gone = _working_folder_gone()
        if gone is not None:
            return session.fail(gone)
        if error.filename is None and session.is_stuck(after=error):
            # A help text that could not be written; commands never print around the session.
            return EXIT_DONE
        if isinstance(error, PermissionError) and isinstance(error.filename, str):
            return session.fail(PathClosed(name=error.filename.rpartition("/")[2]))
    failure = InternalFailure(kind=kind)
    failure.__cause__ = error
    return session.fail(failure)


def _working_folder_gone() -> DponeError | None:
    """The refusal for a working folder that was deleted or closed under the caller."""
    from pathlib import Path

    from dpone.contracts.errors_project import WorkingFolderMissing

    try:
        Path.cwd().stat()
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError)
        return WorkingFolderMissing(reason="it is gone" if is_gone else "it is closed to this user")
    return None
