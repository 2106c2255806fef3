"""A claim about an Airflow version needs every scenario; an absent interpreter excuses, no more."""

from __future__ import annotations

from typing import Any

import pytest

from certification import airflow_claims, airflow_matrix
from certification.airflow_claims import AIRFLOW, absent, key, needs, owed
from certification.claims import CERTIFIED, UNVERIFIED, claim
from certification.evidence import ERROR, FAILED, PASSED, Verdict
from certification.evidence import UNVERIFIED as GAP

NAME = AIRFLOW[0]


def verdicts(name: str = NAME, **outcomes: str) -> list[Verdict]:
    """Passed verdicts for all that a claim needs, but for those that are given by their end."""
    return [
        Verdict(place, "airflow", "It holds.", outcomes.get(place.rpartition("/")[2], PASSED))
        for place in needs(name).values()
    ]


def made(found: list[Verdict], *, quick: bool = False) -> dict[str, Any]:
    """The claim of NAME."""
    return {NAME: claim(NAME, found, quick=quick)}


def test_a_whole_run_certifies_and_every_hole_is_found() -> None:
    whole = verdicts()
    assert len(whole) > 35
    assert made(whole)[NAME]["status"] == CERTIFIED
    assert made(whole, quick=True)[NAME]["status"] == UNVERIFIED
    for hole in whole:
        rest = [verdict for verdict in whole if verdict is not hole]
        assert made(rest)[NAME]["status"] == UNVERIFIED, hole.key


@pytest.mark.parametrize("outcome", [FAILED, ERROR, GAP])
def test_what_did_not_pass_is_no_evidence(outcome: str) -> None:
    found = verdicts(naive_child_postgres=outcome)
    assert made(found)[NAME]["status"] == UNVERIFIED
    assert airflow_matrix.ended([NAME], found, made(found), quick=False) == 1


def test_an_absent_interpreter_is_unverified_and_owes_nothing() -> None:
    gap = Verdict(key(NAME), "airflow", "it was run", GAP, "no Python")
    assert absent(NAME, [gap]) == "no Python"
    assert made([gap])[NAME]["status"] == UNVERIFIED
    assert owed([NAME], [gap]) == []
    assert airflow_matrix.ended([NAME], [gap], made([gap]), quick=False) == 0


def test_a_pair_without_evidence_is_owed() -> None:
    assert owed([NAME], []) == [NAME]
    assert airflow_matrix.ended([NAME], [], made([]), quick=False) == 1
    assert airflow_matrix.ended([NAME], verdicts(), made(verdicts()), quick=False) == 0


def test_a_failure_names_the_line_that_replays_it() -> None:
    place = key("airflow/3.3.2/py3.12", "live", "fenced_child_duckdb")
    line = airflow_matrix.replay(Verdict(place, "airflow", "", FAILED))
    words = "--airflow 3.3.2 --python 3.12 --only live --scenario fenced_child_duckdb"
    assert line == f'make airflow ARGS="{words}"'


def test_the_versions_of_the_claims_are_those_of_the_matrix() -> None:
    assert len(AIRFLOW) == len(airflow_claims.VERSIONS) * len(airflow_claims.PYTHONS)
