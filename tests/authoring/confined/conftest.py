"""Make the fixtures of single files and small projects known here, once."""

import pytest

FIXTURES = ("tests.authoring.confined.fixtures",)


def pytest_configure(config: pytest.Config) -> None:
    for name in FIXTURES:
        if not config.pluginmanager.has_plugin(name):
            config.pluginmanager.import_plugin(name)
