"""The model of publishing several files holds, and every rule of it is needed."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from functools import cache

import pytest

from dpone.contracts.publication import Conclusion, conclude
from models.explorer import Report, Verdict, explore
from models.figures import NARROW
from models.publishing import publish_model, step
from models.publishing_world import (
    ABSENT,
    BEFORE,
    FORCE,
    OTHER,
    PLANNED,
    PublishBounds,
    PublishRules,
    World,
)

# States, transitions, depth. A change of these numbers is a change of the model.
PINNED = (234873, 579379, 40)

# Each rule left out: what is violated, and after how many steps at the earliest.
WITNESSES = {
    "files_first": ("the root stands on what it names", 3),
    "in_order": ("new files come and go in order", 4),
    "receipt_first": ("no file of ours is forgotten", 3),
    "receipt_lasts": ("no file of ours is forgotten", 5),
    "no_overwrite": ("nobody's file is taken", 5),
    "look_again": ("the root was put on what had been planned", 8),
    "keep_when_pending": ("the root stands on what it names", 9),
    "keep_when_unknown": ("the root stands on what it names", 9),
    "receipt_until_durable": ("no file of ours is forgotten", 9),
    "receipt_until_clean": ("no file of ours is forgotten", 9),
    "settle_last": ("no file of ours is forgotten", 8),
    "reverse": ("new files come and go in order", 9),
    "the_rest_continues": ("one failure stops no other compensation", 10),
    "identity": ("nobody's file is taken", 6),
    "durable_first": ("no file of ours is forgotten", 12),
    "conclude_by_root": ("another's root is not built on sand", 7),
    "leave_to_others": ("another's root is not built on sand", 7),
    "adopt_nothing": ("the root stands on what it names", 16),
}

# What the root shows, as the digests that production compares.
DIGESTS = {BEFORE: "before", FORCE: "after", PLANNED: "after", OTHER: "other", ABSENT: ""}
STEPS_MAX = 60


@cache
def explored() -> Report[World]:
    """The exploration, once for all tests."""
    return explore(publish_model())


@pytest.mark.timeout(120)
def test_no_course_breaks_a_rule() -> None:
    assert explored().verdict is Verdict.PASSED, explored().explain()


def test_the_state_counts_are_the_pinned_ones() -> None:
    report = explored()
    assert (report.states, report.transitions, report.depth) == PINNED


@pytest.mark.parametrize("rule", WITNESSES)
def test_a_removed_rule_is_noticed(rule: str) -> None:
    rules = replace(PublishRules(), **{rule: False})
    report = explore(publish_model(rules, NARROW, is_complete=False))
    assert report.verdict is Verdict.VIOLATED, f"{rule} survives"
    assert (report.violated, len(report.trace)) == WITNESSES[rule], report.explain()


def test_every_rule_has_its_witness() -> None:
    assert {field.name for field in fields(PublishRules)} == set(WITNESSES)


def test_without_rivals_crashes_and_failures_only_success_is_left() -> None:
    quiet = PublishBounds(rivals=0, crashes=0, failures=0, runs=1)
    report = explore(publish_model(bounds=quiet, is_complete=False))
    assert report.verdict is Verdict.PASSED
    assert {label for label in report.labels if label.startswith("settle")} == {"settle:committed"}
    assert not {label for label in report.labels if label.startswith("undo")}


def conclusions() -> set[tuple[str, str]]:
    """What the root showed and what the model derived for a dead run's files, in any course."""
    words = [label.removeprefix("conclude:") for label in explored().labels if "/" in label]
    return {(root, doing) for root, _, doing in (word.partition("/") for word in words)}


def test_production_concludes_as_the_model_derives() -> None:
    """An absent root is as before in one start, and somebody's removal in the other."""
    for root, doing in conclusions():
        befores = {"", "before"} if root == ABSENT else {"before"}
        said = {conclude(DIGESTS[root], before, "after").value for before in befores}
        assert doing in said, (root, doing)


def test_every_conclusion_occurs_in_the_model() -> None:
    derived = {doing for _, doing in conclusions()}
    assert derived == {conclusion.value for conclusion in Conclusion}
    assert (ABSENT, "withdraw") in conclusions()
    assert (ABSENT, "leave") in conclusions()


def test_what_cannot_be_read_is_left_to_others() -> None:
    assert conclude(None, "before", "after") is Conclusion.LEAVE
    assert conclude(None, "", "after") is Conclusion.LEAVE


def test_a_root_that_was_right_before_is_in_force() -> None:
    assert conclude("same", "same", "same") is Conclusion.IN_FORCE


def test_the_same_plan_ends_from_wherever_a_run_died() -> None:
    """Left alone, the next run of the plan commits, or refuses for what somebody else did."""
    chance = random.Random(7)
    rules = PublishRules()
    checked = 0
    for _ in range(2_000):
        world = World(rivals=1, crashes=2, failures=1, runs=2)
        for _ in range(chance.randrange(1, STEPS_MAX)):
            following = list(step(world, rules))
            if not following:
                break
            world = chance.choice(following)[1]
        is_theirs = world.rivals == 0
        world = world._replace(rivals=0, crashes=0, failures=0, runs=1, at="dead", said="")
        ended = _ended(world, rules)
        checked += 1
        assert ended.receipt is None, ended
        assert is_theirs or ended.said in ("committed", "none"), ended
    assert checked == 2_000


def _ended(world: World, rules: PublishRules) -> World:
    """The end of one more run of the plan that nobody disturbs."""
    world = next(after for label, after in step(world, rules) if label == "publish")
    for _ in range(STEPS_MAX):
        if world.at == "end":
            return world
        world = next(after for label, after in step(world, rules) if label != "power")
    raise AssertionError(f"no end: {world}")
