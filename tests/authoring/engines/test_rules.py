"""Each rule that the design marks, left out, brings a violation back within few steps."""

from __future__ import annotations

import importlib

import pytest

from faultinject.authoring_rules import (
    MEETING_RULES,
    RULES,
    Rule,
    meeting_witness,
    witness,
)
from faultinject.authoring_seeds import Cut, Unfit, planted
from faultinject.authoring_worlds import workloads
from faultinject.persistence import Bounds, first_violation

# The longest witness that a rule may need: steps before the crash and after it.
STEPS = {
    "the journal before the side file": 5,
    "prepared is durable before the exchange": 14,
    "the journal appears whole": 6,
    "the proof comes before the digest": 14,
    "the proof is kept until the name is gone": 15,
    "the proof of a writer is heeded": 16,
    "the digest is read again after the exchange": 13,
    "committed is durable before the side file goes": 16,
    "kept is durable before the move": 18,
    "our own inode needs the proof too": 20,
    "identity decides, not bytes": 12,
    "an empty name keeps the earlier bytes": 18,
    "the lock tells the living from the dead": 32,
    "a journal is locked before it has a name": 32,
    "the locked journal still bears its name": 25,
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_removed_rule_is_noticed_by_the_engine(rule: Rule) -> None:
    found = witness(rule)
    assert found is not None, f"{rule.name} survives"
    assert len(found.trail) <= STEPS[rule.name], found.explain()


@pytest.mark.parametrize("rule", MEETING_RULES, ids=lambda rule: rule.name)
def test_a_removed_rule_is_noticed_by_the_schedules(rule: Rule) -> None:
    found = meeting_witness(rule)
    assert found is not None, f"{rule.name} survives"
    assert len(found.trail) <= STEPS[rule.name], found.explain()


def test_every_rule_has_its_length() -> None:
    assert {rule.name for rule in (*RULES, *MEETING_RULES)} == set(STEPS)


def test_the_worlds_hold_with_every_rule_in_place() -> None:
    for workload in workloads(rivals=False):
        assert first_violation(workload, Bounds()) is None


def test_a_seed_that_fits_nowhere_is_an_error() -> None:
    with pytest.raises(Unfit), planted(Cut("record", "begin", "no such text")):
        pass


def test_a_seed_is_gone_after_its_block() -> None:
    names = vars(importlib.import_module("dpone.authoring.recover"))
    owner = vars(importlib.import_module("dpone.authoring.retire"))
    before = names["retire"]
    late = next(rule for rule in RULES if rule.name == "the proof comes before the digest")
    with planted(*late.cuts):
        assert names["retire"] is not before
        assert names["retire"] is owner["retire"]
    assert names["retire"] is before
