"""The stores of the suites, on the PostgreSQL server that all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from certification.places import Resources

FIXTURES = "tests.faultinject.fixtures"


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin(FIXTURES):
        config.pluginmanager.import_plugin(FIXTURES)


@pytest.fixture(scope="session")
def resources(request: pytest.FixtureRequest) -> Iterator[Resources]:
    with Resources(lambda: request.getfixturevalue("postgres")) as shared:
        yield shared
