"""The part of the programme on deletions in memory: its records, its faults, its gaps."""

from __future__ import annotations

from pathlib import Path

import pytest

from certification import deletions
from certification.judging import of_flow
from certification.programme import Budget, Raw
from faultinject.deletion_contests import acts_of
from faultinject.deletion_matrix import BY_CONTRACT, Row, every_scene
from faultinject.deletion_rules import RULES, planted


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two small scenes, one act, one rule, and one sync that the contract alone asks for."""
    chosen = tuple(it for it in every_scene() if it.name in ("tidy", "apply"))
    small = tuple(it for it in chosen if it.name == "tidy")
    every = iter((small, small, chosen))
    acts = acts_of
    monkeypatch.setattr(deletions, "every_scene", lambda: next(every))
    monkeypatch.setattr(deletions, "acts_of", lambda disk, case: acts(disk, case)[:1])
    monkeypatch.setattr(deletions, "RULES", RULES[:1])
    lost = [Row(BY_CONTRACT, "weak", due=1)]
    monkeypatch.setattr(deletions, "lost_syncs", lambda weak: lost)


def keys(raw: Raw) -> list[str]:
    return [record["key"] for record in raw.flows]


@pytest.mark.usefixtures("narrow")
def test_every_engine_leaves_records_and_finds_nothing(tmp_path: Path) -> None:
    raw = Raw()
    deletions.run(raw, Budget(100.0), tmp_path, quick=True)
    assert keys(raw) == [
        "flow/deletion-states/weak/tidy",
        "flow/deletion-states/ordered/tidy",
        "flow/deletion-contests/build again",
        f"flow/deletion-defects/weak/{BY_CONTRACT}",
        f"flow/deletion-defects/weak/{RULES[0].name}",
    ]
    assert {of_flow(record).outcome for record in raw.flows} == {"passed"}
    assert raw.flows[0]["figures"]["states"] > 0


@pytest.mark.usefixtures("narrow")
def test_a_defect_is_a_fault_with_its_steps(tmp_path: Path) -> None:
    rule = next(it for it in RULES if it.name == "temporaries are cleared")
    raw = Raw()
    with planted(*rule.cuts):
        deletions._states(raw, Budget(100.0), quick=True)
    assert [of_flow(record).outcome for record in raw.flows] == ["failed", "failed"]
    assert "begin: temporaries" in raw.flows[0]["faults"][0]


def test_without_time_nothing_passes(tmp_path: Path) -> None:
    raw = Raw()
    budget = Budget(-1.0)
    deletions._states(raw, budget, quick=True)
    deletions._contests(raw, budget, quick=True)
    assert raw.flows == []
    assert {gap["outcome"] for gap in raw.gaps} == {"inconclusive"}
