"""What the journal's commands share: a journal, the targets its rows name, and projections.

Rows name their target as the manifest declared it, so that a target is found without a manifest.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dpone import wiring
from dpone.contracts.codec import decode, parse
from dpone.contracts.errors_fencing import OperationNotFound
from dpone.contracts.errors_recovery import (
    AnswerUnknown,
    FloorInvalid,
    OperationAmbiguous,
    TargetNotNamed,
)
from dpone.contracts.fence import Answer, Floor
from dpone.contracts.identity import floor_of, position_of
from dpone.contracts.journal import HistoryRow, JournalEntry, moment_of
from dpone.contracts.journal_report import (
    Found,
    Happened,
    JournalCheck,
    JournalCount,
    JournalList,
    JournalShow,
    Listed,
)
from dpone.contracts.outcome import Stored
from dpone.fencing import adopt as adoption
from dpone.fencing import check as checking
from dpone.fencing import guard as guarding
from dpone.fencing import prune as pruning
from dpone.fencing.commit import LEASE_S, Committer
from dpone.fencing.ledger import Ledger
from dpone.fencing.refuse import ANSWERED
from dpone.fencing.resolve import Assertion
from dpone.ports.journal import Journal
from dpone.ports.probe import Probe
from dpone.ports.target import Target

DAY_MS = 86_400_000


class Desk:
    """A journal with the targets of its rows, opened when they are needed."""

    def __init__(self, project: wiring.OpenProject, journal: Journal, probe: Probe) -> None:
        self.project = project
        self.journal = journal
        self.probe = probe
        self.ledger = Ledger(journal, probe, LEASE_S)
        self._targets: dict[str, Target] = {}

    def entry(self, given: str) -> JournalEntry:
        """The row with this id, or the only one whose id begins like that."""
        exact = self.journal.read(given)
        if exact is not None:
            return exact
        start = given if given.startswith("sha256:") else f"sha256:{given}"
        found = [
            row for row in adoption.rows_of(self.journal) if row.operation_id.startswith(start)
        ]
        if len(found) > 1:
            raise OperationAmbiguous(given=given, count=len(found))
        if not found:
            raise OperationNotFound(operation_id=given)
        return found[0]

    def target(self, entry: JournalEntry) -> Target | None:
        """The target that the row names, or None when this project cannot tell which."""
        declared = parse(entry.identity).get("target")
        if not isinstance(declared, dict):
            return None
        place = target_place(declared)
        if place is None:
            return None
        if place not in self._targets:
            self._targets[place] = wiring.declared_target(self.project, declared, self.probe)
        return self._targets[place]

    def ask(self, entry: JournalEntry) -> Answer | None:
        """What the fence shows of the row, or None without a target."""
        target = self.target(entry)
        return None if target is None else target.ask(entry.operation_id, self.floor(entry))

    def committer(self, entry: JournalEntry) -> Committer:
        """The fenced commit for the row's target. Raises `TargetNotNamed`."""
        target = self.target(entry)
        if target is None:
            raise TargetNotNamed(operation_id=entry.operation_id)
        return wiring.committer(self.journal, target, probe=self.probe)

    def floor(self, entry: JournalEntry) -> Floor | None:
        """The row's place in its ordered family."""
        return floor_of(parse(entry.identity), entry.position)

    def close(self) -> None:
        """Release journal and targets."""
        for target in self._targets.values():
            target.close()
        self.journal.close()


def open_desk(folder: Path, journal: str, *, probe: Probe) -> Desk:
    """Open the journal that is named, or the default one of the project around `folder`."""
    project = wiring.open_project(folder)
    return Desk(project, wiring.declared_journal(project, journal), probe)


def target_place(declared: dict[str, Any]) -> str | None:
    """`kind:place` of a declared target with a fence, or None."""
    for kind in ("duckdb", "sqlite", "postgres"):
        if isinstance(declared.get(kind), str):
            return f"{kind}:{declared[kind]}:{declared.get('fence_schema') or ''}"
    return None


# -- commands --------------------------------------------------------------------------------------


def page(
    journal: Journal, after: str, limit: int, route: str, states: Sequence[str]
) -> JournalList:
    """One page of operations."""
    rows = journal.page(after=after, limit=limit, route=route, states=states)
    cursor = rows[-1].operation_id if len(rows) == limit else ""
    return JournalList(operations=tuple(_listed(row) for row in rows), next=cursor)


def shown(journal: Journal, operation_id: str) -> JournalShow:
    """One operation with its history. Raises `OperationNotFound`."""
    entry = journal.read(operation_id)
    if entry is None:
        raise OperationNotFound(operation_id=operation_id)
    return JournalShow(
        operation=_listed(entry),
        identity=parse(entry.identity),
        intent_digest=entry.intent_digest,
        incarnation=entry.incarnation,
        outcome=decode(entry.outcome, Stored).result if entry.outcome else {},
        obligations=entry.obligations,
        done=entry.done,
        history=tuple(_happened(row) for row in journal.history(operation_id)),
    )


