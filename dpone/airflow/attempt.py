"""What operator and decorator share: one attempt of a task, from its context to its receipt.

Promise: an outcome that a later attempt may change raises what Airflow retries, any other what it
does not; an exception of the task's own code is raised as it is. Neither is what keeps a retry
safe: that is the fence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dpone.airflow import compat
from dpone.contracts.canonical import digest
from dpone.contracts.errors import EXIT_LATER, DponeError
from dpone.contracts.errors_fencing import (
    CommitRejected,
    CommitUnknown,
    IntentMismatch,
    ObligationFailed,
    OperationDiscarded,
    OperationInProgress,
    RevisionBlocked,
)
from dpone.contracts.errors_loading import ConnectionInvalid, ConnectionUnknown
from dpone.contracts.errors_run import Interrupted, ReloadAddsRows, ReloadNeedsPartition

if TYPE_CHECKING:
    from dpone.contracts.outcome import Outcome
    from dpone.contracts.run_report import ErrorReport, OperationReport

Found = TypeVar("Found")

# Each says itself that the same command is to be run again.
_AGAIN = (CommitUnknown.code, Interrupted.code, ObligationFailed.code)

SAYS = {
    "committed": "committed by this attempt",
    "settled": "an earlier attempt had committed it; nothing was written",
    "replayed": "finished before; its receipt is returned and nothing was written",
    "resumed": "an earlier attempt had committed it; the steps after it were finished",
}


class Attempt(NamedTuple):
    """One try of one task instance.

    `start` and `end` are ISO instants, or empty. `partition_key` is that of a partitioned run.
    """

    dag_id: str
    task_id: str
    run_id: str
    map_index: int
    try_number: int
    start: str
    end: str
    partition_key: str = ""

    def takes_over(self, asked: bool | None) -> bool:
        """Whether no lease is waited for: as asked, else when an earlier try was given up."""
        return self.try_number > 1 if asked is None else asked

    @property
    def period(self) -> dict[str, str]:
        """What the run stands for: its partition, else its data interval, else DAG and run id.

        Of two runs of one partition each has a run id of its own.
        """
        if self.partition_key:
            return {"partition_key": self.partition_key}
        if self.start and self.end:
            return {"from": self.start, "to": self.end}
        return {"dag": self.dag_id, "run": self.run_id}

    @property
    def name(self) -> str:
        """DAG and task. Ids have dots, but no slash: those of two tasks never make one name."""
        return f"{self.dag_id}/{self.task_id}"


def attempt_of(context: Mapping[str, Any]) -> Attempt:
    """The attempt that a task's context describes."""
    instance, run = context["ti"], context["dag_run"]
    start = getattr(run, "data_interval_start", None)
    end = getattr(run, "data_interval_end", None)
    return Attempt(
        dag_id=instance.dag_id,
        task_id=instance.task_id,
        run_id=instance.run_id,
        map_index=-1 if instance.map_index is None else instance.map_index,
        try_number=instance.try_number,
        start=_instant(start),
        end=_instant(end),
        partition_key=getattr(run, "partition_key", None) or "",
    )


def run(context: Mapping[str, Any], log: logging.Logger, work: Callable[[], Found]) -> Found:
    """Do the work, and end as Airflow expects it.

    Raises `AirflowFailException` for what no retry mends, `AirflowException` for what one may,
    and what the task's own code raised.
    """
    try:
        done = work()
    except CommitRejected as error:
        compat.leave_if_superseded(context, log)
        cause = error.__cause__
        if isinstance(cause, DponeError):
            # Of the function: it asked dpone for something else, or the transaction for too much.
            raise raised(sentence_of(error), retried=retried(cause)) from error
        if cause is None:
            raise failure(error) from error
        log.warning("dpone: the target holds nothing of operation %s", error.fields["operation_id"])
        raise cause from None
    except DponeError as error:
        compat.leave_if_superseded(context, log)
        raise failure(error, mapped=_is_mapped(context)) from error
    compat.leave_if_superseded(context, log)
    return done


