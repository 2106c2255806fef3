"""What is claimed of each Airflow version on each Python, and what a run has to show for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from certification.evidence import UNVERIFIED, Verdict
from faultinject.airflow.scenarios import names

VERSIONS = ("2.10.5", "2.11.2", "3.2.2", "3.3.2")
PYTHONS = ("3.11", "3.12")
PART = "airflow"
AIRFLOW = tuple(f"{PART}/{version}/py{python}" for version in VERSIONS for python in PYTHONS)


def key(name: str, *rest: str) -> str:
    """The key of a verdict below a claim."""
    return "/".join(("flow", name, *rest))


def needs(name: str) -> Mapping[str, str]:
    """The verdicts that a claim needs, by the words for each: every scenario is asked for."""
    live = {f"scenario {found}": key(name, "live", found) for found in names()}
    return {
        **live,
        "loopback only": key(name, "live", "listens"),
        "tests inside Airflow": key(name, "contract"),
        "retention suite of the installed wheel": key(name, "retention"),
        "what a DAG file pays for the import": key(name, "parse"),
    }


def absent(name: str, verdicts: Iterable[Verdict]) -> str:
    """Why a claim could not be tried here at all; empty when it was tried."""
    gaps = (v.detail for v in verdicts if v.key == key(name) and v.outcome == UNVERIFIED)
    return next(gaps, "")


def owed(asked: Iterable[str], verdicts: Iterable[Verdict]) -> list[str]:
    """The claims that a run of the matrix has to bear out: all that could be tried."""
    known = list(verdicts)
    return [name for name in asked if not absent(name, known)]
