"""What one call of the command line knows, and how it speaks.

Promise: with `--format json` stdout holds exactly one closed object, whatever happens; texts for
people about errors and progress go to stderr. Not promised: that stdout can be written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from dpone.contracts.errors import DponeError
    from dpone.ports.probe import Probe


class Format(StrEnum):
    """How a command prints its result."""

    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[
    Format, typer.Option("--format", help="Text for people, or one JSON object for programs.")
]


def plain_app(about: str = "") -> typer.Typer:
    """A Typer application for one command or one group of commands, with plain help.

    A group needs `about`, the sentence above its commands.
    """
    return typer.Typer(
        help=about or None,
        no_args_is_help=bool(about),
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


class Session:
    """One call: its probe, its format, and whether the object was already printed."""

    def __init__(self, probe: Probe | None = None) -> None:
        self._probe = probe
        self.format = Format.TEXT

    @property
    def probe(self) -> Probe:
        """What observes the effects of this call; by default nothing does."""
        from dpone.ports.probe import quiet

        return self._probe or quiet

    @property
    def is_json(self) -> bool:
        """Whether stdout is for a program."""
        return self.format is Format.JSON

    def print(self, value: Any, text: str) -> None:
        """Print the result: `value` for programs, `text` for people."""
        _write(_encoded(value) if self.is_json else text)

    def say(self, text: str) -> None:
        """Print a line for people as soon as it is known; nothing in JSON."""
        if not self.is_json:
            _write(text)

    def progress(self, text: str) -> None:
        """Show what is going on, on a terminal only."""
        if not self.is_json and sys.stderr.isatty():
            print(text, file=sys.stderr, flush=True)

    def complain(self, report: Any) -> None:
        """Print an error report for people, as part of a longer run."""
        print(words_of(report), file=sys.stderr, flush=True)

    def fail(self, error: DponeError) -> int:
        """Print an error and return its exit code."""
        if self.is_json:
            _write(_encoded(error.report()))
        print(words_of(error.report()), file=sys.stderr)
        cause = error.__cause__
        if os.environ.get("DPONE_DEBUG") == "1" and cause is not None:
            import traceback

            traceback.print_exception(cause)
        return error.exit_code


def session_of(context: typer.Context, chosen: Format) -> Session:
    """The session of a command, told the format that was asked for."""
    session = context.obj
    assert isinstance(session, Session)  # main() made it
    session.format = chosen
    return session


def printable(text: str) -> str:
    """A text that may come from data, without what a terminal would obey."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def _write(text: str) -> None:
    """Print to stdout; a reader that has gone is no reason to stop a load."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _encoded(value: Any) -> str:
    from dpone.contracts.codec import encode

    return encode(value)


def words_of(report: Any) -> str:
    """An error report for people: what happened, what is known, what to do next."""
    from dpone.contracts.codec import plain

    value = {name: printable(str(words)) for name, words in plain(report).items()}
    return (
        f"{value['code']}: {value['happened']}\n  known: {value['known']}\n  next:  {value['next']}"
    )


def table_of(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows as aligned columns."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
