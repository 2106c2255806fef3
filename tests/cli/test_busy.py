"""A target that somebody else holds: nothing is concluded, and the run ends."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dpone.adapters.duckdb.target import DuckdbTarget
from dpone.adapters.sqlite.target import SqliteTarget
from tests.loading.project import ITEM_ROWS, TARGETS, Project

HOLD = """\
import sys, duckdb
connection = duckdb.connect("warehouse.duckdb")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another(project: Project, kind: str) -> Iterator[None]:
    """The target file, held by another process or connection."""
    if kind == "sqlite":
        connection = sqlite3.connect(project.root / "warehouse.sqlite", isolation_level=None)
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.close()
        return
    with subprocess.Popen(
        [sys.executable, "-c", HOLD],
        cwd=project.root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
        process.communicate("")


@pytest.fixture(params=["duckdb", "sqlite"])
def kind(request: pytest.FixtureRequest) -> str:
    """The targets that one process holds as a whole."""
    return str(request.param)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody lets go while a test waits, so it need not wait long."""
    for target in (DuckdbTarget, SqliteTarget):
        defaults = target.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "lock_wait_s", 0.05)


def test_a_held_target_ends_the_run_and_says_later(project: Project, kind: str) -> None:
    fields = {"target": TARGETS[kind], "partition": "{column: grp}"}
    project.route(**fields)
    assert project.run().code == 0
    project.route(**fields, revision="2", strategy="{replace_partition: [grp]}")
    with held_by_another(project, kind):
        said = project.run()
        assert (said.code, said.hows) == (3, ["failed", "not_tried", "not_tried"])
        assert said.codes == ["DPONE_TARGET_HELD"]
        plan = project.run("--plan").report
        assert {item["would"] for item in plan["operations"]} == {"unknown"}
    assert project.items(kind) == ITEM_ROWS
    assert project.run().hows == ["committed"] * 3
    assert project.items(kind) == ITEM_ROWS
