"""Every declared point is reached by some workload and killed there, with proof."""

from __future__ import annotations

from functools import partial

import pytest

from faultinject.matrix import World
from faultinject.rivals import spread
from faultinject.scenarios import declared, plan, play
from faultinject.zygote import Zygote
from tests.depth import FULL

pytestmark = pytest.mark.kill


@pytest.mark.timeout(300)
@pytest.mark.parametrize("world", ["sqlite", "duckdb", "postgres"], indirect=True)
def test_every_declared_point_was_killed_with_proof(zygotes: list[Zygote], world: World) -> None:
    planned = list(plan(zygotes[0], world, all_points=FULL))
    rounds = [partial(play, world=world, scenario=scene, point=point) for scene, point in planned]
    faults = [fault for round_faults in spread(zygotes, rounds) for fault in round_faults]
    assert faults == []
    assert {point.partition("#")[0] for _, point in planned} == declared()
