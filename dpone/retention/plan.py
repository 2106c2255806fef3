"""Plans a deletion: what is protected, what would go, what is left alone, and why.

Promise: nothing is written; each file is read once; the plan follows from the cache and the options
alone, so the clock changes its warnings and nothing else. Where control state cannot be relied on,
the entries are still shown, and there is no plan. Source: ADR 0043.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from dpone.contracts import cache_layout as layout
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_cache import CacheTooLarge, PointerRecoveryRequired
from dpone.contracts.errors_retention import RetentionError
from dpone.contracts.retention_plan import Closing, PlanItem, RetentionPlan, plan_of
from dpone.contracts.retention_wal import Transaction, recovery_revision
from dpone.ports.cachefiles import CacheFolder
from dpone.ports.files import FilesError
from dpone.retention.acknowledge import bound
from dpone.retention.authority import Current, read_current
from dpone.retention.cache import Document, below, read_receipts, read_recovery
from dpone.retention.checks import Tree, inspect
from dpone.retention.inventory import Entry, Inventory
from dpone.retention.protect import Protection, protection_of

ITEMS_MAX = layout.ENTRIES_MAX
ENTRIES_MAX = 200_000
WARNINGS_MAX = 50
OBSTACLES_SHOWN = 10
RECEIPTS_EARLY = 9_000
RECEIPT_TOTAL_EARLY = 56 * 1024 * 1024
_SKEW = timedelta(minutes=5)
_STALE = timedelta(days=3 * 365)


class Row(NamedTuple):
    """One item for people: with what protects it, and what its deletion gives back in bytes."""

    item: PlanItem
    why: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class Pending:
    """What earlier operations left: their transactions by id, and those that have not ended."""

    transactions: dict[str, Transaction] = field(default_factory=dict)
    closes: tuple[Closing, ...] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan with everything that people need beside it; without `plan` the `blocker` says why.

    `deferred` counts candidates that did not fit and are for a next plan.
    """

    plan: RetentionPlan | None
    rows: tuple[Row, ...]
    protection: Protection
    warnings: tuple[str, ...] = ()
    deferred: int = 0
    blocker: DponeError | None = None

    @property
    def reclaimed_bytes(self) -> int:
        """What the deletion of all candidates gives back."""
        return sum(row.size for row in self.rows)


