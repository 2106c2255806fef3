"""The protocol's models hold, reach everything they should, and derive the written table."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from dpone.contracts.journal import Event, State
from dpone.contracts.transitions import TRANSITIONS
from models import journal
from models.explorer import Report, Verdict
from models.figures import EXPLORATIONS, figure

BY_NAME = {exploration.name: exploration for exploration in EXPLORATIONS}

# The largest exploration takes seconds alone and minutes beside other work.
pytestmark = pytest.mark.timeout(900)

# States, transitions, depth. A change of these numbers is a change of the model.
PINNED = {
    "target": (109, 333, 6),
    "journal": (168690, 851072, 27),
    "commit": (488335, 2426899, 36),
    "commit-file": (385064, 1863011, 36),
    "files": (20020, 44816, 24),
    "publish": (8790, 14547, 26),
}


@cache
def explored(name: str) -> Report[Any]:
    """Run each exploration once for all tests."""
    return BY_NAME[name].run()


def test_every_exploration_is_pinned() -> None:
    assert set(BY_NAME) == set(PINNED)


@pytest.mark.parametrize("name", PINNED)
def test_no_interleaving_breaks_a_rule(name: str) -> None:
    report = explored(name)
    assert report.verdict is Verdict.PASSED, report.explain()


@pytest.mark.parametrize("name", PINNED)
def test_the_state_counts_are_the_pinned_ones(name: str) -> None:
    report = explored(name)
    assert PINNED[name] == (report.states, report.transitions, report.depth)


@pytest.mark.parametrize("name", ["commit", "commit-file"])
def test_the_explored_edges_are_the_written_ones(name: str) -> None:
    written = {(row.source or "-", row.event.value, row.target.value) for row in TRANSITIONS}
    derived = set(journal.edges(explored(name).labels))
    assert sorted(written - derived) == [], "written, but no run takes it"
    assert sorted(derived - written) == [], "taken by a run, but not written"


def test_every_state_and_event_occurs() -> None:
    edges = journal.edges(explored("commit").labels)
    assert {event for _, event, _ in edges} == {event.value for event in Event}
    assert {target for _, _, target in edges} == {state.value for state in State}


def test_figures_hold_no_number_that_depends_on_the_machine() -> None:
    found = figure(BY_NAME["target"], explored("target"))
    assert found == figure(BY_NAME["target"], BY_NAME["target"].run())
    assert (found["states"], found["verdict"]) == (109, "PASSED")
    assert "seconds" not in found
