"""Fixtures of servers and zygotes, and a project folder for the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loading.project import ITEMS, Project

FIXTURES = ("tests.faultinject.fixtures", "tests.kill.fixtures")


def pytest_configure(config: pytest.Config) -> None:
    for name in FIXTURES:
        if not config.pluginmanager.has_plugin(name):
            config.pluginmanager.import_plugin(name)


@pytest.fixture
def project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Project:
    """A folder with `items.csv`, outside of any other project."""
    monkeypatch.delenv("DPONE_ENVIRONMENT", raising=False)
    monkeypatch.delenv("DPONE_DEBUG", raising=False)
    made = Project(tmp_path, capsys)
    made.write("items.csv", ITEMS)
    made.write("dpone.toml", 'environment = "test"\n')
    return made


@pytest.fixture(params=["duckdb", "sqlite"])
def kind(request: pytest.FixtureRequest) -> str:
    """Every target that needs no server."""
    return str(request.param)
