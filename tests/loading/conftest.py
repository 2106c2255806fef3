"""Fixtures for routes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from faultinject.postgres import PostgresServer
from tests.loading.project import ITEMS, WAREHOUSE, Project

FIXTURES = "tests.faultinject.fixtures"
_NUMBERS = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin(FIXTURES):
        config.pluginmanager.import_plugin(FIXTURES)


@pytest.fixture
def project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Project:
    """A folder with `items.csv`, outside of any other project."""
    for name in ("DPONE_ENVIRONMENT", "DPONE_DEBUG", "DPONE_TELEMETRY", WAREHOUSE):
        monkeypatch.delenv(name, raising=False)
    made = Project(tmp_path, capsys)
    made.write("items.csv", ITEMS)
    made.write("dpone.toml", 'environment = "test"\n')
    return made


@pytest.fixture(scope="session")
def warehouse_database(postgres: PostgresServer) -> Iterator[str]:
    """A database whose schemas the tests use one after the other."""
    with postgres.database() as dsn:
        yield dsn


@pytest.fixture
def schema(warehouse_database: str) -> str:
    """The name of a schema that only this test uses; a fence of its own will lie in it."""
    name = f"s{next(_NUMBERS)}"
    with psycopg.connect(warehouse_database, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return name


@pytest.fixture
def warehouse(
    project: Project,
    postgres: PostgresServer,
    warehouse_database: str,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """The connection string of the connection `warehouse`, whose first schema is the test's."""
    project.server, project.schema = postgres, schema
    project.warehouse = make_conninfo(warehouse_database, options=f"-csearch_path={schema}")
    monkeypatch.setenv(WAREHOUSE, f"postgres:{project.warehouse}")
    with project.held:
        yield project.warehouse


@pytest.fixture(params=["duckdb", "sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """Every target; the server starts when the first test needs it."""
    name = str(request.param)
    if name == "postgres":
        request.getfixturevalue("warehouse")
    return name
