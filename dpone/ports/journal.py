"""The journal port: what we intended and what we know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from dpone.contracts.journal import HistoryRow, JournalEntry, Step


class Journal(Protocol):
    """A durable store of operations with compare-and-set.

    Every method raises `JournalUnavailable` when the store did not answer; a write may then have
    been applied or not. Promise: a write is durable when the call returns.
    """

    @property
    def store(self) -> str:
        """Token of the database that holds the journal; equal tokens mean one database."""

    def read(self, operation_id: str) -> JournalEntry | None:
        """Return the current row, with the lease as the store's own clock sees it."""

    def family(self, family: str) -> list[JournalEntry]:
        """Return the rows of all revisions of one operation, by revision."""

    def create(self, entry: JournalEntry, steps: Sequence[Step], lease_s: float) -> bool:
        """Insert the row and its history in one transaction; False when the row exists."""

    def advance(
        self, before: JournalEntry, after: JournalEntry, steps: Sequence[Step], lease_s: float = 0.0
    ) -> bool:
        """Replace `before` by `after` and append `steps`, in one transaction.

        Compares version and attempt_id of `before`; False means that somebody else owns the row
        and nothing was written. `after.version` is `before.version + len(steps)`.
        """

    def advance_within(
        self, unit: Any, before: JournalEntry, after: JournalEntry, steps: Sequence[Step]
    ) -> bool:
        """As `advance`, inside the open transaction of a target whose `store` equals ours."""

    def renew(self, operation_id: str, attempt_id: str, lease_s: float) -> bool:
        """Extend the lease of the attempt that owns the row; False when it does not."""

    def history(self, operation_id: str) -> list[HistoryRow]:
        """Return the append-only history, oldest first."""

    def page(
        self, *, after: str = "", limit: int = 100, route: str = "", states: Sequence[str] = ()
    ) -> list[JournalEntry]:
        """Return rows by most recent change, then id; `after` is the last id of a page."""

    def close(self) -> None:
        """Release connections; idempotent."""
