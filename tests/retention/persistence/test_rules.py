"""Each rule that the decision marks, left out, brings a violation back within few steps."""

from __future__ import annotations

import pytest

from dpone.retention.apply import Applier
from faultinject.authoring_seeds import Cut, Unfit
from faultinject.deletion_rules import RULES, Rule, planted, witness

# The longest witness that a rule may need: steps before the crash and after it.
STEPS_MAX = 95


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_removed_rule_is_noticed(rule: Rule) -> None:
    row = witness(rule)
    assert row.rule, f"{rule.name} survives"
    assert 2 < row.steps <= STEPS_MAX


def test_there_are_rules_enough_and_each_has_one_name() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES) >= 25
    assert {bool(rule.act) for rule in RULES} == {True, False}


def test_a_seed_that_fits_nowhere_is_an_error() -> None:
    with pytest.raises(Unfit), planted(Cut("apply", "Applier.run", "no such text")):
        pass


def test_a_seed_is_gone_after_its_block() -> None:
    before = Applier._finish
    with planted(*next(rule for rule in RULES if rule.cuts[0].function == "Applier._finish").cuts):
        assert Applier._finish is not before
    assert Applier._finish is before
