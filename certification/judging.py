"""Verdicts from raw records, and nothing but the records: run and verification share this."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from typing import Any

from certification.evidence import ERROR, FAILED, INCONCLUSIVE, OUTCOMES, PASSED, Verdict

LOADED_ONCE = "killed at both points, the target holds the load once and a replay changes nothing"
ALL_POINTS = "every pair of points was killed"
NO_VIOLATION = "no reachable state breaks an invariant, and everything that must happen happens"
TEST = "the test passes"


def of_check(record: Mapping[str, Any]) -> Verdict:
    """A check of a suite passed only if it says so and has nothing to add."""
    outcome = record["outcome"]
    if outcome not in OUTCOMES or (outcome == PASSED and record["detail"]):
        outcome = ERROR
    key = f"suite/{record['suite']}/{record['package']}/{record['name']}"
    return Verdict(key, "suite", record["clause"], outcome, record["detail"])


def round_key(record: Mapping[str, Any]) -> str:
    """What names a round."""
    second = f"+{record['second']}" if record["second"] else ""
    return f"kill/{record['world']}/{record['strategy']}/{record['first']}{second}"


def of_round(record: Mapping[str, Any]) -> Verdict:
    """A round passed if every armed point was hit, the change was made once, and nothing else."""
    armed = [point for point in (record["first"], record["second"]) if point]
    faults = list(record["faults"])
    faults += [f"{point} was armed and not hit" for point in armed if point not in record["hits"]]
    if record["mutations"] != 1:
        faults.append(f"{record['mutations']} mutations")
    outcome = FAILED if faults else PASSED
    return Verdict(round_key(record), "kill", LOADED_ONCE, outcome, "; ".join(faults))


def of_plan(record: Mapping[str, Any], rounds: int) -> Verdict:
    """A plan is done when as many rounds were run as it has; a budget may end it before."""
    key = f"kill/{record['world']}/{record['strategy']}"
    if rounds == record["planned"] and record["planned"] > 0 and not record["cut"]:
        return Verdict(key, "kill", ALL_POINTS, PASSED)
    if record["cut"]:
        detail = f"{rounds} rounds before the budget was used up"
        return Verdict(key, "kill", ALL_POINTS, INCONCLUSIVE, detail)
    return Verdict(key, "kill", ALL_POINTS, FAILED, f"{rounds} of {record['planned']} rounds")


def of_model(record: Mapping[str, Any]) -> Verdict:
    """An exploration passed if it was exhausted, broke nothing and left nothing unreached."""
    key = f"model/{record['model']}"
    clean = record["violated"] is None and not record["unreached"] and record["states"] > 0
    if record["verdict"] == "PASSED" and clean:
        return Verdict(key, "model", NO_VIOLATION, PASSED)
    if record["verdict"] == "INCONCLUSIVE":
        return Verdict(key, "model", NO_VIOLATION, INCONCLUSIVE, f"{record['states']} states")
    detail = record["violated"] or f"unreached: {', '.join(record['unreached'])}"
    return Verdict(key, "model", NO_VIOLATION, FAILED, detail)


def of_flow(record: Mapping[str, Any]) -> Verdict:
    """An engine of the file flows passed what it found nothing wrong with."""
    outcome = FAILED if record["faults"] else PASSED
    detail = "; ".join(record["faults"])[:2000]
    return Verdict(record["key"], record["engine"], record["invariant"], outcome, detail)


def of_junit(text: str) -> list[Verdict]:
    """One verdict for each test; a skipped one is not passed."""
    verdicts = []
    for case in ET.fromstring(text).iter("testcase"):
        key = f"pytest/{case.get('classname')}::{case.get('name')}"
        children = {child.tag for child in case}
        outcome = PASSED
        for tag, then in (("skipped", INCONCLUSIVE), ("failure", FAILED), ("error", ERROR)):
            outcome = then if tag in children else outcome
        verdicts.append(Verdict(key, "pytest", TEST, outcome))
    return sorted(verdicts, key=lambda verdict: verdict.key)


def of_gap(record: Mapping[str, Any]) -> Verdict:
    """What could not be run at all, and why."""
    return Verdict(
        record["key"], record["engine"], record["invariant"], record["outcome"], record["detail"]
    )


def judge(raw: Mapping[str, Any]) -> list[Verdict]:
    """All verdicts of a run from its raw records, in one order."""
    rounds: list[Mapping[str, Any]] = raw["rounds"]
    verdicts = [of_check(record) for record in raw["checks"]]
    verdicts += [of_round(record) for record in rounds]
    for plan in raw["plans"]:
        done = _count(rounds, plan)
        verdicts.append(of_plan(plan, done))
    verdicts += [of_model(record) for record in raw["models"]]
    verdicts += [of_flow(record) for record in raw["flows"]]
    verdicts += of_junit(raw["junit"]) if raw["junit"] else []
    verdicts += [of_gap(record) for record in raw["gaps"]]
    return sorted(verdicts, key=lambda verdict: (verdict.engine, verdict.key))


def _count(rounds: Iterable[Mapping[str, Any]], plan: Mapping[str, Any]) -> int:
    place = (plan["world"], plan["strategy"])
    return len({round_key(r) for r in rounds if (r["world"], r["strategy"]) == place})


def points_of(rounds: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every armed point of every round: whether it was hit, by which signal, as the how-manieth."""
    points = []
    for record in rounds:
        for point in (record["first"], record["second"]):
            if point:
                name, _, ordinal = point.partition("#")
                points.append(
                    {
                        "key": round_key(record),
                        "declared": name,
                        "ordinal": int(ordinal),
                        "armed": point,
                        "hit": point in record["hits"],
                        "signal": "SIGKILL",
                    }
                )
    return points


_VOLATILE = ("time", "timestamp", "hostname")


def _place(case: ET.Element) -> tuple[str, str]:
    return case.get("classname") or "", case.get("name") or ""


def normalized(text: str) -> str:
    """A JUnit report without what differs between two runs: times, host, and output."""
    root = ET.fromstring(text)
    for element in root.iter():
        for name in _VOLATILE:
            element.attrib.pop(name, None)
        if element.tag in ("failure", "error", "skipped"):
            element.text = None
            element.attrib.pop("message", None)
    for parent in list(root.iter()):
        for child in [c for c in parent if c.tag in ("system-out", "system-err", "properties")]:
            parent.remove(child)
    for suite in root.iter("testsuite"):
        suite[:] = sorted(suite, key=_place)
    return re.sub(r"\s+$", "", ET.tostring(root, encoding="unicode")) + "\n"
