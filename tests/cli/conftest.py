"""The fixtures of routes serve the command line too."""

from __future__ import annotations

import pytest

from tests.loading.conftest import (
    FIXTURES,
    kind,
    project,
    schema,
    warehouse,
    warehouse_database,
)

__all__ = ["kind", "project", "schema", "warehouse", "warehouse_database"]


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin(FIXTURES):
        config.pluginmanager.import_plugin(FIXTURES)
