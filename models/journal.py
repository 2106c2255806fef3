"""The journal's row for one operation, its compare-and-set, and what restoring it does.

Promises the rules of one atomic journal write and of an answer that was lost. Leases are
not modelled by a clock: they may expire at any time, so every takeover is always possible.
Linearization point of each transition: the compare-and-set.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from dpone.contracts.journal import Event, State
from models.rules import Rules

NOBODY: Final = 0  # A void attempt_id: no process holds it.
ADOPTED: Final = 16  # Added to a version by `adopt`, so that no worker holds the result.

# Marks on the row.
CLEAR: Final = ""
ASSERTED: Final = "asserted"  # An operator said that the change is committed.
DIVERGED: Final = "diverged"
ACCEPTED: Final = "accepted-loss"
RELOADED: Final = "reloaded"
PRUNED: Final = "pruned"
RESTORED: Final = "restored"  # Known to the observer only: a copy that was not adopted.
ANSWERED: Final = frozenset({ASSERTED, DIVERGED, ACCEPTED, RELOADED})

PREPARING: Final = State.PREPARING.value
PREPARED: Final = State.PREPARED.value
COMMITTING: Final = State.COMMITTING.value
COMMIT_UNKNOWN: Final = State.COMMIT_UNKNOWN.value
TARGET_COMMITTED: Final = State.TARGET_COMMITTED.value
COMMITTED_INCOMPLETE: Final = State.COMMITTED_INCOMPLETE.value
COMPLETE: Final = State.COMPLETE.value
FAILED_PRE_COMMIT: Final = State.FAILED_PRE_COMMIT.value

ACKNOWLEDGED: Final = frozenset({TARGET_COMMITTED, COMMITTED_INCOMPLETE, COMPLETE})


class Row(NamedTuple):
    """The current row of one operation."""

    state: str
    version: int
    attempt: int
    epoch: int
    incarnation: int
    mark: str = CLEAR


class Write(NamedTuple):
    """One kind of journal write: its event, the state it leaves, and whether it takes over.

    `state` is empty where the state stays and only the mark changes.
    """

    event: str
    state: str
    fresh: bool = False


BEGIN: Final = Write(Event.BEGIN.value, PREPARING, fresh=True)
BEGIN_SHOWN: Final = Write(Event.BEGIN.value, TARGET_COMMITTED, fresh=True)
TAKE_READY: Final = Write(Event.TAKEN_OVER.value, PREPARING, fresh=True)
TAKE_UNKNOWN: Final = Write(Event.TAKEN_OVER.value, COMMIT_UNKNOWN, fresh=True)
NEW_ATTEMPT: Final = Write(Event.NEW_ATTEMPT.value, PREPARING, fresh=True)
FENCE_READY: Final = Write(Event.FENCE_READY.value, PREPARED)
START: Final = Write(Event.COMMIT_STARTED.value, COMMITTING)
ACKNOWLEDGE: Final = Write(Event.COMMIT_ACKNOWLEDGED.value, TARGET_COMMITTED)
ANSWER_LOST: Final = Write(Event.ANSWER_LOST.value, COMMIT_UNKNOWN)
SHOWN: Final = Write(Event.FENCE_SHOWS_COMMITTED.value, TARGET_COMMITTED)
FAIL: Final = Write(Event.FENCE_SEALED.value, FAILED_PRE_COMMIT)
ASSERT: Final = Write(Event.OPERATOR_COMMITTED.value, TARGET_COMMITTED)
MET: Final = Write(Event.OBLIGATIONS_MET.value, COMPLETE)
UNMET: Final = Write(Event.OBLIGATION_FAILED.value, COMMITTED_INCOMPLETE)
DIVERGE: Final = Write("mark-diverged", "")
CLEAR_MARK: Final = Write("mark-cleared", "")
ACCEPT: Final = Write("accept-loss", "")
RELOAD: Final = Write("reload", "")

_MARKS: Final = {
    ASSERT: ASSERTED,
    DIVERGE: DIVERGED,
    CLEAR_MARK: CLEAR,
    ACCEPT: ACCEPTED,
    RELOAD: RELOADED,
}


def matches(row: Row | None, version: int, attempt: int, rules: Rules) -> bool:
    """Say whether a compare-and-set on these values would succeed; version 0 is no row."""
    if row is None or version == 0:
        return row is None and version == 0
    return (row.version == version or not rules.cas_version) and (
        row.attempt == attempt or not rules.cas_attempt
    )


def written(row: Row | None, write: Write, attempt: int, epoch: int, incarnation: int) -> Row:
    """Return the row after one write by the attempt."""
    mark = _MARKS.get(write, CLEAR)
    if row is None:
        return Row(write.state, 1, attempt, epoch, incarnation, mark)
    return Row(write.state or row.state, row.version + 1, attempt, epoch, incarnation, mark)


def holds(row: Row, write: Write) -> bool:
    """Say whether the row shows the state, or the mark, that a write leaves."""
    if write.state:
        return row.state == write.state
    return row.mark == _MARKS[write]


def applied(row: Row | None, write: Write, version: int, attempt: int, rules: Rules) -> bool:
    """Say whether a write whose answer was lost counts as applied (section 3)."""
    if row is None:
        return False
    return (
        (holds(row, write) or not rules.lost_answer_state)
        and (row.version == version + 1 or not rules.lost_answer_version)
        and (row.attempt == attempt or not rules.lost_answer_attempt)
    )


def label(row: Row | None, write: Write) -> str:
    """Name the edges of one write: `source>event>target`, two of them where two are written."""
    source = "-" if row is None else row.state
    if not write.state:
        return write.event
    if write is BEGIN_SHOWN:
        return f"{source}>{write.event}>{PREPARING} {PREPARING}>{SHOWN.event}>{TARGET_COMMITTED}"
    return f"{source}>{write.event}>{write.state}"


def edges(labels: frozenset[str]) -> frozenset[tuple[str, str, str]]:
    """Collect the `(source, event, target)` triples that stand in the labels of a search."""
    found = set()
    for text in labels:
        for part in text.split(" "):
            if part.count(">") == 2:
                source, event, target = part.split(">")
                found.add((source, event, target))
    return frozenset(found)


def adopt(row: Row, rules: Rules) -> Row:
    """Return a restored row as a worker may meet it: new version, void attempt_id."""
    if not rules.adopt:
        return row._replace(mark=row.mark or RESTORED)
    return row._replace(version=row.version + ADOPTED, attempt=NOBODY)
