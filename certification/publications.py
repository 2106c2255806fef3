"""Publishing several files: crash states, failing calls, two at once, and seeded defects."""

from __future__ import annotations

from pathlib import Path

from certification.evidence import INCONCLUSIVE
from certification.flow_records import LOSER_IS_TOLD, NEEDED, NOTHING_LOST, add
from certification.programme import Budget, Raw
from faultinject import publishing_denials as denials
from faultinject.publishing_matrix import matrix
from faultinject.publishing_meetings import MEETINGS, explore
from faultinject.publishing_rules import WINNER
from faultinject.publishing_search import Bounds, Search, Workload
from faultinject.publishing_worlds import clean_starts, thorough, workloads
from faultinject.violations import Violated


def run(raw: Raw, budget: Budget, _folder: Path, quick: bool) -> None:
    """All engines of publishing, one after the other."""
    _persistence(raw, budget, quick)
    _denials(raw, budget, quick)
    _meetings(raw, budget, quick)
    for row in matrix():
        unseen = row.engine != "ordered" and not row.rule
        faults = ["nobody noticed it"] if unseen else []
        figures = {"violates": row.rule, "steps": row.steps, "struck": row.due}
        add(raw, f"{row.engine}/{row.defect}", "defects", NEEDED, faults, **figures)


def _cut(raw: Raw, budget: Budget, engine: str, key: str) -> bool:
    if budget.used_up():
        raw.gap(f"flow/{engine}/{key}", engine, INCONCLUSIVE, "no time left")
    return budget.used_up()


def _persistence(raw: Raw, budget: Budget, quick: bool) -> None:
    for weak in (True, False):
        for world in workloads(raced=not quick):
            several = (Bounds(depth=2, weak=weak),) if quick else thorough(world, weak=weak)
            for bounds in several:
                kind = ("weak" if weak else "ordered") + (", raced again" * bounds.raced_depth)
                key = f"publish/{kind}/{world.name}"
                if not _cut(raw, budget, "persistence", key):
                    _searched(raw, key, world, bounds)


def _searched(raw: Raw, key: str, world: Workload, bounds: Bounds) -> None:
    faults: list[str] = []
    search = Search(world, bounds)
    try:
        search.explore()
    except Violated as violated:
        faults.append(violated.explain())
    found = search.figures
    if not found.is_complete:
        faults.append("the search was cut")
    figures = {"states": found.states, "crash_states": found.crashes, "runs": found.runs}
    add(raw, key, "persistence", NOTHING_LOST, faults, **figures)


def _denials(raw: Raw, budget: Budget, quick: bool) -> None:
    for world in clean_starts():
        for winner in (None, WINNER):
            key = f"publish/denied/{world.name}" + (" with a winner" if winner else "")
            if _cut(raw, budget, "persistence", key):
                continue
            faults: list[str] = []
            count = 0
            try:
                for _ in denials.explore(world, winner, stride=5 if quick else 1):
                    count += 1
            except Violated as violated:
                faults.append(violated.explain())
            add(raw, key, "persistence", NOTHING_LOST, faults, denials=count)


def _meetings(raw: Raw, budget: Budget, quick: bool) -> None:
    for meeting in MEETINGS:
        key = f"publish/{meeting.name}"
        if _cut(raw, budget, "schedules", key):
            continue
        faults: list[str] = []
        count = crashed = 0
        try:
            seen = explore(meeting, stride=101 if quick else 5, crashes=True)
            count, crashed = seen.schedules, seen.crashed
        except Violated as violated:
            faults.append(violated.explain())
        figures = {"schedules": count, "with_a_death": crashed}
        add(raw, key, "schedules", LOSER_IS_TOLD, faults, **figures)
