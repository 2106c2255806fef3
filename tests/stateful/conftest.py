"""The stores that the machines drive, and the process that forks what they kill."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from certification.places import Resources
from faultinject.zygote import Zygote

FIXTURES = "tests.faultinject.fixtures"
PRELOADED = (
    "tests.stateful.crash",
    "tests.stateful.deletion_child",
    "dpone.adapters.duckdb.target",
    "dpone.adapters.postgres.target",
    "dpone.adapters.postgres.journal",
    "dpone.adapters.sqlite.target",
)


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin(FIXTURES):
        config.pluginmanager.import_plugin(FIXTURES)


@pytest.fixture(scope="session")
def resources(request: pytest.FixtureRequest) -> Iterator[Resources]:
    with Resources(lambda: request.getfixturevalue("postgres")) as shared:
        yield shared


@pytest.fixture(scope="session")
def zygote(resources: Resources) -> Iterator[Zygote]:
    with Zygote(resources.folder(), PRELOADED) as process:
        yield process
