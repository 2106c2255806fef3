"""Whoever builds, builds over or promotes while a deletion runs loses nothing, crash or not."""

from __future__ import annotations

import pytest

from faultinject.deletion_contests import Act, Contest, Interlude, Seen, acts_of
from faultinject.deletion_matrix import every_scene
from faultinject.deletion_standing import standing
from faultinject.violations import Violated
from tests.depth import FULL

SCENES = {scene.name: scene for scene in every_scene()}
SCENE = SCENES["apply"]
_BEGUN = SCENE.begin()
ACTS = {act.name: act for act in acts_of(_BEGUN.disk, _BEGUN)}
ABORTED = "DPONE_DEPLOYMENT_CACHE_GC_OPERATION_ABORTED"
CHANGED = "DPONE_DEPLOYMENT_CACHE_GC_PLAN_CHANGED"
CURRENT = "DPONE_DEPLOYMENT_CACHE_GC_CURRENT_CHANGED"
# Points behind the last detach, and before the second one.
LATE, EARLY = 100, 39


def held(
    act: Act, *, stride: int, crashes: bool, first: int = 1, kind: type[Contest] = Contest
) -> Seen:
    """What a contest saw that found nothing."""
    try:
        return kind(SCENE, act, crashes=crashes).explore(stride, first)
    except Violated as found:
        pytest.fail(f"{act.name}: {found.explain()}")


@pytest.mark.parametrize("name", ACTS)
def test_an_act_at_any_point_costs_nobody_anything(name: str) -> None:
    seen = held(ACTS[name], stride=1 if FULL else 3, crashes=False)
    assert seen.points > 30
    assert seen.raced >= 7
    assert set(seen.answers) <= {"committed", ABORTED, CHANGED, CURRENT}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ACTS)
def test_a_crash_behind_the_act_neither(name: str) -> None:
    first = 1 if FULL else LATE if "again" in name else EARLY
    seen = held(ACTS[name], stride=3 if FULL else 61, crashes=True, first=first)
    assert seen.raced > 0
    assert seen.states > 5


@pytest.mark.parametrize("name", ACTS)
def test_an_act_between_a_death_and_what_follows_costs_nobody_anything(name: str) -> None:
    """Whether the same command follows, or a later plan."""
    seen = held(ACTS[name], stride=1, crashes=False, kind=Interlude)
    assert seen.points > 90
    assert seen.raced > 20
    assert set(seen.answers) <= {"committed", ABORTED, CHANGED, CURRENT}


@pytest.mark.parametrize("name", ["build again", "build again and promote"])
@pytest.mark.parametrize(
    "scene",
    [
        *("close", "close and restore", "close and restore what no record tells", "torn"),
        *("resume after a rename", "resume between two renames", "resume after the activation"),
    ],
)
def test_neither_where_what_died_was_a_retry_or_a_later_plan(scene: str, name: str) -> None:
    case = SCENES[scene].begin()
    act = next(act for act in acts_of(standing()[0], case) if act.name == name)
    try:
        seen = Interlude(SCENES[scene], act).explore()
    except Violated as found:
        pytest.fail(f"{scene}, {name}: {found.explain()}")
    assert seen.raced > 40
    assert set(seen.answers) == {"committed", ABORTED}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ACTS)
def test_a_loss_of_power_before_it_and_a_crash_behind_it_neither(name: str) -> None:
    # One of the deaths falls between the two renames of the second candidate.
    seen = held(ACTS[name], stride=3 if FULL else 15, crashes=True, kind=Interlude)
    assert seen.raced > 0
    assert seen.states > 5


def test_every_answer_occurs() -> None:
    seen = held(ACTS["promote another"], stride=1, crashes=False)
    assert set(seen.answers) == {"committed", ABORTED, CHANGED, CURRENT}
