"""The target port: data and its fence, in one atomic unit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from dpone.contracts.fence import (
    Answer,
    Capability,
    CommitVerdict,
    Floor,
    Receipt,
    SealVerdict,
    Unit,
)

Change = Callable[[Any], Mapping[str, Any] | None]
"""Writes through the transaction it is given; returns JSON facts for the receipt, or None."""

Also = Callable[[Any, Receipt], bool]
"""Runs last inside the unit, with its transaction and receipt; False rolls the unit back."""


class Target(Protocol):
    """A fenced target.

    What a server may do is a verdict; raised is only what a person must mend (a `FencingError`:
    credentials, privileges, a read-only or wrong target), and then nothing was written.
    """

    @property
    def name(self) -> str:
        """The kind of target, for people."""

    @property
    def capability(self) -> Capability:
        """What the target can promise, probed."""

    @property
    def store(self) -> str:
        """Token of the database that holds the fence; equal tokens mean one database."""

    def ask(self, operation_id: str, floor: Floor | None) -> Answer:
        """Return what the fence shows; writes nothing. Absence proves nothing."""

    def install(self) -> str:
        """Create the fence tables and the incarnation where they are missing; return it.

        Durable when the call returns. Raises a `FencingError` when the target does not allow it.
        """

    def seal(self, unit: Unit) -> SealVerdict:
        """Contend for the key under a bounded wait; durable when the answer is `Sealed`."""

    def commit(self, unit: Unit, change: Change, also: Also | None = None) -> CommitVerdict:
        """Claim the key, change, commit: one atomic unit.

        `also` runs last inside the unit; when it returns False the unit is rolled back and the
        verdict is `Fenced`. Durable when the answer is `Committed`; `Unknown` for everything
        that is not proven.
        """

    def end_sessions(self, operation_id: str, attempt_ids: Iterable[str]) -> int:
        """End server sessions of these attempts by proven identity; return how many ended."""

    def shorten(self, operation_ids: Iterable[str]) -> int:
        """Drop the results of committed rows, and nothing else; return how many were."""

    def raise_floor(self, floor: Floor, operation_ids: Iterable[str]) -> int:
        """In one transaction raise the floor and remove the rows below it; return how many."""

    def close(self) -> None:
        """Release connections; idempotent."""
