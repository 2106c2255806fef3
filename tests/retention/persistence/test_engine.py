"""No crash and no loss of power breaks a reviewed deletion: the persistence model."""

from __future__ import annotations

from functools import cache

import pytest

from faultinject.deletion_matrix import depth_of, every_scene
from faultinject.deletion_persistence import Bounds, Figures, Search
from faultinject.violations import Violated
from tests.depth import FULL

SCENES = {scene.name: scene for scene in every_scene()}
# These are near to others, or are what the loss of a sync shows itself in.
LONG = (
    *("resume after a rename", "resume after the activation", "after an earlier release"),
    *("close and restore what no record tells", "torn"),
)
ONCE = tuple(name for name in SCENES if FULL or name not in LONG)
# The others go two deep, or three, in the long run.
SHORT = (
    *("abort", "abort what is active", "abort what is sealed again", "acknowledge", "archive"),
    *("drift", "repair"),
)
DEEP = tuple(name for name in SCENES if name != "tidy") if FULL else SHORT


@cache
def explored(name: str, bounds: Bounds) -> Figures:
    """The figures of a search that found nothing and was complete."""
    try:
        figures = Search(SCENES[name], bounds).explore()
    except Violated as found:
        pytest.fail(f"{name}: {found.explain()}")
    assert figures.is_complete
    return figures


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ONCE)
def test_every_crash_ends_with_the_one_outcome(name: str) -> None:
    figures = explored(name, Bounds(depth=1))
    assert figures.deepest == 1
    assert figures.crashes > figures.states >= 4


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", DEEP)
def test_crashes_in_the_retry_end_with_it_too(name: str) -> None:
    figures = explored(name, Bounds(depth_of(SCENES[name]) if FULL else 2))
    assert figures.deepest >= 2


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", SCENES if FULL else ["again", "unstick"])
def test_on_an_ordered_file_system_too(name: str) -> None:
    figures = explored(name, Bounds(depth=2 if FULL else 1, weak=False))
    assert figures.sampled == 0


def test_the_whole_apply_is_cut_in_many_states() -> None:
    figures = explored("apply", Bounds(depth=1))
    assert figures.moments > 90
    assert figures.states > 300
    assert figures.runs > figures.states


def test_a_search_that_stops_early_says_so() -> None:
    figures = Search(SCENES["apply"], Bounds(depth=1, states_max=5)).explore()
    assert not figures.is_complete
