"""The flow of `dpone run`: one fenced commit for each partition.

Promise: every operation is reported, loaded or not; one that fails does not keep the others from
being loaded, and a target or journal that does not answer, an outcome that cannot be known or an
interruption ends the run. Not promised: that partitions are loaded together; each is a commit of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dpone.contracts.codec import convert
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_fencing import (
    CommitRejected,
    CommitUnfinished,
    CommitUnknown,
    JournalUnavailable,
    TargetHeld,
    TargetUnreachable,
)
from dpone.contracts.errors_loading import SourceColumnMissing, SourceUnreachable
from dpone.contracts.errors_run import Interrupted
from dpone.contracts.matching import hinted
from dpone.contracts.outcome import How, Outcome
from dpone.contracts.run_report import ErrorReport, OperationReport
from dpone.fencing.commit import Committer
from dpone.fencing.guard import GuardedCommitter
from dpone.fencing.obligations import Obligation
from dpone.loading.again import Reloads
from dpone.loading.operations import Planned
from dpone.ports.loader import Loader
from dpone.ports.source import Source

# Whoever holds what is in doubt holds up the others too, each for the whole bounded wait.
_STOPS = (
    CommitUnfinished,
    CommitUnknown,
    Interrupted,
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


def never() -> bool:
    """Nobody interrupts."""
    return False


class Run:
    """Loads the operations of one route.

    `interrupted` says whether somebody asked for the end; an exception that comes after that is
    taken for a part of it. `reloads` refuses what would be added twice.
    """

    def __init__(
        self,
        source: Source,
        committer: Committer | GuardedCommitter,
        loader: Loader,
        *,
        obliged: Obliged = nothing_due,
        take_over: bool = False,
        reloads: Reloads | None = None,
        interrupted: Callable[[], bool] = never,
    ) -> None:
        self.reloads = reloads
        self.interrupted = interrupted
        self.source = source
        self.committer = committer
        self.loader = loader
        self.obliged = obliged
        self.take_over = take_over

    def reports(self, operations: Sequence[Planned]) -> Iterator[OperationReport]:
        """Yield one report for each operation, as soon as it is known."""
        stopped = False
        for planned in operations:
            if stopped or self.interrupted():
                stopped = True
                yield _report(planned, "not_tried")
                continue
            try:
                earlier = self.reloads.check(planned) if self.reloads else 0
                outcome = self._commit(planned)
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - or raised again
                known = self._known(error, planned)
                stopped = isinstance(known, _STOPS)
                yield _report(planned, "failed", error=error_report(known))
            else:
                yield _committed(planned, outcome, earlier)

    def _known(self, error: BaseException, planned: Planned) -> DponeError:
        """The error to be reported; what nobody foresaw is raised again."""
        if isinstance(error, KeyboardInterrupt) or self.interrupted():
            return Interrupted(place=f" while it loaded {planned.partition.label}")
        if isinstance(error, DponeError):
            return error
        raise error

    def _commit(self, planned: Planned) -> Outcome:
        def change(transaction: Any) -> Mapping[str, Any]:
            relation = self.source.relation(planned.partition)
            try:
                counts = self.loader.load(transaction, planned.load, relation)
            except SourceColumnMissing as error:
                raise hinted(error, relation.columns) from None
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
    """The highest exit code: 130 before 5 before 4 before 3 before 1 before 0."""
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


def _committed(planned: Planned, outcome: Outcome, earlier: int) -> OperationReport:
    added = earlier and outcome.how is How.COMMITTED
    notes = (f"added to the rows of revision {earlier}, which stay",) if added else ()
    return OperationReport(
        partition=planned.partition.label,
        operation_id=outcome.operation_id,
        intent_digest=outcome.intent_digest,
        revision=planned.operation.revision,
        how=outcome.how.value,
        state=outcome.state.value,
        attempt=outcome.attempt,
        attempt_id=outcome.attempt_id,
        result=outcome.result,
        notes=(*outcome.notes, *notes),
    )
