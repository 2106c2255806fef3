"""The entry point: finds the command, runs it, and says truthfully how it ended.

Promise: the exit code is the one of the published table, an error says what happened, what is
known and what to do next, and a traceback is shown to nobody who did not ask for one. A command's
module is imported when the command is called.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import dpone
from dpone.cli.session import Format, Session

if TYPE_CHECKING:
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


def _version(wanted: bool) -> None:
    if wanted:
        print(f"dpone {dpone.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Loads that an orchestrator may kill and retry, with proof that a retry is safe."""


def main(argv: Sequence[str] | None = None, *, probe: Probe | None = None) -> NoReturn:
    """Run the command line and exit with its code.

    `probe` observes the effects of this call; only a harness passes another one in.
    """
    session = Session(probe)
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding lacks is no reason to stop a load.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_run(session, argv))


def _run(session: Session, argv: Sequence[str] | None) -> int:
    command = typer.main.get_command(app)
    arguments = list(sys.argv[1:] if argv is None else argv)
    # A misuse is found before the command runs, and is reported in the format asked for too.
    session.format = _format_of(arguments)
    try:
        code = command.main(arguments, prog_name="dpone", standalone_mode=False, obj=session)
    except Exception as error:
        return _failed(session, error)
    return code if isinstance(code, int) else 0


def _format_of(arguments: Sequence[str]) -> Format:
    pairs = zip(arguments, [*arguments[1:], ""], strict=False)
    is_json = any(
        word == "--format=json" or (word == "--format" and value == "json") for word, value in pairs
    )
    return Format.JSON if is_json else Format.TEXT


def _failed(session: Session, error: Exception) -> int:
    """Say what is the matter: an error of this library, a misuse, or what nobody foresaw."""
    from dpone.contracts.errors import EXIT_USAGE, DponeError
    from dpone.contracts.errors_loading import InternalFailure, Usage

    if isinstance(error, DponeError):
        return session.fail(error)
    kind = type(error).__name__
    if kind == "NoArgsIsHelpError":
        print(getattr(error, "message", ""), file=sys.stderr)
        return EXIT_USAGE
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "dpone"
        return session.fail(Usage(reason=error.format_message(), command=path))
    if kind == "Abort":
        return 130
    failure = InternalFailure(kind=kind)
    failure.__cause__ = error
    return session.fail(failure)
