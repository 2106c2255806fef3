"""What a task of Airflow hands on to the next ones: the receipts of its operations."""

from __future__ import annotations

import msgspec

from dpone.contracts.fence import Receipt
from dpone.contracts.outcome import Outcome
from dpone.contracts.run_report import OperationReport


class LoadedPartition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One part of a route, and what the target's fence holds of it."""

    partition: str
    revision: int
    receipt: Receipt


class AirflowRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The XCom of `DponeRunOperator`.

    It is the same for the attempt that loaded and for every later one: what an attempt did itself
    is in its log.
    """

    route: str
    environment: str
    operations: tuple[LoadedPartition, ...]
    schema: str = "dpone.airflow-run.v1"


def receipt_of_outcome(outcome: Outcome) -> Receipt:
    """The receipt as the target's fence holds it."""
    return Receipt(
        operation_id=outcome.operation_id,
        epoch=outcome.attempt,
        attempt_id=outcome.attempt_id,
        intent_digest=outcome.intent_digest,
        result=outcome.result,
    )


def loaded(report: OperationReport) -> LoadedPartition:
    """One finished operation of a run."""
    receipt = Receipt(
        operation_id=report.operation_id,
        epoch=report.attempt,
        attempt_id=report.attempt_id,
        intent_digest=report.intent_digest,
        result=report.result,
    )
    return LoadedPartition(partition=report.partition, revision=report.revision, receipt=receipt)
