"""The engines of the file flows: every legal crash state, every schedule, every point of a command.

Each leaves records of one shape: what was judged, by which engine, what is wrong with it (nothing,
or faults), and the figures of the search. A search that was cut is `inconclusive`, never a pass.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from certification import deletions as in_memory
from certification import publications
from certification.environment import ROOT
from certification.evidence import INCONCLUSIVE
from certification.flow_records import LOSER_IS_TOLD, NEEDED, NOTHING_LOST, add
from certification.programme import Budget, Raw
from faultinject.authoring_matrix import matrix
from faultinject.authoring_worlds import old_workloads, seeded_workloads, workloads
from faultinject.deleting import Deletions, template
from faultinject.persistence import Bounds, Search, Workload
from faultinject.schedules import explore
from faultinject.violations import Violated
from faultinject.writing import COMMANDS, MIGRATIONS, SINGLES, Bench, rounds, without_nameless
from faultinject.zygote import Zygote

ENDS_ONCE = "killed and run again, the deletion ends once with one report and nothing left"
_LOOPS = "tests/authoring/confined/test_loops.py"
PAIRS_MAX, QUICK_PAIRS = 400, 12
_FLOWS = ("faultinject.writing", "faultinject.deleting")

Part = Callable[[Raw, Budget, Path, bool], None]


def run_flows(raw: Raw, budget: Budget, folder: Path, *, quick: bool) -> None:
    """All engines of authoring and retention."""
    parts: Mapping[str, Part] = {
        "persistence": _persistence,
        "schedules": _schedules,
        "defects": _defects,
        "publications": publications.run,
        "commands": _commands,
        "editors": _editors,
        "deletions": _deletions,
        "deletions in memory": in_memory.run,
    }
    for name, part in parts.items():
        if budget.used_up():
            raw.gap(f"flow/{name}", name, INCONCLUSIVE, "the budget is used up")
            continue
        place = folder / name
        place.mkdir()
        with raw.timed(f"flow {name}"):
            part(raw, budget, place, quick)


# -- authoring, in memory --------------------------------------------------------------------------


def _worlds() -> Iterator[Workload]:
    yield from workloads()
    yield from old_workloads()
    yield from seeded_workloads()


def _persistence(raw: Raw, budget: Budget, _folder: Path, quick: bool) -> None:
    for weak in (True, False):
        kind = "weak" if weak else "ordered"
        bounds = Bounds(depth=2 if quick else 3, raced_depth=0 if quick else 1, weak=weak)
        for number, workload in enumerate(_worlds()):
            key = f"{kind}/{number:03d} {workload.name}"
            if budget.used_up():
                raw.gap(f"flow/persistence/{key}", "persistence", INCONCLUSIVE, "no time left")
                continue
            faults: list[str] = []
            search = Search(workload, bounds)
            states = crashes = 0
            try:
                found = search.explore()
                states, crashes = found.states, found.crashes
                if not found.is_complete:
                    faults.append("the search was cut")
            except Violated as violated:
                faults.append(violated.explain())
            add(raw, key, "persistence", NOTHING_LOST, faults, states=states, crash_states=crashes)


def _schedules(raw: Raw, _budget: Budget, _folder: Path, quick: bool) -> None:
    from faultinject.authoring_contests import CONTESTS

    for contest in CONTESTS:
        faults: list[str] = []
        count = crashed = 0
        try:
            seen = explore(contest, stride=9 if quick else 1, crashes=True)
            count, crashed = seen.schedules, seen.crashed
        except Violated as violated:
            faults.append(violated.explain())
        figures = {"schedules": count, "with_a_death": crashed}
        add(raw, contest.name, "schedules", LOSER_IS_TOLD, faults, **figures)


def _defects(raw: Raw, _budget: Budget, _folder: Path, quick: bool) -> None:
    """What nobody notices under weak persistence is a fault; ordered rows are only published."""
    for row in matrix(depth=2 if quick else 3):
        unseen = row.engine != "ordered" and not row.rule
        faults = ["nobody noticed it"] if unseen else []
        figures = {"violates": row.rule, "steps": row.steps, "struck": row.due}
        add(raw, f"{row.engine}/{row.defect}", "defects", NEEDED, faults, **figures)


# -- the commands and the deletion, with real processes -------------------------------------------


def _commands(raw: Raw, budget: Budget, folder: Path, quick: bool) -> None:
    tasks = (*SINGLES, *COMMANDS, *MIGRATIONS)
    with Zygote(folder, _FLOWS) as zygote:
        for task in (*tasks, *(without_nameless(task) for task in tasks)):
            faults: list[str] = []
            count = 0
            with closing(Bench(zygote, task)) as bench:
                for seen in rounds(bench, pairs_max=QUICK_PAIRS if quick else PAIRS_MAX):
                    count += 1
                    faults += [f"{seen.first}+{seen.second}: {fault}" for fault in seen.faults]
                    if budget.used_up():
                        key = f"flow/commands/{task.name} cut"
                        raw.gap(key, "commands", INCONCLUSIVE, "no time left")
                        break
            add(raw, task.name, "commands", NOTHING_LOST, faults, kills=count)


def _editors(raw: Raw, budget: Budget, _folder: Path, quick: bool) -> None:
    """Editors that save all the time, in the long rounds that the tests leave to this run."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", _LOOPS]
    settings = {**os.environ, **({} if quick else {"DPONE_KILL": "full"})}
    try:
        ended = subprocess.run(
            command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=budget.left()
        )
    except subprocess.TimeoutExpired:
        raw.gap("flow/editors/cut", "editors", INCONCLUSIVE, "the budget is used up")
        return
    faults = [] if ended.returncode == 0 else [ended.stdout[-1500:]]
    add(raw, "free running", "editors", NOTHING_LOST, faults, rounds=100 if quick else 2000)


