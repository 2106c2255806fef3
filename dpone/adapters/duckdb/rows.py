"""The fence's statements on a DuckDB file.

`claim_row` and `finish_row` name the file's own table in full: a change may make a temporary
table of the same name, or turn to another schema.
"""

from __future__ import annotations

from typing import NamedTuple

import duckdb

from dpone.contracts.codec import encode
from dpone.contracts.columns import quoted
from dpone.contracts.fence import Expired, FenceKind, Floor, Receipt, Unit
from dpone.contracts.fence_rules import CLAIMED, FenceRow, row_of


class Claim(NamedTuple):
    """Where and in which transaction a unit claimed its key."""

    table: str
    transaction: int


def has_fence(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the file has the fence's table. Where not, an open transaction is over."""
    try:
        # The engine's list of tables says so too, but takes ten times as long.
        connection.execute("SELECT 1 FROM dpone_fence LIMIT 0")
    except duckdb.CatalogException:
        return False
    return True


def below(connection: duckdb.DuckDBPyConnection, floor: Floor | None) -> Expired | None:
    """The floor that somebody raised above this one, if any."""
    if floor is None:
        return None
    row = connection.execute(
        "SELECT value FROM dpone_fence_meta WHERE key = ?", [f"floor:{floor.scope}"]
    ).fetchone()
    return Expired(row[0]) if row is not None and floor.position < row[0] else None


def fence_row(connection: duckdb.DuckDBPyConnection, operation_id: str) -> FenceRow | None:
    """The row of an operation."""
    row = connection.execute(
        "SELECT kind, epoch, attempt_id, intent_digest, result FROM dpone_fence"
        " WHERE operation_id = ?",
        [operation_id],
    ).fetchone()
    return None if row is None else row_of(operation_id, *row)


def write_row(connection: duckdb.DuckDBPyConnection, unit: Unit, kind: str) -> None:
    """Write the row of a unit, without a result."""
    connection.execute(
        "INSERT OR REPLACE INTO dpone_fence VALUES (?, ?, ?, ?, ?, '', now())",
        [unit.operation_id, kind, unit.epoch, unit.attempt_id, unit.intent_digest],
    )


def claim_row(connection: duckdb.DuckDBPyConnection, unit: Unit) -> Claim:
    """Claim the key in the open transaction."""
    write_row(connection, unit, CLAIMED)
    row = connection.execute("SELECT current_database(), txid_current()").fetchone()
    assert row is not None
    return Claim(f"{quoted(str(row[0]))}.main.dpone_fence", int(row[1]))


def stands(connection: duckdb.DuckDBPyConnection, claim: Claim) -> bool:
    """Whether the transaction that claimed is the one that is open now."""
    row = connection.execute("SELECT txid_current()").fetchone()
    return row is not None and int(row[0]) == claim.transaction


def finish_row(
    connection: duckdb.DuckDBPyConnection, claim: Claim, unit: Unit, receipt: Receipt
) -> bool:
    """Complete our own claim; False, with nothing to be committed, when it is not there."""
    if not stands(connection, claim):
        return False
    row = connection.execute(
        f"UPDATE {claim.table} SET kind = ?, result = ?, written_at = now() WHERE operation_id = ?"
        " AND kind = ? AND epoch = ? AND attempt_id = ?",
        [
            FenceKind.COMMITTED.value,
            encode(receipt.result),
            unit.operation_id,
            CLAIMED,
            unit.epoch,
            unit.attempt_id,
        ],
    ).fetchone()
    return row is not None and int(row[0]) == 1
