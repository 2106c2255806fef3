"""Each named point is killed once, and its successor inside recovery, on each target."""

from __future__ import annotations

from functools import cache, partial

import pytest

from faultinject.matrix import Matrix, Round, World, rotate
from faultinject.matrix import pairs as all_pairs
from faultinject.rivals import spread
from faultinject.workloads import STRATEGIES
from faultinject.zygote import Zygote
from tests.depth import FULL
from tests.kill.fixtures import world_of

WORLDS = ("sqlite", "duckdb", "joint", "postgres", "postgres-postgres", "postgres-joint")
POINTS_MIN = {"joint": 12, "postgres-joint": 12}
STEPS = {"obligations": ["checkpoint", "evidence"]}

pytestmark = pytest.mark.kill


def one(zygote: Zygote, world: World, name: str, strategy: str, pair: tuple[str, str]) -> Round:
    return Matrix(zygote, world, name, strategy, **STEPS).round(*pair)


@pytest.fixture(scope="module")
def pairs(zygote: Zygote, request: pytest.FixtureRequest) -> object:
    """The points of a world do not depend on the strategy, so they are traced once."""

    @cache
    def traced(name: str) -> list[tuple[str, str]]:
        matrix = Matrix(zygote, world_of(request, name), name, "append", **STEPS)
        return list(all_pairs(matrix) if FULL else rotate(matrix))

    return traced


@pytest.mark.timeout(300)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", WORLDS)
def test_killed_at_every_point_and_again_in_recovery_loads_once(
    zygotes: list[Zygote], pairs: object, name: str, strategy: str, request: pytest.FixtureRequest
) -> None:
    world = world_of(request, name)
    assert callable(pairs)
    plan = pairs(name)
    rounds = spread(
        zygotes,
        [partial(one, world=world, name=name, strategy=strategy, pair=pair) for pair in plan],
    )
    assert len(rounds) >= POINTS_MIN.get(name, 14)
    assert [entry for entry in rounds if entry.faults] == []


@pytest.mark.parametrize("world", WORLDS, indirect=True)
def test_the_naive_control_duplicates_in_the_same_harness(zygote: Zygote, world: World) -> None:
    matrix = Matrix(zygote, world, "control", "append")
    assert matrix.control("fencing.commit:after#1") == 2
    assert matrix.control("fencing.commit:before#1") == 1
