"""The matrix keeps the evidence of every pair, and stamps an environment with what is in it."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from certification import airflow_matrix
from certification.evidence import ERROR
from certification.programme import Raw
from faultinject.airflow import suites
from tools import airflow_env
from tools.setup_env import read_stamp

CLAIMED = "airflow/3.3.2/py3.11"
GIVEN = argparse.Namespace(only=None, scenario=None)


@pytest.mark.parametrize(
    "problem",
    [subprocess.TimeoutExpired(["airflow"], 120), RuntimeError("no server"), OSError("no space")],
)
def test_whatever_breaks_a_pair_is_its_verdict(
    monkeypatch: pytest.MonkeyPatch, problem: Exception | None
) -> None:
    @contextmanager
    def held(*_: str) -> Iterator[Path]:
        if problem is not None:
            raise problem
        yield Path("python")

    monkeypatch.setattr(airflow_matrix, "held", held)
    raw = Raw()
    assert airflow_matrix._pair(raw, CLAIMED, GIVEN) == ""
    (gap,) = raw.gaps
    assert gap["outcome"] == ERROR
    assert str(problem) in gap["detail"]


def test_figures_over_their_bound_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = [
        {"name": "one", "value": 0.2, "bound": 0.15},
        {"name": "two", "value": 0, "bound": 1},
    ]
    monkeypatch.setattr(suites, "parse", lambda python: figures)
    raw = Raw()
    airflow_matrix._parse(raw, CLAIMED, Path("python"))
    assert raw.flows[0]["faults"] == ["one: 0.200 s, not 0.15 s"]
    assert raw.flows[0]["figures"] == {"one": 0.2, "two": 0}


def test_no_figure_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "parse", lambda python: [])
    raw = Raw()
    airflow_matrix._parse(raw, CLAIMED, Path("python"))
    assert raw.flows[0]["faults"] == ["no figure"]


def test_sources_that_change_while_they_are_built_are_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, built = ["A"], []

    def build(folder: Path, *_: object) -> None:
        (folder / "bin").mkdir(exist_ok=True)
        (folder / "bin" / "python").touch()
        built.append(sources[-1])
        if len(built) == 1:
            sources.append("B")

    monkeypatch.setenv("DPONE_CACHE", str(tmp_path))
    monkeypatch.setattr(airflow_env, "sources_digest", lambda: sources[-1])
    monkeypatch.setattr(airflow_env, "_build", build)
    with airflow_env.held("3.3.2", "3.11") as python:
        assert read_stamp(python.parents[1])["project"] == "B"
    assert built == ["A", "B"]
    with airflow_env.held("3.3.2", "3.11"):
        assert built == ["A", "B"]
