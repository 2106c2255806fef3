"""`python -m certification.airflow_matrix`: every Airflow version on every Python, with evidence.

For each pair one session with all scenarios, the cost of the import for a DAG file, the tests
inside Airflow, and the retention suite of the installed wheel. A pair whose interpreter is absent
is UNVERIFIED, never passed over.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from certification.__main__ import write
from certification.airflow_claims import PART, PYTHONS, VERSIONS, absent, key, owed
from certification.claims import CERTIFIED, claim
from certification.environment import ROOT, commit, environment, platform_name
from certification.evidence import ERROR, FAILED, INCONCLUSIVE, UNVERIFIED, Bundle, Verdict
from certification.judging import judge
from certification.programme import Raw
from faultinject.airflow import suites
from faultinject.airflow.scenarios import chosen
from faultinject.airflow.session import started
from tools.airflow_env import Absent, held

ONCE = "one row for each operation and one receipt, whatever happened to the first attempt"
TWICE = "the control writes twice: the kill hit the window"
NOTICED = "a rule that is taken away on purpose is missed"
SAYS = {"naive": TWICE, "seed": NOTICED}
LOOPBACK = "every port of the instance is on the loopback interface"
CONTRACT = "the operators keep their contract inside this Airflow"
RETENTION = "the retention commands of the installed wheel work beside this Airflow"
SUITES = {
    "contract": (
        CONTRACT,
        ("airflow_tests/contract",),
        ("-c", "airflow_tests/pytest.ini", "--rootdir", "airflow_tests"),
    ),
    "retention": (RETENTION, ("tests/retention",), ()),
}
IMPORT = "the parse of a DAG file pays no more for the import than is promised"
PARTS = ("live", "parse", *SUITES)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m certification.airflow_matrix", description=__doc__
    )
    parser.add_argument("--airflow", action="append", choices=VERSIONS, help="only this")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="only this")
    parser.add_argument("--only", action="append", choices=PARTS, help="only this; no claim then")
    parser.add_argument("--scenario", action="append", help="names that begin so; no claim then")
    parser.add_argument("--out", type=Path, default=ROOT / "test_artifacts")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run, write the bundle, print the table; 1 when something is wrong or not borne out."""
    given = arguments(argv)
    about = commit()
    partial = bool(given.only or given.scenario)
    name = f"{about['commit'][:12]}{'-dirty' if about['dirty'] else ''}-airflow"
    bundle = Bundle(given.out / (name + ("-quick" if partial else "")))
    raw, engines = Raw(), {}
    asked = [
        f"{PART}/{version}/py{python}"
        for version in given.airflow or VERSIONS
        for python in given.python or PYTHONS
    ]
    for claimed in asked:
        with raw.timed(claimed):
            engines[claimed.partition("/")[2]] = _pair(raw, claimed, given)
    verdicts = judge(raw.records())
    made = {
        claimed: {
            "version": engines[claimed.partition("/")[2]],
            "platform": platform_name(),
            **claim(claimed, verdicts, quick=partial),
        }
        for claimed in asked
    }
    exit_code = ended(asked, verdicts, made, quick=partial)
    write(bundle, raw, verdicts, made, "")
    budget = {"quick": partial, "parts": [PART], "claims": asked, "seconds": 0.0}
    digest = bundle.seal(
        {
            **about,
            "environment": environment(given.out),
            "engines": engines,
            "seed": 0,
            "budget": budget,
            "exit_code": exit_code,
        }
    )
    _say(raw, verdicts, made)
    print(f"{bundle.folder.name} manifest sha256:{digest}")
    return exit_code


def ended(
    asked: Sequence[str], verdicts: Sequence[Verdict], made: dict[str, Any], *, quick: bool
) -> int:
    """The exit code that follows from verdicts and claims."""
    failed = any(verdict.outcome in (FAILED, ERROR) for verdict in verdicts)
    bare = [name for name in owed(asked, verdicts) if made[name]["status"] != CERTIFIED]
    return int(failed or (not quick and bool(bare)))


