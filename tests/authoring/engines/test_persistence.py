"""No crash, loss of power or rival breaks a rule: the persistence model, within narrow bounds."""

from __future__ import annotations

import pytest

from dpone.contracts.errors_authoring import AuthoringError
from dpone.contracts.recovery_rules import Action
from faultinject import authoring_denials
from faultinject.authoring_editors import Act
from faultinject.authoring_seeds import Cut, planted
from faultinject.authoring_worlds import (
    ACTS,
    old_workloads,
    seeded_workloads,
    workloads,
)
from faultinject.persistence import Bounds, Figures, Search, Workload, first_violation
from faultinject.violations import Violated

QUIET = workloads(rivals=False)
RIVALLED = workloads()
# The rest of them race in recovery too when the whole programme runs.
RACING = {
    "save",
    "save the desired bytes",
    "write",
    "unlink",
    "open, write 18 later",
    "an open in flight",
    "save, then save",
}


def explored(workload: Workload, bounds: Bounds) -> Figures:
    """The figures of a search that found nothing and was complete."""
    search = Search(workload, bounds)
    try:
        figures = search.explore()
    except Violated as found:
        pytest.fail(f"{workload.name}: {found.explain()}")
    assert figures.is_complete
    return figures


@pytest.mark.parametrize("weak", [True, False], ids=["weak", "ordered"])
@pytest.mark.parametrize("workload", QUIET, ids=lambda workload: workload.name)
def test_every_crash_is_recovered(workload: Workload, weak: bool) -> None:
    figures = explored(workload, Bounds(weak=weak))
    assert figures.deepest >= 1
    assert figures.states >= 10


def test_crashes_in_recovery_go_three_deep() -> None:
    found = [explored(workload, Bounds()).deepest for workload in QUIET]
    assert max(found) == 3


@pytest.mark.timeout(300)
@pytest.mark.parametrize("workload", RIVALLED, ids=lambda workload: workload.name)
def test_no_rival_loses_a_byte_at_any_step(workload: Workload) -> None:
    figures = explored(workload, Bounds())
    assert figures.runs > 80


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["replace", "remove"])
def test_no_rival_loses_a_byte_while_recovery_runs(name: str) -> None:
    chosen = next(workload for workload in RIVALLED if workload.name == name)
    acts = tuple(act for act in chosen.acts if act.name in RACING)
    assert len(acts) == len(RACING)
    narrow = Workload(chosen.name, chosen.begin, chosen.call, acts)
    figures = explored(narrow, Bounds(depth=2, raced_depth=1))
    assert figures.runs > 1000


def test_every_act_really_happens() -> None:
    names = [act.name for act in ACTS]
    assert len(set(names)) == len(names)
    for act in ACTS:
        figures = explored(_with(act), Bounds(depth=1))
        assert figures.states > 16, act.name


def _with(act: Act) -> Workload:
    chosen = RIVALLED[0]
    return Workload(chosen.name, chosen.begin, chosen.call, (act,))


def test_every_phase_with_anything_under_both_names_is_recovered() -> None:
    states = [explored(workload, Bounds()).states for workload in seeded_workloads()]
    assert len(states) > 250
    assert sum(states) > 1000


def test_journals_of_an_earlier_release_and_torn_ones_are_recovered() -> None:
    assert sum(explored(workload, Bounds()).states for workload in old_workloads()) > 40


@pytest.mark.parametrize("workload", QUIET, ids=lambda workload: workload.name)
def test_a_denied_call_is_answered_truly_and_cleared_later(workload: Workload) -> None:
    try:
        answers = [answer for _, answer in authoring_denials.explore(workload)]
    except Violated as found:
        pytest.fail(found.explain())
    assert len(answers) > 100
    # Both kinds of answer occur: refused beforehand, and told what the world did.
    assert {True, False} == {isinstance(answer, AuthoringError) for answer in answers}


# ---------------------------------------------------------------------------
# The engine notices what it must: rows of the table redirected.

REDIRECTED = (
    (Action.DISCARD_OURS, Action.KEEP, "replace"),
    (Action.COMMIT, Action.CLOSE, "replace"),
    (Action.COMMIT, Action.KEEP, "replace"),
    (Action.COMMIT, Action.EXCHANGE_BACK, "replace"),
    (Action.EXCHANGE_BACK, Action.COMMIT, "replace"),
    (Action.EXCHANGE_BACK, Action.DROP_SIDE, "replace"),
    (Action.EXCHANGE_BACK, Action.KEEP, "replace"),
    (Action.KEEP, Action.DROP_SIDE, "replace"),
    (Action.KEEP, Action.EXCHANGE_BACK, "replace"),
    (Action.KEEP_EARLIER, Action.DROP_SIDE, "replace"),
    (Action.CLOSE, Action.TOUCH_NOTHING, "replace"),
    (Action.CLOSE_COMMITTED, Action.CLOSE, "replace"),
    (Action.DISCARD_EARLIER, Action.TOUCH_NOTHING, "replace"),
    (Action.DISCARD_EARLIER, Action.DISCARD_OURS, "replace"),
    (Action.KEEP_COMMITTED, Action.DROP_SIDE, "replace"),
    (Action.FINISH_KEEPING, Action.CLOSE, "replace"),
    (Action.DROP_SIDE, Action.CLOSE, "replace by name"),
    (Action.REMOVED, Action.TOUCH_NOTHING, "remove"),
    (Action.DISCARD_REMOVED, Action.REMOVED, "remove"),
    (Action.PUT_BACK, Action.REMOVED, "remove"),
    (Action.PUT_BACK, Action.DROP_SIDE, "remove"),
)


def redirected(row: Action, other: Action) -> Cut:
    """Recovery that takes one action of the table for another."""
    return Cut(
        "recover",
        "_Recovery.step",
        'f"_{action.value}"',
        f'"_{other.value}" if action.value == "{row.value}" else f"_{{action.value}}"',
    )


@pytest.mark.parametrize(("row", "other", "world"), REDIRECTED)
def test_a_redirected_row_of_the_table_is_noticed(row: Action, other: Action, world: str) -> None:
    with planted(redirected(row, other)):
        found = next(
            (
                violation
                for workload in (*QUIET, *RIVALLED)
                if workload.name == world
                if (violation := first_violation(workload, Bounds()))
            ),
            None,
        )
    assert found is not None, f"{row} for {other} survives"


def test_every_row_is_redirected_once() -> None:
    touch_nothing = {Action.TOUCH_NOTHING}
    assert {row for row, _, _ in REDIRECTED} == set(Action) - touch_nothing
