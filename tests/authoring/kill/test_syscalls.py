"""Commands killed around every file-changing system call; plans that make no such call at all."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from faultinject import rivals, writing
from faultinject.call_sweeps import SWEPT
from faultinject.writing import COMMAND, Bench, Task
from faultinject.zygote import Zygote
from tests.depth import FULL

pytestmark = [
    pytest.mark.kill,
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64"),
        reason="stopping at system calls is written for Linux on x86-64",
    ),
]

BY_NAME = {task.name: task for task in (*writing.SINGLES, *writing.COMMANDS, *writing.MIGRATIONS)}
SWEPT_TASKS = (
    tuple(BY_NAME)
    if FULL
    else ("replace", "init workload, second", "migrate classic to folder", "remove")
)
STRIDE = 16
CALLS = {"renameat2", "linkat", "unlinkat", "fsync", "openat nameless", "write"}


def killed_at(bench: Bench, stop_at: int) -> tuple[str, list[str]]:
    """Kill at a stop, run twice; where it was killed, and the faults."""
    with bench.fresh() as project:
        traced = {**project.args, "folder": str(project.root), "stop_at": stop_at}
        seen = bench.zygote.run(SWEPT, traced).result or {}
        where = str(seen.get("killed_at", ""))
        faults = bench.torn(project)
        for is_last in (False, True):
            ended = bench.zygote.run(COMMAND, project.args)
            faults += bench.ended(project, ended, is_last=is_last)
        if not where and seen.get("exit_code") != 0:
            faults.append(f"the traced run ended {seen}")
        return where, [f"{where}: {fault}" for fault in faults]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SWEPT_TASKS)
def test_killed_around_every_file_changing_call_the_next_run_finishes(
    writers: list[Zygote], name: str
) -> None:
    with ExitStack() as held:
        benches = {id(zygote): Bench(zygote, BY_NAME[name]) for zygote in writers}
        for bench in benches.values():
            held.callback(bench.close)
            bench.points()

        def once(zygote: Zygote, stop_at: int) -> tuple[str, list[str]]:
            return killed_at(benches[id(zygote)], stop_at)

        found: list[tuple[str, list[str]]] = []
        for start in count(1, STRIDE):
            stops = range(start, start + STRIDE)
            found += rivals.spread(writers, [partial(once, stop_at=stop) for stop in stops])
            if not found[-1][0]:
                break
    assert [fault for _, faults in found for fault in faults] == []
    killed = Counter(" ".join(where.split(" ")[1:-1]) for where, _ in found if where)
    if name != "remove":
        assert set(killed) >= CALLS
    assert sum(killed.values()) >= 20


# -- plans -----------------------------------------------------------------------------------------

READY = (writing.PROJECT, writing.DOMAIN, writing.SECOND)
PATH = "workloads/sales/items"
CATALOG = "dpone_workloads/gitops/domains/sales.yaml"
PLANS = (
    ("init",),
    ("init", "project"),
    ("init", "domain", "new"),
    ("init", "domain", "sales"),
    ("init", "workload", "sales/new", "--dag", "daily2"),
    ("init", "workload", "sales/items", "--dag", "daily"),
    ("init", "workload", "sales/new", "--layout", "folder"),
    ("workload", "init", "sales/new"),
    ("init", "dag", "sales/other", "--workload", "items"),
    ("catalog", "apply", "sales", "--dag", "daily", "--workload", "items"),
    ("catalog", "apply", "sales", "--workload", "items", "--owner", "data_platform"),
    ("authoring", "migrate", PATH, "--to", "flow"),
    ("authoring", "migrate", PATH, "--to", "folder", "--plan"),
    ("migrate", "authoring", PATH, "--to", "classic"),
    ("authoring", "recover", CATALOG),
    ("authoring", "recover", CATALOG, "--keep"),
)
STATES = ("clean", "interrupted before the exchange", "interrupted after it")
_KILLS = dict(
    zip(STATES[1:], ("authoring.side:after#1", "authoring.exchange:after#1"), strict=True)
)


@pytest.fixture(scope="module")
def planned(writer: Zygote) -> Iterator[Bench]:
    bench = Bench(writer, Task("plans", ("init",), READY))
    yield bench
    bench.close()


def calls_of(bench: Bench, argv: tuple[str, ...], project: writing.Project) -> dict[str, Any]:
    """The trace of a plan over the whole file system, standard output aside."""
    arguments = [*argv, "--format", "json"]
    traced = {**project.args, "argv": arguments, "folder": "/", "stop_at": 0}
    return bench.zygote.run(SWEPT, traced).result or {}


@pytest.mark.parametrize("state", STATES)
def test_a_plan_makes_no_file_changing_call_anywhere(planned: Bench, state: str) -> None:
    interrupted = ["init", "workload", "sales/other", "--apply"]
    with planned.fresh() as project:
        if point := _KILLS.get(state):
            args = {**project.args, "argv": interrupted}
            assert planned.zygote.run(COMMAND, args, point=point).killed
        before = snapshot(project.root)
        for argv in PLANS:
            calls_of(planned, argv, project)  # Imports may leave bytecode behind.
            seen = calls_of(planned, argv, project)
            assert (argv, seen["exit_code"], seen["stops"]) == (argv, 0, [])
            report = project.said()
            assert report["mode"] == "plan"
            if point and argv[0] in ("init", "catalog") and CATALOG in str(report):
                waiting = [line for line in report["warnings"] if "waits" in line]
                assert waiting, argv
        assert snapshot(project.root) == before


def snapshot(root: Path) -> dict[str, tuple[int, int, int]]:
    """Inode, change time and size of everything."""
    return {
        path.relative_to(root).as_posix(): (found.st_ino, found.st_ctime_ns, found.st_size)
        for path in root.rglob("*")
        for found in [path.lstat()]
    }


def test_the_trace_sees_an_apply(planned: Bench) -> None:
    argv = ("init", "workload", "sales/seen", "--apply")
    with planned.fresh() as project:
        seen = calls_of(planned, argv, project)
        names = {" ".join(stop.split(" ")[1:-1]) for stop in seen["stops"]}
        assert names >= {*CALLS, "fdatasync", "pwrite64", "fchmod"} - {"fchmod"}
