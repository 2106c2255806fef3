"""Public reports of stores that forget, fill up, move or cannot be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpone import wiring
from dpone.adapters.posix import identity
from dpone.adapters.sqlite.journal import SqliteJournal
from dpone.contracts.errors_fencing import JournalNetworkFilesystem
from faultinject import workloads, worlds
from faultinject.matrix import FENCED, World, fresh
from faultinject.operators import do, entry_of
from faultinject.pooler import TransactionPooler
from faultinject.postgres import PostgresServer
from faultinject.rivals import LOST, code_of, how_of, loaded_once
from faultinject.scenarios import ANSWERED, DIVERGED, EXPIRED, expect, lose
from faultinject.workloads import change_of, operation_of
from faultinject.zygote import Zygote, wake
from tests.cases.desk import APPEND, MISMATCH, committer, every_target, said, sql

TRANSITIONS = "faultinject.workloads:transitions"
BLOCKED = "DPONE_TARGET_COMMIT_REVISION_BLOCKED"
RACES = 12
STEPS = 500


@every_target
def test_a13_a_retry_after_its_records_expired_loads_nothing(zygote: Zygote, world: World) -> None:
    with fresh(world, {**APPEND, "position": "2024-01-01"}) as args:
        assert said(zygote, args) == "committed"
        assert do("prune", args)["said"] == 1
        # The tombstone still tells one intent from another.
        assert said(zygote, args, salt="changed") == MISMATCH
        assert said(zygote, args) == "replayed"
        assert do("floor", args, floor="2024-06-01")["said"] == 1
        assert said(zygote, args) == EXPIRED
        assert said(zygote, args, salt="changed") == EXPIRED
        # What the floor removed is neither lost nor to be answered by anybody.
        assert do("check", args)["said"] == {"asked": 1, "findings": []}
        assert do("adopt_target", args)["said"]["diverged"] == 0
        assert expect(args, 1, state="COMPLETE", diverged="") == []
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


PARTS = ("p1", "p2", "p3")


def forget(args: dict[str, Any], part: str) -> None:
    """Take one part and its fence out of the target, as an older copy would."""
    gone = operation_of({**args, "part": part}).operation_id
    sql(
        args,
        f"DELETE FROM dpone_fence WHERE operation_id = '{gone}'",
        f"DELETE FROM audit WHERE operation = '{part}'",
        f"DELETE FROM loaded WHERE part = '{part}'",
    )


@every_target
def test_a18_only_the_lost_part_is_loaded_again_and_only_when_approved(
    zygote: Zygote, world: World
) -> None:
    with fresh(world, APPEND) as args:
        for part in PARTS:
            assert said(zygote, args, part=part) == "committed"
        whole = workloads.content(args["target"])
        forget(args, "p2")
        assert do("check", args)["said"] == {"asked": 3, "findings": ["target_diverged"]}
        answers = [said(zygote, args, part=part) for part in PARTS]
        assert answers == ["replayed", DIVERGED, "replayed"]
        # Neither a retry nor a revision loads it before somebody has decided.
        assert said(zygote, args, part="p2", revision=2) == BLOCKED
        assert workloads.mutations(args["target"], "p2") == 0
        assert do("resolve", args, part="p2", answer="reload")["code"] == ""
        assert said(zygote, args, part="p2") == ANSWERED
        assert said(zygote, args, part="p2", revision=2) == "committed"
        assert said(zygote, args, part="p2", revision=2) == "replayed"
        assert [said(zygote, args, part=part) for part in ("p1", "p3")] == ["replayed"] * 2
        assert [workloads.mutations(args["target"], part) for part in PARTS] == [1, 1, 1]
        assert workloads.content(args["target"]) == whole
        assert do("check", args)["said"] == {"asked": 4, "findings": []}


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
        found = identity.filesystem(path, mounts)
        return found, identity.is_network(found)

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
