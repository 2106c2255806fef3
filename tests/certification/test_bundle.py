"""A bundle that was tampered with is rejected, whatever was changed in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certification import evidence
from certification.claims import (
    CERTIFIED,
    DECLARED,
    FLOWS,
    MODELS,
    UNSUPPORTED,
    UNVERIFIED,
    WORLDS,
    claims,
    unborne,
)
from certification.evidence import MANIFEST, TIMING, Bundle, Verdict, digests
from certification.judging import (
    judge,
    normalized,
    of_check,
    of_model,
    of_plan,
    of_round,
    points_of,
)
from certification.verify import problems

ENGINES = {"sqlite": "3", "duckdb": "2", "postgres": "18"}
REPORT = (
    '<testsuites><testsuite name="pytest" time="1.5" hostname="h" timestamp="t">'
    "{}</testsuite></testsuites>"
)
TEST = '<testcase classname="{}" name="test_y" time="0.1"/>'
CASE = '<testcase classname="tests.stateful.test_{port}" name="test_x[{package}]" time="0.1"/>'


def _round(world: str, first: str = "a:before#1", second: str = "b:after#1") -> dict[str, Any]:
    return {
        "world": world,
        "strategy": "append",
        "first": first,
        "second": second,
        "hits": [first, second],
        "mutations": 1,
        "faults": [],
    }


def _model(name: str) -> dict[str, Any]:
    return {"model": name, "verdict": "PASSED", "states": 9, "violated": None, "unreached": []}


def _flow(prefix: str) -> dict[str, Any]:
    return {
        "key": f"{prefix}all",
        "engine": prefix.split("/")[1],
        "invariant": "It holds.",
        "faults": [],
        "figures": {"states": 9},
    }


def _check(port: str, package: str) -> dict[str, Any]:
    return {
        "suite": port,
        "package": package,
        "name": "a_check",
        "clause": "It holds.",
        "outcome": "passed",
        "detail": "",
    }


def raw() -> dict[str, Any]:
    """The records of a run that bears out every claim."""
    names = sorted({world for worlds in WORLDS.values() for world in worlds})
    ports = [name.split("/") for name in DECLARED if name not in FLOWS]
    cases = "".join(CASE.format(port=port, package=package) for port, package in ports)
    flows = [prefix for needed in FLOWS.values() for prefix in needed.values()]
    tests = [prefix.removeprefix("pytest/") for prefix in flows if prefix.startswith("pytest/")]
    cases += "".join(
        TEST.format(name.removesuffix("::") if name.endswith("::") else f"{name}test_x")
        for name in tests
    )
    models = {model for needed in MODELS.values() for model in needed}
    models |= {flow.removeprefix("model/") for flow in flows if flow.startswith("model/")}
    return {
        "checks": [_check(port, package) for port, package in ports],
        "rounds": [_round(name) for name in names],
        "plans": [
            {"world": name, "strategy": "append", "planned": 1, "cut": False} for name in names
        ],
        "models": [_model(name) for name in sorted(models)],
        "flows": [_flow(prefix) for prefix in flows if prefix.startswith("flow/")],
        "gaps": [],
        "junit": REPORT.format(cases),
    }


def written(folder: Path, records: dict[str, Any], exit_code: int = 0) -> Path:
    """A sealed bundle of these records."""
    whole = records["junit"]
    records = {**records, "junit": normalized(whole)}
    verdicts = judge(records)
    bundle = Bundle(folder)
    for name in ("checks", "rounds", "plans", "gaps", "flows"):
        bundle.lines(f"traces/{name}.jsonl", records[name])
    bundle.write("models.json", records["models"])
    bundle.lines("points.jsonl", points_of(records["rounds"]))
    bundle.lines("verdicts.jsonl", [verdict.record() for verdict in verdicts])
    bundle.write("claims.json", claims(verdicts, ENGINES, ["csvdir"], quick=False))
    bundle.text("junit.xml", records["junit"])
    bundle.text("timing/junit.xml", whole)
    bundle.seal({"engines": ENGINES, "budget": {"quick": False}, "exit_code": exit_code})
    return folder


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return written(tmp_path / "run", raw())


def test_an_honest_bundle_is_consistent(bundle: Path) -> None:
    assert problems(bundle) == []
    made = json.loads((bundle / "claims.json").read_text())
    assert {name: made[name]["status"] for name in DECLARED} == dict.fromkeys(DECLARED, CERTIFIED)
    assert made["target/csvdir"]["status"] == UNSUPPORTED
    assert unborne(made) == []


def test_the_same_records_make_the_same_bundle(tmp_path: Path) -> None:
    one, two = written(tmp_path / "one", raw()), written(tmp_path / "two", raw())
    assert digests(one, timing=False) == digests(two, timing=False)
    assert (one / MANIFEST).read_bytes() == (two / MANIFEST).read_bytes()


def edit(path: Path, change: Callable[[str], str]) -> None:
    """Change a file, which must make a difference."""
    before = path.read_text()
    after = change(before)
    assert after != before
    path.write_text(after)


def reseal(folder: Path) -> None:
    """Make both manifests fit whatever the files are now."""
    manifest = json.loads((folder / MANIFEST).read_text())
    timing = {"files": digests(folder, timing=True)}
    (folder / TIMING / MANIFEST).write_text(json.dumps(timing))
    manifest["files"] = digests(folder, timing=False)
    (folder / MANIFEST).write_text(json.dumps(manifest))


FILES = (
    "claims.json",
    "junit.xml",
    "models.json",
    "points.jsonl",
    "verdicts.jsonl",
    "timing/junit.xml",
    "traces/checks.jsonl",
    "traces/flows.jsonl",
    "traces/plans.jsonl",
    "traces/rounds.jsonl",
)


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_is_found(bundle: Path, name: str) -> None:
    edit(bundle / name, lambda text: text.replace("a", "A", 1))
    assert any(name in problem or "read" in problem for problem in problems(bundle))


@pytest.mark.parametrize("name", FILES)
def test_a_file_taken_away_is_found(bundle: Path, name: str) -> None:
    (bundle / name).unlink()
    assert problems(bundle) != []


def test_a_file_put_in_is_found(bundle: Path) -> None:
    (bundle / "traces" / "more.jsonl").write_text("")
    assert problems(bundle) == ["traces/more.jsonl is not in the manifest"]


# Each of these is followed by a manifest that fits.
TAMPERINGS: dict[str, tuple[str, Callable[[str], str]]] = {
    "a failed check is said to have passed": (
        "traces/checks.jsonl",
        lambda text: text.replace('"passed"', '"failed"', 1),
    ),
    "a verdict is turned": (
        "verdicts.jsonl",
        lambda text: text.replace('"passed"', '"failed"', 1),
    ),
    "a verdict is dropped": ("verdicts.jsonl", lambda text: text.split("\n", 1)[1]),
    "a verdict is invented": (
        "verdicts.jsonl",
        lambda text: text + json.dumps(Verdict("kill/x", "kill", "", "passed").record()) + "\n",
    ),
    "a hit is taken away": (
        "traces/rounds.jsonl",
        lambda text: text.replace('"hits": ["a:before#1", "b:after#1"]', '"hits": []', 1),
    ),
    "a point is turned": ("points.jsonl", lambda text: text.replace("true", "false", 1)),
    "a point is dropped": ("points.jsonl", lambda text: text.split("\n", 1)[1]),
    "a second mutation": (
        "traces/rounds.jsonl",
        lambda text: text.replace('"mutations": 1', '"mutations": 2', 1),
    ),
    "a round is dropped": ("traces/rounds.jsonl", lambda text: text.split("\n", 1)[1]),
    "a plan was cut": ("traces/plans.jsonl", lambda text: text.replace("false", "true", 1)),
    "a model was violated": ("models.json", lambda text: text.replace("null", '"safety"', 1)),
    "a claim is raised": ("claims.json", lambda text: text.replace(CERTIFIED, "CERTIFIED!", 1)),
    "a claim is for another version": (
        "claims.json",
        lambda text: text.replace('"version": "18"', '"version": "19"', 1),
    ),
    "a test failed": (
        "junit.xml",
        lambda text: text.replace(" />", "><failure /></testcase>", 1),
    ),
    "the exit code is mended": (
        MANIFEST,
        lambda text: text.replace('"exit_code": 0', '"exit_code": 1', 1),
    ),
}


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_tampering_is_found_even_when_the_manifest_fits(bundle: Path, tampering: str) -> None:
    name, change = TAMPERINGS[tampering]
    edit(bundle / name, change)
    reseal(bundle)
    assert problems(bundle) != []


def test_a_bundle_that_is_none_is_rejected(tmp_path: Path) -> None:
    assert problems(tmp_path) != []
    (tmp_path / MANIFEST).write_text("[]")
    assert problems(tmp_path) != []


def test_a_folder_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    with pytest.raises(ValueError, match="no bundle"):
        Bundle(tmp_path / "mine")
    assert (tmp_path / "mine" / "letter").read_text() == "dear"


# -- verdicts ----------------------------------------------------------------------------------


def test_a_point_that_was_armed_and_not_hit_fails(tmp_path: Path) -> None:
    missed = {**_round("sqlite"), "hits": ["a:before#1"]}
    verdict = of_round(missed)
    assert (verdict.outcome, verdict.detail) == ("failed", "b:after#1 was armed and not hit")
    assert [point["hit"] for point in points_of([missed])] == [True, False]
    records = raw()
    records["rounds"] = [missed if r["world"] == "sqlite" else r for r in records["rounds"]]
    found = problems(written(tmp_path / "run", records, exit_code=1))
    key = "kill/sqlite/append/a:before#1+b:after#1"
    assert found == [f"b:after#1 of {key} was armed and not hit"]


@pytest.mark.parametrize(
    "change", [{"mutations": 0}, {"mutations": 2}, {"faults": ["rows are []"]}]
)
def test_a_round_with_a_fault_fails(change: dict[str, Any]) -> None:
    assert of_round({**_round("sqlite"), **change}).outcome == "failed"


def test_a_budget_that_is_used_up_is_inconclusive_and_never_passed() -> None:
    plan = {"world": "w", "strategy": "s", "planned": 3, "cut": True}
    assert of_plan(plan, 3).outcome == "inconclusive"
    assert of_plan({**plan, "cut": False}, 3).outcome == "passed"
    assert of_plan({**plan, "cut": False}, 2).outcome == "failed"
    assert of_plan({**plan, "cut": False, "planned": 0}, 0).outcome == "failed"


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({}, "passed"),
        ({"verdict": "INCONCLUSIVE"}, "inconclusive"),
        ({"verdict": "VIOLATED", "violated": "safety"}, "failed"),
        ({"violated": "safety"}, "failed"),
        ({"unreached": ["x"]}, "failed"),
        ({"states": 0}, "failed"),
    ],
)
def test_a_model_passes_only_whole(change: dict[str, Any], outcome: str) -> None:
    assert of_model({**_model("m"), **change}).outcome == outcome


def test_a_check_that_explains_itself_did_not_pass() -> None:
    assert of_check(_check("target", "sqlite")).outcome == "passed"
    assert of_check({**_check("target", "sqlite"), "detail": "but"}).outcome == "error"
    assert of_check({**_check("target", "sqlite"), "outcome": "ok"}).outcome == "error"


# -- claims ------------------------------------------------------------------------------------

WITHOUT: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "its suite": (
        "target/duckdb",
        lambda r: [c for c in r["checks"] if c["package"] != "duckdb"],
    ),
    "its kills": ("target/duckdb", lambda r: [k for k in r["rounds"] if k["world"] != "duckdb"]),
    "its model": ("journal/sqlite", lambda r: [m for m in r["models"] if m["model"] != "journal"]),
    "its crash states": (
        "authoring/linux",
        lambda r: [f for f in r["flows"] if f["engine"] != "persistence"],
    ),
    "its agreement": ("target/sqlite", lambda r: r["junit"].replace("test_target", "test_other")),
}
PLACES = {
    "its suite": "checks",
    "its kills": "rounds",
    "its model": "models",
    "its crash states": "flows",
}


@pytest.mark.parametrize("what", WITHOUT)
def test_a_claim_without_evidence_fails(tmp_path: Path, what: str) -> None:
    name, change = WITHOUT[what]
    records = raw()
    place = PLACES.get(what, "junit")
    records[place] = change(records)
    if what == "its kills":
        records["plans"] = [p for p in records["plans"] if p["world"] != "duckdb"]
    made = claims(judge(records), ENGINES, [], quick=False)
    assert made[name]["status"] == UNVERIFIED
    assert any("no evidence in this run" in reason for reason in made[name]["reasons"])
    assert name in unborne(made)
    # A run that says 0 all the same is contradicted by its own records.
    assert any("exit code" in p for p in problems(written(tmp_path / "run", records)))


def test_a_missing_privilege_is_unverified_with_its_reason() -> None:
    records = raw()
    gap = {
        "key": "suite/target/postgres/all",
        "engine": "suite",
        "invariant": "it was run",
        "outcome": evidence.UNVERIFIED,
        "detail": "no PostgreSQL server",
    }
    records["checks"] = [c for c in records["checks"] if c["package"] != "postgres"]
    records["gaps"] = [gap]
    made = claims(judge(records), ENGINES, [], quick=False)
    assert made["target/postgres"]["status"] == UNVERIFIED
    assert made["target/sqlite"]["status"] == CERTIFIED


def test_a_quick_run_claims_nothing() -> None:
    made = claims(judge(raw()), ENGINES, [], quick=True)
    assert {made[name]["status"] for name in DECLARED} == {UNVERIFIED}


def test_every_verdict_has_a_key_of_its_own(bundle: Path) -> None:
    keys = [verdict.key for verdict in judge(raw())]
    assert len(keys) == len(set(keys))
    copy = bundle.parent / "copy"
    shutil.copytree(bundle, copy)
    edit(copy / "traces/checks.jsonl", lambda text: text + text)
    reseal(copy)
    assert "two verdicts have one key" in problems(copy)
