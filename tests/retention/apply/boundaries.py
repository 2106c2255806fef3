"""The boundaries at which a run is stopped, and how many deletions are certain there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from faultinject.deletion_files import Stop, WatchedCache, Watcher, stop_at
from faultinject.deletion_worlds import World

ABORTED = "DPONE_DEPLOYMENT_CACHE_GC_OPERATION_ABORTED"
AUTHORITY = "activation_authority_changed_requires_fresh_review"
PROTECTED = "candidate_became_protected_requires_fresh_review"
OCCURRENCE = "occurrence_identity_changed_requires_fresh_review"
RESTORED = "recovery_restored_requires_fresh_review"
CLOSED = "closed_by_reviewed_plan"
HISTORY = ".retention-activation-history.v2.json"
RECEIPT = ".retention-apply-receipts/"


class Boundary(NamedTuple):
    """Where a run is stopped. `deleted`: how many trees are gone or must go to their end."""

    watch: Callable[[], Watcher]
    deleted: int


BOUNDARIES = {
    "begun": Boundary(lambda: stop_at("after replace", RECEIPT), 0),
    "history": Boundary(lambda: stop_at("after replace", HISTORY), 0),
    "renamed": Boundary(lambda: stop_at("after carry", "deployments/"), 0),
    "detached": Boundary(lambda: stop_at("after append", count=2), 0),
    "started": Boundary(lambda: stop_at("after append", count=3), 1),
    "half": Boundary(lambda: stop_at("unlink", "deployment.json"), 1),
    "emptied": Boundary(lambda: stop_at("append", count=4), 1),
    "committed": Boundary(lambda: stop_at("after append", count=4), 1),
    "progress": Boundary(lambda: stop_at("after replace", RECEIPT, count=2), 1),
    "second": Boundary(lambda: stop_at("after append", count=7), 2),
}


def stopped(made: World, plan: str, at: str) -> None:
    """Run until a boundary, and end there."""
    with pytest.raises(Stop):
        made.apply(plan, files=WatchedCache(made.root, BOUNDARIES[at].watch()))
