"""A suite that passes everything proves nothing: each seeded defect is caught by a named check."""

from __future__ import annotations

import pytest

from certification import journal, target
from certification.checks import FAILED, PASSED, run
from certification.places import JOURNALS, TARGETS, Resources
from tests.certification import broken_journals, broken_targets


def test_there_are_defects_enough() -> None:
    assert len(broken_journals.DEFECTS) + len(broken_targets.DEFECTS) >= 40


@pytest.mark.parametrize("defect", broken_journals.DEFECTS)
def test_the_suite_of_the_journal_catches(
    resources: Resources, monkeypatch: pytest.MonkeyPatch, defect: str
) -> None:
    name, patch = broken_journals.DEFECTS[defect]
    checks = [c for c in journal.suite(lambda: JOURNALS["sqlite"](resources)) if c.name == name]
    assert [result.outcome for result in run(checks)] == [PASSED]
    patch(monkeypatch)
    assert [result.outcome for result in run(checks)] == [FAILED]


@pytest.mark.parametrize("defect", broken_targets.DEFECTS)
def test_the_suite_of_the_target_catches(
    resources: Resources, monkeypatch: pytest.MonkeyPatch, defect: str
) -> None:
    name, patch = broken_targets.DEFECTS[defect]
    checks = [c for c in target.suite(lambda: TARGETS["sqlite"](resources)) if c.name == name]
    assert [result.outcome for result in run(checks)] == [PASSED]
    patch(monkeypatch)
    assert [result.outcome for result in run(checks)] == [FAILED]
