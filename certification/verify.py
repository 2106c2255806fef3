"""A bundle is believed only as far as it can be recomputed: digests, verdicts, points, claims.

Nothing is run. Whoever rewrites raw records, verdicts and manifest all together is not found out
by this, only by the digest of `manifest.json` that was kept elsewhere.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from certification import airflow_claims
from certification.claims import CERTIFIED, claim, unborne
from certification.evidence import ERROR as ERRED
from certification.evidence import (
    FAILED,
    MANIFEST,
    TIMING,
    Verdict,
    digests,
    read_lines,
)
from certification.judging import judge, normalized, points_of


def raw_of(folder: Path) -> dict[str, Any]:
    """The raw records of a bundle."""
    traces = folder / "traces"
    junit = folder / "junit.xml"
    return {
        "checks": read_lines(traces / "checks.jsonl"),
        "rounds": read_lines(traces / "rounds.jsonl"),
        "plans": read_lines(traces / "plans.jsonl"),
        "gaps": read_lines(traces / "gaps.jsonl"),
        "flows": read_lines(traces / "flows.jsonl"),
        "models": json.loads((folder / "models.json").read_text(encoding="utf-8")),
        "junit": junit.read_text(encoding="utf-8") if junit.exists() else "",
    }


def problems(folder: Path) -> list[str]:
    """Everything in a bundle that does not follow from the rest of it; none is good news."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        timing = json.loads((folder / TIMING / MANIFEST).read_text(encoding="utf-8"))
        found = _files(folder, manifest, timing)
        raw = raw_of(folder)
        verdicts = judge(raw)
        found += _verdicts(folder, verdicts)
        found += _points(folder, raw)
        found += _junit(folder, raw)
        found += _claims(folder, manifest, verdicts)
    except (OSError, ValueError, KeyError, TypeError, SyntaxError) as error:
        return [f"the bundle cannot be read: {type(error).__name__}: {error}"]
    return found


def _files(folder: Path, manifest: dict[str, Any], timing: dict[str, Any]) -> list[str]:
    found = []
    for listed, actual in (
        (manifest["files"], digests(folder, timing=False)),
        (timing["files"], digests(folder, timing=True)),
    ):
        for name in sorted({*listed, *actual}):
            if name not in actual:
                found.append(f"{name} is missing")
            elif name not in listed:
                found.append(f"{name} is not in the manifest")
            elif listed[name] != actual[name]:
                found.append(f"{name} has another digest than the manifest says")
    return found


def _verdicts(folder: Path, verdicts: list[Verdict]) -> list[str]:
    stated = read_lines(folder / "verdicts.jsonl")
    computed = [verdict.record() for verdict in verdicts]
    found = []
    if len({verdict.key for verdict in verdicts}) != len(verdicts):
        found.append("two verdicts have one key")
    for record in stated:
        if record not in computed:
            found.append(f"the verdict {record.get('key')} does not follow from the raw records")
    found += [
        f"the verdict {record['key']} is missing" for record in computed if record not in stated
    ]
    return found


def _points(folder: Path, raw: dict[str, Any]) -> list[str]:
    stated = read_lines(folder / "points.jsonl")
    found = []
    if stated != points_of(raw["rounds"]):
        found.append("the points do not follow from the rounds")
    found += [f"{p['armed']} of {p['key']} was armed and not hit" for p in stated if not p["hit"]]
    return found


def _junit(folder: Path, raw: dict[str, Any]) -> list[str]:
    whole = folder / TIMING / "junit.xml"
    if not raw["junit"]:
        return []
    same = whole.exists() and normalized(whole.read_text(encoding="utf-8")) == raw["junit"]
    return [] if same else ["junit.xml is not the report that pytest wrote"]


def _claims(folder: Path, manifest: dict[str, Any], verdicts: list[Verdict]) -> list[str]:
    stated = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    quick = manifest["budget"]["quick"]
    found = []
    for name, made in stated.items():
        if made["status"] == "UNSUPPORTED":
            continue
        computed = claim(name, verdicts, quick=quick)
        if {key: made[key] for key in computed} != computed:
            found.append(f"the claim {name} does not follow from the verdicts")
        if made["version"] != manifest["engines"].get(name.partition("/")[2], ""):
            found.append(f"the claim {name} is about another version than the one that ran")
    failed = [verdict.key for verdict in verdicts if verdict.outcome in (FAILED, ERRED)]
    owed = unborne(stated)
    if manifest["budget"].get("parts") == [airflow_claims.PART]:
        # A run of the matrix owes the pairs that it was asked for and that are there.
        asked = airflow_claims.owed(manifest["budget"]["claims"], verdicts)
        owed = [name for name in asked if stated[name]["status"] != CERTIFIED]
    exit_code = int(bool(failed) or (not quick and bool(owed)))
    if manifest["exit_code"] != exit_code:
        found.append(f"the run says exit code {manifest['exit_code']}, its records say {exit_code}")
    return found
