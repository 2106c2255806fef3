"""Real processes of the command line, killed at named points and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from faultinject.probe import KillProbe, TraceProbe, check_point
from tests.loading.project import ITEM_ROWS, TARGETS, Project

ROOT = Path(__file__).resolve().parents[2]


def launch(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Start `python -m faultinject.launch` in the project's folder."""
    return subprocess.run(
        [sys.executable, "-m", "faultinject.launch", *arguments],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.kill
@pytest.mark.parametrize(
    "point", ["fencing.intent:after#1", "fencing.change:after#1", "fencing.commit:after#1"]
)
def test_a_killed_run_is_finished_by_the_same_command(
    project: Project, kind: str, point: str
) -> None:
    project.route(target=TARGETS[kind])
    killed = launch(project, "--point", point, "--proof", "proof", "--", "run", "route.yaml")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    proof = json.loads((project.root / "proof").read_text())
    assert (proof["point"], proof["signal"]) == (point, "SIGKILL")
    said = project.run()
    assert said.hows == ["settled" if "commit" in point else "committed"], said.err
    assert project.items(kind) == ITEM_ROWS
    assert project.run().hows == ["replayed"]


def test_a_point_that_is_not_reached_leaves_no_proof(project: Project) -> None:
    project.route(target=TARGETS["sqlite"])
    probe = KillProbe("fencing.commit:after#2", project.root / "proof")
    assert project.run(probe=probe).code == 0
    assert not (project.root / "proof").exists()


def test_a_trace_names_every_point_in_order(project: Project) -> None:
    project.route(target=TARGETS["sqlite"])
    assert project.run(probe=TraceProbe(project.root / "trace")).code == 0
    lines = (project.root / "trace").read_text().splitlines()
    points = [json.loads(line)["point"] for line in lines]
    assert points.index("fencing.claim:before#1") < points.index("fencing.commit:after#1")
    assert len(points) == len(set(points))


@pytest.mark.parametrize("point", ["", "fencing.commit", "fencing.commit:after#0", "x:after#1"])
def test_what_is_no_point_is_refused(point: str) -> None:
    with pytest.raises(ValueError, match="no "):
        check_point(point)
