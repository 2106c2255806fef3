"""The parts of a certification run. Each leaves raw records; verdicts are made from them later.

A part that cannot run leaves a gap that says why; a budget that is used up leaves a plan that was
cut. Neither is ever a pass.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from certification import checks, journal, places, target
from certification.environment import ROOT
from certification.evidence import ERROR, INCONCLUSIVE, UNVERIFIED
from certification.judging import normalized
from certification.places import JOURNALS, TARGETS, Resources
from faultinject import worlds
from faultinject.matrix import Matrix, World, pairs
from faultinject.postgres import PostgresServerError
from faultinject.workloads import STRATEGIES
from faultinject.worlds import Databases
from faultinject.zygote import Zygote
from models.figures import CERTIFICATION, EXPLORATIONS, figure

PRELOADED = (
    "faultinject.workloads",
    "dpone.adapters.duckdb.target",
    "dpone.adapters.postgres.target",
    "dpone.adapters.postgres.journal",
)
WORLDS = ("sqlite", "joint", "duckdb", "postgres", "postgres-postgres", "postgres-joint")
SERVERLESS = ("sqlite", "joint", "duckdb")
OBLIGATIONS = ["checkpoint", "evidence"]


class Budget:
    """Seconds that a run may take; 0 is no limit."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = time.monotonic() + seconds

    def left(self) -> float | None:
        """Seconds left, None without a limit."""
        return self._until - time.monotonic() if self.seconds else None

    def used_up(self) -> bool:
        """Whether nothing is left."""
        left = self.left()
        return left is not None and left <= 0


