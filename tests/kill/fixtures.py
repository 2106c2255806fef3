"""Zygotes and databases that all kill tests and case tests of a session share."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from faultinject import worlds
from faultinject.matrix import World, memory_folder
from faultinject.postgres import PostgresServer
from faultinject.worlds import Databases
from faultinject.zygote import Zygote

PRELOADED = (
    "faultinject.workloads",
    "faultinject.operators",
    "dpone.adapters.duckdb.target",
    "dpone.adapters.postgres.target",
    "dpone.adapters.postgres.journal",
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Every failure prints one line that replays it."""
    report = yield
    if report.failed:
        report.sections.append(("replay", f".venv/bin/python -m pytest '{item.nodeid}'"))
    return report


@pytest.fixture(scope="session")
def zygotes() -> Iterator[list[Zygote]]:
    """Zygotes for rounds that run side by side."""
    with ExitStack() as held:
        # As many as the smallest machine has cores.
        made = [TemporaryDirectory(prefix="dpone-zygote-", dir=memory_folder()) for _ in range(2)]
        folders = [Path(held.enter_context(folder)) for folder in made]
        yield [held.enter_context(Zygote(folder, PRELOADED)) for folder in folders]


@pytest.fixture(scope="session")
def zygote(zygotes: list[Zygote]) -> Zygote:
    """The zygote of tests that run one worker after the other."""
    return zygotes[0]


@pytest.fixture(scope="session")
def databases(postgres: PostgresServer) -> Iterator[Databases]:
    """Two databases of the shared server, for worlds that are schemas of them."""
    with Databases(postgres) as made:
        yield made


@pytest.fixture
def world(request: pytest.FixtureRequest) -> World:
    """The world that the test's parameter names; its server starts when it is needed."""
    return world_of(request, request.param)


def world_of(request: pytest.FixtureRequest, name: str) -> World:
    """A world by name: a file target, or `postgres` with the place of its journal."""
    files: dict[str, World] = {
        "sqlite": worlds.sqlite,
        "duckdb": worlds.duckdb,
        "joint": worlds.joint_sqlite,
    }
    if name in files:
        return files[name]
    databases: Databases = request.getfixturevalue("databases")
    return worlds.postgres(databases, journal=name.partition("-")[2] or "sqlite")
