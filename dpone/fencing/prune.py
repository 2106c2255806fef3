"""Retention: old finished entries become tombstones, fence rows lose their result.

Promise: no fence row is deleted, except below a floor that a route with an ordered partition
raised in the same transaction; below it everybody gets `operation_expired`, never a second load.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dpone.contracts.canonical import digest
from dpone.contracts.codec import decode, encode
from dpone.contracts.effects import Effect
from dpone.contracts.errors_recovery import FloorBlocked, FloorInvalid
from dpone.contracts.fence import Committed, Expired, Floor
from dpone.contracts.journal import SETTLED, JournalEntry, Note, State
from dpone.contracts.outcome import Stored
from dpone.fencing.adopt import floor_of_entry, rows_of
from dpone.fencing.ledger import Ledger
from dpone.fencing.refuse import ANSWERED
from dpone.ports.journal import Journal
from dpone.ports.target import Target

BATCH_ROWS = 500
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?\b")


def prunable(journal: Journal, *, before_ms: int, route: str = "") -> list[JournalEntry]:
    """COMPLETE rows, unmarked, unchanged since `before_ms` (epoch, milliseconds)."""
    return [
        row
        for row in rows_of(journal)
        if row.state is State.COMPLETE
        and not row.diverged
        and not row.pruned
        and row.updated_ms < before_ms
        and (not route or row.route == route)
    ]


def prune(ledger: Ledger, target: Target, rows: Sequence[JournalEntry]) -> int:
    """Shorten the fence rows, then the entries; return how many entries became tombstones.

    A row whose fence is not committed is left alone: `check` reports it.
    """
    count = 0
    for start in range(0, len(rows), BATCH_ROWS):
        batch = [row for row in rows[start : start + BATCH_ROWS] if _committed(target, row)]
        if batch:
            target.shorten(row.operation_id for row in batch)
        for row in batch:
            ledger.move(
                row,
                Effect.FENCING_PRUNE,
                (Note.PRUNED, {"outcome_digest": digest(_stored(row).result)}),
                pruned=True,
                outcome=_tombstone(row),
                done=(),
            )
            count += 1
    return count


def check_position(wanted: str, present: str) -> None:
    """Refuse a floor of another kind than the positions of its family. Raises `FloorInvalid`.

    It would sort among them at random, and a floor never falls.
    """
    if _kind(wanted) != _kind(present):
        why = f"{wanted} is {_kind(wanted)}, and the positions are like {present}: {_kind(present)}"
        raise FloorInvalid(why=why)


def _kind(position: str) -> str:
    if position.isdigit():
        return "a number"
    return "a date" if _DATE.match(position) else "a text"


def raise_floor(target: Target, floor: Floor, rows: Sequence[JournalEntry]) -> int:
    """Raise the floor and remove the fence rows of `rows`, which lie below it, together.

    Raises `FloorBlocked` when one of them is not settled: it would be stranded for ever. What an
    operator closed is settled; the floor refuses a late session as the final seal did. What lies
    below an earlier floor is stranded already, and no answer of anybody could change that.
    """
    for row in rows:
        open_ = row.state not in SETTLED or bool(row.diverged)
        if open_ and row.reason != ANSWERED and not _expired(target, row):
            state = f"marked as diverged ({row.diverged})" if row.diverged else row.state
            raise FloorBlocked(operation_id=row.operation_id, state=state)
    return target.raise_floor(floor, [row.operation_id for row in rows])


def _expired(target: Target, row: JournalEntry) -> bool:
    """Whether an earlier floor answers for the row."""
    return isinstance(target.ask(row.operation_id, floor_of_entry(row)).verdict, Expired)


def _committed(target: Target, row: JournalEntry) -> bool:
    return isinstance(target.ask(row.operation_id, None).verdict, Committed)


def _stored(row: JournalEntry) -> Stored:
    return decode(row.outcome, Stored)


def _tombstone(row: JournalEntry) -> str:
    stored = _stored(row)
    return encode(
        Stored(
            epoch=stored.epoch,
            attempt_id=stored.attempt_id,
            intent_digest=stored.intent_digest,
            result={"outcome_digest": digest(stored.result)},
            asserted_by=stored.asserted_by,
        )
    )
