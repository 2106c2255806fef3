"""The model of reviewed deletions: its properties, pinned counts, a trace for every rule."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from functools import cache

import pytest

from models.explorer import Report, Verdict, explore
from models.retention import process, retention_model, step
from models.retention_world import BOTH, RetentionBounds, RetentionRules, World

PINNED = (476_482, 1_064_818, 65)
# The failures that the first text of the design had, and those that rules of this model prevent.
WITNESSES = {
    "occurrence_before_receipt": ("nothing unreviewed is detached", 11),
    "birth_time": ("nothing unreviewed is detached", 10),
    "log_first": ("the receipt never leads the log", 9),
    "torn_end_cut": ("confirmed outcomes are kept", 20),
    "read_again": ("no protected deployment is detached", 7),
    "look_after_rename": ("nothing unreviewed is detached", 9),
    "activation_with_deployment": ("current keeps its activation", 13),
    "trash_alone": ("current keeps its activation", 13),
    "activation_stays": ("current keeps its activation", 12),
    "committed_for_ever": ("a committed receipt never changes", 23),
    "compare_before_settling": ("an old plan closes nothing newer", 13),
    "settle_before_abort": ("the trash is known", 11),
    "absorb_before_abort": ("confirmed outcomes are kept", 16),
    "drop_after_status": ("confirmed outcomes are kept", 17),
    "forget_after_commit": ("confirmed outcomes are kept", 27),
    "started_goes_forward": ("no half tree bears a name", 18),
    "restore_when_free": ("no later tree is replaced", 12),
    "the_rest_continues": ("one stuck tree does not stop the rest", 12),
    "intent": ("a crash needs no fresh review", 31),
}
LABEL_MAX = 200


@cache
def explored() -> Report[World]:
    return explore(retention_model())


@pytest.mark.timeout(240)
def test_every_property_holds_and_everything_that_should_occur_does() -> None:
    report = explored()
    assert report.verdict is Verdict.PASSED, report.explain()
    assert (report.states, report.transitions, report.depth) == PINNED


@pytest.mark.timeout(240)
@pytest.mark.parametrize("rule", WITNESSES)
def test_a_removed_rule_is_noticed(rule: str) -> None:
    rules = replace(RetentionRules(), **{rule: False})
    report = explore(retention_model(rules, is_complete=False))
    assert report.verdict is Verdict.VIOLATED, f"{rule} survives"
    assert (report.violated, len(report.trace)) == WITNESSES[rule], report.explain()


def test_every_rule_has_its_witness() -> None:
    assert {field.name for field in fields(RetentionRules)} == set(WITNESSES)


def test_without_crashes_and_others_every_operation_commits() -> None:
    report = explore(retention_model(bounds=RetentionBounds(0, 0), is_complete=False))
    assert report.verdict is Verdict.PASSED
    assert {"commit", "replay"} <= report.labels
    assert not {label for label in report.labels if label.startswith(("drift", "settle"))}


def test_a_retry_can_end_from_wherever_a_run_died() -> None:
    """Left alone, with what is stuck mended, the same command ends each begun operation."""
    chance = random.Random(4)
    rules = RetentionRules()
    begin = World(crashes=2, acts=3)
    checked = 0
    for _ in range(3_000):
        world = begin
        for _ in range(chance.randrange(5, 120)):
            following = list(step(world, rules))
            if not following:
                break
            world = chance.choice(following)[1]
        world = world._replace(at="", item=0, back="", known=(False, False), kept=(False, False))
        world = world._replace(loader=False, stuck=(False, False))
        for op in BOTH:
            if world.receipts[op][0] == "applying":
                checked += 1
                assert _ends(world, op, rules), world
    assert checked > 300


def _ends(world: World, op: int, rules: RetentionRules) -> bool:
    world = world._replace(at="look", op=op)
    for _ in range(LABEL_MAX):
        if world.at == "":
            return world.receipts[op][0] in ("committed", "aborted")
        world = next(iter(process(world, rules)))[1]
    return False
