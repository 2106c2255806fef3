"""The proxy does to a COMMIT what its plan says, and proves it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from faultinject.postgres import PostgresServer
from faultinject.proxy import Conversation, Plan, Proxy, Step

SEEN, FORWARDED, ANSWERED = Step.COMMIT_SEEN, Step.COMMIT_FORWARDED, Step.ANSWER_RECEIVED
RESET, HANGING = Step.CLIENT_RESET, Step.CLIENT_HANGING


@pytest.fixture(scope="module")
def module_database(postgres: PostgresServer) -> Iterator[str]:
    with postgres.database() as dsn:
        yield dsn


@pytest.fixture
def pg_database(module_database: str) -> str:
    """Empty one database again and again, which costs less than making one for each test."""
    with psycopg.connect(module_database) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return module_database


@pytest.fixture
def proxy(pg_database: str) -> Iterator[Proxy]:
    with psycopg.connect(pg_database) as connection:
        connection.execute("CREATE TABLE fact (n int)")
        connection.execute("CREATE TABLE dpone_fence (n int)")
    with Proxy(pg_database) as proxy:
        yield proxy


def rows(dsn: str) -> list[int]:
    """Read the table once no other session is in a transaction that could still change it."""
    with psycopg.connect(dsn) as connection:
        connection.execute("LOCK TABLE fact IN EXCLUSIVE MODE")
        return [n for (n,) in connection.execute("SELECT n FROM fact ORDER BY n").fetchall()]


def visible(dsn: str) -> list[int]:
    """Read the table as it is now, whoever may still be in a transaction."""
    with psycopg.connect(dsn) as connection:
        return [n for (n,) in connection.execute("SELECT n FROM fact ORDER BY n").fetchall()]


def insert(proxy: Proxy, n: int, *, extended: bool = False) -> None:
    with psycopg.connect(proxy.dsn(), autocommit=True) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO fact VALUES (%s)", [n])
        connection.execute("COMMIT", prepare=extended)


def insert_lost(proxy: Proxy, n: int, *, extended: bool = False) -> None:
    with pytest.raises(psycopg.OperationalError) as lost:
        insert(proxy, n, extended=extended)
    assert lost.value.sqlstate is None


both = pytest.mark.parametrize("extended", [False, True], ids=["simple", "extended"])


@both
def test_pass_changes_nothing_and_records_the_answer(
    proxy: Proxy, pg_database: str, extended: bool
) -> None:
    insert(proxy, 1, extended=extended)
    assert rows(pg_database) == [1]
    assert proxy.steps(Plan.PASS) == [SEEN, ANSWERED]
    assert proxy.events[1].answer == "COMMIT"
    assert [event.extended for event in proxy.events] == [extended, extended]


def test_connection_commit_uses_the_simple_protocol(proxy: Proxy, pg_database: str) -> None:
    with psycopg.connect(proxy.dsn()) as connection:
        connection.execute("INSERT INTO fact VALUES (1)")
    assert rows(pg_database) == [1]
    assert [event.extended for event in proxy.events] == [False, False]


def test_commit_in_a_pipeline_is_seen_too(proxy: Proxy, pg_database: str) -> None:
    with psycopg.connect(proxy.dsn()) as connection, connection.pipeline():
        connection.execute("INSERT INTO fact VALUES (1)")
        connection.commit()
    assert rows(pg_database) == [1]
    assert proxy.events[0].extended


@both
def test_cut_before_is_not_committed(proxy: Proxy, pg_database: str, extended: bool) -> None:
    proxy.arm(Plan.CUT_BEFORE)
    insert_lost(proxy, 1, extended=extended)
    assert rows(pg_database) == []
    assert proxy.steps(Plan.CUT_BEFORE) == [SEEN, RESET]
    seen, cut = proxy.events
    assert cut.forwarded_bytes == seen.forwarded_bytes > 0


@both
def test_cut_after_is_committed(proxy: Proxy, pg_database: str, extended: bool) -> None:
    proxy.arm(Plan.CUT_AFTER)
    insert_lost(proxy, 1, extended=extended)
    assert visible(pg_database) == [1]
    assert proxy.steps(Plan.CUT_AFTER) == [SEEN, FORWARDED, ANSWERED, RESET]
    seen, _, answered, cut = proxy.events
    assert answered.answer == "COMMIT"
    assert answered.forwarded_bytes > seen.forwarded_bytes
    assert cut.returned_bytes == seen.returned_bytes


def test_one_shot_is_used_up_and_for_ever_is_not(proxy: Proxy, pg_database: str) -> None:
    proxy.arm(Plan.CUT_AFTER)
    insert_lost(proxy, 1)
    insert(proxy, 2)
    proxy.arm(Plan.CUT_AFTER, times=None)
    insert_lost(proxy, 3)
    insert_lost(proxy, 4)
    proxy.arm(Plan.PASS)
    insert(proxy, 5)
    assert rows(pg_database) == [1, 2, 3, 4, 5]


@both
def test_delayed_commit_lands_after_the_client_saw_an_error(
    proxy: Proxy, pg_database: str, extended: bool
) -> None:
    proxy.arm(Plan.DELAY)
    insert_lost(proxy, 1, extended=extended)
    assert visible(pg_database) == []
    proxy.release()
    proxy.wait_for(ANSWERED, Plan.DELAY)
    assert visible(pg_database) == [1]
    assert proxy.steps(Plan.DELAY) == [SEEN, RESET, FORWARDED, ANSWERED]


def test_delay_by_the_clock_needs_no_release(proxy: Proxy, pg_database: str) -> None:
    proxy.arm(Plan.DELAY, delay_s=0.1)
    insert_lost(proxy, 1)
    assert proxy.wait_for(ANSWERED, Plan.DELAY).answer == "COMMIT"
    assert visible(pg_database) == [1]


@pytest.mark.parametrize(
    ("plan", "steps", "expected"),
    [
        (Plan.UNFORWARDED_HANG, [SEEN, HANGING, RESET], []),
        (Plan.HANG_AFTER, [SEEN, FORWARDED, ANSWERED, HANGING, RESET], [1]),
    ],
)
def test_hanging_client_hears_nothing_until_released(
    proxy: Proxy, pg_database: str, plan: Plan, steps: list[Step], expected: list[int]
) -> None:
    proxy.arm(plan)
    client = threading.Thread(target=insert_lost, args=(proxy, 1))
    client.start()
    proxy.wait_for(HANGING, plan)
    assert visible(pg_database) == expected
    assert client.is_alive()
    proxy.release()
    client.join(60)
    assert not client.is_alive()
    assert rows(pg_database) == expected
    assert proxy.steps(plan) == steps


def test_half_open_connection_keeps_its_transaction_in_progress(
    proxy: Proxy, pg_database: str
) -> None:
    proxy.arm(Plan.CUT_BEFORE, half_open=True)
    insert_lost(proxy, 1)
    with psycopg.connect(pg_database) as rival, pytest.raises(psycopg.errors.LockNotAvailable):
        rival.execute("LOCK TABLE fact IN EXCLUSIVE MODE NOWAIT")
    proxy.release()
    assert rows(pg_database) == []


def test_match_spares_the_journal_and_hits_the_target(proxy: Proxy, pg_database: str) -> None:
    proxy.arm(Plan.CUT_AFTER, match=lambda sql: b"dpone_fence" in sql)
    insert(proxy, 1)
    with psycopg.connect(proxy.dsn()) as connection:
        connection.execute("INSERT INTO dpone_fence VALUES (%s)", [1])
        connection.execute("INSERT INTO fact VALUES (%s)", [2])
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    insert(proxy, 3)
    assert rows(pg_database) == [1, 2, 3]
    assert [event.connection for event in proxy.events if event.plan is Plan.CUT_AFTER] == [2] * 4


def test_a_fence_of_an_earlier_transaction_does_not_count(proxy: Proxy, pg_database: str) -> None:
    with psycopg.connect(proxy.dsn()) as connection:
        connection.execute("INSERT INTO dpone_fence VALUES (1)")
        connection.commit()
        proxy.arm(Plan.CUT_AFTER, match=lambda sql: b"dpone_fence" in sql)
        connection.execute("INSERT INTO fact VALUES (1)")
        connection.commit()
    assert proxy.steps(Plan.CUT_AFTER) == []


@pytest.mark.parametrize("parameters", [None, [1]], ids=["simple", "extended"])
@pytest.mark.parametrize(("plan", "expected"), [(Plan.CUT_BEFORE, []), (Plan.CUT_AFTER, [1])])
def test_autocommit_statement_is_a_commit_when_asked(
    proxy: Proxy, pg_database: str, plan: Plan, expected: list[int], parameters: list[int] | None
) -> None:
    proxy.arm(plan, autocommit=True, match=lambda sql: b"INSERT" in sql)
    statement = "INSERT INTO fact VALUES (1)" if parameters is None else None
    with psycopg.connect(proxy.dsn(), autocommit=True) as connection:
        connection.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            connection.execute(statement or "INSERT INTO fact VALUES (%s)", parameters)
    assert rows(pg_database) == expected
    assert proxy.steps(plan)[0] is SEEN


def test_a_commit_that_the_server_refuses_is_recorded_as_such(
    proxy: Proxy, pg_database: str
) -> None:
    with psycopg.connect(pg_database) as connection:
        connection.execute("ALTER TABLE fact ADD UNIQUE (n) DEFERRABLE INITIALLY DEFERRED")
        connection.execute("INSERT INTO fact VALUES (1)")
    proxy.arm(Plan.CUT_AFTER)
    insert_lost(proxy, 1)
    assert proxy.wait_for(ANSWERED, Plan.CUT_AFTER).answer == "23505"
    assert rows(pg_database) == [1]


def test_an_armed_plan_that_met_no_commit_leaves_no_event(proxy: Proxy) -> None:
    proxy.arm(Plan.CUT_AFTER)
    with psycopg.connect(proxy.dsn()) as connection:
        connection.execute("INSERT INTO fact VALUES (1)")
        connection.rollback()
    assert proxy.events == ()


def test_large_copies_pass_in_both_directions(proxy: Proxy) -> None:
    with psycopg.connect(proxy.dsn()) as connection, connection.cursor() as cursor:
        with cursor.copy("COPY fact FROM STDIN") as copy:
            for n in range(50_000):
                copy.write_row([n])
        with cursor.copy("COPY fact TO STDOUT") as copy:
            assert sum(1 for _ in copy.rows()) == 50_000


def test_a_server_that_dies_with_the_commit_in_hand_is_noted() -> None:
    with PostgresServer() as server, server.database() as dsn, Proxy(dsn) as proxy:
        proxy.arm(Plan.DELAY)
        with psycopg.connect(proxy.dsn()) as connection:
            connection.execute("CREATE TABLE fact (n int)")
            with pytest.raises(psycopg.OperationalError):
                connection.commit()
        server.kill()
        proxy.release()
        proxy.wait_for(Step.SERVER_GONE, Plan.DELAY)
        server.start()
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SELECT to_regclass('fact')").fetchone() == (None,)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (b"COMMIT", True),
        (b"  commit work;", True),
        (b"/* why */ COMMIT", True),
        (b"-- note\nEND", True),
        (b"INSERT INTO t VALUES (1); COMMIT", True),
        (b"COMMIT PREPARED 'x'", True),
        (b"SELECT 'x; COMMIT'", False),
        (b"DO $body$ BEGIN; COMMIT; END $body$", False),
        (b"COMMENT ON TABLE t IS 'x'", False),
        (b"ROLLBACK", False),
        (b"SELECT CASE WHEN true THEN 1 END", False),
    ],
)
def test_a_commit_is_known_by_its_first_word(sql: bytes, expected: bool) -> None:
    assert Conversation().commits(sql, autocommit=False) is expected
