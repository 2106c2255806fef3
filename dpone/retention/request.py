"""What an apply is asked for, what it asks of the cache, and what became of it.

Source: ADR 0043, steps 3 and 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from dpone.contracts.activation_history import ActivationHistory
from dpone.contracts.retention_plan import RetentionPlan
from dpone.contracts.retention_receipt import Receipt, operation_id


class Reviewer(Protocol):
    """What apply asks about the cache, each time anew."""

    def plan(
        self,
        recovery: str | None,
        closes: tuple[tuple[str, str], ...],
        without: frozenset[str] = frozenset(),
    ) -> RetentionPlan:
        """The plan as it is now, `without` some deployments. Raises a `RetentionError`."""

    def check(self) -> None:
        """Everything that a deletion needs of pointer, checkpoint, acknowledgement and audit.

        Raises a `RetentionError`.
        """

    def signature(self) -> str:
        """A digest of the bytes of everything that authority and protection rest on."""

    def current(self) -> str | None:
        """The current deployment."""

    def protected(self) -> tuple[str, ...]:
        """Every protected deployment, sorted."""

    def history(self) -> tuple[ActivationHistory | None, ActivationHistory]:
        """The history as it is, and as the acknowledgement makes it."""

    def save_history(self, history: ActivationHistory) -> None:
        """Persist a history, durably."""

    def inspect(self, plan: RetentionPlan) -> None:
        """Look at every candidate's trees. Raises a `RetentionError` for the first obstacle."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a person asked for."""

    environment: str
    plan_sha256: str
    review_id: str
    promoted_by: str

    @property
    def operation_id(self) -> str:
        """Step 3."""
        return operation_id(self.environment, self.plan_sha256, self.review_id)


@dataclass(slots=True)
class Applied:
    """What became of it: a receipt, or a plan with nothing to delete.

    `causes`: why candidates are still pending. `replayed`: nothing was done by this run.
    `seen_again`: deleted deployments whose names show something by now.
    """

    receipt: Receipt | None
    plan: RetentionPlan | None = None
    causes: dict[str, str] = field(default_factory=dict)
    replayed: bool = False
    stuck: int = 0
    seen_again: tuple[str, ...] = ()
