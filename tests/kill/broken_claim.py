"""A seeded defect for workers that preload this module: the SQLite target claims any key."""

from __future__ import annotations

from typing import Any

from dpone.adapters.sqlite import target
from dpone.contracts.fence_rules import Write


def claim(row: Any, unit: Any) -> Write:
    """Admit everybody."""
    return Write.INSERT


vars(target)["claim"] = claim
