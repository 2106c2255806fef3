"""What one call of the command line knows, and how it speaks.

Promise: with `--format json` stdout holds exactly one closed object, whatever happens; texts for
people about errors and progress go to stderr. Where stdout cannot be written, what was done is told
on stderr and the exit code is not 0. Not promised: that stderr can be written.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from dpone.cli.interrupt import Interrupts

if TYPE_CHECKING:
    from dpone.contracts.errors import DponeError
    from dpone.ports.probe import Probe
    from dpone.ports.telemetry import Telemetry


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
    """One call: its probe, its format, and whether its answer was already printed.

    `unwritten`: why stdout took no answer; empty as long as it takes what is printed. `refused`:
    the code of the error that ended the call. `telemetry`: who else is told; by default nobody.
    """

    def __init__(self, probe: Probe | None = None, signals: Interrupts | None = None) -> None:
        self._probe = probe
        self.format = Format.TEXT
        self.signals = signals or Interrupts()
        self.unwritten = ""
        self.command = "dpone"
        self.refused = ""
        self.telemetry: Telemetry | None = None

    @property
    def probe(self) -> Probe:
        """What observes the effects of this call; by default nothing does."""
        from dpone.ports.probe import quiet

        probe = self._probe or quiet
        return probe if self.telemetry is None else self.telemetry.watching(probe)

    @property
    def is_json(self) -> bool:
        """Whether stdout is for a program."""
        return self.format is Format.JSON

    @property
    def answered(self) -> bool:
        """Whether the result, or the error in its place, was printed."""
        return self.signals.told_it

    def print(self, value: Any, text: str) -> None:
        """Print the result: `value` for programs, `text` for people."""
        with self.signals.held():
            self.signals.told_it = True
            if self.telemetry is not None:
                self.telemetry.reported(value)
            words = _encoded(value) if self.is_json else text
            self._write(words, instead=text or words)

    def say(self, text: str) -> None:
        """Print a line for people as soon as it is known; nothing in JSON."""
        if not self.is_json:
            self._write(text, instead=text)

    def pass_on(self, text: str) -> None:
        """Print a result that is the same in both formats, such as a stored receipt."""
        with self.signals.held():
            self.signals.told_it = True
            self._write(text.removesuffix("\n"), instead=text)

    def progress(self, text: str) -> None:
        """Show what is going on, on a terminal only."""
        if not self.is_json and sys.stderr is not None and sys.stderr.isatty():
            self.tell(text)

    def tell(self, text: str) -> None:
        """Print a line to stderr; that it cannot be written stops nothing."""
        if sys.stderr is None:
            return
        try:
            print(text, file=sys.stderr, flush=True)
        except OSError:
            _discard(sys.stderr)

    def complain(self, report: Any) -> None:
        """Print an error report for people, as part of a longer run."""
        self.tell(words_of(report))

    def fail(self, error: DponeError) -> int:
        """Print an error and return its exit code."""
        with self.signals.held():
            self.refused = error.code
            if self.is_json and not self.answered:
                self.signals.told_it = True
                self._write(_encoded(error.report()), instead="")
            self.tell(words_of(error.report()))
            cause = error.__cause__
            if os.environ.get("DPONE_DEBUG") == "1" and cause is not None:
                import traceback

                self.tell("".join(traceback.format_exception(cause)))
            return error.exit_code

    def is_stuck(self, *, after: OSError | None = None) -> bool:
        """Whether stdout takes nothing: what it still holds, or after an error an empty line."""
        if sys.stdout is None and not self.unwritten:
            self._refused(OSError(errno.EBADF, "closed"))
        try:
            if sys.stdout is not None:
                sys.stdout.write("\n" if after is not None else "")
                sys.stdout.flush()
        except BrokenPipeError:
            _discard(sys.stdout)
        except OSError as error:
            self._refused(error)
        return bool(self.unwritten)

    def ended(self, code: int) -> int:
        """The exit code at the end: an answer that nobody got is never 0."""
        from dpone.contracts.errors import EXIT_CLOSED, EXIT_DONE

        is_stuck = self.is_stuck()
        code = EXIT_CLOSED if is_stuck and code == EXIT_DONE else code
        if self.telemetry is not None:
            self.telemetry.ended(self.command, code, self.refused)
        return code

    def _write(self, text: str, *, instead: str) -> None:
        """Print to stdout, or `instead` to stderr once stdout took nothing.

        A reader that has gone is no reason to stop a load, nor is a disk that is full.
        """
        try:
            if sys.stdout is None and not self.unwritten:
                raise OSError(errno.EBADF, "closed")
            if not self.unwritten:
                print(text, flush=True)
        except BrokenPipeError:
            _discard(sys.stdout)
        except OSError as error:
            self._refused(error)
        if self.unwritten and instead:
            self.tell(instead)

    def _refused(self, error: OSError) -> None:
        from dpone.contracts.errors_run import AnswerUnwritten

        self.unwritten = errno.errorcode.get(error.errno or 0, "unknown")
        if sys.stdout is not None:
            _discard(sys.stdout)
        self.complain(AnswerUnwritten(reason=self.unwritten).report())


def format_of(arguments: Sequence[str]) -> Format:
    """The format that a command line asks for, before it is understood."""
    pairs = zip(arguments, [*arguments[1:], ""], strict=False)
    is_json = any(
        word == "--format=json" or (word == "--format" and value == "json") for word, value in pairs
    )
    return Format.JSON if is_json else Format.TEXT


def session_of(context: typer.Context, chosen: Format) -> Session:
    """The session of a command, told the format that was asked for."""
    session = context.obj
    assert isinstance(session, Session)  # main() made it
    session.format = chosen
    session.command = context.command_path
    return session


def printable(text: str) -> str:
    """A text that may come from data, without what a terminal would obey."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def _discard(stream: TextIO) -> None:
    """Have a stream that takes nothing lead nowhere, with what it still holds."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        stream.flush()


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
