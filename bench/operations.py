"""One fenced single-row operation against a bare commit of the same row, and against DBOS."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

import dpone
from bench.measure import Figure, p50_ms, turns
from dpone import wiring
from dpone.fencing.commit import Committer
from faultinject.postgres import PostgresServer

ROUNDS = 400
THREADS = 8
PER_THREAD = 100


def _change(transaction: Any) -> dict[str, int]:
    transaction.execute("INSERT INTO rows_in VALUES (1)")
    return {"rows_written": 1}


def _operation() -> dpone.Operation:
    return dpone.Operation(route="bench", target="t", partition=uuid.uuid4().hex)


def _figures(
    kind: str, by: Committer, bare: Callable[[int], object], factor: float
) -> Iterator[Figure]:
    ours, theirs = turns(lambda _: by.commit(_operation(), _change), bare, ROUNDS)
    mine, floor = p50_ms(ours[20:]), p50_ms(theirs[20:])
    note = f"ours {mine:.3f} ms, bare {floor:.3f} ms, {mine / floor:.2f} x"
    bound = factor * floor + 1
    yield Figure(f"p50 of one fenced row, {kind}", mine, round(bound, 3), "ms", note=note)


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="dpone-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def sqlite_figures() -> Iterator[Figure]:
    with _folder() as folder:
        for joint in (False, True):
            place = folder / f"target-{joint}.db"
            bare = sqlite3.connect(place, isolation_level=None)
            bare.execute("PRAGMA synchronous=EXTRA")
            bare.execute("CREATE TABLE rows_in(a INTEGER)")
            name = "one file" if joint else "journal apart"

            def one(_: int, bare: sqlite3.Connection = bare) -> None:
                bare.execute("BEGIN IMMEDIATE")
                bare.execute("INSERT INTO rows_in VALUES (1)")
                bare.execute("COMMIT")

            journal = wiring.open_journal(f"sqlite:{place if joint else folder / 'journal.db'}")
            target = wiring.open_target(f"sqlite:{place}")
            by = wiring.committer(journal, target)
            by.commit(_operation(), _change)
            commits = _sqlite_commits(by)
            yield Figure(f"durable commits, SQLite, {name}", commits, 2 if joint else 3, "")
            yield from _figures(f"SQLite, {name}", by, one, 2 if joint else 3)
            target.close()
            journal.close()
            bare.close()


def _sqlite_commits(by: Committer) -> int:
    """COMMITs that one operation sends, seen by the driver's own trace."""
    seen: list[str] = []
    watched: Any = [by.journal, by.target]
    for place in watched:
        place._connection.set_trace_callback(seen.append)
    by.commit(_operation(), _change)
    for place in watched:
        place._connection.set_trace_callback(None)
    return seen.count("COMMIT")


def postgres_figures(server: PostgresServer) -> Iterator[Figure]:
    with ExitStack() as held:
        dsn, apart = (held.enter_context(server.database()) for _ in range(2))
        bare = held.enter_context(psycopg.connect(dsn, autocommit=True))
        bare.execute("CREATE TABLE rows_in(a int)")
        for name, place, most in (("journal apart", apart, 3), ("one database", dsn, 2)):
            journal = wiring.open_journal(f"postgres:{place}")
            target = wiring.open_target(f"postgres:{dsn}")
            by = wiring.committer(journal, target)
            by.commit(_operation(), _change)
            commits = _postgres_commits(by)
            yield Figure(f"durable commits, PostgreSQL, {name}", commits, most, "")
            yield from _figures(
                f"PostgreSQL, {name}",
                by,
                lambda _: bare.execute("INSERT INTO rows_in VALUES (1)"),
                most,
            )
            target.close()
            journal.close()


