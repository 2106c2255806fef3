"""The small projects of the other tests, and an SDK that keeps what it is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.loading.conftest import kind, project, schema, warehouse, warehouse_database
from tests.telemetry.watched import Watched

__all__ = ["kind", "project", "schema", "warehouse", "warehouse_database"]

FIXTURES = ("tests.authoring.confined.fixtures", "tests.faultinject.fixtures")


def pytest_configure(config: pytest.Config) -> None:
    for name in FIXTURES:
        if not config.pluginmanager.has_plugin(name):
            config.pluginmanager.import_plugin(name)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """Telemetry is asked for, and an SDK listens."""
    with Watched(monkeypatch) as listening:
        yield listening
