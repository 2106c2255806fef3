"""`dpone run` itself, killed at every point that it passes, and run again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from faultinject import workloads
from faultinject.rivals import spread
from faultinject.worlds import Databases
from faultinject.zygote import Zygote
from tests.depth import FULL

pytestmark = pytest.mark.kill

CLI = "faultinject.workloads:cli"
ROUTE = """\
schema: dpone.route.v1
route: items
source: {{csv: "in/*.csv"}}
target: {{{target}, table: items}}
strategy: append
partition: file
columns: {{id: integer, grp: text}}
"""
TARGETS = {
    "duckdb": "duckdb: target",
    "sqlite": "sqlite: target",
    "postgres": "postgres: dwh",
}
FILES = {"one.csv": "id,grp\n1,a\n2,b\n", "two.csv": "id,grp\n3,a\n"}
ROWS = [1, 2, 3]


@contextmanager
def project(kind: str, databases: Databases | None, folder: Path) -> Iterator[dict[str, Any]]:
    """A folder with two files and a route; yields the arguments of the command line."""
    (folder / "in").mkdir(parents=True)
    for name, text in FILES.items():
        (folder / "in" / name).write_text(text)
    (folder / "route.yaml").write_text(ROUTE.format(target=TARGETS[kind]))
    (folder / "dpone.toml").write_text('environment = "test"\n')
    args: dict[str, Any] = {
        "cwd": str(folder),
        "out": str(folder / "out"),
        "argv": ["run", "route.yaml", "--format", "json", "--take-over"],
        "target": f"{kind}:{folder / 'target'}",
    }
    if databases is None:
        yield args
    else:
        with databases.schema() as dsn:
            yield {
                **args,
                "target": f"postgres:{dsn}",
                "environ": {"DPONE_CONNECTION_DWH": f"postgres:{dsn}"},
            }
    shutil.rmtree(folder)


def killed(
    zygote: Zygote, kind: str, databases: Databases | None, folder: Path, point: str
) -> list[str]:
    """Kill the command at a point, run it again twice; return the faults."""
    with project(kind, databases, folder) as args:
        ended = zygote.run(CLI, args, point=point)
        faults = [] if ended.killed and ended.hit(point) else ["armed and not hit"]
        again = zygote.run(CLI, args)
        if again.exit_code != 0:
            faults.append(f"the next run ended {again.exit_code}: {said(args)}")
        last = zygote.run(CLI, args)
        hows = [operation["how"] for operation in said(args).get("operations", [])]
        if (last.exit_code, hows) != (0, ["replayed", "replayed"]):
            faults.append(f"the last run ended {last.exit_code} {hows}")
        if (seen := ids(args)) != ROWS:
            faults.append(f"rows are {seen}")
        return [f"{point}: {fault}" for fault in faults]


def said(args: dict[str, Any]) -> Any:
    """The report that the command printed."""
    line = Path(args["out"]).read_text().partition("\n")[0]
    return json.loads(line) if line.startswith("{") else {}


def ids(args: dict[str, Any]) -> list[int]:
    connection = workloads.connect(args["target"])
    try:
        return [row[0] for row in connection.execute("SELECT id FROM items ORDER BY id").fetchall()]
    finally:
        connection.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", TARGETS)
def test_the_command_killed_at_every_point_loads_every_file_once(
    zygotes: list[Zygote], request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    databases = request.getfixturevalue("databases") if kind == "postgres" else None
    with project(kind, databases, tmp_path / "traced") as args:
        trace = tmp_path / "trace"
        trace.touch()
        zygotes[0].run(CLI, args, trace=trace)
        assert ids(args) == ROWS
    points = [json.loads(line)["point"] for line in trace.read_text().splitlines()]
    assert len(points) >= 24
    if not FULL:
        # The second file passes the same points; that it is loaded every round checks.
        points = [point for point in points if point.endswith("#1")]
    rounds = [
        partial(killed, kind=kind, databases=databases, folder=tmp_path / f"{number}", point=point)
        for number, point in enumerate(points)
    ]
    assert [fault for faults in spread(zygotes, rounds) for fault in faults] == []
