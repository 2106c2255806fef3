"""The flow of `dpone run`: one fenced commit for each partition.

Promise: every operation is reported, loaded or not; one that fails does not keep the others from
being loaded, and a target or journal that does not answer ends the run. Not promised: that
partitions are loaded together; each is a commit of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dpone.contracts.codec import convert
from dpone.contracts.errors import EXIT_LATER, DponeError
from dpone.contracts.errors_fencing import (
    CommitRejected,
    CommitUnfinished,
    JournalUnavailable,
    TargetHeld,
    TargetUnreachable,
)
from dpone.contracts.errors_loading import SourceUnreachable
from dpone.contracts.outcome import Outcome
from dpone.contracts.run_report import ErrorReport, OperationReport
from dpone.fencing.commit import Committer
from dpone.fencing.guard import GuardedCommitter
from dpone.fencing.obligations import Obligation
from dpone.loading.operations import Planned
from dpone.ports.loader import Loader
from dpone.ports.source import Source

_STOPS = (
    CommitUnfinished,
    JournalUnavailable,
    SourceUnreachable,
    TargetHeld,
    TargetUnreachable,
)

Obliged = Callable[[Planned], Sequence[Obligation]]
"""The steps that are due after the commit of one operation."""


def nothing_due(planned: Planned) -> Sequence[Obligation]:
    """No step is due."""
    return ()


class Run:
    """Loads the operations of one route."""

    def __init__(
        self,
        source: Source,
        committer: Committer | GuardedCommitter,
        loader: Loader,
        *,
        obliged: Obliged = nothing_due,
        take_over: bool = False,
    ) -> None:
        self.source = source
        self.committer = committer
        self.loader = loader
        self.obliged = obliged
        self.take_over = take_over

    def reports(self, operations: Sequence[Planned]) -> Iterator[OperationReport]:
        """Yield one report for each operation, as soon as it is known."""
        stopped = False
        for planned in operations:
            if stopped:
                yield _report(planned, "not_tried")
                continue
            try:
                outcome = self._commit(planned)
            except DponeError as error:
                stopped = isinstance(error, _STOPS) and error.exit_code == EXIT_LATER
                yield _report(planned, "failed", error=error_report(error))
            else:
                yield _committed(planned, outcome)

    def _commit(self, planned: Planned) -> Outcome:
        def change(transaction: Any) -> Mapping[str, Any]:
            relation = self.source.relation(planned.partition)
            counts = self.loader.load(transaction, planned.load, relation)
            # The digest in the intent stands for these bytes only if the files lay still.
            relation.check_unchanged()
            return counts

        try:
            return self.committer.commit(
                planned.operation,
                change,
                obligations=self.obliged(planned),
                take_over=self.take_over,
                replayable=True,
            )
        except CommitRejected as error:
            # The cause is what a person can act upon; that nothing was applied it says itself.
            if isinstance(error.__cause__, DponeError):
                raise error.__cause__ from None
            raise


def error_report(error: DponeError) -> ErrorReport:
    """The closed form of an error."""
    return convert(error.report(), ErrorReport)


def exit_code_of(reports: Sequence[OperationReport]) -> int:
    """The highest exit code: 5 before 4 before 3 before 1 before 0."""
    return max((report.error.exit_code for report in reports if report.error), default=0)


def _report(planned: Planned, how: str, error: ErrorReport | None = None) -> OperationReport:
    return OperationReport(
        partition=planned.partition.label,
        operation_id=planned.operation.operation_id,
        intent_digest=planned.operation.intent_digest,
        revision=planned.operation.revision,
        how=how,
        error=error,
    )


def _committed(planned: Planned, outcome: Outcome) -> OperationReport:
    return OperationReport(
        partition=planned.partition.label,
        operation_id=outcome.operation_id,
        intent_digest=outcome.intent_digest,
        revision=planned.operation.revision,
        how=outcome.how.value,
        state=outcome.state.value,
        attempt=outcome.attempt,
        result=outcome.result,
        notes=outcome.notes,
    )