def _pair(raw: Raw, claimed: str, given: argparse.Namespace) -> str:
    """One version on one Python; what ran, in words."""
    _, version, named = claimed.split("/")
    number = named.removeprefix("py")
    parts = given.only or PARTS
    try:
        with held(version, number) as python:
            if "live" in parts:
                _live(raw, claimed, python, given.scenario or [])
            if "parse" in parts:
                _parse(raw, claimed, python)
            for part, (invariant, paths, options) in SUITES.items():
                if part in parts:
                    _suite(raw, claimed, part, invariant, suites.run(python, paths, *options))
            return f"Airflow {version}, Python {_number(python)}"
    except Absent as reason:
        raw.gap(key(claimed), PART, UNVERIFIED, str(reason))
    except Exception as problem:  # noqa: BLE001 - the evidence of the other pairs is kept
        told = f"{type(problem).__name__}: {problem}"
        raw.gap(key(claimed), PART, ERROR, told[-2000:])
    return ""


def _live(raw: Raw, claimed: str, python: Path, asked: list[str]) -> None:
    version = claimed.split("/")[1]
    scenarios = chosen(asked)
    with started(version, python, scenarios) as session:
        session.run(scenarios)
        strangers = session.lab.airflow.strangers()
    _add(raw, key(claimed, "live", "listens"), LOOPBACK, strangers)
    for record in session.records:
        invariant = SAYS.get(record["name"].partition("_")[0], ONCE)
        place = key(claimed, "live", record["name"])
        _add(raw, place, invariant, record["faults"], rows=record["rows"])
        shown = {name: record[name] for name in ("name", "attempts", "seconds")}
        raw.processes.append({"claim": claimed, **shown})


def _parse(raw: Raw, claimed: str, python: Path) -> None:
    try:
        found = suites.parse(python)
    except (RuntimeError, subprocess.TimeoutExpired) as problem:
        raw.gap(key(claimed, "parse"), PART, ERROR, str(problem))
        return
    over = [f"{f['name']}: {f['value']:.3f} s, not {f['bound']} s" for f in found]
    faults = [said for said, f in zip(over, found, strict=True) if f["value"] > f["bound"]]
    seconds = {figure["name"]: round(figure["value"], 4) for figure in found}
    _add(raw, key(claimed, "parse"), IMPORT, faults or ([] if found else ["no figure"]), **seconds)


def _suite(raw: Raw, claimed: str, part: str, invariant: str, seen: suites.Ended) -> None:
    place = key(claimed, part)
    _add(raw, place, invariant, list(seen.faults), passed=seen.passed)
    for skipped in seen.skipped:
        raw.gap(key(claimed, part, "skipped", skipped[:200]), PART, INCONCLUSIVE, skipped)


def _add(raw: Raw, place: str, invariant: str, faults: list[str], **figures: Any) -> None:
    raw.flows.append(
        {
            "key": place,
            "engine": PART,
            "invariant": invariant,
            "faults": faults,
            "figures": figures,
        }
    )


def _number(python: Path) -> str:
    said = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout
    return said.split()[-1]


def replay(verdict: Verdict) -> str:
    """The line that runs a failed judgement again."""
    _, _, version, python, part, *rest = verdict.key.split("/")
    scenario = f" --scenario {rest[0]}" if part == "live" and rest else ""
    words = f"--airflow {version} --python {python.removeprefix('py')} --only {part}{scenario}"
    return f'make airflow ARGS="{words}"'


def _say(raw: Raw, verdicts: list[Verdict], made: dict[str, Any]) -> None:
    for claimed, what in made.items():
        mine = [v for v in verdicts if v.key.startswith(key(claimed))]
        passed = sum(v.outcome == "passed" for v in mine)
        reason = absent(claimed, mine) or "; ".join(what["reasons"])[:300]
        print(
            f"{what['status']:10} {claimed:24} {passed:3} of {len(mine):3} passed"
            f" {raw.seconds.get(claimed, 0):6.0f} s  {reason}"
        )
    for verdict in [v for v in verdicts if v.outcome in (FAILED, ERROR)]:
        print(f"{verdict.outcome}: {verdict.key}: {verdict.detail[:600]}")
        if verdict.key.count("/") > 3:
            print(f"  again: {replay(verdict)}")


if __name__ == "__main__":
    started_at = time.monotonic()
    code = main()
    print(f"{time.monotonic() - started_at:.0f} s")
    sys.exit(code)
