"""What a change may return: facts, nothing, or what its last statement gave it."""

from __future__ import annotations

import asyncio
import itertools
import operator
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import dpone
from dpone.contracts.errors_fencing import ChangeNotRun, CommitRejected
from dpone.ports.journal import Journal
from dpone.ports.target import Target
from faultinject.postgres import PostgresServer

OPERATION = dpone.Operation(route="r", target="t", intent={"columns": ["a"]})
_NUMBERS = itertools.count(1)
INSERT = "INSERT INTO loaded VALUES (1)"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = dpone.open_journal(f"sqlite:{tmp_path / 'journal.db'}")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[str]:
    """A database whose schemas the tests use one after the other."""
    with postgres.database() as dsn:
        yield dsn


@pytest.fixture
def schema_dsn(database: str) -> str:
    """A connection string whose first schema is new; the fence will lie in it."""
    name = f"s{next(_NUMBERS)}"
    with psycopg.connect(database, autocommit=True) as setup:
        setup.execute(f"CREATE SCHEMA {name}")
    return make_conninfo(database, options=f"-csearch_path={name}")


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each kind of target."""
    kind = str(request.param)
    place = request.getfixturevalue("schema_dsn") if kind == "postgres" else tmp_path / "target"
    return f"{kind}:{place}"


@pytest.fixture
def target(spec: str) -> Iterator[Target]:
    opened = dpone.open_target(spec)
    yield opened
    opened.close()


def _count(target: Target, journal: Journal) -> int:
    """The rows, counted by a change of another operation."""
    found: list[Any] = []
    operation = dpone.Operation(route="count", target="t", intent={})
    dpone.commit(
        operation,
        journal=journal,
        target=target,
        change=lambda tx: found.append(tx.execute("SELECT count(*) FROM loaded").fetchone()),
    )
    return int(found[0][0])


@pytest.mark.parametrize(
    ("returned", "facts"),
    [
        (lambda last: last, {}),
        (lambda last: None, {}),
        (lambda last: 7, {}),
        (lambda last: [("rows", 1)], {}),
        (lambda last: "rows", {}),
        (lambda last: {"rows": 1}, {"rows": 1}),
    ],
    ids=["cursor", "nothing", "number", "list", "text", "mapping"],
)
def test_only_a_mapping_is_facts(
    journal: Journal, target: Target, returned: Callable[[Any], Any], facts: dict[str, Any]
) -> None:
    def change(transaction: Any) -> Any:
        transaction.execute("CREATE TABLE loaded (a integer)")
        return returned(transaction.execute(INSERT))

    first = dpone.commit(OPERATION, journal=journal, target=target, change=change)
    again = dpone.commit(OPERATION, journal=journal, target=target, change=change)
    assert (first.how, again.how) == (dpone.How.COMMITTED, dpone.How.REPLAYED)
    assert first.result == again.result == facts
    assert _count(target, journal) == 1


async def _coroutine(transaction: Any) -> None:
    transaction.execute(INSERT)


def _generator(transaction: Any) -> Iterator[None]:
    transaction.execute(INSERT)
    yield


async def _async_generator(transaction: Any) -> AsyncIterator[None]:
    transaction.execute(INSERT)
    yield


class _Awaitable:
    def __init__(self, transaction: Any) -> None:
        self.transaction = transaction

    def __await__(self) -> Any:
        raise AssertionError(self.transaction)


LATER: list[Callable[[Any], Any]] = [_coroutine, _generator, _async_generator, _Awaitable]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("later", LATER)
def test_a_change_that_has_not_run_is_refused(
    journal: Journal, target: Target, later: Callable[[Any], Any]
) -> None:
    def change(transaction: Any) -> Any:
        transaction.execute("CREATE TABLE loaded (a integer)")
        return later(transaction)

    with pytest.raises(CommitRejected) as caught:
        dpone.commit(OPERATION, journal=journal, target=target, change=change)
    assert isinstance(caught.value.__cause__, ChangeNotRun)
    assert "wrote nothing" in str(caught.value)

    def mended(transaction: Any) -> Any:
        # It would fail if the table were there.
        transaction.execute("CREATE TABLE loaded (a integer)")
        transaction.execute(INSERT)

    again = dpone.commit(OPERATION, journal=journal, target=target, change=mended)
    assert again.how is dpone.How.COMMITTED
    assert _count(target, journal) == 1


@pytest.mark.filterwarnings("error")
def test_acommit_awaits_a_coroutine_and_nothing_else(journal: Journal, target: Target) -> None:
    async def run(change: Callable[[Any], Any]) -> dpone.Outcome:
        return await dpone.acommit(OPERATION, journal=journal, target=target, change=change)

    async def hands_on(transaction: Any) -> Any:
        return _coroutine(transaction)

    for change in (_async_generator, _generator, hands_on):
        with pytest.raises(CommitRejected) as caught:
            asyncio.run(run(change))
        assert isinstance(caught.value.__cause__, ChangeNotRun)

    async def whole(transaction: Any) -> None:
        transaction.execute("CREATE TABLE loaded (a integer)")
        await _coroutine(transaction)

    assert asyncio.run(run(whole)).how is dpone.How.COMMITTED
    assert _count(target, journal) == 1


def test_a_change_may_be_one_statement(journal: Journal, target: Target) -> None:
    create = dpone.Operation(route="create", target="t", intent={})
    for operation, sql in ((create, "CREATE TABLE loaded (a integer)"), (OPERATION, INSERT)):
        outcome = dpone.commit(
            operation,
            journal=journal,
            target=target,
            change=operator.methodcaller("execute", sql),
        )
        assert outcome.how is dpone.How.COMMITTED
    assert _count(target, journal) == 1


def test_journal_and_target_in_one_database_take_it_too(schema_dsn: str) -> None:
    with psycopg.connect(schema_dsn, autocommit=True) as setup:
        setup.execute("CREATE TABLE loaded (a integer)")
    journal = dpone.open_journal(f"postgres:{schema_dsn}")
    target = dpone.open_target(f"postgres:{schema_dsn}")
    outcome = dpone.commit(
        OPERATION, journal=journal, target=target, change=lambda tx: tx.execute(INSERT)
    )
    assert (outcome.how, outcome.result) == (dpone.How.COMMITTED, {})
    assert _count(target, journal) == 1
    journal.close()
    target.close()
