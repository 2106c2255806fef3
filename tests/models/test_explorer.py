"""The explorer: shortest traces, honest verdicts, and replay of recorded labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from models.explorer import Model, Verdict, allows, explore

Pair = tuple[int, int]


def counting(pair: Pair) -> Iterator[tuple[str, Pair]]:
    """Let two counters, left and right, each count to three."""
    left, right = pair
    if left < 3:
        yield "count@left", (left + 1, right)
    if right < 3:
        yield "count@right", (left, right + 1)


COUNTERS: Model[Pair] = Model("counters", ((0, 0),), counting, invariants={})


def ordered(pair: Pair) -> Pair:
    """Forget which counter is which."""
    return min(pair), max(pair)


def test_every_state_is_visited_once() -> None:
    report = explore(COUNTERS)
    seen = (report.verdict, report.states, report.transitions, report.depth)
    assert seen == (Verdict.PASSED, 16, 24, 6)


def test_a_symmetric_model_is_explored_once_per_class() -> None:
    assert explore(replace(COUNTERS, canonical=ordered)).states == 10


def test_a_counterexample_is_a_shortest_one() -> None:
    model = replace(COUNTERS, invariants={"not level at two": lambda pair: pair != (2, 2)})
    report = explore(model)
    assert (report.verdict, report.violated) == (Verdict.VIOLATED, "not level at two")
    assert sorted(report.trace) == ["count@left"] * 2 + ["count@right"] * 2
    assert allows(model, report.trace)


def test_an_initial_state_is_judged_too() -> None:
    report = explore(replace(COUNTERS, invariants={"never": lambda _: False}))
    assert (report.verdict, report.trace) == (Verdict.VIOLATED, ())


def test_an_exhausted_budget_is_inconclusive() -> None:
    assert explore(COUNTERS, states_max=5).verdict is Verdict.INCONCLUSIVE


def test_a_sometimes_property_that_is_never_reached_fails() -> None:
    model = replace(
        COUNTERS,
        sometimes={"four": lambda pair: 4 in pair, "three": lambda pair: 3 in pair},
        sometimes_labels=frozenset({"count", "rest"}),
    )
    report = explore(model)
    assert (report.verdict, report.unreached) == (Verdict.VIOLATED, ("four", "rest"))
    assert "never reached: four" in report.explain()


def test_labels_are_covered_without_their_actor() -> None:
    assert explore(COUNTERS).labels == {"count"}


def test_replay_allows_what_some_run_shows_and_nothing_else() -> None:
    assert allows(COUNTERS, ["count"] * 6)
    assert not allows(COUNTERS, ["count"] * 7)
    assert allows(COUNTERS, ["count@left"] * 3 + ["count@right"])
    assert not allows(COUNTERS, ["count@left"] * 4)
