"""Each rule, left out, brings a violation back: the models would notice."""

from __future__ import annotations

import pytest

from models.explorer import Verdict, explore
from models.rules import Rules
from models.seeded import DEFECTS, Defect, uncovered
from models.target import target_model
from models.writers import journal_model


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_removed_rule_is_noticed(defect: Defect) -> None:
    report = defect.search()
    assert report.verdict is Verdict.VIOLATED, f"{defect.name} survives: {report.explain()}"
    if defect.progress:
        assert report.unreached == (defect.progress,)
    else:
        assert report.violated is not None
    assert defect.steps == len(report.trace), report.explain()


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_the_protocol_itself_holds_within_the_same_bounds(defect: Defect) -> None:
    intact = Defect((), defect.bounds, 0, defect.progress)
    report = intact.search()
    assert report.violated is None, report.explain()
    assert not defect.progress or defect.progress in report.labels


def test_no_rule_is_left_unjudged() -> None:
    assert uncovered() == frozenset()


@pytest.mark.parametrize(
    ("rule", "steps"),
    [
        ("seal_contends", 4),
        ("seal_loses_to_commit", 5),
        ("seal_never_lowers", 5),
        ("seal_keeps_equal", 5),
        ("commit_already", 5),
        ("commit_fenced", 4),
        ("claim_first", 4),
    ],
)
def test_a_target_alone_shows_each_rule_of_its_own(rule: str, steps: int) -> None:
    report = explore(target_model(Rules(**{rule: False})))
    assert report.violated is not None
    assert steps == len(report.trace), report.explain()


@pytest.mark.parametrize(
    ("rule", "steps"), [("cas_attempt", 6), ("lost_answer_attempt", 5), ("adopt", 5)]
)
def test_a_journal_alone_shows_why_attempts_are_named(rule: str, steps: int) -> None:
    report = explore(journal_model(Rules(**{rule: False})))
    assert report.violated is not None
    assert steps == len(report.trace), report.explain()


def test_an_equal_seal_alone_is_guarded_twice() -> None:
    """Say why `seal_keeps_equal` has a partner in the list of defects.

    While a new epoch is above the fence's, no two attempts of the whole protocol meet at an
    equal epoch and harm each other; the target alone cannot rely on that.
    """
    pair = next(defect for defect in DEFECTS if len(defect.removed) == 2)
    alone = Defect(("seal_keeps_equal",), pair.bounds, 0)
    assert alone.search().verdict is Verdict.PASSED
