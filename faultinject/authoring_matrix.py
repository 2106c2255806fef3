"""The kill matrix of authoring: every sync and every marked rule, left out, and who notices.

Promise: rows are plain values for a bundle of evidence, and depend on nothing but the code. A row
whose `rule` is empty was noticed by nobody within the bounds; it is published like the others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from faultinject.authoring_rules import MEETING_RULES, RULES, meeting_witness, witness
from faultinject.authoring_syncs import left_out, sites
from faultinject.authoring_worlds import old_workloads, seeded_workloads, workloads
from faultinject.persistence import Bounds, first_violation
from faultinject.violations import Violated

MODULES: Final = frozenset(
    {"aside", "earlier", "record", "recover", "rehearse", "remove", "replace", "retire"}
)


@dataclass(frozen=True, slots=True)
class Row:
    """One defect under one engine. `steps` is the length of the witness, `due` how often it struck.

    `engine` is `weak`, `ordered` or `schedules`; `rule` is what the witness violates.
    """

    defect: str
    engine: str
    rule: str
    steps: int
    due: int = 0

    def record(self) -> dict[str, Any]:
        """The row as plain JSON values."""
        return asdict(self)


def lost_sync(site: str, *, weak: bool, bounds: Bounds | None = None) -> Row:
    """Leave one sync out; the cheapest worlds are asked first."""
    chosen = bounds or Bounds(weak=weak, depth=2)
    groups = (workloads(rivals=False), old_workloads(), seeded_workloads(), workloads())
    engine = "weak" if weak else "ordered"
    with left_out(site) as due:
        for group in groups:
            for workload in group:
                found = first_violation(workload, chosen)
                if found is not None:
                    return _row(site, engine, found, len(due))
    return _row(site, engine, None, len(due))


def _row(defect: str, engine: str, found: Violated | None, due: int = 0) -> Row:
    if found is None:
        return Row(defect, engine, "", 0, due)
    return Row(defect, engine, found.rule, len(found.trail), due)


def matrix(*, depth: int = 3, raced_depth: int = 0) -> list[Row]:
    """Every sync under both kinds of persistence, then every rule under its engine."""
    rows: list[Row] = []
    for site in sites(MODULES):
        for weak in (True, False):
            bounds = Bounds(depth=depth, raced_depth=raced_depth, weak=weak)
            rows.append(lost_sync(site, weak=weak, bounds=bounds))
    rows += [_row(rule.name, "weak", witness(rule)) for rule in RULES]
    rows += [_row(rule.name, "schedules", meeting_witness(rule)) for rule in MEETING_RULES]
    return rows
