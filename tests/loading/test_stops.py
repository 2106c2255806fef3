"""Which failures of one operation end a run, and which leave the others their turn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dpone.contracts.errors import DponeError
from dpone.contracts.errors_fencing import (
    CommitRejected,
    CommitUnfinished,
    CommitUnknown,
    JournalUnavailable,
    OperationInProgress,
    TargetHeld,
    TargetUnreachable,
)
from dpone.contracts.errors_loading import SourceChanged, SourceUnreachable
from dpone.loading.run import Run


class Refusing:
    """A committer to which everything goes wrong in one way."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def commit(self, *_: Any, **__: Any) -> Any:
        raise self.error


def hows(error: BaseException) -> list[str]:
    """What a run of two operations reports."""
    operation = SimpleNamespace(operation_id="o", intent_digest="i", revision=1)
    planned: Any = SimpleNamespace(operation=operation, partition=SimpleNamespace(label="p"))
    refusing = cast("Any", Refusing(error))
    run = Run(cast("Any", None), refusing, cast("Any", None))
    return [report.how for report in run.reports([planned, planned])]


@pytest.mark.parametrize(
    "kind",
    [
        CommitUnfinished,
        CommitUnknown,
        JournalUnavailable,
        SourceUnreachable,
        TargetHeld,
        TargetUnreachable,
    ],
)
def test_what_does_not_answer_ends_the_run(kind: type[DponeError]) -> None:
    assert hows(kind()) == ["failed", "not_tried"]


@pytest.mark.parametrize("kind", [CommitRejected, OperationInProgress, SourceChanged])
def test_what_concerns_one_operation_leaves_the_others(kind: type[DponeError]) -> None:
    assert hows(kind()) == ["failed", "failed"]


def test_an_interruption_ends_the_run_and_is_reported() -> None:
    assert hows(KeyboardInterrupt()) == ["failed", "not_tried"]


def test_a_defect_is_not_taken_for_a_failed_load() -> None:
    with pytest.raises(ZeroDivisionError):
        hows(ZeroDivisionError())
