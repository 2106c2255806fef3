"""What is said of targets that somebody holds, that are damaged, or that break off."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

import dpone
from certification.places import TARGETS, Resources, TargetPlace
from certification.target import ready, unit
from dpone.adapters.duckdb import refusals
from dpone.adapters.postgres import wire as postgres_wire
from dpone.contracts.errors_fencing import (
    TargetInvalid,
)
from dpone.contracts.fence import Absent, Committed, Rejected, Unknown

# -- holders and damage --------------------------------------------------------------------------

HOLD = """
import sys
import {driver} as driver
connection = driver.connect(sys.argv[1], **{options})
connection.execute("BEGIN{mode}")
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_unit_that_never_began_says_who_is_to_blame(resources: Resources, kind: str) -> None:
    with TARGETS[kind](resources) as place:
        target, incarnation = ready(place)
        target.close()
        lite = kind == "sqlite"
        script = HOLD.format(
            driver="sqlite3" if lite else "duckdb",
            options={"isolation_level": None} if lite else {},
            mode=" IMMEDIATE" if lite else "",
        )
        with subprocess.Popen(
            [sys.executable, "-c", script, str(place.file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            answer = place.open(lock_wait_s=0.2).commit(unit(incarnation), lambda tx: None)
            holder.communicate("\n")
        assert isinstance(answer, Rejected)
        assert (answer.held, answer.transient) == (True, True)


def test_a_claim_that_waits_in_vain_says_so(server: TargetPlace) -> None:
    _, incarnation = ready(server)
    mine = unit(incarnation)
    seen: list[Any] = []

    def change(tx: Any) -> None:
        rival = server.open(lock_wait_s=0.2)
        seen.append(rival.commit(unit(incarnation, 1, "b"), lambda inner: None))

    assert isinstance(server.open().commit(mine, change), Committed)
    assert [(type(answer), answer.held) for answer in seen] == [(Rejected, True)]


def test_a_lock_that_a_change_missed_is_its_own(server: TargetPlace) -> None:
    """The unit had begun: that a change could not have a lock is not the target's being held."""
    _, incarnation = ready(server)
    holder = psycopg.connect(server.spec.partition(":")[2])
    holder.execute("LOCK TABLE certified")
    target = server.open(lock_wait_s=0.2)
    answer = target.commit(unit(incarnation), lambda tx: server.write(tx, "x"))
    holder.close()
    assert isinstance(answer, Rejected)
    assert (answer.held, answer.transient) == (False, True)


@pytest.mark.parametrize("folder", ["duckdb: blocks", "blocklist", "lock"])
def test_a_path_with_a_lock_in_its_name_is_no_lock(tmp_path: Path, folder: str) -> None:
    where = tmp_path / folder
    where.mkdir()
    (where / "w.duckdb").write_bytes(b"this is no database" * 1000)
    target = dpone.open_target(f"duckdb:{where / 'w.duckdb'}")
    started = time.monotonic()
    with pytest.raises(TargetInvalid):
        target.ask("operation", None)
    assert time.monotonic() - started < 5


def _damaged(file: Path, how: str) -> None:
    whole = file.read_bytes()
    where = {"header": 8192 + 20, "headers": 4096 + 20, "block": 12288 + 100}.get(how, 0)
    if how == "cut short":
        file.write_bytes(whole[:12288])
        return
    if how == "zeros":
        file.write_bytes(whole[:12288] + bytes(len(whole) - 12288))
        return
    bytes_ = bytearray(whole)
    for at in range(where, where + 16):
        bytes_[at] ^= 0xFF
    file.write_bytes(bytes(bytes_))


@pytest.mark.parametrize("how", ["header", "headers", "block", "cut short", "zeros"])
def test_a_damaged_file_is_for_a_person(duck: TargetPlace, how: str) -> None:
    target, incarnation = ready(duck)
    assert duck.file is not None
    duck.sql("CREATE TABLE big AS SELECT range FROM range(300000)", "CHECKPOINT")
    _damaged(duck.file, how)
    calls: list[Callable[[], object]] = [
        lambda: target.ask("operation", None),
        target.install,
        lambda: target.seal(unit(incarnation)),
        lambda: target.commit(unit(incarnation), lambda tx: None),
    ]
    for call in calls:
        with pytest.raises(TargetInvalid) as refused:
            call()
        assert "/" not in refused.value.fields["cause"].replace("<path>", "")


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            'IO Error: Could not set lock on file "/a/b.duckdb": Conflicting lock is held in'
            " /usr/bin/python (PID 7) by user root. See also https://duckdb.org/docs/x",
            "IO Error: Could not set lock on file <path>: Conflicting lock is held in"
            " <path> (PID 7) by user root",
        ),
        (
            "Binder Error: no such thing See also https://duckdb.org/x",
            "Binder Error: no such thing",
        ),
        ("Conversion Error: 'a. B' is no INT32. Try it", "Conversion Error: 'a. B' is no INT32"),
        ("IO Error: version 1.2.3 is too old", "IO Error: version 1.2.3 is too old"),
        ("", "Error"),
    ],
)
def test_a_cause_is_one_sentence(said: str, cause: str) -> None:
    assert refusals.cause_of(duckdb.Error(said)) == cause


# -- the wire ------------------------------------------------------------------------------------


def test_a_descriptor_may_be_large(server: TargetPlace) -> None:
    import fcntl
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    wire = postgres_wire.Wire(server.spec.partition(":")[2])
    try:
        taken = [os.open("/dev/null", os.O_RDONLY)]
        while taken[-1] < 1100:
            taken.append(fcntl.fcntl(taken[0], fcntl.F_DUPFD, taken[-1] + 1))
        assert wire.query("SELECT 1") == [("1",)]
        assert wire.connection.pgconn.socket > 1023
    finally:
        for descriptor in taken:
            os.close(descriptor)
        wire.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("error", [OSError(9, "bad descriptor"), ValueError("fd"), TypeError("x")])
def test_whatever_happens_after_commit_was_sent_is_unknown(
    server: TargetPlace, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    target, incarnation = ready(server)

    def broken(*_: Any, **__: Any) -> int:
        raise error

    def also(transaction: Any, receipt: Any) -> bool:
        monkeypatch.setattr(postgres_wire, "ready", broken)
        return True

    answer = target.commit(unit(incarnation), lambda tx: server.write(tx, "x"), also)
    monkeypatch.undo()
    assert isinstance(answer, Unknown), answer
    assert isinstance(target.ask("operation", None).verdict, Committed | Absent)
