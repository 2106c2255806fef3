"""The fixtures of servers and of places, for the changes that go to real targets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from certification.places import TARGETS, Resources, TargetPlace
from faultinject.postgres import PostgresServer

FIXTURES = "tests.faultinject.fixtures"
KINDS = ("sqlite", "duckdb", "postgres")


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin(FIXTURES):
        config.pluginmanager.import_plugin(FIXTURES)


@pytest.fixture(scope="module")
def resources(postgres: PostgresServer) -> Iterator[Resources]:
    with Resources(lambda: postgres) as shared:
        yield shared


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, resources: Resources) -> Iterator[TargetPlace]:
    with TARGETS[request.param](resources) as made:
        yield made


@pytest.fixture
def duck(resources: Resources) -> Iterator[TargetPlace]:
    with TARGETS["duckdb"](resources) as made:
        yield made


@pytest.fixture
def lite(resources: Resources) -> Iterator[TargetPlace]:
    with TARGETS["sqlite"](resources) as made:
        yield made


@pytest.fixture
def server(resources: Resources) -> Iterator[TargetPlace]:
    with TARGETS["postgres"](resources) as made:
        yield made
