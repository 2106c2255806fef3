"""The fence's statements on a SQLite file.

They name the file's own table: a change may make a temporary table of the same name.
"""

from __future__ import annotations

import sqlite3

from dpone.adapters.sqlite.connection import NOW_MS
from dpone.contracts.codec import encode
from dpone.contracts.fence import Expired, FenceKind, Floor, Receipt, Unit
from dpone.contracts.fence_rules import CLAIMED, FenceRow, row_of


def has_fence(connection: sqlite3.Connection) -> bool:
    """Whether the file has the fence's table."""
    found = connection.execute(
        "SELECT count(*) FROM main.sqlite_schema WHERE name = 'dpone_fence'"
    ).fetchone()
    return bool(found[0])


def below(connection: sqlite3.Connection, floor: Floor | None) -> Expired | None:
    """The floor that somebody raised above this one, if any."""
    if floor is None:
        return None
    row = connection.execute(
        "SELECT value FROM main.dpone_fence_meta WHERE key = ?", (f"floor:{floor.scope}",)
    ).fetchone()
    return Expired(row[0]) if row is not None and floor.position < row[0] else None


def fence_row(connection: sqlite3.Connection, operation_id: str) -> FenceRow | None:
    """The row of an operation."""
    row = connection.execute(
        "SELECT kind, epoch, attempt_id, intent_digest, result FROM main.dpone_fence"
        " WHERE operation_id = ?",
        (operation_id,),
    ).fetchone()
    return None if row is None else row_of(operation_id, *row)


def write_row(connection: sqlite3.Connection, unit: Unit, kind: str) -> None:
    """Write the row of a unit, without a result."""
    connection.execute(
        "INSERT INTO main.dpone_fence VALUES (?, ?, ?, ?, ?, '', " + NOW_MS + ") ON CONFLICT"
        " (operation_id) DO UPDATE SET kind = excluded.kind, epoch = excluded.epoch,"
        " attempt_id = excluded.attempt_id, intent_digest = excluded.intent_digest,"
        " result = excluded.result, at_ms = excluded.at_ms",
        (unit.operation_id, kind, unit.epoch, unit.attempt_id, unit.intent_digest),
    )


def finish_row(connection: sqlite3.Connection, unit: Unit, receipt: Receipt) -> bool:
    """Complete our own claim in the open transaction; False when it is not there."""
    if not connection.in_transaction:
        return False
    changed = connection.execute(
        f"UPDATE main.dpone_fence SET kind = ?, result = ?, at_ms = {NOW_MS}"
        " WHERE operation_id = ? AND kind = ? AND epoch = ? AND attempt_id = ?",
        (
            FenceKind.COMMITTED.value,
            encode(receipt.result),
            unit.operation_id,
            CLAIMED,
            unit.epoch,
            unit.attempt_id,
        ),
    ).rowcount
    return bool(changed == 1)
