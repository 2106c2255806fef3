"""Public reports of stores that forget, fill up, move or cannot be trusted."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dpone import wiring
from dpone.adapters.posix import files
from dpone.adapters.sqlite.journal import SqliteJournal
from dpone.contracts.effects import Effect
from dpone.contracts.errors_fencing import JournalNetworkFilesystem, JournalUnavailable
from faultinject import workloads, worlds
from faultinject.matrix import FENCED, World, fresh
from faultinject.operators import do, entry_of
from faultinject.pooler import TransactionPooler
from faultinject.postgres import PostgresServer
from faultinject.rivals import LOST, code_of, how_of, loaded_once
from faultinject.scenarios import DIVERGED, EXPIRED, expect, lose
from faultinject.workloads import change_of, operation_of
from faultinject.zygote import Zygote, wake
from tests.cases.desk import APPEND, committer, every_target, said

TRANSITIONS = "faultinject.workloads:transitions"
RACES = 12
STEPS = 500


@every_target
def test_a13_a_retry_after_its_records_expired_loads_nothing(zygote: Zygote, world: World) -> None:
    with fresh(world, {**APPEND, "position": "2024-01-01"}) as args:
        assert said(zygote, args) == "committed"
        assert do("prune", args)["said"] == 1
        assert do("floor", args, floor="2024-06-01")["said"] == 1
        assert said(zygote, args) == EXPIRED
        Path(args["journal"].partition(":")[2]).unlink()
        ended = zygote.run(FENCED, args)
        assert (ended.exit_code, code_of(ended)) == (1, EXPIRED)
        assert said(zygote, args, part="later", position="2024-06-01") == "committed"
        assert expect(args, 1) == []


@every_target
def test_a18_a_target_that_lost_its_last_commits_is_reported(zygote: Zygote, world: World) -> None:
    with fresh(world, APPEND) as args:
        assert said(zygote, args) == "committed"
        assert do("check", args)["said"] == {"asked": 1, "findings": []}
        lose(args)
        assert do("check", args)["said"] == {"asked": 1, "findings": ["target_diverged"]}
        ended = zygote.run(FENCED, args)
        assert (ended.exit_code, code_of(ended)) == (4, DIVERGED)
        assert do("settle", args)["code"] == DIVERGED
        assert expect(args, 0, diverged="absent") == []


def test_a19_nothing_relies_on_a_session_of_the_server(
    zygote: Zygote, postgres: PostgresServer, tmp_path: Path
) -> None:
    with postgres.database() as dsn, TransactionPooler(dsn, size=3) as pooler:
        workloads.prepare(f"postgres:{dsn}")
        place = f"postgres:{pooler.dsn()}"
        for number in range(RACES):
            folder = tmp_path / f"meet{number}"
            folder.mkdir()
            args = {
                **APPEND,
                "journal": place,
                "target": place,
                "part": f"p{number}",
                "options": {"lock_wait_s": 1.0},
            }
            meet = {"meet": str(folder), "meet_count": 2, "meet_at": "fencing.intent"}
            pids = [zygote.start(FENCED, {**args, **meet}) for _ in range(2)]
            ended = [zygote.wait(pid) for pid in pids]
            assert sorted(code_of(run) or how_of(run) for run in ended) == [LOST, "committed"]
            assert said(zygote, args) == "replayed"
            assert workloads.mutations(f"postgres:{dsn}", f"p{number}") == 1
        assert pooler.switches > RACES


def test_a19_a_session_behind_a_pooler_is_ended_by_its_name(
    zygote: Zygote, postgres: PostgresServer, tmp_path: Path
) -> None:
    with postgres.database() as dsn, TransactionPooler(dsn, size=3) as pooler:
        workloads.prepare(f"postgres:{dsn}")
        args = {
            **APPEND,
            "journal": f"sqlite:{tmp_path / 'journal.db'}",
            "target": f"postgres:{pooler.dsn()}",
            "options": {"lock_wait_s": 0.5},
        }
        point = "fencing.change:after#1"
        first = zygote.start(FENCED, args, point=point, action="stop")
        assert zygote.wait(first).hit(point)
        assert said(zygote, args, take_over=True) == "committed"
        wake(first)
        assert code_of(zygote.wait(first)) == LOST
        assert loaded_once({**args, "target": f"postgres:{dsn}"}, "append") == []


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "fuse.sshfs"])
def test_a21_a_journal_on_a_network_filesystem_is_refused_before_its_first_use(
    tmp_path: Path, kind: str
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 /dev/root rw\n"
        f"2 1 0:40 / {shared} rw,relatime shared:7 - {kind} server:/export rw\n"
    )

    def looked(path: Path) -> tuple[str, bool]:
        found = files.filesystem(path, mounts)
        return found, files.is_network(found)

    journal = SqliteJournal(shared / "journal.db", filesystem=looked)
    target = wiring.open_target(f"sqlite:{tmp_path / 'target'}")
    by = wiring.committer(journal, target)
    with pytest.raises(JournalNetworkFilesystem) as refused:
        by.commit(operation_of({**APPEND, "target": "sqlite:"}), change_of("append", "p"))
    assert refused.value.exit_code == 4
    assert kind in str(refused.value)
    assert list(shared.iterdir()) == []
    assert looked(tmp_path / "journal.db") == ("ext4", False)


def test_a22_two_processes_share_a_sqlite_journal_without_a_locked_error(
    zygote: Zygote, tmp_path: Path
) -> None:
    with fresh(worlds.sqlite, APPEND) as args:
        assert said(zygote, args) == "committed"
        row = entry_of(args)
        assert row is not None
        meet = {"meet": str(tmp_path), "meet_count": 2}
        given = {**args, **meet, "steps": STEPS, "operation_id": row.operation_id}
        pids = [zygote.start(TRANSITIONS, given) for _ in range(2)]
        ended = [zygote.wait(pid).result or {} for pid in pids]
        assert [(run["code"], run.get("wins")) for run in ended] == [("", STEPS), ("", STEPS)]
        after = entry_of(args)
        assert after is not None
        assert after.version == row.version + 2 * STEPS
        with committer(args) as by:
            versions = [line.version for line in by.journal.history(row.operation_id)]
        # One winner for each step: every version was written once, without a gap.
        assert versions == list(range(1, after.version + 1))


# -- a full disk -----------------------------------------------------------------------------------


class FullProbe:
    """Calls `fill` once, before the first effect of the wanted kind."""

    def __init__(self, at: Effect, fill: Callable[[], None]) -> None:
        self.at, self.fill, self.filled = at, fill, False

    @contextmanager
    def __call__(self, effect: Effect, /) -> Iterator[None]:
        if effect is self.at and not self.filled:
            self.filled = True
            self.fill()
        yield


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of two megabytes. Skips where mounting is not allowed."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("UNVERIFIED: mounting a small file system needs privileges")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Write until nothing more fits."""
    with (folder / "filler").open("wb", buffering=0) as file:
        for size in (4096, 512, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


FULL_AT = (Effect.FENCING_INTENT, Effect.FENCING_ACKNOWLEDGE, Effect.FENCING_COMPLETE)
LOADS = 12  # More than fit into the free parts of pages, so that one of them needs a new one.
LONG = "checkpoint-" + "x" * 6000  # A name that does not fit into a page when it is recorded.


def loads_that_meet_a_full_disk(
    zygote: Zygote,
    args: dict[str, Any],
    at: Effect,
    fill_up: Callable[[], None],
    make_room: Callable[[], None],
) -> list[str]:
    """Fill the journal's disk before an effect of each load, make room, load again; the codes."""
    codes = []
    for number in range(LOADS):
        given = {**args, "part": f"p{number}", "obligations": [LONG]}
        probe = FullProbe(at, fill_up)
        full = workloads.fenced(given, probe)
        assert probe.filled
        codes.append(full["code"])
        assert full["exit_code"] == (3 if full["code"] else 0), full
        # What was written before is still there while the disk is full.
        if number:
            assert how_stored(args, f"p{number - 1}") == "COMPLETE"
        make_room()
        assert said(zygote, given, take_over=True) in HOWS
        assert workloads.mutations(args["target"], f"p{number}") == 1
        assert how_stored(args, f"p{number}") == "COMPLETE"
    return codes


def full_code(at: Effect) -> str:
    """What a run says whose journal filled up: before the commit, or after it."""
    unfinished = "DPONE_TARGET_COMMIT_UNFINISHED"
    return JournalUnavailable.code if at is Effect.FENCING_INTENT else unfinished


HOWS = ("committed", "settled", "resumed", "replayed")


def how_stored(args: dict[str, Any], part: str) -> str:
    """The state of one part, read anew."""
    row = entry_of({**args, "part": part})
    return str(row.state) if row else "gone"


@pytest.mark.parametrize("at", FULL_AT)
def test_a23_a_full_disk_leaves_the_journal_whole(
    zygote: Zygote, tmp_path: Path, at: Effect
) -> None:
    with small_disk(tmp_path / "disk") as disk, fresh(worlds.sqlite, APPEND) as args:
        args["journal"] = f"sqlite:{disk / 'journal.db'}"
        filler = disk / "filler"
        codes = loads_that_meet_a_full_disk(
            zygote, args, at, lambda: fill(disk), lambda: filler.unlink(missing_ok=True)
        )
        assert set(codes) <= {"", full_code(at)}
        assert full_code(at) in codes


@pytest.mark.parametrize("at", FULL_AT)
def test_a23_a_journal_that_may_not_grow_leaves_its_rows_whole(
    zygote: Zygote, at: Effect, monkeypatch: pytest.MonkeyPatch
) -> None:
    journals: list[SqliteJournal] = []
    opened = wiring.open_journal

    def seen(spec: str) -> Any:
        journal = opened(spec)
        assert isinstance(journal, SqliteJournal)
        journals.append(journal)
        return journal

    def stop_growth() -> None:
        # A bound below the present size means: not one page more.
        with journals[-1].reading() as connection:
            if connection is not None:
                connection.execute("PRAGMA max_page_count = 1")

    monkeypatch.setattr(wiring, "open_journal", seen)
    with fresh(worlds.sqlite, APPEND) as args:
        codes = loads_that_meet_a_full_disk(zygote, args, at, stop_growth, lambda: None)
        assert set(codes) <= {"", full_code(at)}
        assert full_code(at) in codes


# -- a target that cannot be opened ----------------------------------------------------------------


@pytest.mark.parametrize("world", ["duckdb", "sqlite"], indirect=True)
def test_a24_a_target_that_cannot_be_opened_is_not_a_failed_load(
    zygote: Zygote, world: World
) -> None:
    with fresh(world, APPEND) as args:
        point = "fencing.commit:after#1"
        killed = zygote.run(FENCED, args, point=point)
        assert killed.killed
        assert killed.hit(point)
        place = Path(args["target"].partition(":")[2])
        kept = {path: path.read_bytes() for path in place.parent.glob("target*")}
        for path, data in kept.items():
            path.write_bytes(b"\xff" * len(data))
        ended = zygote.run(FENCED, args)
        assert ended.exit_code in (3, 4), ended.result
        assert code_of(ended).startswith("DPONE_TARGET_")
        row = entry_of(args)
        assert row is not None
        assert row.state in ("COMMITTING", "COMMIT_UNKNOWN")
        for path, data in kept.items():
            path.write_bytes(data)
        assert said(zygote, args) == "settled"
        assert expect(args, 1, state="COMPLETE") == []


@pytest.mark.parametrize("world", ["duckdb"], indirect=True)
def test_a24_a_log_that_cannot_be_replayed_is_not_a_failed_load(
    zygote: Zygote, world: World
) -> None:
    with fresh(world, APPEND) as args:
        assert said(zygote, args, part="earlier") == "committed"
        point = "fencing.commit:after#1"
        assert zygote.run(FENCED, args, point=point).killed
        place = Path(args["target"].partition(":")[2])
        log = place.with_name(place.name + ".wal")
        kept = place.with_name("kept")
        shutil.copyfile(log, kept)
        data = bytearray(log.read_bytes())
        data[len(data) // 2] ^= 0xFF
        log.write_bytes(data)
        ended = zygote.run(FENCED, args)
        row = entry_of(args)
        assert row is not None
        assert (ended.exit_code, row.state) in ((3, "COMMITTING"), (4, "COMMIT_UNKNOWN"))
        shutil.copyfile(kept, log)
        kept.unlink()
        assert said(zygote, args) == "settled"
        assert expect(args, 1, state="COMPLETE") == []
