"""The fixtures of servers, for the changes that go to PostgreSQL."""

import pytest

FIXTURES = "tests.faultinject.fixtures"


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin(FIXTURES):
        config.pluginmanager.import_plugin(FIXTURES)
