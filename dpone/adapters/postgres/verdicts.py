"""Rows, units and errors of the fence, between what the server says and what we mean by it."""

from __future__ import annotations

import psycopg
from psycopg.pq import TransactionStatus

from dpone.adapters.postgres.fence_sql import TRANSACTION
from dpone.adapters.postgres.wire import AnswerLost, Row, Wire, cause_of
from dpone.contracts.fence import Rejected, Unit, Unknown
from dpone.contracts.fence_rules import FenceRow, row_of

DEFINITE_CLASSES = ("22", "23", "40", "42", "P0", "0A")
"""SQLSTATE classes that, as an ERROR at COMMIT, prove that the transaction was rolled back."""
DEFINITE = ("55P03", "57014", "25P02")
TRANSIENT = ("40001", "40P01", "55P03", "26000")
"""Worth another attempt; 26000 is a plan that a pooler's other session does not have."""
LOCKED = "55P03"
BEGUN = "dpone_begun"
"""A savepoint from before the claim, to which our own failed transaction can go back."""


def fence_of(operation_id: str, row: Row) -> FenceRow | None:
    """The fence's part of what was looked at."""
    kind, epoch, attempt_id, intent, result = row[3:8]
    if kind is None:
        return None
    return row_of(operation_id, kind, int(epoch or 0), attempt_id or "", intent or "", result or "")


def values_of(unit: Unit) -> tuple[str | int, ...]:
    """The places of a claim or a seal."""
    floor = (f"floor:{unit.floor.scope}", unit.floor.position) if unit.floor else ("", "")
    own = (unit.operation_id, unit.epoch, unit.attempt_id, unit.intent_digest)
    return (*own, unit.incarnation, *floor)


def session_name(operation_id: str, attempt_id: str) -> str:
    """The application name that proves whose session it is; at most 63 bytes."""
    return f"dpone/{operation_id.removeprefix('sha256:')[:16]}/{attempt_id}"


def commit_failed(error: psycopg.Error) -> Rejected | Unknown:
    """Only an ERROR of a listed kind proves a rollback; a lost session proves nothing."""
    state = error.sqlstate or ""
    fatal = error.diag.severity_nonlocalized not in (None, "ERROR")
    definite = state in DEFINITE or (state[:2] in DEFINITE_CLASSES and state != "40003")
    if state and definite and not fatal:
        return Rejected(cause_of(error), transient=state in TRANSIENT, error=error)
    return Unknown(cause_of(error))


def is_held(error: psycopg.Error) -> bool:
    """Whether the server lives and somebody holds what was asked for."""
    return error.sqlstate in ("55P03", "57014", "40P01")


def change_failed(error: Exception, *, began: bool) -> Rejected:
    """The verdict on a unit that was rolled back; `began`: its claim had been written."""
    if not isinstance(error, psycopg.Error):
        return Rejected(str(error) or type(error).__name__, error=error)
    transient = error.sqlstate in TRANSIENT or error.sqlstate is None
    held = not began and error.sqlstate == LOCKED
    return Rejected(cause_of(error), transient=transient, error=error, held=held)


def stands(wire: Wire, claimed: str) -> bool:
    """Whether the transaction that claimed is open, sound or failed.

    Raises `psycopg.Error` when the server cannot be asked, on the very connection that claimed.
    """
    if not wire.is_open():
        raise AnswerLost("the connection was lost while the change ran")
    if wire.connection.info.transaction_status is TransactionStatus.INERROR:
        try:
            wire.script(f"ROLLBACK TO SAVEPOINT {BEGUN}")
        except psycopg.errors.InvalidSavepointSpecification:
            return False
    return only_value(wire.query(TRANSACTION)) == claimed


def only_value(rows: list[Row]) -> str:
    """The one value of a statement that returns a row or none."""
    return rows[0][0] or "" if rows else ""
