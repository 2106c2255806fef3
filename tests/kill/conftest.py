"""Make the fixtures of servers and zygotes known here, once."""

import pytest

FIXTURES = ("tests.faultinject.fixtures", "tests.kill.fixtures")


def pytest_configure(config: pytest.Config) -> None:
    for name in FIXTURES:
        if not config.pluginmanager.has_plugin(name):
            config.pluginmanager.import_plugin(name)
