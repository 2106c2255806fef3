"""What journals and targets are told to do, and how a target is told from another one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import dpone
from certification.places import TARGETS, Resources, TargetPlace
from certification.target import ready, unit
from dpone.adapters.posix import identity
from dpone.adapters.posix.liveness import ProcLiveness
from dpone.adapters.sqlite.journal import SqliteJournal
from dpone.contracts.codec import replaced
from dpone.contracts.errors import DponeError
from dpone.contracts.fence import Committed, Floor, Unknown
from dpone.contracts.journal import Owner
from faultinject.postgres import PostgresServer

EXTRA = 3
OPERATION = dpone.Operation(route="r", target="t", intent={})

# -- durability ----------------------------------------------------------------------------------


def test_sqlite_syncs_the_folder_of_its_rollback_journal_too(tmp_path: Path) -> None:
    """A commit whose rollback journal comes back after a power cut would be undone."""
    journal = SqliteJournal(tmp_path / "journal.db")
    seen: list[Any] = []
    target = dpone.open_target(f"sqlite:{tmp_path / 'target.db'}")
    dpone.commit(
        OPERATION,
        journal=journal,
        target=target,
        change=lambda tx: seen.append(tx.execute("PRAGMA synchronous").fetchone()[0]),
    )
    with journal.transaction() as connection:
        seen.append(connection.execute("PRAGMA synchronous").fetchone()[0])
        assert connection.in_transaction
    assert seen == [EXTRA, EXTRA]
    journal.close()
    target.close()


def test_postgres_waits_for_its_log_whatever_the_session_says(postgres: PostgresServer) -> None:
    with postgres.database() as dsn:
        hasty = make_conninfo(dsn, options="-csynchronous_commit=off")
        journal = dpone.open_journal(f"postgres:{hasty}")
        target = dpone.open_target(f"postgres:{hasty}")
        dpone.commit(OPERATION, journal=journal, target=target, change=lambda tx: None)
        with psycopg.connect(dsn, autocommit=True) as setup:
            setup.execute("CREATE TABLE modes(place text, mode text)")
            for table in ("dpone_journal", "dpone_journal_history", "dpone_fence"):
                setup.execute(
                    f"CREATE FUNCTION note_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                    f" INSERT INTO modes VALUES ('{table}',"
                    " current_setting('synchronous_commit')); RETURN NULL; END $$"
                )
                setup.execute(
                    f"CREATE TRIGGER noted AFTER INSERT OR UPDATE ON {table}"
                    f" FOR EACH ROW EXECUTE FUNCTION note_{table}()"
                )
        second = replaced(OPERATION, revision=2)
        dpone.commit(second, journal=journal, target=target, change=lambda tx: None)
        with psycopg.connect(dsn) as reading:
            modes = set(reading.execute("SELECT place, mode FROM modes").fetchall())
        assert modes == {
            ("dpone_journal", "on"),
            ("dpone_journal_history", "on"),
            ("dpone_fence", "on"),
        }
        journal.close()
        target.close()


def test_an_error_at_commit_that_is_on_no_list_is_unknown(server: TargetPlace) -> None:
    """Only listed errors prove a rollback: an I/O error of the server proves nothing."""
    target, incarnation = ready(server)
    server.sql(
        "CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'on purpose' USING ERRCODE = '58030'; END $$",
        "CREATE CONSTRAINT TRIGGER act AFTER INSERT ON certified DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION act()",
    )
    answer = target.commit(unit(incarnation), lambda tx: server.write(tx, "x"))
    assert isinstance(answer, Unknown)


# -- units -----------------------------------------------------------------------------------------


def test_the_key_is_claimed_before_the_change_runs(place: TargetPlace) -> None:
    seen: list[Any] = []

    def change(tx: Any) -> None:
        seen.append(tx.execute("SELECT kind FROM dpone_fence").fetchall())

    target, incarnation = ready(place)
    assert isinstance(target.commit(unit(incarnation), change), Committed)
    assert [[tuple(row) for row in rows] for rows in seen] == [[("claimed",)]]


KEEPING = {
    "sqlite": [
        "CREATE TRIGGER keep BEFORE DELETE ON dpone_fence BEGIN"
        " SELECT RAISE(ABORT, 'on purpose'); END"
    ],
    "postgres": [
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'on purpose'; END $$",
        "CREATE TRIGGER keep BEFORE DELETE ON dpone_fence FOR EACH ROW EXECUTE FUNCTION keep()",
    ],
}


@pytest.mark.parametrize("kind", KEEPING)
def test_a_floor_rises_only_together_with_the_removal_below_it(
    resources: Resources, kind: str
) -> None:
    with TARGETS[kind](resources) as place:
        target, incarnation = ready(place)
        low = unit(incarnation, floor=Floor("scope", "1"))
        assert isinstance(target.commit(low, lambda tx: None), Committed)
        place.sql(*KEEPING[kind])
        with pytest.raises(DponeError):
            target.raise_floor(Floor("scope", "2"), [low.operation_id])
        assert isinstance(place.open().ask(low.operation_id, low.floor).verdict, Committed)


# -- incarnations --------------------------------------------------------------------------------


def test_a_file_is_told_by_inode_and_birth_and_never_by_its_device(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    path.write_bytes(b"x")
    found = path.stat()
    assert identity.identity(path) == f"{found.st_ino}.{identity.birth_ns(path)}"
    path.rename(tmp_path / "renamed.db")
    assert identity.identity(tmp_path / "renamed.db").startswith(f"{found.st_ino}.")
    shutil.copyfile(tmp_path / "renamed.db", path)
    assert identity.identity(path) != identity.identity(tmp_path / "renamed.db")


def test_a_file_target_adds_a_random_id_of_its_fence(lite: TargetPlace, duck: TargetPlace) -> None:
    for place in (lite, duck):
        target, incarnation = ready(place)
        assert place.file is not None
        assert incarnation.endswith("@" + identity.identity(place.file))
        kept = place.sql("SELECT value FROM dpone_fence_meta WHERE key = 'incarnation'")[0][0]
        assert incarnation.startswith(f"{kept}@")
        assert len(kept) == 32
        target.close()


def test_a_server_is_told_by_its_system_and_its_database(server: TargetPlace) -> None:
    target, incarnation = ready(server)
    told = server.sql(
        "SELECT (SELECT system_identifier FROM pg_control_system())::text || '.' ||"
        " (SELECT oid FROM pg_database WHERE datname = current_database())::text"
    )
    assert incarnation.endswith("@" + told[0][0])
    assert isinstance(target.commit(unit(incarnation), lambda tx: None), Committed)


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
@pytest.mark.parametrize("place", [":memory:", "folder/:memory:"])
def test_what_lies_in_memory_is_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, place: str
) -> None:
    """It was a file of that name, beside whatever ran; an engine would have meant no file."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DponeError, match=":memory:"):
        dpone.open_target(f"{kind}:{place}")
    with pytest.raises(DponeError, match=":memory:"):
        dpone.open_journal(f"sqlite:{place}")
    assert list(tmp_path.iterdir()) == []


