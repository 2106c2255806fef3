"""Fixtures that give a test a real PostgreSQL: name this module in `pytest_plugins`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faultinject.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Yield the server that all tests share; a test that harms a server makes its own."""
    with PostgresServer.from_environment() as server:
        yield server


@pytest.fixture
def pg_database(postgres: PostgresServer) -> Iterator[str]:
    """Yield the connection string of a database that only this test uses."""
    with postgres.database() as dsn:
        yield dsn
