"""Journals and targets that were lost, restored from older copies, pruned or cut off below."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from faultinject import workloads
from faultinject.matrix import FENCED, World, fresh
from faultinject.operators import do, entry_of, events_of
from faultinject.postgres import PostgresServer
from faultinject.rivals import LOST, code_of, how_of, loaded_once
from faultinject.scenarios import ANSWERED, DIVERGED, EXPIRED, OPERATE, REFUSED, expect, move
from faultinject.zygote import Zygote, wake
from tests.kill.fixtures import world_of

pytestmark = pytest.mark.kill

TARGETS = ("sqlite", "duckdb", "postgres")
every_target = pytest.mark.parametrize("world", TARGETS, indirect=True)
Args = dict[str, Any]


def journal_path(args: Args) -> Path:
    return Path(args["journal"].partition(":")[2])


def said(zygote: Zygote, args: Args, **more: Any) -> str:
    """What a load answers: its error code, else how it came to its outcome."""
    ended = zygote.run(FENCED, {**args, **more})
    return code_of(ended) or how_of(ended)


# -- the journal -----------------------------------------------------------------------------------


@every_target
def test_a_deleted_journal_duplicates_nothing(zygote: Zygote, world: World) -> None:
    with fresh(world, {"strategy": "append"}) as args:
        assert said(zygote, args) == "committed"
        journal_path(args).unlink()
        assert said(zygote, args) == "settled"
        assert said(zygote, args) == "replayed"
        assert loaded_once(args, "append") == []


@every_target
@pytest.mark.parametrize("point", ["fencing.intent:after#1", "fencing.commit:after#1"])
def test_a_journal_deleted_under_a_paused_worker_duplicates_nothing(
    zygote: Zygote, world: World, point: str
) -> None:
    with fresh(world, {"strategy": "append"}) as args:
        first = zygote.start(FENCED, args, point=point, action="stop")
        assert zygote.wait(first).hit(point)
        journal_path(args).unlink()
        # A file that is still open elsewhere concludes nothing.
        assert said(zygote, args) in ("committed", "settled", "DPONE_TARGET_HELD")
        wake(first)
        woken = zygote.wait(first)
        assert woken.exit_code == 3
        assert said(zygote, args) in ("settled", "replayed")
        assert loaded_once(args, "append") == []


@every_target
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "woken"])
def test_a_journal_deleted_under_a_worker_in_its_unit_concludes_nothing(
    zygote: Zygote, world: World, killed: bool
) -> None:
    with fresh(world, {"strategy": "append"}) as args:
        point = "fencing.change:after#1"
        first = zygote.start(FENCED, args, point=point, action="stop")
        assert zygote.wait(first).hit(point)
        journal_path(args).unlink()
        # Nobody can prove whose session it is any more, so nobody ends it.
        met = zygote.run(FENCED, args)
        assert met.exit_code in (3, 4)
        assert code_of(met) in ("DPONE_TARGET_COMMIT_UNKNOWN", "DPONE_TARGET_HELD")
        if killed:
            os.kill(first, signal.SIGKILL)
        else:
            wake(first)
        zygote.wait(first)
        assert said(zygote, args) == ("committed" if killed else "settled")
        assert loaded_once(args, "append") == []


@every_target
def test_an_older_journal_that_was_adopted_makes_old_workers_lose(
    zygote: Zygote, world: World
) -> None:
    with fresh(world, {"strategy": "append"}) as args:
        point = "fencing.intent:after#1"
        old = zygote.start(FENCED, args, point=point, action="stop")
        assert zygote.wait(old).hit(point)
        older = Path(args["folder"]) / "older"
        shutil.copyfile(journal_path(args), older)
        assert said(zygote, args, take_over=True) == "committed"
        shutil.copyfile(older, journal_path(args))
        assert do("adopt_journal", args)["said"] == 1
        wake(old)
        woken = zygote.wait(old)
        assert (woken.exit_code, code_of(woken)) == (3, LOST)
        assert events_of(args)[-1] == "adopted"
        assert said(zygote, args) == "settled"
        assert loaded_once(args, "append") == []


# -- the target ------------------------------------------------------------------------------------


@contextmanager
def restorable(
    request: pytest.FixtureRequest, name: str, **more: Any
) -> Iterator[tuple[Args, Callable[[], None], Callable[[], None]]]:
    """A world with two steps: save the target as it is, and bring it back."""
    if name != "postgres":
        with fresh(world_of(request, name), {"strategy": "append", **more}) as args:
            place = Path(args["target"].partition(":")[2])
            copy = Path(args["folder"]) / "copy"
            # The name stays, the bytes of the older copy come back into the same file.
            yield args, lambda: _copied(place, copy), lambda: _copied(copy, place)
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    journal_world = fresh(world_of(request, "sqlite"), {"strategy": "append", **more})
    with journal_world as args, server.database() as dsn:
        args["target"] = "postgres:" + dsn
        workloads.prepare(args["target"])
        base = str(conninfo_to_dict(dsn)["dbname"])

        def save() -> None:
            _administer(server, f"CREATE DATABASE {base}_copy TEMPLATE {base}")

        def restore() -> None:
            _administer(server, f"DROP DATABASE {base} WITH (FORCE)")
            _administer(server, f"ALTER DATABASE {base}_copy RENAME TO {base}")

        yield args, save, restore


def _copied(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)


def _administer(server: PostgresServer, statement: str) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(statement)


def obliged(args: Args) -> list[str]:
    path = Path(args["folder"]) / "obligations"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("name", TARGETS)
def test_a_restored_target_is_reported_and_an_operator_answers(
    zygote: Zygote, request: pytest.FixtureRequest, name: str
) -> None:
    with restorable(request, name) as (args, save, restore):
        assert said(zygote, args, part="earlier") == "committed"
        save()
        assert said(zygote, args) == "committed"
        restore()
        ended = zygote.run(FENCED, args)
        assert (ended.exit_code, code_of(ended)) == (4, DIVERGED)
        assert said(zygote, args) == DIVERGED
        assert expect(args, 0, state="COMPLETE", diverged="absent") == []
        assert do("resolve", args, answer="not-committed")["exit_code"] == 4
        assert do("resolve", args, answer="reload")["exit_code"] == 0
        assert said(zygote, args) == ANSWERED
        assert said(zygote, args, revision=2) == "committed"
        assert said(zygote, args, revision=2) == "replayed"
        assert expect(args, 1) == []


@pytest.mark.parametrize("name", TARGETS)
def test_a_loss_that_is_accepted_loads_nothing(
    zygote: Zygote, request: pytest.FixtureRequest, name: str
) -> None:
    with restorable(request, name) as (args, save, restore):
        assert said(zygote, args, part="earlier") == "committed"
        save()
        assert said(zygote, args) == "committed"
        restore()
        assert said(zygote, args) == DIVERGED
        assert do("resolve", args, answer="accept-loss")["exit_code"] == 0
        assert said(zygote, args) == ANSWERED
        # Also when the journal is lost afterwards: the fence itself is closed.
        journal_path(args).unlink()
        assert said(zygote, args) == ANSWERED
        assert expect(args, 0) == []


@pytest.mark.parametrize("point", ["fencing.acknowledge:after#1", "fencing.obligation:after#1"])
@pytest.mark.parametrize("name", TARGETS)
def test_no_obligation_runs_for_a_commit_that_the_target_lost(
    zygote: Zygote, request: pytest.FixtureRequest, name: str, point: str
) -> None:
    steps = {"obligations": ["checkpoint", "evidence"]}
    with restorable(request, name, **steps) as (args, save, restore):
        args["obligation_file"] = str(Path(args["folder"]) / "obligations")
        assert said(zygote, args, part="earlier", obligations=[]) == "committed"
        save()
        killed = zygote.run(FENCED, args, point=point)
        assert killed.killed
        assert killed.hit(point)
        before = obliged(args)
        restore()
        ended = zygote.run(FENCED, args)
        assert (ended.exit_code, code_of(ended)) == (4, DIVERGED)
        assert obliged(args) == before
        assert expect(args, 0, state="TARGET_COMMITTED") == []


@every_target
@pytest.mark.parametrize("killed", [True, False], ids=["wrongly", "rightly"])
def test_what_an_operator_asserts_is_not_complete_before_the_fence_bears_it_out(
    zygote: Zygote, world: World, killed: bool
) -> None:
    with fresh(world, {"strategy": "append", "obligations": ["checkpoint"]}) as args:
        args["obligation_file"] = str(Path(args["folder"]) / "obligations")
        point = "fencing.change:after#1"
        holder = zygote.start(FENCED, args, point=point, action="stop")
        assert zygote.wait(holder).hit(point)
        answer = {**args, "command": "resolve", "answer": "not-committed"}
        assert code_of(zygote.run(OPERATE, answer)) == REFUSED
        assert zygote.run(OPERATE, {**answer, "answer": "committed"}).exit_code == 0
        row = entry_of(args)
        assert row is not None
        assert row.state == "TARGET_COMMITTED"
        assert obliged(args) == []
        if killed:
            os.kill(holder, signal.SIGKILL)
        else:
            wake(holder)
        zygote.wait(holder)
        if killed:
            assert said(zygote, args) == DIVERGED
            assert obliged(args) == []
            assert do("resolve", args, answer="reload")["exit_code"] == 0
            assert said(zygote, args, revision=2) == "committed"
        else:
            assert said(zygote, args) == "resumed"
        assert expect(args, 1) == []
        assert len(obliged(args)) == 1


@pytest.mark.parametrize("world", ["sqlite", "duckdb"], indirect=True)
def test_a_target_swapped_under_a_paused_worker_is_refused_until_it_is_adopted(
    zygote: Zygote, world: World
) -> None:
    with fresh(world, {"strategy": "append"}) as args:
        assert said(zygote, args, part="earlier") == "committed"
        point = "fencing.intent:after#1"
        first = zygote.start(FENCED, args, point=point, action="stop")
        assert zygote.wait(first).hit(point)
        move(args)
        wake(first)
        woken = zygote.wait(first)
        assert (woken.exit_code, code_of(woken)) == (4, "DPONE_TARGET_COMMIT_INCARNATION")
        assert said(zygote, args) == "DPONE_TARGET_COMMIT_INCARNATION"
        assert expect(args, 0) == []
        assert do("adopt_target", args)["said"]["adopted"] == 2
        assert said(zygote, args) == "committed"
        assert said(zygote, args, part="earlier") == "replayed"
        assert expect(args, 1, state="COMPLETE") == []


# -- retention -------------------------------------------------------------------------------------


@every_target
@pytest.mark.parametrize("point", ["fencing.intent:after#1", "fencing.seal:before#1"])
def test_pruning_leaves_a_paused_worker_and_its_replacement_one_load(
    zygote: Zygote, world: World, point: str
) -> None:
    with fresh(world, {"strategy": "append"}) as args:
        if "seal" in point:
            killed = zygote.run(FENCED, args, point="fencing.change:after#1")
            assert killed.killed
        first = zygote.start(FENCED, args, point=point, action="stop")
        assert zygote.wait(first).hit(point)
        assert do("prune", args)["said"] == 0
        assert said(zygote, args, take_over=True) == "committed"
        assert do("prune", args)["said"] == 1
        wake(first)
        woken = zygote.wait(first)
        assert (woken.exit_code, code_of(woken)) == (3, LOST)
        assert said(zygote, args) == "replayed"
        journal_path(args).unlink()
        assert said(zygote, args) == "settled"
        assert expect(args, 1) == []


@every_target
def test_a_first_claim_that_wakes_below_the_floor_loads_nothing(
    zygote: Zygote, world: World
) -> None:
    with fresh(world, {"strategy": "append", "position": "1"}) as args:
        first = zygote.start(FENCED, args, point="fencing.intent:after#1", action="stop")
        assert zygote.wait(first).hit("fencing.intent:after#1")
        # Its own row would block the floor: the operator does not know of it.
        raised = do("floor", args, floor="2", below=[])
        assert raised["exit_code"] == 0
        wake(first)
        woken = zygote.wait(first)
        assert (woken.exit_code, code_of(woken)) == (1, EXPIRED)
        assert said(zygote, args, take_over=True) == EXPIRED
        assert expect(args, 0) == []


@every_target
@pytest.mark.parametrize("point", ["fencing.seal:before#1", "fencing.take_over:before#1"])
def test_a_retry_that_wakes_below_the_floor_seals_and_loads_nothing(
    zygote: Zygote, world: World, point: str
) -> None:
    with fresh(world, {"strategy": "append", "position": "1"}) as args:
        assert zygote.run(FENCED, args, point="fencing.change:after#1").killed
        retry = zygote.start(FENCED, args, point=point, action="stop")
        assert zygote.wait(retry).hit(point)
        assert do("floor", args, floor="2", below=[])["exit_code"] == 0
        wake(retry)
        woken = zygote.wait(retry)
        assert (woken.exit_code, code_of(woken)) == (1, EXPIRED)
        connection = workloads.connect(args["target"])
        rows = connection.execute("SELECT count(*) FROM dpone_fence").fetchall()
        connection.close()
        assert [tuple(row) for row in rows] == [(0,)]
        assert expect(args, 0) == []


@every_target
def test_a_floor_above_an_unsettled_operation_is_refused(zygote: Zygote, world: World) -> None:
    with fresh(world, {"strategy": "append", "position": "1"}) as args:
        killed = zygote.run(FENCED, args, point="fencing.change:after#1")
        assert killed.killed
        raised = do("floor", args, floor="2")
        assert (raised["exit_code"], raised["code"]) == (1, "DPONE_JOURNAL_FLOOR_BLOCKED")
        assert said(zygote, args) == "committed"
        assert do("floor", args, floor="2")["said"] == 1
        assert said(zygote, args) == EXPIRED
        journal_path(args).unlink()
        assert said(zygote, args) == EXPIRED
        assert expect(args, 1) == []


@pytest.mark.parametrize("point", ["fencing.claim:before#1", "fencing.claim:after#1"])
@pytest.mark.parametrize("world", ["postgres"], indirect=True)
def test_raising_a_floor_waits_for_a_claim_in_flight(
    zygote: Zygote, world: World, point: str
) -> None:
    with fresh(world, {"strategy": "append", "position": "1"}) as args:
        first = zygote.start(FENCED, args, point=point, action="stop")
        assert zygote.wait(first).hit(point)
        raised = do("floor", args, floor="2", below=[])
        assert (raised["exit_code"], raised["code"]) == (3, "DPONE_TARGET_HELD")
        wake(first)
        assert how_of(zygote.wait(first)) == "committed"
        assert do("floor", args, floor="2")["said"] == 1
        assert said(zygote, args) == EXPIRED
        assert expect(args, 1, state="COMPLETE") == []


@pytest.mark.parametrize("world", ["sqlite", "duckdb"], indirect=True)
def test_raising_a_floor_of_a_held_file_is_refused_with_a_type(
    zygote: Zygote, world: World
) -> None:
    with fresh(world, {"strategy": "append", "position": "1"}) as args:
        point = "fencing.claim:after#1"
        first = zygote.start(FENCED, args, point=point, action="stop")
        assert zygote.wait(first).hit(point)
        raised = do("floor", args, floor="2", below=[])
        assert (raised["exit_code"], raised["code"]) == (3, "DPONE_TARGET_HELD")
        wake(first)
        assert how_of(zygote.wait(first)) == "committed"
        assert expect(args, 1, state="COMPLETE") == []
        assert entry_of(args) is not None
