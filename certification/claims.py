"""What is claimed of each connector, and whether a run bears it out.

A claim is CERTIFIED only if every engine that it needs gave verdicts in this very run and all of
them passed; UNVERIFIED says why not; UNSUPPORTED is a connector that promises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from certification import airflow_claims
from certification.evidence import PASSED, Verdict

CERTIFIED = "CERTIFIED"
UNVERIFIED = "UNVERIFIED"
UNSUPPORTED = "UNSUPPORTED"

# What is claimed in public: each of these must be borne out by a full run.
DECLARED = (
    "journal/sqlite",
    "journal/postgres",
    "target/sqlite",
    "target/duckdb",
    "target/postgres",
    "authoring/linux",
    "retention/linux",
)

# The file flows: what their claims need, by the words for each.
FLOWS: Mapping[str, Mapping[str, str]] = {
    "authoring/linux": {
        "crash states under weak and ordered persistence": "flow/persistence/",
        "schedules of two workers": "flow/schedules/",
        "every sync and rule is needed": "flow/defects/",
        "kills at every point of every command": "flow/commands/",
        "editors that save all the time": "flow/editors/",
        "crash states of publishing several files": "flow/persistence/publish/",
        "schedules of two publications": "flow/schedules/publish/",
        "model files": "model/files",
        "model publish": "model/publish",
        "tests of authoring": "pytest/tests.authoring.",
        "agreement with the model": "pytest/tests.stateful.test_files::",
    },
    "retention/linux": {
        "kills at every pair of points": "flow/deletions/",
        "crash states under weak and ordered persistence": "flow/deletion-states/",
        "somebody else at every point": "flow/deletion-contests/",
        "every sync and rule is needed": "flow/deletion-defects/",
        "model retention": "model/retention",
        "tests of retention": "pytest/tests.retention.",
        "agreement with the model": "pytest/tests.stateful.test_deletion::",
        "agreement with the adapter in memory": "pytest/tests.stateful.test_cachefiles::",
    },
}

# The worlds of the kill matrix by what they kill.
WORLDS: Mapping[str, tuple[str, ...]] = {
    "journal/sqlite": ("sqlite", "duckdb", "joint", "postgres"),
    "journal/postgres": ("postgres-postgres", "postgres-joint"),
    "target/sqlite": ("sqlite", "joint"),
    "target/duckdb": ("duckdb",),
    "target/postgres": ("postgres", "postgres-postgres", "postgres-joint"),
}
MODELS: Mapping[str, tuple[str, ...]] = {
    "journal/sqlite": ("journal", "commit"),
    "journal/postgres": ("journal", "commit"),
    "target/sqlite": ("target", "commit-file"),
    "target/duckdb": ("target", "commit-file"),
    "target/postgres": ("target", "commit"),
}


def needs(name: str) -> dict[str, str]:
    """The prefixes of the verdicts that a claim needs, by the words for each."""
    if name in FLOWS:
        return dict(FLOWS[name])
    if name in airflow_claims.AIRFLOW:
        return dict(airflow_claims.needs(name))
    port, _, package = name.partition("/")
    needed = {f"suite of the {port}": f"suite/{port}/{package}/"}
    needed |= {f"kills in {world}": f"kill/{world}/" for world in WORLDS.get(name, ())}
    needed |= {f"model {model}": f"model/{model}" for model in MODELS.get(name, ())}
    needed["agreement with the model"] = f"pytest/tests.stateful.test_{port}::"
    return needed


def claim(name: str, verdicts: Iterable[Verdict], *, quick: bool) -> dict[str, Any]:
    """One claim with its evidence: how many verdicts of each kind, and what is wanting."""
    package = name.partition("/")[2]
    wanting: list[str] = []
    evidence: dict[str, Any] = {}
    known = list(verdicts)
    for words, prefix in needs(name).items():
        found = [v for v in known if _belongs(v.key, prefix, package)]
        bad = sorted(v.key for v in found if v.outcome != PASSED)
        evidence[prefix] = {"verdicts": len(found), "passed": len(found) - len(bad)}
        if not found:
            wanting.append(f"{words}: no evidence in this run")
        elif bad:
            wanting.append(f"{words}: {len(bad)} not passed, first {bad[0]}")
    if quick and not wanting:
        wanting.append("a quick run rotates through the points instead of killing at every pair")
    return {
        "status": UNVERIFIED if wanting else CERTIFIED,
        "reasons": wanting,
        "evidence": evidence,
    }


def _belongs(key: str, prefix: str, package: str) -> bool:
    if prefix.startswith("pytest/"):
        is_flow = package == "linux"
        return key.startswith(prefix) and (is_flow or f"[{package}" in key)
    if prefix.startswith("model/"):
        return key == prefix
    return key.startswith(prefix) or key + "/" == prefix


def claims(
    verdicts: Sequence[Verdict],
    versions: Mapping[str, str],
    unfenced: Iterable[str],
    *,
    quick: bool,
) -> dict[str, Any]:
    """All claims: connector, version of its engine, and what this run says."""
    found: dict[str, Any] = {}
    for name in DECLARED:
        version = versions.get(name.partition("/")[2], "")
        found[name] = {"version": version, **claim(name, verdicts, quick=quick)}
    for package in unfenced:
        reason = "capability NONE: a guard blocks an uncertain retry, nothing more is promised"
        found[f"target/{package}"] = {
            "version": "",
            "status": UNSUPPORTED,
            "reasons": [reason],
            "evidence": {},
        }
    return found


def unborne(found: Mapping[str, Any]) -> list[str]:
    """The declared claims that the run does not bear out."""
    return [name for name in DECLARED if found.get(name, {}).get("status") != CERTIFIED]
