"""Accepting a restored journal, or a target in a new incarnation, in one reviewed step.

Promise: after `adopt_journal` no process that worked before the restore can write a row; after
`adopt_target` every row whose fence was checked is bound to the target as it is now. Both are to
be run before any worker; the runbook says how to drain them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dpone.contracts.codec import parse
from dpone.contracts.effects import Effect
from dpone.contracts.fence import Committed, Expired, Floor, Unknown
from dpone.contracts.identity import floor_of
from dpone.contracts.journal import COMMITTED, VOID_ATTEMPT, JournalEntry, Note, State
from dpone.fencing.ledger import Ledger
from dpone.ports.journal import Journal
from dpone.ports.target import Target

PAGE_ROWS = 500


def rows_of(journal: Journal) -> Iterator[JournalEntry]:
    """Every row that was there at the start, in pages; rows written meanwhile may be missed."""
    seen: list[str] = []
    after = ""
    while page := journal.page(after=after, limit=PAGE_ROWS):
        seen.extend(row.operation_id for row in page)
        after = page[-1].operation_id
    for operation_id in seen:
        entry = journal.read(operation_id)
        if entry is not None:
            yield entry


def floor_of_entry(entry: JournalEntry) -> Floor | None:
    """The row's place in its ordered family, if it has one."""
    return floor_of(parse(entry.identity), entry.position)


def adopt_journal(ledger: Ledger, *, operator: str, why: str) -> int:
    """Give every row a new version and a void attempt id; return how many."""
    count = 0
    for entry in rows_of(ledger.journal):
        ledger.move(
            entry,
            Effect.FENCING_ADOPT,
            (Note.ADOPTED, {"operator": operator, "why": why}),
            attempt_id=VOID_ATTEMPT,
            owner=None,
        )
        count += 1
    return count


def adopt_target(
    ledger: Ledger,
    target: Target,
    belongs: Callable[[JournalEntry], bool],
    *,
    operator: str,
    why: str,
) -> dict[str, int]:
    """Check the fence of every row that `belongs` to the target and accept its incarnation.

    Rows that the fence no longer bears out are marked as diverged. A target that lost its fence, or
    was deleted, gets a new one when unfinished rows are to go on in it. Returns counts: adopted,
    diverged, unchanged, unknown (the target did not answer), expired (below a floor). Rows that
    an operator closed are left alone.
    """
    counts = {"adopted": 0, "diverged": 0, "unchanged": 0, "unknown": 0, "expired": 0}
    for entry in rows_of(ledger.journal):
        if belongs(entry) and not entry.diverged:
            counts[_adopt_one(ledger, target, entry, operator, why)] += 1
    return counts


def _adopt_one(ledger: Ledger, target: Target, entry: JournalEntry, operator: str, why: str) -> str:
    answer = target.ask(entry.operation_id, floor_of_entry(entry))
    if isinstance(answer.verdict, Unknown):
        return "unknown"
    if isinstance(answer.verdict, Expired):
        return "expired"
    said = {"operator": operator, "why": why, "incarnation": answer.incarnation}
    lost = entry.state in COMMITTED and not isinstance(answer.verdict, Committed)
    if lost:
        ledger.move(
            entry,
            Effect.FENCING_DIVERGE,
            (Note.DIVERGED, {"fence": "absent", **said}),
            diverged="absent",
            attempt_id=VOID_ATTEMPT,
        )
        return "diverged"
    incarnation = answer.incarnation
    if not incarnation:
        # Without a fence the target has no incarnation to be bound to, and would admit nobody.
        with ledger.probe(Effect.FENCING_FENCE):
            incarnation = target.install()
        said["incarnation"] = incarnation
    if entry.incarnation == incarnation:
        return "unchanged"
    ledger.move(
        entry,
        Effect.FENCING_REBIND,
        (Note.INCARNATION_ADOPTED, {"from": entry.incarnation, **said}),
        incarnation=incarnation,
        attempt_id=entry.attempt_id if entry.state is State.COMPLETE else VOID_ATTEMPT,
        owner=None,
    )
    return "adopted"
