"""Reviewed deletions: crash states, somebody else at every point, and seeded defects."""

from __future__ import annotations

from pathlib import Path

from certification.evidence import INCONCLUSIVE
from certification.flow_records import NEEDED, add
from certification.programme import Budget, Raw
from faultinject.deletion_contests import Contest, acts_of
from faultinject.deletion_matrix import BY_CONTRACT, depth_of, every_scene, lost_syncs
from faultinject.deletion_persistence import Bounds, Search
from faultinject.deletion_rules import RULES, witness
from faultinject.violations import Violated

STATES, CONTESTS, DEFECTS = "deletion-states", "deletion-contests", "deletion-defects"
ONE_OUTCOME = (
    "cut at any legal crash state and run again, the same review ends once: one operation, one "
    "report, no deletion without its record, nothing protected touched, nothing left"
)
LATER_STAYS = "what was built later or became protected stays whole, and a fresh review ends all"


def run(raw: Raw, budget: Budget, _folder: Path, quick: bool) -> None:
    """All engines of deletion in memory, one after the other."""
    _states(raw, budget, quick)
    _contests(raw, budget, quick)
    for row in (*lost_syncs(weak=True), *(witness(rule) for rule in RULES)):
        unseen = not row.rule and row.defect != BY_CONTRACT
        faults = ["nobody noticed it"] if unseen else []
        figures = {"violates": row.rule, "steps": row.steps, "struck": row.due}
        add(raw, f"{row.engine}/{row.defect}", DEFECTS, NEEDED, faults, **figures)


def _is_over(raw: Raw, budget: Budget, engine: str, key: str) -> bool:
    if budget.used_up():
        raw.gap(f"flow/{engine}/{key}", engine, INCONCLUSIVE, "no time left")
    return budget.used_up()


def _states(raw: Raw, budget: Budget, quick: bool) -> None:
    for weak in (True, False):
        for scene in every_scene():
            key = f"{'weak' if weak else 'ordered'}/{scene.name}"
            if _is_over(raw, budget, STATES, key):
                continue
            faults: list[str] = []
            search = Search(scene, Bounds(1 if quick else depth_of(scene), weak))
            try:
                search.explore()
            except Violated as violated:
                faults.append(violated.explain())
            found = search.figures
            if not found.is_complete:
                faults.append("the search was cut")
            add(
                raw,
                key,
                STATES,
                ONE_OUTCOME,
                faults,
                states=found.states,
                crash_states=found.crashes,
                runs=found.runs,
                sampled=found.sampled,
            )


def _contests(raw: Raw, budget: Budget, quick: bool) -> None:
    scene = next(it for it in every_scene() if it.name == "apply")
    case = scene.begin()
    for act in acts_of(case.disk, case):
        if _is_over(raw, budget, CONTESTS, act.name):
            continue
        faults: list[str] = []
        contest = Contest(scene, act, crashes=not quick)
        try:
            contest.explore(stride=3 if quick else 2)
        except Violated as violated:
            faults.append(violated.explain())
        seen = contest.seen
        add(
            raw,
            act.name,
            CONTESTS,
            LATER_STAYS,
            faults,
            points=seen.points,
            raced=seen.raced,
            crash_states=seen.crashes,
            states=seen.states,
        )
