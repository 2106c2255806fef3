"""The table of states is whole: each pair of state and event is a row of it or refused."""

from __future__ import annotations

from collections import Counter

import pytest

from dpone.contracts.effects import Effect
from dpone.contracts.effects_about import ABOUT
from dpone.contracts.errors import IllegalTransition
from dpone.contracts.journal import COMMITTED, IN_DOUBT, SETTLED, Event, State
from dpone.contracts.transitions import TRANSITIONS, target_of

SOURCES: list[State | None] = [None, *State]
TABLE = {(row.source, row.event): row.target for row in TRANSITIONS}


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("source", SOURCES)
def test_a_pair_is_a_row_or_refused(source: State | None, event: Event) -> None:
    if (source, event) in TABLE:
        assert target_of(source, event) == TABLE[source, event]
    else:
        with pytest.raises(IllegalTransition) as caught:
            target_of(source, event)
        assert caught.value.fields == {"source": str(source or "-"), "event": str(event)}


def test_no_pair_has_two_rows() -> None:
    assert [
        pair
        for pair, count in Counter((r.source, r.event) for r in TRANSITIONS).items()
        if count > 1
    ] == []


def test_every_state_and_every_event_is_in_the_table() -> None:
    assert {row.event for row in TRANSITIONS} == set(Event)
    assert {row.target for row in TRANSITIONS} == set(State)
    # Nothing follows upon COMPLETE.
    assert {row.source for row in TRANSITIONS} == {None, *State} - {State.COMPLETE}


def test_no_row_leads_back_from_committed() -> None:
    back = [row for row in TRANSITIONS if row.source in COMMITTED and row.target not in COMMITTED]
    assert back == []


def test_only_a_seal_leads_to_failed() -> None:
    events = {row.event for row in TRANSITIONS if row.target is State.FAILED_PRE_COMMIT}
    assert events == {Event.FENCE_SEALED}


def test_only_proof_or_an_operator_leads_into_committed() -> None:
    events = {
        row.event for row in TRANSITIONS if row.target in COMMITTED and row.source not in COMMITTED
    }
    assert events == {
        Event.COMMIT_ACKNOWLEDGED,
        Event.FENCE_SHOWS_COMMITTED,
        Event.OPERATOR_COMMITTED,
    }


def test_doubt_is_never_taken_over_into_a_fresh_start() -> None:
    assert {
        row.target
        for row in TRANSITIONS
        if row.source in IN_DOUBT and row.event is Event.TAKEN_OVER
    } == {State.COMMIT_UNKNOWN}
    assert not SETTLED & IN_DOUBT


def test_every_effect_says_what_it_is() -> None:
    assert list(ABOUT) == list(Effect)
    for effect, about in ABOUT.items():
        assert effect.value.startswith(about.flow + "."), effect
        assert about.clause
        assert about.crash.startswith("Before: "), effect
        assert " After: " in about.crash, effect


def test_each_flow_linearizes_at_one_effect() -> None:
    flows = {about.flow for about in ABOUT.values()}
    linear = Counter(about.flow for about in ABOUT.values() if about.linearizes)
    assert linear == dict.fromkeys(flows, 1)


def test_every_row_is_made_durable_by_an_effect_of_fencing() -> None:
    assert {ABOUT[row.effect].flow for row in TRANSITIONS} == {"fencing"}