def assertion_of(answer: str) -> Assertion:
    """The operator's answer. Raises `AnswerUnknown`."""
    try:
        return Assertion(answer)
    except ValueError:
        known = ", ".join(member.value for member in Assertion)
        raise AnswerUnknown(answer=answer, known_answers=known) from None


def answer_guard(desk: Desk, partition: str, answer: str, operator: str, why: str) -> JournalCount:
    """Answer the guard of one partition. Raises `AnswerUnknown` or `OperationNotFound`."""
    said = assertion_of(answer)
    if said not in (Assertion.COMMITTED, Assertion.NOT_COMMITTED):
        raise AnswerUnknown(answer=answer, known_answers="committed, not-committed")
    count = guarding.release(
        wiring.checkpoints(desk.journal),
        partition,
        committed=said is Assertion.COMMITTED,
        operator=operator,
        why=why,
        now=wiring.now(),
        probe=desk.probe,
    )
    if not count:
        raise OperationNotFound(operation_id=partition)
    return JournalCount(command="resolve", planned=False, counts={"answered": count})


def adopt(desk: Desk, *, of_target: bool, apply: bool, operator: str, why: str) -> JournalCount:
    """Adopt the journal, or the present incarnation of every row's target."""
    rows = list(adoption.rows_of(desk.journal))
    if not apply:
        return JournalCount(command="adopt", planned=True, counts={"rows": len(rows)})
    if not of_target:
        count = adoption.adopt_journal(desk.ledger, operator=operator, why=why)
        return JournalCount(command="adopt", planned=False, counts={"adopted": count})
    counts: dict[str, int] = {}
    for target, mine in _by_target(desk, rows):
        ids = {row.operation_id for row in mine}
        done = adoption.adopt_target(
            desk.ledger,
            target,
            lambda row, ids=ids: row.operation_id in ids,  # type: ignore[misc]
            operator=operator,
            why=why,
        )
        counts = {name: counts.get(name, 0) + number for name, number in done.items()}
    return JournalCount(command="adopt", planned=False, counts=counts)


def prune(desk: Desk, *, days: int, route: str, floor: str, apply: bool) -> JournalCount:
    """Shorten old finished rows, or raise a route's floor to a position."""
    if floor:
        return _raise_floors(desk, route, position_of(floor), apply)
    before_ms = int(time.time() * 1000) - days * DAY_MS
    rows = pruning.prunable(desk.journal, before_ms=before_ms, route=route)
    if not apply:
        return JournalCount(command="prune", planned=True, counts={"prunable": len(rows)})
    count = sum(pruning.prune(desk.ledger, target, mine) for target, mine in _by_target(desk, rows))
    return JournalCount(command="prune", planned=False, counts={"pruned": count})


def _raise_floors(desk: Desk, route: str, position: str, apply: bool) -> JournalCount:
    """Raise the floor of every ordered family of the route, whether or not anything lies below.

    Raises `FloorInvalid` for a route without an order and for a position of another kind.
    """
    families: dict[str, list[JournalEntry]] = {}
    for row in adoption.rows_of(desk.journal):
        place = adoption.floor_of_entry(row)
        if row.route == route and place is not None:
            pruning.check_position(position, place.position)
            families.setdefault(place.scope, []).append(row)
    if not families:
        raise FloorInvalid(why=f"the journal knows no ordered operation of route {route or '-'}")
    counts = {"floors": len(families), "below_floor": 0, "removed": 0}
    for scope, members in families.items():
        below = [row for row in members if (row.position or "") < position]
        counts["below_floor"] += len(below)
        target = desk.target(members[0])
        if apply and target is not None:
            counts["removed"] += pruning.raise_floor(target, Floor(scope, position), below)
    return JournalCount(command="prune", planned=not apply, counts=counts)


def check(desk: Desk) -> JournalCheck:
    """Compare every row with its fence."""
    asked, findings = checking.check(desk.journal, desk.target)
    return JournalCheck(
        asked=asked,
        findings=tuple(Found(**finding._asdict()) for finding in findings),
        exit_code=4 if findings else 0,
    )


def _by_target(
    desk: Desk, rows: Iterable[JournalEntry]
) -> Iterable[tuple[Target, list[JournalEntry]]]:
    groups: dict[int, tuple[Target, list[JournalEntry]]] = {}
    for row in rows:
        target = desk.target(row)
        if target is not None:
            groups.setdefault(id(target), (target, []))[1].append(row)
    return groups.values()


def _listed(row: JournalEntry) -> Listed:
    return Listed(
        operation_id=row.operation_id,
        route=row.route,
        partition=row.partition,
        revision=row.revision,
        state=row.state,
        version=row.version,
        attempt=row.attempt,
        answered=row.reason == ANSWERED,
        diverged=row.diverged,
        pruned=row.pruned,
        updated_at=moment_of(row.updated_ms),
    )


def _happened(row: HistoryRow) -> Happened:
    return Happened(
        version=row.version,
        event=row.event,
        source=row.source,
        target=row.target,
        attempt=row.attempt,
        attempt_id=row.attempt_id,
        at=moment_of(row.at_ms),
        detail=row.detail,
    )
