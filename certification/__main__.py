"""`python -m certification [--quick] [--seconds N] [--seed N]` runs the programme and writes a
bundle; `python -m certification verify BUNDLE` recomputes one without running anything."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from certification import places
from certification.claims import claims, unborne
from certification.environment import ROOT, commit, environment, platform_name, versions
from certification.evidence import ERROR, FAILED, PASSED, Bundle, Verdict
from certification.flows import review, run_flows
from certification.judging import judge, points_of
from certification.places import Resources
from certification.programme import (
    WORLDS,
    Budget,
    Raw,
    reason_without_server,
    run_kills,
    run_models,
    run_suites,
    run_tests,
)
from certification.verify import problems
from dpone.contracts.effects import Effect
from dpone.contracts.effects_about import ABOUT
from faultinject.workloads import STRATEGIES

PARTS = ("suites", "kills", "models", "flows", "tests")
QUICK_TESTS = ("tests/stateful", "tests/contracts")
SHOWN_MAX = 20


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m certification", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="rotate through the points; no claim")
    parser.add_argument("--seconds", type=float, default=0.0, help="budget; 0 is no limit")
    parser.add_argument("--seed", type=int, default=0, help="which rotation a quick run takes")
    parser.add_argument("--out", type=Path, default=ROOT / "test_artifacts")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; repeatable")
    parser.add_argument("--world", action="append", choices=WORLDS, help="only this; repeatable")
    parser.add_argument("--strategy", action="append", choices=STRATEGIES, help="only this")
    parser.add_argument("tests", nargs="*", help="for the part `tests`: these paths only")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run or verify; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["verify"]:
        return verified(Path(words[1])) if len(words) == 2 else _usage()
    given = arguments(words)
    about = commit()
    name = f"{about['commit'][:12]}{'-dirty' if about['dirty'] else ''}-seed{given.seed}"
    bundle = Bundle(given.out / (name + ("-quick" if given.quick else "")))
    raw, server_version, junit = _run(given)
    verdicts = judge(raw.records())
    verdicts_of_engines = versions(server_version)
    made = claims(verdicts, verdicts_of_engines, places.unfenced(), quick=given.quick)
    for claim in made.values():
        claim["platform"] = platform_name()
    failed = [verdict for verdict in verdicts if verdict.outcome in (FAILED, ERROR)]
    exit_code = int(bool(failed) or (not given.quick and bool(unborne(made))))
    write(bundle, raw, verdicts, made, junit)
    digest = bundle.seal(
        {
            **about,
            "environment": environment(given.out),
            "engines": verdicts_of_engines,
            "seed": given.seed,
            "budget": {
                "quick": given.quick,
                "seconds": given.seconds,
                "parts": given.part or list(PARTS),
                "worlds": given.world or list(WORLDS),
                "strategies": given.strategy or list(STRATEGIES),
                "tests": given.tests,
            },
            "effects_not_reached": _unreached(raw),
            "exit_code": exit_code,
        }
    )
    if raw.flows:
        review(given.out, raw.flows, digest)
    _say(bundle, verdicts, made, failed, raw, digest)
    return exit_code


def _usage() -> int:
    print("usage: python -m certification verify BUNDLE", file=sys.stderr)
    return 2


def _run(given: argparse.Namespace) -> tuple[Raw, str, str]:
    raw, budget, junit, version = Raw(), Budget(given.seconds), "", ""
    parts = given.part or PARTS
    chosen = tuple(given.world or WORLDS)
    with Resources() as resources:
        needs_server = "suites" in parts or not set(chosen) <= {"sqlite", "joint", "duckdb"}
        missing = reason_without_server(resources) if needs_server else ""
        if needs_server and not missing:
            version = _server_version(resources)
        if "suites" in parts:
            run_suites(raw, resources, budget, missing)
        if "models" in parts:
            run_models(raw, budget, quick=given.quick)
        if "kills" in parts:
            run_kills(
                raw,
                resources,
                budget,
                missing,
                quick=given.quick,
                seed=given.seed,
                chosen=chosen,
                strategies=tuple(given.strategy or STRATEGIES),
            )
    if "flows" in parts:
        with tempfile.TemporaryDirectory(prefix="dpone-flows-") as folder:
            run_flows(raw, budget, Path(folder), quick=given.quick)
    if "tests" in parts:
        paths = tuple(given.tests) or (QUICK_TESTS if given.quick else ("tests",))
        with tempfile.TemporaryDirectory(prefix="dpone-certify-") as folder:
            junit = run_tests(raw, budget, Path(folder), paths)
    return raw, version, junit


def _server_version(resources: Resources) -> str:
    with resources.server.database() as dsn:
        place = places.TargetPlace(f"postgres:{dsn}")
        return str(place.sql("SHOW server_version")[0][0])


def _unreached(raw: Raw) -> list[str]:
    """The effects of the fenced commit that no kill of this run came to."""
    reached = {point["declared"].partition(":")[0] for point in points_of(raw.rounds)}
    return [effect.value for effect in Effect if effect.value not in reached and ABOUT[effect].flow]


def write(
    bundle: Bundle, raw: Raw, verdicts: list[Verdict], made: dict[str, Any], junit: str
) -> None:
    """Everything that a run leaves but its manifest."""
    bundle.lines("traces/checks.jsonl", raw.checks)
    bundle.lines("traces/rounds.jsonl", raw.rounds)
    bundle.lines("traces/plans.jsonl", raw.plans)
    bundle.lines("traces/gaps.jsonl", raw.gaps)
    bundle.lines("traces/flows.jsonl", raw.flows)
    bundle.lines("points.jsonl", points_of(raw.rounds))
    bundle.lines("verdicts.jsonl", [verdict.record() for verdict in verdicts])
    bundle.write("models.json", raw.models)
    bundle.write("claims.json", made)
    bundle.write("timing/seconds.json", raw.seconds)
    bundle.lines("timing/processes.jsonl", raw.processes)
    if raw.junit:
        bundle.text("junit.xml", raw.junit)
        bundle.text("timing/junit.xml", junit)


def _say(
    bundle: Bundle,
    verdicts: list[Verdict],
    made: dict[str, Any],
    failed: list[Verdict],
    raw: Raw,
    digest: str,
) -> None:
    for engine in sorted({verdict.engine for verdict in verdicts}):
        counts = Counter(v.outcome for v in verdicts if v.engine == engine)
        print(f"{engine:8}", ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())))
    for verdict in [v for v in verdicts if v.outcome != PASSED][:SHOWN_MAX]:
        print(f"  {verdict.outcome}: {verdict.key}: {verdict.detail[:200]}")
    for name, claim in made.items():
        reasons = f": {'; '.join(claim['reasons'])}" if claim["reasons"] else ""
        print(f"{claim['status']:11} {name} {claim['version']}{reasons}")
    print(f"{len(failed)} failed; {sum(raw.seconds.values()):.0f} s")
    print(f"{bundle.folder.name} manifest sha256:{digest}")


def verified(folder: Path) -> int:
    """Print what does not follow in a bundle; 1 when there is anything."""
    found = problems(folder)
    for problem in found[:SHOWN_MAX]:
        print(problem)
    print(f"{folder.name}: {len(found)} problems" if found else f"{folder.name}: consistent")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
