"""A Ctrl-C stops a run, wherever it strikes; whatever it was that stopped, nothing stays."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest

from certification.places import TargetPlace
from certification.target import ready, unit
from dpone.contracts.fence import Absent, Committed

# -- Ctrl-C --------------------------------------------------------------------------------------

LONG = {
    "sqlite": "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 90000000)"
    " SELECT count(*) FROM r",
    "duckdb": "SELECT count(DISTINCT hash(i)) FROM range(30000000) t(i)",
    "postgres": "SELECT pg_sleep(30)",
}


@pytest.fixture
def interrupting() -> Iterator[Callable[[], None]]:
    """Start a timer that interrupts this process as Ctrl-C does."""
    timers: list[threading.Timer] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def start() -> None:
        timers.append(threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)))
        timers[-1].start()

    yield start
    for timer in timers:
        timer.cancel()
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "wrapped"])
def test_an_interrupted_change_stops_the_run(
    place: TargetPlace, interrupting: Callable[[], None], wrapped: bool
) -> None:
    kind = place.spec.partition(":")[0]
    target, incarnation = ready(place)

    def change(tx: Any) -> None:
        place.write(tx, "x")
        interrupting()
        try:
            tx.execute(LONG[kind]).fetchall()
        except Exception as error:
            raise ValueError("the load was refused") if wrapped else error from error

    with pytest.raises(KeyboardInterrupt):
        target.commit(unit(incarnation), change)
    assert place.rows() == []
    assert place.open().ask("operation", None).verdict == Absent()
    assert isinstance(target.commit(unit(incarnation), lambda tx: None), Committed)


def test_what_is_no_exception_rolls_back_and_goes_on(place: TargetPlace) -> None:
    class Stopped(BaseException):
        pass

    target, incarnation = ready(place)

    def change(tx: Any) -> None:
        place.write(tx, "x")
        raise Stopped

    with pytest.raises(Stopped):
        target.commit(unit(incarnation), change)
    assert (place.rows(), place.open().ask("operation", None).verdict) == ([], Absent())
    assert isinstance(target.commit(unit(incarnation), lambda tx: None), Committed)


@pytest.mark.parametrize(
    "error",
    [duckdb.InterruptException("INTERRUPT Error"), RuntimeError("Query interrupted")],
    ids=["engine", "driver"],
)
def test_an_interrupted_reader_stops_the_run(place: TargetPlace, error: Exception) -> None:
    target, incarnation = ready(place)

    def change(tx: Any) -> None:
        place.write(tx, "x")
        raise ValueError("a source was refused") from error

    with pytest.raises(KeyboardInterrupt):
        target.commit(unit(incarnation), change)
    assert place.rows() == []


def test_an_interruption_inside_the_authorizer_is_one(
    lite: TargetPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite drops what its callbacks raise and calls the statement unauthorized."""
    target, incarnation = ready(lite)

    class Connection(sqlite3.Connection):
        def set_authorizer(self, callback: Any) -> None:
            def struck(*call: Any) -> int:
                if call[2] == "struck":
                    raise KeyboardInterrupt
                return int(callback(*call))

            super().set_authorizer(callback and struck)

    opened = Connection(lite.file or "", isolation_level=None, check_same_thread=False)
    monkeypatch.setattr("dpone.adapters.sqlite.target.connect", lambda *_, **__: opened)
    fresh = lite.open()

    def change(tx: Any) -> None:
        lite.write(tx, "x")
        tx.execute("SELECT value AS struck, struck FROM (SELECT 1 AS struck, 2 AS value)")
        tx.execute("CREATE TABLE other(struck INTEGER)")
        tx.execute("SELECT struck FROM other")

    with pytest.raises(KeyboardInterrupt):
        fresh.commit(unit(incarnation), change)
    target.close()
    assert lite.rows() == []
