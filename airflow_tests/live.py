"""One version of Airflow, really started: every scenario of its session is a test.

    .venv/bin/python -m pytest -c pyproject.toml airflow_tests/live.py

DPONE_AIRFLOW and DPONE_AIRFLOW_PYTHON choose the version and the Python; DPONE_AIRFLOW_SCENARIO
the scenarios whose names begin so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultinject.airflow import suites
from faultinject.airflow.scenarios import chosen, names
from faultinject.airflow.session import started
from tools.airflow_env import PYTHONS, Absent, held

VERSION = os.environ.get("DPONE_AIRFLOW", "3.3.2")
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
PYTHON = os.environ.get("DPONE_AIRFLOW_PYTHON", OWN if OWN in PYTHONS else PYTHONS[0])
ASKED = os.environ.get("DPONE_AIRFLOW_SCENARIO", "").split()
SESSION_S = 480.0

pytestmark = [pytest.mark.kill, pytest.mark.timeout(SESSION_S)]


@pytest.fixture(scope="module")
def python() -> Iterator[Path]:
    """The Python of the environment."""
    try:
        with held(VERSION, PYTHON) as found:
            yield found
    except Absent as reason:
        pytest.skip(f"UNVERIFIED: {reason}")


@pytest.fixture(scope="module")
def records(python: Path) -> dict[str, list[str]]:
    """What is wrong with each scenario; run once for all tests."""
    scenarios = chosen(ASKED)
    with started(VERSION, python, scenarios) as session:
        session.run(scenarios)
        strangers = session.lab.airflow.strangers()
    found = {record["name"]: record["faults"] for record in session.records}
    return {**found, "listens": strangers}


@pytest.mark.parametrize("name", [*(n for n in names() if not ASKED), *ASKED, "listens"])
def test_scenario(records: dict[str, list[str]], name: str) -> None:
    found = {known: faults for known, faults in records.items() if known.startswith(name)}
    assert found
    again = f"DPONE_AIRFLOW={VERSION} DPONE_AIRFLOW_PYTHON={PYTHON} DPONE_AIRFLOW_SCENARIO={name}"
    assert not any(found.values()), f"{found}\nagain: {again} make airflow-one"


def test_contract(python: Path) -> None:
    options = ("-c", "airflow_tests/pytest.ini", "--rootdir", "airflow_tests")
    seen = suites.run(python, ["airflow_tests/contract"], *options)
    assert not seen.faults
    assert not seen.skipped
