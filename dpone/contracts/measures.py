"""What answers count: each measure has a name, a unit and attributes of closed words.

The counters of a receipt and these are the same numbers. Source: ADR 0023, commands and calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from dpone.contracts.authoring_report import Counters
from dpone.contracts.run_report import RunReport

CHANGES = "dpone.authoring.changes"
OPERATIONS = "dpone.fencing.operations"
COMMANDS = "dpone.commands"


class Measure(NamedTuple):
    """A number to add to the counter `name`; `unit` is UCUM's annotation of it."""

    name: str
    unit: str
    number: int
    attributes: dict[str, str]


def measures_of(report: Any) -> Iterator[Measure]:
    """What one answer counts; an answer that counts nothing yields nothing."""
    counters = getattr(report, "counters", None)
    if isinstance(counters, Counters):
        yield from _changes(counters)
    if isinstance(report, RunReport):
        yield from _operations(report)


def measure_of_command(command: str, exit_code: int, error_code: str) -> Measure:
    """One call of a command, however it ended."""
    attributes = {"dpone.command": command, "dpone.exit_code": str(exit_code)}
    if error_code:
        attributes["error.type"] = error_code
    return Measure(COMMANDS, "{command}", 1, attributes)


def _changes(counters: Counters) -> Iterator[Measure]:
    for outcome in Counters.__struct_fields__:
        number = getattr(counters, outcome)
        if number:
            yield Measure(CHANGES, "{change}", number, {"dpone.outcome": outcome})


def _operations(report: RunReport) -> Iterator[Measure]:
    ends = Counter((item.how, item.error.code if item.error else "") for item in report.operations)
    for (how, code), number in ends.items():
        attributes = {"dpone.how": how} | ({"error.type": code} if code else {})
        yield Measure(OPERATIONS, "{operation}", number, attributes)
