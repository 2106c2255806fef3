"""The model of compare-and-replace holds, every rule of it is needed, and it derives the table."""

from __future__ import annotations

import itertools
from dataclasses import fields, replace
from functools import cache

import pytest

from dpone.contracts.recovery_rules import Action, Side, Target, decide
from dpone.contracts.transaction import Phase
from models.authoring_world import FileBounds, FileRules, World
from models.explorer import Report, Verdict, explore
from models.files import files_model

# States, transitions, depth. A change of these numbers is a change of the model.
PINNED = (20020, 44816, 24)

# Each rule left out: what is violated, and after how many steps at the earliest.
WITNESSES = {
    "journal_first": ("nothing is left at the end", 4),
    "prepared_first": ("rolled back is true", 7),
    "proof_first": ("owed versions have names", 11),
    "proof_heeded": ("owed versions have names", 11),
    "proof_kept": ("owed versions have names", 12),
    "digest_again": ("committed is true", 9),
    "committed_first": ("rolled back is true", 14),
    "kept_first": ("kept is said", 11),
    "own_proof": ("owed versions have names", 11),
    "identity": ("committed is true", 9),
    "empty_name_keeps": ("the earlier bytes are kept beside an empty name", 11),
    "exchange_back": ("the loser has his name back", 8),
    "put_back": ("the loser has his name back", 7),
}

# What no course of the model shows: the table answers all the same.
UNSEEN_ACTIONS = {Action.TOUCH_NOTHING}


@cache
def explored() -> Report[World]:
    """The exploration, once for all tests."""
    return explore(files_model())


def rows() -> set[tuple[str, str, str, str]]:
    """What recovery decided in any course: phase, side, target, action."""
    words = [label.removeprefix("decide:") for label in explored().labels if "decide:" in label]
    found = {tuple(word.split("/")) for word in words}
    return {(phase, side, target, action) for phase, side, target, action in found}


def test_no_course_breaks_a_rule() -> None:
    assert explored().verdict is Verdict.PASSED, explored().explain()


def test_the_state_counts_are_the_pinned_ones() -> None:
    report = explored()
    assert (report.states, report.transitions, report.depth) == PINNED


@pytest.mark.parametrize("rule", WITNESSES)
def test_a_removed_rule_is_noticed(rule: str) -> None:
    report = explore(files_model(replace(FileRules(), **{rule: False}), is_complete=False))
    assert report.verdict is Verdict.VIOLATED, f"{rule} survives"
    assert (report.violated, len(report.trace)) == WITNESSES[rule], report.explain()


def test_every_rule_has_its_witness() -> None:
    assert {field.name for field in fields(FileRules)} == set(WITNESSES)


def test_without_rivals_and_crashes_only_success_is_left() -> None:
    report = explore(files_model(bounds=FileBounds(rivals=0, crashes=0), is_complete=False))
    assert report.verdict is Verdict.PASSED
    assert {label for label in report.labels if label.startswith("close:")} == {
        "close:committed",
        "close:rolled_back",
    }


def test_the_table_says_what_the_model_derives() -> None:
    wrong = {
        row for row in rows() if decide(Phase[row[0]], Side(row[1]), Target(row[2])).value != row[3]
    }
    assert wrong == set()


def test_every_action_of_the_table_occurs_in_the_model() -> None:
    derived = {action for *_, action in rows()}
    assert derived == {action.value for action in set(Action) - UNSEEN_ACTIONS}


def test_the_table_is_total_and_opaque_is_touched_by_hand_only() -> None:
    for phase, side, target in itertools.product(Phase, Side, Target):
        by_itself = decide(phase, side, target)
        by_hand = decide(phase, side, target, by_hand=True)
        is_opaque = Side.OPAQUE in (side,) or Target.OPAQUE in (target,)
        assert (by_itself is Action.TOUCH_NOTHING) == is_opaque
        assert by_hand is not Action.TOUCH_NOTHING
        assert is_opaque or by_itself is by_hand


def test_nothing_of_others_is_dropped_in_any_row() -> None:
    """Rows that drop what is beside the file name bytes that are known and ours to drop."""
    drops = {
        Action.DISCARD_EARLIER: {Side.EARLIER},
        Action.DISCARD_OURS: {Side.OURS},
        Action.DISCARD_REMOVED: {Side.EARLIER},
        Action.COMMIT: {Side.EARLIER},
    }
    for phase, side, target, by_hand in itertools.product(Phase, Side, Target, (False, True)):
        action = decide(phase, side, target, by_hand=by_hand)
        assert side in drops.get(action, {side})
        assert action is not Action.DROP_SIDE or phase is Phase.STAGING
