"""Errors of a run as a whole: what it was asked to load again, that it was ended, or not heard."""

from __future__ import annotations

from typing import Any

from dpone.contracts.errors import EXIT_CLOSED, EXIT_CONFLICT
from dpone.contracts.errors_loading import LoadingError

EXIT_INTERRUPTED = 130


class Interrupted(LoadingError):
    """Somebody pressed Ctrl-C, or sent SIGINT."""

    code = "DPONE_INTERRUPTED"
    exit_code = EXIT_INTERRUPTED
    happened = "The command was interrupted{place}."
    known = "What was reported as done is done once; of the rest nothing is concluded."
    advice = "Run the same command again: it finds out first and does nothing twice."

    def __init__(self, *, place: str = "", **fields: Any) -> None:
        super().__init__(place=place, **fields)


class AnswerUnwritten(LoadingError):
    """The command came to its end, and stdout did not take its answer."""

    code = "DPONE_ANSWER_UNWRITTEN"
    exit_code = EXIT_CLOSED
    happened = "The answer could not be written to stdout ({reason})."
    known = "The command came to its end all the same; what it did is told on stderr."
    advice = "Mend what stdout leads to, and run the same command again: it does nothing twice."


class ReloadNeedsPartition(LoadingError):
    """A reload of an append route did not name what it is to load again."""

    code = "DPONE_RELOAD_NEEDS_PARTITION"
    exit_code = EXIT_CONFLICT
    happened = (
        "Revision {revision} of an append route was asked for without saying of which partitions; "
        "append takes nothing away, so all of them would be loaded again beside what is there."
    )
    known = "Nothing was read or written."
    advice = "Name each partition that is to be loaded again: {command}"


class ReloadAddsRows(LoadingError):
    """A reload of an append route would add rows to those that are loaded."""

    code = "DPONE_RELOAD_ADDS_ROWS"
    exit_code = EXIT_CONFLICT
    happened = (
        "Revision {earlier} of {partition} is loaded, and append takes nothing away: "
        "revision {revision} would add every row again."
    )
    known = "Nothing of revision {revision} was written."
    advice = (
        "If the target may have lost rows, ask first: dpone journal check. "
        "If every row is wanted again: {command}"
    )
