"""File systems that have no exchange, or say that they made one and did not."""

from __future__ import annotations

import pytest

from dpone.contracts.authoring import ConfinedReplaceOutcome, Status
from dpone.contracts.errors_authoring import AtomicExchangeUnsupported
from faultinject import authoring_truth as truth
from faultinject.authoring_truth import LEAF, D, E
from faultinject.authoring_worlds import standing
from faultinject.persistence import Run, replacing


@pytest.mark.parametrize("exchanges", ["missing", "drops"])
def test_a_rehearsal_finds_it_out_before_a_file_is_touched(exchanges: str) -> None:
    case = standing(certified=None)
    case.disk.exchanges = exchanges
    run = Run(case, replacing)
    assert isinstance(run.answer, AtomicExchangeUnsupported)
    assert {n: case.disk.inodes[i].data for n, i in case.disk.entries().live.items()} == {LEAF: E}
    assert case.disk.certified is False


def test_without_a_rehearsal_a_missing_exchange_is_refused_and_cleared() -> None:
    case = standing()
    case.disk.exchanges = "missing"
    run = Run(case, replacing)
    assert isinstance(run.answer, AtomicExchangeUnsupported)
    assert truth.leftovers(case) == []
    assert case.disk.certified is False


def test_a_dropped_file_stops_everything_at_once() -> None:
    case = standing()
    case.disk.exchanges = "drops"
    run = Run(case, replacing)
    assert isinstance(run.answer, ConfinedReplaceOutcome)
    assert (run.answer.status, run.answer.reason) == (Status.RECOVERY_REQUIRED, "exchange_lied")
    assert case.disk.certified is False
    target = case.disk.at(LEAF)
    assert target is not None
    assert target.data == D
    changes = [label for label in run.labels if not label.startswith("sync")]
    assert changes[-1].startswith("exchange"), "something was touched after the lie"
