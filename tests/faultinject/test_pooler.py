"""The pooler moves a client to another session after every transaction."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from faultinject.pooler import TransactionPooler
from faultinject.postgres import PostgresServer


@pytest.fixture
def pooler(pg_database: str) -> Iterator[TransactionPooler]:
    with TransactionPooler(pg_database) as pooler:
        yield pooler


def value(connection: psycopg.Connection[tuple[object, ...]], query: str) -> object:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def test_every_transaction_runs_in_another_session(pooler: TransactionPooler) -> None:
    with psycopg.connect(pooler.dsn(), autocommit=True) as connection:
        pids = [value(connection, "SELECT pg_backend_pid()") for _ in range(4)]
    assert pids[0] == pids[2] != pids[1] == pids[3]
    assert pooler.switches == 3
    assert pooler.repeats == 0
    assert pooler.backend_pids == set(pids)


def test_one_transaction_stays_in_one_session(pooler: TransactionPooler) -> None:
    with psycopg.connect(pooler.dsn()) as connection:
        first = value(connection, "SELECT pg_backend_pid()")
        assert value(connection, "SELECT pg_backend_pid()") == first
        connection.commit()
        assert value(connection, "SELECT pg_backend_pid()") != first
    assert pooler.switches == 1


def test_set_is_lost_by_its_client_and_met_by_another(pooler: TransactionPooler) -> None:
    show = "SHOW lock_timeout"
    with psycopg.connect(pooler.dsn(), autocommit=True) as connection:
        connection.execute("SET lock_timeout = '7s'")
        assert value(connection, show) == "0"
        with psycopg.connect(pooler.dsn(), autocommit=True) as stranger:
            assert value(stranger, show) == "7s"
    with psycopg.connect(pooler.dsn()) as connection:
        connection.execute("SET LOCAL lock_timeout = '3s'")
        assert value(connection, show) == "3s"


def test_session_advisory_lock_is_stranded(pooler: TransactionPooler, pg_database: str) -> None:
    with psycopg.connect(pooler.dsn(), autocommit=True) as connection:
        assert value(connection, "SELECT pg_try_advisory_lock(1)") is True
        assert value(connection, "SELECT pg_advisory_unlock(1)") is False
    with psycopg.connect(pg_database, autocommit=True) as direct:
        assert value(direct, "SELECT pg_try_advisory_lock(1)") is False
    assert pooler.switches == 1


def test_prepared_statements_and_temporary_tables_are_lost(pooler: TransactionPooler) -> None:
    connection = psycopg.connect(pooler.dsn(), autocommit=True)
    # Preparing and executing are two round trips, hence two sessions.
    with connection, pytest.raises(psycopg.errors.InvalidSqlStatementName):
        connection.execute("SELECT %s::int", [1], prepare=True)
    with psycopg.connect(pooler.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TEMPORARY TABLE scratch (n int)")
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("INSERT INTO scratch VALUES (1)")


def test_transactions_of_two_clients_run_side_by_side(pooler: TransactionPooler) -> None:
    with psycopg.connect(pooler.dsn()) as one, psycopg.connect(pooler.dsn()) as two:
        pids = {value(c, "SELECT pg_backend_pid()") for c in (one, two)}
        assert len(pids) == 2
        with pytest.raises(psycopg.errors.SyntaxError):
            one.execute("SELECT FROM WHERE")
        one.rollback()
        one.execute("SELECT 1")
    assert pooler.repeats == 1


def test_a_client_that_leaves_mid_transaction_is_rolled_back(
    pooler: TransactionPooler, pg_database: str
) -> None:
    with psycopg.connect(pg_database) as direct:
        direct.execute("CREATE TABLE fact (n int)")
    for n in range(3):
        connection = psycopg.connect(pooler.dsn())
        connection.execute("INSERT INTO fact VALUES (%s)", [n])
        connection.close()
    with psycopg.connect(pooler.dsn()) as connection:
        connection.execute("LOCK TABLE fact")
        assert value(connection, "SELECT count(*) FROM fact") == 0


def test_pipelines_and_copies_pass(pooler: TransactionPooler) -> None:
    with psycopg.connect(pooler.dsn()) as connection:
        with connection.pipeline():
            connection.execute("CREATE TABLE fact (n int)")
            connection.commit()
        with connection.cursor().copy("COPY fact FROM STDIN") as copy:
            for n in range(20_000):
                copy.write_row([n])
        connection.commit()
        assert value(connection, "SELECT count(*) FROM fact") == 20_000


def test_a_server_that_asks_for_a_password_is_refused_with_a_reason() -> None:
    with (
        PostgresServer(fsync=False) as server,
        server.with_password("guarded", "secret", dbname="postgres") as dsn,
        pytest.raises(ConnectionError, match="password"),
    ):
        TransactionPooler(dsn)
