"""Seeded defects: each rule of the protocol left out, and the bounds that show its absence.

A defect that its exploration does not notice is a failure of the model, not a virtue of the
protocol. Bounds are the narrowest that suffice, so that the whole list takes seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from models.commit import commit_model
from models.explorer import Report, explore
from models.rules import Bounds, Rules
from models.world import World

KINDS: Final = frozenset(
    {
        "journal_losses",
        "journal_restores",
        "target_restores",
        "unseen_restores",
        "lost_writes",
        "lost_seals",
        "lost_requests",
        "lost_commits",
        "operator",
        "prune",
        "floor",
    }
)


def only(*kinds: str, faults: int = 2, attempts: int = 3, versions: int = 99) -> Bounds:
    """Return bounds that enable the named kinds of fault and no other.

    Writing without ownership is not by itself a violation here: the harm has to show.
    """
    enabled = {kind: kind in kinds for kind in KINDS}
    return Bounds(
        **enabled, faults=faults, attempts=attempts, versions=versions, watch_ownership=False
    )


@dataclass(frozen=True)
class Defect:
    """One or two rules left out, where to look, and a shortest witness's length."""

    removed: tuple[str, ...]
    bounds: Bounds
    steps: int
    progress: str = ""  # The step that is never reached, where the rule serves progress.

    @property
    def name(self) -> str:
        """Return the removed rules as one name."""
        return "+".join(self.removed)

    def search(self) -> Report[World]:
        """Explore the protocol without the rules."""
        rules = Rules(**dict.fromkeys(self.removed, False))
        sometimes = frozenset({self.progress} if self.progress else ())
        return explore(commit_model(rules, self.bounds, sometimes=sometimes), states_max=400_000)


DEFECTS: Final = (
    Defect(("cas_version",), only("lost_commits"), 11),
    Defect(("cas_attempt",), only("journal_losses"), 14),
    Defect(("lost_answer_version",), only("lost_writes", faults=1, versions=12), 12),
    Defect(("lost_answer_state",), only("lost_writes", faults=1, versions=12), 12),
    Defect(("lost_answer_attempt",), only("lost_writes", "journal_losses", versions=12), 14),
    Defect(("adopt",), only("journal_restores", versions=40), 12),
    Defect(("seal_contends",), only(), 9),
    Defect(("seal_loses_to_commit",), only(), 17),
    Defect(("seal_never_lowers",), only("lost_seals"), 13),
    Defect(
        ("seal_keeps_equal", "epoch_above_fence"),
        only("journal_losses", "lost_seals", attempts=4),
        19,
    ),
    Defect(("commit_already",), only(), 17),
    Defect(("commit_fenced",), only(), 8),
    Defect(("claim_first",), only(), 9),
    Defect(("incarnation",), only("target_restores"), 11),
    Defect(("take_committing",), only(), 7),
    Defect(("take_unknown",), only("lost_requests", "lost_commits"), 9),
    Defect(("seal_before_failed",), only(), 6),
    Defect(("fresh_attempt",), only(), 8),
    Defect(("epoch_above_fence",), only("journal_losses"), 0, "seal-begun:won"),
    Defect(("fence_before_obligations",), only("target_restores"), 9),
    Defect(("ask_after_read",), only(), 10),
    Defect(("resolve_seals",), only("operator", "lost_commits"), 9),
    Defect(("answer_seals",), only("operator", "lost_commits"), 16),
    Defect(("asserted_needs_fence",), only("operator", "lost_commits"), 12),
    Defect(("final_seal",), only("operator", "target_restores", "journal_losses"), 19),
    Defect(("prune_keeps_fence",), only("prune"), 21),
    Defect(("floor_in_unit",), only("floor"), 7),
    Defect(("floor_contends",), only("floor"), 7),
    Defect(("drained_restore",), only("unseen_restores"), 9),
)


def uncovered() -> frozenset[str]:
    """Return the rules that no defect leaves out."""
    removed = {rule for defect in DEFECTS for rule in defect.removed}
    return frozenset(field.name for field in fields(Rules)) - removed