class Planner:
    """Plans for one environment of an open cache."""

    def __init__(self, root: CacheFolder, environment: str, *, user: int) -> None:
        self.root = root
        self.environment = environment
        self.user = user

    def show(
        self,
        given: Iterable[str] = (),
        evidence: Iterable[Document] = (),
        *,
        now: datetime,
        warnings: Iterable[str] = (),
    ) -> Planned:
        """Plan for a person: sizes, reasons and warnings too.

        Raises a `RetentionError` when not even the entries can be told; unusable control state of
        retention is the `blocker` instead.
        """
        current = read_current(self.root, self.environment)
        protection = protection_of(current, given, evidence)
        notes = [*warnings, *_clock_notes(current, now)]
        blocker: RetentionError | None = None
        pending = Pending()
        try:
            pending, found = self.pending()
            notes += found
        except RetentionError as error:
            blocker = error
        rows, deferred = self._rows(protection, notes, is_shown=True)
        plan = None if blocker else self._plan(current, protection, rows, pending, None)
        if deferred:
            notes.append(f"{deferred} more candidates are left for a next plan")
        return Planned(plan, rows, protection, _cut(notes), deferred, blocker)

    def rebuild(
        self, protection: Protection, current: Current, pending: Pending, *, operation: str | None
    ) -> RetentionPlan:
        """The same plan again, to be compared by digest; transactions of `operation` are left out.

        Raises a `RetentionError`.
        """
        rows, _ = self._rows(protection, [], is_shown=False)
        return self._plan(current, protection, rows, pending, operation)

    def pending(self) -> tuple[Pending, list[str]]:
        """What earlier operations left, and what a person should know of it.

        Raises `RecoveryInvalid`, `ReceiptInvalid`.
        """
        recovery = read_recovery(self.root)
        receipts = read_receipts(self.root)
        notes = []
        if receipts.number >= RECEIPTS_EARLY or receipts.size >= RECEIPT_TOTAL_EARLY:
            notes.append(
                f"{receipts.number} receipts with {receipts.size} bytes are kept: "
                "archive ended ones soon (dpone airflow cache-retention-archive)"
            )
        for closing in receipts.closes:
            notes.append(f"operation {closing.operation_id} has not ended; this plan closes it")
        return Pending(bound(self.root, recovery), receipts.closes), notes

    def _plan(
        self,
        current: Current | None,
        protection: Protection,
        rows: Iterable[Row],
        pending: Pending,
        operation: str | None,
    ) -> RetentionPlan:
        closes = (it for it in pending.closes if it.operation_id != operation)
        return plan_of(
            environment=self.environment,
            current_deployment_id=current.deployment_id if current else None,
            protected_ids=protection.ids,
            items=(row.item for row in rows),
            recovery_revision=recovery_revision(pending.transactions.values(), outside=operation),
            closes=closes,
        )

    # -- entries

    def _rows(
        self, protection: Protection, notes: list[str], *, is_shown: bool
    ) -> tuple[tuple[Row, ...], int]:
        kept: list[Row] = []
        candidates: list[Entry] = []
        seen: set[str] = set()
        for count, entry in enumerate(Inventory(self.root, self.environment).entries()):
            if count >= ENTRIES_MAX:
                raise CacheTooLarge(limit=ENTRIES_MAX, what="entries")
            seen.add(entry.deployment_id or "")
            if entry.is_aside:
                notes.append(f"{entry.path} is left alone: a file system or an unfinished run")
            elif entry.is_complete and not protection.covers(entry.deployment_id or ""):
                candidates.append(entry)
            else:
                kept.append(_kept(entry, protection))
        if candidates and protection.current_id is None:
            reason = "nothing is current, so nothing can be told to be unreferenced"
            raise PointerRecoveryRequired(reason=reason)
        notes += [
            f"{why} protects {deployment_id}, which is not in the cache"
            for deployment_id, why in sorted(protection.why.items())
            if deployment_id not in seen
        ]
        rows, deferred = self._fitted(kept, candidates)
        if is_shown:
            rows = [self._sized(row, notes) for row in rows]
        return tuple(rows), deferred

    def _fitted(self, kept: list[Row], candidates: list[Entry]) -> tuple[list[Row], int]:
        """At most as many items as a receipt takes; candidates in the order of their ids."""
        room = ITEMS_MAX - len(kept)
        if room < min(1, len(candidates)) or room < 0:
            raise CacheTooLarge(limit=ITEMS_MAX, what="entries that are protected or in quarantine")
        candidates.sort(key=lambda entry: entry.deployment_id or "")
        rows = kept + [Row(_item(entry, "delete", "unreferenced")) for entry in candidates[:room]]
        rows.sort(key=lambda row: (row.item.deployment_id or "", row.item.path))
        return rows, max(0, len(candidates) - room)

    # -- what people see

    def _sized(self, row: Row, notes: list[str]) -> Row:
        """What a candidate's deletion gives back, and what will stand in its way."""
        deployment_id = row.item.deployment_id
        if row.item.action != "delete" or deployment_id is None:
            return row
        size = 0
        for place in (layout.DEPLOYMENTS, layout.ACTIVATIONS):
            tree = self._tree(f"{place}/{self.environment}", layout.folder_name(deployment_id))
            if tree is None:
                continue
            size += tree.size
            for obstacle in tree.obstacles[:OBSTACLES_SHOWN]:
                where = layout.text_of(obstacle.path)
                notes.append(f"{row.item.path}/{where} cannot be deleted: {obstacle.reason}")
        return row._replace(size=size)

    def _tree(self, place: str, leaf: str) -> Tree | None:
        try:
            with below(self.root, place) as folder:
                if folder.look(leaf) is None:
                    return None
                return inspect(folder, leaf, user=self.user)
        except FilesError:
            return None


def _kept(entry: Entry, protection: Protection) -> Row:
    deployment_id = entry.deployment_id
    if not entry.is_complete or deployment_id is None:
        return Row(_item(entry, "quarantine", entry.reason), entry.error_code)
    is_current = deployment_id == protection.current_id
    reason = "current" if is_current else "retention_evidence"
    return Row(_item(entry, "protect", reason), protection.why.get(deployment_id, ""))


def _item(entry: Entry, action: str, reason: str) -> PlanItem:
    fields = {"error_code": entry.error_code} if entry.error_code else {}
    return PlanItem(
        deployment_id=entry.deployment_id,
        action=action,  # type: ignore[arg-type]
        reason=reason,  # type: ignore[arg-type]
        path=entry.path,
        **fields,
    )


def _clock_notes(current: Current | None, now: datetime) -> list[str]:
    """What does not fit the clock; nothing is decided by it."""
    if current is None:
        return []
    promoted = layout.moment_of(current.pointed.pointer.promoted_at)
    at = current.pointed.pointer.promoted_at
    if promoted > now + _SKEW:
        return [f"the clock says {now.isoformat()}, and the promotion is of {at}: one is wrong"]
    if promoted < now - _STALE:
        return [f"the current promotion is of {at}, years before the clock's {now.isoformat()}"]
    return []


def _cut(notes: list[str]) -> tuple[str, ...]:
    if len(notes) <= WARNINGS_MAX:
        return tuple(notes)
    return (*notes[:WARNINGS_MAX], f"and {len(notes) - WARNINGS_MAX} more notes")