# What another caller would say on the command line is said here as an argument.
_ARGUMENTS = {
    OperationInProgress: (
        "Try again later, or say take_over=True when you know that the other attempt is gone."
    ),
    IntentMismatch: "If the reload is wanted, say so: revision={next_revision}.",
    OperationDiscarded: "If the rows are wanted, say so: revision={next_revision}.",
    RevisionBlocked: (
        "An earlier revision is settled first: dpone journal reconcile {operation_id}, or resolve "
        "where it diverged; a later one supersedes this: ask for a new revision."
    ),
    ConnectionInvalid: (
        "Name a connection of Airflow that fits: connections={{'{name}': '...'}}; or mend "
        "[connections.{name}] in dpone.toml."
    ),
    ConnectionUnknown: (
        "Say which connection of Airflow it is: connections={{'{name}': '...'}}; or declare "
        "[connections.{name}] in dpone.toml."
    ),
    ReloadNeedsPartition: "Name each part that is to be loaded again: partition=[...], again=True.",
    ReloadAddsRows: (
        "If the target may have lost rows, ask first: dpone journal check. If every row is wanted "
        "again, name the part and say again=True."
    ),
}
_ADVICE: dict[str, str] = {kind.code: text for kind, text in _ARGUMENTS.items()}
_SAME_KEY = (
    "The task is mapped: look first at map_key, whose argument must differ between its instances. "
)


def sentence_of(error: DponeError | ErrorReport, *, mapped: bool = False) -> str:
    """What happened, what is known and what to do, on one line; for a mapped task, why it may be.

    What is to be done is said in the words of a DAG.
    """
    told = _report_of(error) if isinstance(error, DponeError) else error
    advice = told.next
    if told.code in _ADVICE:
        # A template of the same fields as the error's own advice.
        advice = _ADVICE[told.code].format_map(told.fields)
    if mapped and told.code == IntentMismatch.code:
        advice = _SAME_KEY + advice
    return f"{told.code}: {told.happened} {told.known} {advice}"


def _report_of(error: DponeError) -> ErrorReport:
    from dpone.contracts.codec import convert
    from dpone.contracts.run_report import ErrorReport

    return convert(error.report(), ErrorReport)


def failure(error: DponeError, *, mapped: bool = False) -> Exception:
    """The exception of Airflow for an error."""
    return raised(sentence_of(error, mapped=mapped), retried=retried(error))


def retried(error: DponeError | ErrorReport) -> bool:
    """Whether a later attempt may come to another end."""
    return error.exit_code == EXIT_LATER or error.code in _AGAIN


def raised(text: str, *, retried: bool) -> Exception:
    """The exception that makes Airflow retry a task, or fail it for good."""
    kind = compat.AirflowException if retried else compat.AirflowFailException
    found: Exception = kind(text)
    return found


def told(log: logging.Logger, found: Outcome | OperationReport, what: str) -> None:
    """Say in the log what this attempt did with an operation, and why."""
    how = str(found.how)
    log.info("dpone: operation %s %s (%s): %s", found.operation_id, how, what, SAYS[how])
    for note in found.notes:
        log.info("dpone: %s", note)


def hinted(
    log: logging.Logger, found: Iterable[Outcome | OperationReport], attempt: Attempt
) -> None:
    """Say, once for all that was replayed, how to load again on purpose."""
    if any(str(each.how) == "replayed" for each in found):
        log.info(
            "dpone: this is try %s of %s; if it was cleared to load again, say so with the next "
            "revision",
            attempt.try_number,
            attempt.task_id,
        )


def marked(
    context: Mapping[str, Any],
    log: logging.Logger,
    outlets: Any,
    receipt: Any,
    ids: list[str],
) -> None:
    """Put the receipt's id into the extra of every asset that the task produces.

    The rows are committed: an outlet that can have no extra (a reference to an asset that nobody
    knows) is named in the log, and fails nothing.
    """
    events = context.get("outlet_events")
    if events is None:
        return
    for outlet in outlets or ():
        try:
            extra = events[outlet].extra
            extra["dpone_receipt"] = digest(receipt)
            extra["dpone_operations"] = ids
        except Exception as error:  # noqa: BLE001 - Airflow's own, of many kinds
            kind = type(error).__name__
            log.warning("dpone: the outlet %r takes no receipt: %s", outlet, kind)


def _is_mapped(context: Mapping[str, Any]) -> bool:
    index = context["ti"].map_index
    return index is not None and index >= 0


def _instant(moment: Any) -> str:
    """An instant as text: whole seconds in UTC where it has no fraction."""
    if moment is None:
        return ""
    from datetime import UTC, datetime

    text = datetime.fromtimestamp(moment.timestamp(), UTC).isoformat()
    return text.replace("+00:00", "Z")