def _postgres_commits(by: Committer) -> int:
    """Transactions that one operation commits: COMMITs, and writing statements on their own."""
    commits = 0
    wires: list[Any] = [getattr(place, "wire") for place in (by.journal, by.target)]  # noqa: B009
    originals = [(wire, wire.script, wire.planned) for wire in wires]

    def counting(wire: Any, script: Any, planned: Any) -> None:
        def on_script(sql: str, **options: Any) -> Any:
            nonlocal commits
            commits += sql.rstrip(";").endswith("COMMIT")
            return script(sql, **options)

        def on_planned(sql: str, *values: Any) -> Any:
            nonlocal commits
            alone = wire.connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
            commits += alone and ("INSERT" in sql or "UPDATE" in sql)
            return planned(sql, *values)

        wire.script, wire.planned = on_script, on_planned

    for wire, script, planned in originals:
        counting(wire, script, planned)
    by.commit(_operation(), _change)
    for wire, script, planned in originals:
        wire.script, wire.planned = script, planned
    return commits


# -- the peer --------------------------------------------------------------------------------------


def peer_figures(server: PostgresServer) -> Iterator[Figure]:
    """Throughput against DBOS: the same row, durable workflow against fenced commit."""
    with server.database() as dsn, server.database() as apart, server.database() as system:
        with psycopg.connect(dsn, autocommit=True) as setup:
            setup.execute("CREATE TABLE rows_in(a int)")
        with _dbos(dsn, system) as workflow:
            local = threading.local()

            def ours(_: int) -> None:
                if not hasattr(local, "by"):
                    local.by = wiring.committer(
                        wiring.open_journal(f"postgres:{apart}"),
                        wiring.open_target(f"postgres:{dsn}"),
                    )
                local.by.commit(_operation(), _change)

            for call in (ours, workflow):
                for number in range(20):
                    call(number)
            mine, theirs = turns(ours, workflow, ROUNDS)
            yield Figure(
                "throughput against DBOS, one after another",
                sum(theirs) / sum(mine),
                2,
                "x",
                at_least=True,
                note=f"ours {len(mine) / sum(mine):.0f}/s, DBOS {len(theirs) / sum(theirs):.0f}/s",
            )
            rates = [(_concurrent(ours), _concurrent(workflow)) for _ in range(3)]
            best = sorted(mine_rate / their_rate for mine_rate, their_rate in rates)[1]
            words = ", ".join(f"{a:.0f}/s and {b:.0f}/s" for a, b in rates)
            yield Figure(
                f"throughput against DBOS, {THREADS} at once",
                best,
                4,
                "x",
                at_least=True,
                note=words,
            )


def _concurrent(call: Callable[[int], object]) -> float:
    """Operations a second with THREADS threads, each of which was warmed up."""
    barrier = threading.Barrier(THREADS + 1)

    def work(_: int) -> None:
        call(0)
        barrier.wait()
        for number in range(PER_THREAD):
            call(number)

    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(work, number) for number in range(THREADS)]
        barrier.wait()
        start = time.perf_counter()
        for future in futures:
            future.result()
        return THREADS * PER_THREAD / (time.perf_counter() - start)


@contextmanager
def _dbos(application: str, system: str) -> Iterator[Callable[[int], object]]:
    import sqlalchemy  # type: ignore[import-not-found, unused-ignore]
    from dbos import DBOS, SQLAlchemyDatasource

    source = SQLAlchemyDatasource.create(_url(application, "postgresql+psycopg"))
    DBOS(
        config={
            "name": "bench",
            "system_database_url": _url(system, "postgresql"),
            "log_level": "ERROR",
            "run_admin_server": False,
        }
    )

    @source.transaction()  # type: ignore[untyped-decorator, unused-ignore]
    def insert(value: int) -> None:
        source.sql_session().execute(
            sqlalchemy.text("INSERT INTO rows_in VALUES (:value)"), {"value": value}
        )

    @DBOS.workflow()  # type: ignore[untyped-decorator, unused-ignore]
    def load(value: int) -> int:
        insert(value)
        return value

    DBOS.launch()
    try:
        yield load
    finally:
        DBOS.destroy()


