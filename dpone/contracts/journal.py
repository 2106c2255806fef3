"""What a journal stores: the states of an operation, its current row and its history.

Promise: the values are closed and frozen; a row read back equals the row written.
Not promised: that a transition is legal. `dpone.contracts.transitions` holds the table.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from dpone.contracts.codec import decode, encode, parse, replaced


class State(StrEnum):
    """The eight durable states of ADR 0022."""

    PREPARING = "PREPARING"
    PREPARED = "PREPARED"
    COMMITTING = "COMMITTING"
    COMMIT_UNKNOWN = "COMMIT_UNKNOWN"
    TARGET_COMMITTED = "TARGET_COMMITTED"
    COMMITTED_INCOMPLETE = "COMMITTED_INCOMPLETE"
    COMPLETE = "COMPLETE"
    FAILED_PRE_COMMIT = "FAILED_PRE_COMMIT"


class Event(StrEnum):
    """What may happen to an operation; each is a row or several of the transition table."""

    BEGIN = "begin"
    FENCE_READY = "fence_ready"
    COMMIT_STARTED = "commit_started"
    COMMIT_ACKNOWLEDGED = "commit_acknowledged"
    ANSWER_LOST = "answer_lost"
    TAKEN_OVER = "taken_over"
    FENCE_SHOWS_COMMITTED = "fence_shows_committed"
    FENCE_SEALED = "fence_sealed"
    OPERATOR_COMMITTED = "operator_committed"
    OBLIGATIONS_MET = "obligations_met"
    OBLIGATION_FAILED = "obligation_failed"
    NEW_ATTEMPT = "new_attempt"


class Note(StrEnum):
    """History rows that change no state."""

    DIVERGED = "diverged"
    LOSS_ACCEPTED = "loss_accepted"
    RELOAD_ORDERED = "reload_ordered"
    ADOPTED = "adopted"
    INCARNATION_ADOPTED = "incarnation_adopted"
    PRUNED = "pruned"
    FOREIGN_RECEIPT = "foreign_receipt"
    OBLIGATION_DONE = "obligation_done"
    RESUMED = "resumed"
    HEALED = "healed"


class Reason(StrEnum):
    """Why a fence was sealed for good (`fence_sealed`)."""

    REJECTED = "rejected"
    ABANDONED = "abandoned"
    RECONCILED = "reconciled"
    OPERATOR = "operator"


SETTLED = frozenset({State.COMPLETE, State.FAILED_PRE_COMMIT})
COMMITTED = frozenset({State.TARGET_COMMITTED, State.COMMITTED_INCOMPLETE, State.COMPLETE})
IN_DOUBT = frozenset({State.COMMITTING, State.COMMIT_UNKNOWN})
VOID_ATTEMPT = "00000000-0000-0000-0000-000000000000"
"""The attempt id that no process owns: written by `adopt` so that every older writer loses, and
in a final seal, which admits nobody."""


class Owner(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Identity of the process that holds a lease; `start_ticks` is field 22 of its stat file."""

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    start_ticks: int


class JournalEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The current row of one operation.

    `version` counts history rows and is compared on every write together with `attempt_id`.
    `position` is the place in an ordered partition, if the route declares an order.
    `attempt` is the epoch at the target. `outcome` is the stored result, JSON of
    `dpone.contracts.outcome.Stored`. `done` names the finished obligations, in order.
    `diverged` is the mark that blocks until an operator answers it.
    `lease_left_ms` is computed by the store's own clock when the row is read.
    """

    operation_id: str
    identity: str
    family: str
    route: str
    partition: str
    revision: int
    position: str | None = None
    state: State
    version: int
    attempt: int
    attempt_id: str
    intent_digest: str
    incarnation: str = ""
    outcome: str = ""
    reason: str = ""
    obligations: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    diverged: str = ""
    pruned: bool = False
    owner: Owner | None = None
    lease_left_ms: int = 0
    created_ms: int = 0
    updated_ms: int = 0


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One history row to be written: `event` is an `Event` or a `Note`."""

    event: str
    source: str
    target: str
    detail: dict[str, Any] = {}


class HistoryRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One append-only history row; `at_ms` is milliseconds since the epoch, store's clock."""

    operation_id: str
    version: int
    event: str
    source: str
    target: str
    attempt: int
    attempt_id: str
    at_ms: int
    detail: dict[str, Any]


def moment_of(milliseconds: int) -> str:
    """A time of the store's clock as ISO 8601 in UTC."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def body_of(entry: JournalEntry) -> str:
    """The row as its store keeps it: without what the store's own clock tells."""
    return encode(replaced(entry, lease_left_ms=0, created_ms=0, updated_ms=0))


def entry_of(body: str, lease_left_ms: int, created_ms: int, updated_ms: int) -> JournalEntry:
    """The row from what its store keeps. Raises `ContractInvalid`."""
    return replaced(
        decode(body, JournalEntry),
        lease_left_ms=max(0, lease_left_ms),
        created_ms=created_ms,
        updated_ms=updated_ms,
    )


def history_row_of(
    operation_id: str,
    version: int,
    event: str,
    source: str,
    target: str,
    attempt: int,
    attempt_id: str,
    at_ms: int,
    detail: str,
) -> HistoryRow:
    """A history row from what its store keeps, in the order of the columns."""
    return HistoryRow(
        operation_id=operation_id,
        version=version,
        event=event,
        source=source,
        target=target,
        attempt=attempt,
        attempt_id=attempt_id,
        at_ms=at_ms,
        detail=parse(detail),
    )
