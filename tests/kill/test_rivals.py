"""Two workers, one operation: stopped ones, woken ones, and races from a barrier."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from faultinject.matrix import FENCED, Matrix, World, fresh
from faultinject.operators import events_of
from faultinject.rivals import (
    IN_PROGRESS,
    LOST,
    barrier,
    code_of,
    how_of,
    intrusion,
    loaded_once,
    paused,
    spread,
    zombie,
)
from faultinject.workloads import STRATEGIES
from faultinject.zygote import Zygote, wake
from tests.depth import FULL

TARGETS = ("sqlite", "duckdb", "postgres")
SERVERS = ("postgres", "postgres-postgres", "postgres-joint")
IN_UNIT = ("fencing.claim:after#1", "fencing.change:after#1", "fencing.commit:before#1")
WORLDS = ("sqlite", "duckdb", *SERVERS)
ZOMBIES = 50
SUCCESSIONS = 10 if FULL else 1  # Rounds for each strategy.
# Where a rival acts at every point: on the kinds of lock that differ, else everywhere.
INTRUDED = (
    [(world, killed) for world in WORLDS for killed in ("", "fencing.change:after#1")]
    if FULL
    else [("sqlite", ""), ("postgres", ""), ("postgres-joint", "fencing.change:after#1")]
)
RACES = 100
MEETINGS = ("fencing.intent", "fencing.fence")

pytestmark = pytest.mark.kill


@pytest.mark.timeout(300)
@pytest.mark.parametrize("world", TARGETS, indirect=True)
def test_a_zombie_paused_before_it_opens_the_target_never_adds_rows(
    zygotes: list[Zygote], world: World
) -> None:
    rounds = [
        partial(
            zombie,
            world=world,
            strategy=STRATEGIES[number % 4],
            point="fencing.intent:after#1",
            # Half of the rounds take over by order, half because the lease ran out.
            lease_s=60.0 if number % 2 else 0.0,
        )
        for number in range(ZOMBIES)
    ]
    bouts = spread(zygotes, rounds)
    assert [bout for bout in bouts if not bout.held] == []
    assert [bout.loser for bout in bouts] == [LOST] * ZOMBIES


@pytest.mark.timeout(300)
@pytest.mark.parametrize("world", TARGETS, indirect=True)
def test_two_workers_from_a_barrier_load_once(zygotes: list[Zygote], world: World) -> None:
    rounds = [
        partial(
            barrier,
            world=world,
            strategy=STRATEGIES[number % 4],
            meet_at=MEETINGS[number % len(MEETINGS)],
        )
        for number in range(RACES)
    ]
    bouts = spread(zygotes, rounds)
    assert [bout for bout in bouts if not bout.held] == []
    assert len(bouts) == RACES


@pytest.mark.parametrize("world", SERVERS, indirect=True)
@pytest.mark.parametrize("point", IN_UNIT)
def test_a_session_paused_in_its_unit_is_ended_and_loses(
    zygote: Zygote, world: World, point: str
) -> None:
    bout = zombie(zygote, world, "append", point)
    assert (bout.faults, bout.how, bout.loser) == ((), "committed", LOST)


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "woken"])
@pytest.mark.parametrize("point", ["fencing.claim:after#1", "fencing.change:after#1"])
@pytest.mark.parametrize("world", ["sqlite", "duckdb"], indirect=True)
def test_a_holder_paused_in_a_file_lets_nobody_conclude(
    zygote: Zygote, world: World, point: str, killed: bool
) -> None:
    bout = paused(zygote, world, "append", point, killed=killed)
    assert (bout.faults, bout.how) == ((), "4 DPONE_TARGET_COMMIT_UNKNOWN")
    if not killed:
        # Its unit held the file, so it commits, and says so; only the journal is not its own.
        assert bout.loser == "DPONE_TARGET_COMMIT_UNFINISHED"


@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
def test_a_running_lease_is_respected_until_it_is_taken_over(zygote: Zygote, world: World) -> None:
    point = "fencing.intent:after#1"
    with fresh(world, {"strategy": "append"}) as args:
        first = zygote.start(FENCED, args, point=point, action="stop")
        assert zygote.wait(first).hit(point)
        before = events_of(args)
        polite = zygote.run(FENCED, args)
        assert (polite.exit_code, code_of(polite)) == (3, IN_PROGRESS)
        assert events_of(args) == before
        wake(first)
        assert how_of(zygote.wait(first)) == "committed"
        assert loaded_once(args, "append") == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("world", TARGETS, indirect=True)
@pytest.mark.parametrize(
    ("killed_at", "meet_at"),
    [
        ("fencing.change:after#1", "fencing.take_over"),
        ("fencing.commit:after#1", "fencing.settle"),
    ],
)
def test_two_successors_of_a_dead_worker_load_once(
    zygotes: list[Zygote], world: World, killed_at: str, meet_at: str
) -> None:
    rounds = [
        partial(barrier, world=world, strategy=strategy, meet_at=meet_at, killed_at=killed_at)
        for strategy in STRATEGIES * SUCCESSIONS
    ]
    bouts = spread(zygotes, rounds)
    assert [bout for bout in bouts if not bout.held] == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("world", "killed_at"), INTRUDED, indirect=["world"])
def test_a_rival_takes_over_at_every_point(
    zygotes: list[Zygote], world: World, killed_at: str
) -> None:
    steps: dict[str, Any] = {"obligations": ["checkpoint"]}
    points = Matrix(zygotes[0], world, "", "append", **steps).points(killed_at)
    assert len(points) >= 12
    rounds = [
        partial(intrusion, world=world, point=point, killed_at=killed_at, **steps)
        for point in points
    ]
    assert [bout for bout in spread(zygotes, rounds) if not bout.held] == []