@dataclass
class Raw:
    """What was seen: the records outside `timing/`, and those inside."""

    checks: list[dict[str, Any]] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    plans: list[dict[str, Any]] = field(default_factory=list)
    models: list[dict[str, Any]] = field(default_factory=list)
    flows: list[dict[str, Any]] = field(default_factory=list)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    junit: str = ""
    processes: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def gap(self, key: str, engine: str, outcome: str, detail: str) -> None:
        """Note what was not run."""
        self.gaps.append(
            {
                "key": key,
                "engine": engine,
                "invariant": "it was run",
                "outcome": outcome,
                "detail": detail,
            }
        )

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Note how long a part takes, and say on stderr that it has ended: some take an hour."""
        started, before = time.monotonic(), len(self.flows)
        try:
            yield
        finally:
            self.seconds[part] = round(time.monotonic() - started, 1)
            judged = self.flows[before:]
            wrong = sum(bool(record["faults"]) for record in judged)
            said = f", {wrong} of {len(judged)} judgements failed" if judged else ""
            print(f"{part}: {self.seconds[part]:.0f} s{said}", file=sys.stderr, flush=True)

    def records(self) -> dict[str, Any]:
        """What verdicts are made of."""
        return {
            "checks": self.checks,
            "rounds": self.rounds,
            "plans": self.plans,
            "models": self.models,
            "flows": self.flows,
            "gaps": self.gaps,
            "junit": self.junit,
        }


def reason_without_server(resources: Resources) -> str:
    """Why there is no PostgreSQL here; empty when there is."""
    try:
        _ = resources.server
    except (PostgresServerError, psycopg.Error, OSError) as error:
        return f"no PostgreSQL server: {str(error)[:200]}"
    return ""


def run_suites(raw: Raw, resources: Resources, budget: Budget, missing: str) -> None:
    """Every check of every adapter that is found."""
    for package in places.discovered("journal"):
        _suite(raw, "journal", package, missing, budget, _journal_checks(package, resources))
    for package in places.discovered("target"):
        _suite(raw, "target", package, missing, budget, _target_checks(package, resources))


def _journal_checks(package: str, resources: Resources) -> list[checks.Check]:
    factory = JOURNALS.get(package)
    return journal.suite(lambda: factory(resources)) if factory else []


def _target_checks(package: str, resources: Resources) -> list[checks.Check]:
    factory = TARGETS.get(package)
    return target.suite(lambda: factory(resources)) if factory else []


def _suite(
    raw: Raw, port: str, package: str, missing: str, budget: Budget, found: list[checks.Check]
) -> None:
    key = f"suite/{port}/{package}/all"
    if package == "postgres" and missing:
        raw.gap(key, "suite", UNVERIFIED, missing)
        return
    if not found:
        raw.gap(key, "suite", ERROR, "there is no factory for this adapter")
    with raw.timed(f"suite {port} {package}"):
        for check in found:
            if budget.used_up():
                raw.gap(key, "suite", INCONCLUSIVE, "the budget is used up")
                return
            result = checks.run([check])[0]
            raw.checks.append({"package": package, **result.record()})


def run_kills(
    raw: Raw,
    resources: Resources,
    budget: Budget,
    missing: str,
    *,
    quick: bool,
    seed: int,
    chosen: tuple[str, ...] = WORLDS,
    strategies: tuple[str, ...] = STRATEGIES,
) -> None:
    """Kill at every point, and again at every point of the recovery."""
    with Zygote(resources.folder(), PRELOADED) as zygote:
        local: dict[str, World] = {
            "sqlite": worlds.sqlite,
            "joint": worlds.joint_sqlite,
            "duckdb": worlds.duckdb,
        }
        with _databases(resources, missing, chosen) as databases:
            for name in chosen:
                if name not in SERVERLESS and databases is None:
                    raw.gap(f"kill/{name}/all", "kill", UNVERIFIED, missing)
                    continue
                world = local.get(name) or _world(databases, name)
                for strategy in strategies:
                    with raw.timed(f"kill {name} {strategy}"):
                        matrix = Matrix(zygote, world, name, strategy, obligations=OBLIGATIONS)
                        _plan(raw, matrix, budget, quick=quick, seed=seed)


@contextmanager
def _databases(
    resources: Resources, missing: str, chosen: tuple[str, ...]
) -> Iterator[Databases | None]:
    if missing or set(chosen) <= set(SERVERLESS):
        yield None
        return
    with Databases(resources.server) as made:
        yield made


def _world(databases: Databases | None, name: str) -> World:
    assert databases is not None
    _, _, kind = name.partition("-")
    return worlds.postgres(databases, journal=kind or "sqlite")


def _plan(raw: Raw, matrix: Matrix, budget: Budget, *, quick: bool, seed: int) -> None:
    """Run one matrix; what the budget does not allow is a plan that was cut."""
    planned = 0
    cut = False
    for first, second in _rotated(matrix, seed) if quick else pairs(matrix):
        if budget.used_up():
            cut = True
            break
        planned += 1
        seen = matrix.round(first, second).record()
        seen["world"] = seen.pop("target")
        pids, exits = seen.pop("pids"), seen.pop("exits")
        raw.rounds.append(_plain(seen))
        raw.processes.append({"world": matrix.target, "pids": list(pids), "exits": list(exits)})
    raw.plans.append(
        {"world": matrix.target, "strategy": matrix.strategy, "planned": planned, "cut": cut}
    )


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    return {key: _listed(value) for key, value in record.items()}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _rotated(matrix: Matrix, seed: int) -> Iterator[tuple[str, str]]:
    """Each first point once, with another point of its recovery for each seed."""
    for number, first in enumerate(matrix.points()):
        recovery = matrix.points(first)
        yield first, recovery[(seed + number) % len(recovery)] if recovery else ""


def run_models(raw: Raw, budget: Budget, *, quick: bool) -> None:
    """The pinned explorations, in a full run the widest one too."""
    chosen = EXPLORATIONS if quick else (*EXPLORATIONS, *CERTIFICATION)
    for exploration in chosen:
        if budget.used_up():
            key = f"model/{exploration.name}"
            raw.gap(key, "model", INCONCLUSIVE, "the budget is used up")
            continue
        with raw.timed(f"model {exploration.name}"):
            raw.models.append(figure(exploration, exploration.run()))


def run_tests(raw: Raw, budget: Budget, folder: Path, paths: tuple[str, ...]) -> str:
    """The tests in a process of their own; return its JUnit report as it came."""
    report = folder / "junit.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths]
    command.append(f"--junitxml={report}")
    with raw.timed("pytest"):
        try:
            left = budget.left()
            limit = None if left is None else max(1.0, left)
            subprocess.run(command, cwd=ROOT, capture_output=True, timeout=limit)
        except subprocess.TimeoutExpired:
            raw.gap("pytest/all", "pytest", INCONCLUSIVE, "the budget is used up")
            return ""
    if not report.exists():
        raw.gap("pytest/all", "pytest", ERROR, "pytest wrote no report")
        return ""
    text = report.read_text(encoding="utf-8")
    raw.junit = normalized(text)
    if not raw.junit.count("<testcase"):
        raw.gap("pytest/all", "pytest", ERROR, "no test was run")
    return text