def _deletions(raw: Raw, budget: Budget, folder: Path, quick: bool) -> None:
    place = folder / "template"
    place.mkdir()
    with Zygote(folder, _FLOWS) as zygote:
        deletions = Deletions(zygote, folder, template(place))
        reports: set[str] = set()
        for number, first in enumerate(deletions.points()):
            seconds = deletions.points(first)
            chosen = seconds[number % 5 :: 9] if quick else seconds
            faults: list[str] = []
            for second in ("", *chosen):
                if budget.used_up():
                    raw.gap(f"flow/deletions/{first} cut", "deletions", INCONCLUSIVE, "no time")
                    break
                seen = deletions.round(first, second)
                reports.add(seen.report)
                armed = (first, second) if second else (first,)
                faults += [f"{second}: {fault}" for fault in seen.faults]
                if seen.hits != armed:
                    faults.append(f"{armed} were armed, {seen.hits} hit")
            add(raw, first, "deletions", ENDS_ONCE, faults, kills=1 + len(chosen))
        faults = [] if len(reports) == 1 else [f"{len(reports)} different reports"]
        add(raw, "one report", "deletions", ENDS_ONCE, faults)


# -- the evidence of the authoring review ----------------------------------------------------------

REVIEW = "airflow-self-service-global-review-v0731"
_AUTHORING = ("persistence", "schedules", "defects", "commands", "editors")


def review(out: Path, flows: list[dict[str, Any]], bundle_sha256: str) -> Path:
    """Write what this run says of authoring under the name that ADR 0023 gives its review.

    Metric: lost user files, absent authoritative names, false receipts; the target is 0.
    """
    chosen = [record for record in flows if record["engine"] in _AUTHORING]
    summary: dict[str, Any] = {
        "axis": "authoring transaction correctness",
        "metric": "lost user files, absent authoritative paths, false rollback receipts",
        "target": 0,
        "measured": sum(len(record["faults"]) for record in chosen),
        "bundle_manifest_sha256": bundle_sha256,
        "limitations": "Linux; macOS and Windows are UNVERIFIED; power cuts are a model's",
        "engines": {},
    }
    for engine in _AUTHORING:
        rows = [record for record in chosen if record["engine"] == engine]
        totals: dict[str, int] = {}
        for record in rows:
            for name, value in record["figures"].items():
                if isinstance(value, int):
                    totals[name] = totals.get(name, 0) + value
        summary["engines"][engine] = {"records": len(rows), **totals}
    folder = out / REVIEW
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "summary.json"
    path.write_text(json.dumps(summary, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    lines = [json.dumps(record, sort_keys=True, ensure_ascii=False) for record in chosen]
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