# -- owners of a lease ---------------------------------------------------------------------------


def proc_of(folder: Path, pid: int, state: str, ticks: int) -> Path:
    """A /proc with this very process and one other."""
    (folder / "sys/kernel/random").mkdir(parents=True)
    (folder / "sys/kernel/random/boot_id").write_text("boot\n")
    (folder / "self/ns").mkdir(parents=True)
    (folder / "self/ns/pid").symlink_to("pid:[1]")
    for number, how, started in ((os.getpid(), "R", 5), (pid, state, ticks)):
        (folder / str(number)).mkdir()
        rest = ["0"] * 18
        stat = f"{number} (a) b) {how} {' '.join(rest)} {started} 0\n"
        (folder / str(number) / "stat").write_text(stat)
    return folder


@pytest.mark.parametrize(
    ("changed", "state", "ticks", "dead"),
    [
        ({}, "S", 70, False),
        ({}, "S", 71, True),
        ({}, "Z", 70, True),
        ({"pid": 4_000_000}, "S", 70, True),
        ({"pid": 4_000_000, "boot_id": "another"}, "S", 70, False),
        ({"pid": 4_000_000, "pid_namespace": "pid:[2]"}, "S", 70, False),
    ],
    ids=["alive", "reused", "zombie", "free", "other-boot", "other-namespace"],
)
def test_only_a_process_of_this_boot_and_namespace_is_proven_dead(
    tmp_path: Path, changed: dict[str, Any], state: str, ticks: int, dead: bool
) -> None:
    proc = proc_of(tmp_path, 4_000_001, state, ticks)
    owner = Owner(host="h", boot_id="boot", pid_namespace="pid:[1]", pid=4_000_001, start_ticks=70)
    assert ProcLiveness(proc).proven_dead(replaced(owner, **changed)) is dead
