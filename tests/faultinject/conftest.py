"""Make the PostgreSQL fixtures known here, once, also when the whole project names them."""

import pytest

FIXTURES = "tests.faultinject.fixtures"


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin(FIXTURES):
        config.pluginmanager.import_plugin(FIXTURES)