def _url(dsn: str, scheme: str) -> str:
    parts = conninfo_to_dict(dsn)
    return f"{scheme}://{parts['user']}@127.0.0.1:{parts['port']}/{parts['dbname']}"


# -- replay and a long journal ---------------------------------------------------------------------


def replay_figures() -> Iterator[Figure]:
    """A replay reads one journal row and one fence row, and writes nothing."""
    with _folder() as folder:
        setup = sqlite3.connect(folder / "target.db", isolation_level=None)
        setup.execute("CREATE TABLE rows_in(a INTEGER)")
        setup.close()
        journal: Any = wiring.open_journal(f"sqlite:{folder / 'journal.db'}")
        target: Any = wiring.open_target(f"sqlite:{folder / 'target.db'}")
        by = wiring.committer(journal, target)
        operation = _operation()
        by.commit(operation, _change)
        seen: dict[str, list[str]] = {"journal": [], "target": []}
        journal._connection.set_trace_callback(seen["journal"].append)
        target._connection.set_trace_callback(seen["target"].append)
        by.commit(operation, _change)
        reads = sum("FROM dpone_journal " in line for line in seen["journal"])
        fences = sum("FROM main.dpone_fence " in line for line in seen["target"])
        writing = ("INSERT", "UPDATE", "DELETE", "IMMEDIATE", "COMMIT")
        both = seen["journal"] + seen["target"]
        yield Figure("replay: journal rows read", reads, 1, "")
        yield Figure("replay: fence rows read", fences, 1, "")
        writes = sum(any(word in line for word in writing) for line in both)
        yield Figure("replay: statements that write or sync", writes, 0, "")
        journal.close()
        target.close()


def long_journal_figures(rows: int = 1_000_000) -> Iterator[Figure]:
    """A new operation, and the first page of a list, with a million finished ones behind."""
    with _folder() as folder:
        places = {}
        for name in ("empty", "long"):
            place = folder / name
            place.mkdir()
            setup = sqlite3.connect(place / "target.db", isolation_level=None)
            setup.execute("CREATE TABLE rows_in(a INTEGER)")
            setup.close()
            journal: Any = wiring.open_journal(f"sqlite:{place / 'journal.db'}")
            target = wiring.open_target(f"sqlite:{place / 'target.db'}")
            by = wiring.committer(journal, target)
            by.commit(_operation(), _change)
            places[name] = (by, journal, target)
        _fill(places["long"][1], rows)
        empty, long = places["empty"][0], places["long"][0]
        ours, theirs = turns(
            lambda _: long.commit(_operation(), _change),
            lambda _: empty.commit(_operation(), _change),
            ROUNDS,
        )
        ratio = p50_ms(ours[20:]) / p50_ms(theirs[20:])
        yield Figure(f"p50 with {rows:,} finished operations, against none", ratio, 1.2, "x")
        start = time.perf_counter()
        page = long.journal.page(limit=50)
        yield Figure("first page of the list", time.perf_counter() - start, 0.3, "s")
        assert len(page) == 50
        for _, journal, target in places.values():
            journal.close()
            target.close()


def _fill(journal: Any, rows: int) -> None:
    """Copy one finished row many times, under other ids, with its history."""
    with journal.transaction() as connection:
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
            " INSERT INTO dpone_journal SELECT 'sha256:' || lower(hex(randomblob(32))),"
            " 'sha256:' || lower(hex(randomblob(32))), route, state, version, attempt_id,"
            " lease_until_ms, created_ms, updated_ms - 1000 - i, body FROM n,"
            " (SELECT * FROM dpone_journal LIMIT 1)",
            (rows,),
        )
        connection.execute(
            "INSERT INTO dpone_journal_history SELECT j.operation_id, h.version, h.event, h.source,"
            " h.target, h.attempt, h.attempt_id, h.at_ms, h.detail FROM dpone_journal j,"
            " (SELECT * FROM dpone_journal_history) h WHERE j.operation_id <> h.operation_id"
        )
