"""A directory's names on the disk in memory: as shown, as durable, and the changes in between.

Each change is an atomic assignment of names to inodes. After a loss of power any subset of the
changes that no sync has forced may be kept (weak), or a prefix of them (ordered).
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

PENDING_MAX = 9

Change = tuple[tuple[str, int | None], ...]


class PowerModelExceeded(Exception):
    """More unforced changes at once than the enumeration is meant for."""


@dataclass(slots=True)
class Entries:
    """A directory's names: as shown, as durable, and the changes in between."""

    live: dict[str, int] = field(default_factory=dict)
    durable: dict[str, int] = field(default_factory=dict)
    pending: list[Change] = field(default_factory=list)

    def copy(self) -> Entries:
        return Entries(dict(self.live), dict(self.durable), list(self.pending))

    def apply(self, change: Change) -> None:
        """One atomic change of names, not yet forced."""
        assign(self.live, change)
        self.pending.append(change)

    def force(self) -> None:
        """What a sync of the directory does."""
        self.durable = dict(self.live)
        self.pending.clear()

    def after_power_cut(self, *, weak: bool) -> list[dict[str, int]]:
        """Every legal set of entries, each once."""
        if len(self.pending) > PENDING_MAX:
            raise PowerModelExceeded(f"{len(self.pending)} unforced changes")
        count = len(self.pending)
        chosen: Iterable[tuple[bool, ...]] = itertools.product((False, True), repeat=count)
        if not weak:
            chosen = [tuple(i < n for i in range(count)) for n in range(count + 1)]
        found: dict[Hashable, dict[str, int]] = {}
        for flags in chosen:
            names = dict(self.durable)
            for change, is_kept in zip(self.pending, flags, strict=True):
                if is_kept:
                    assign(names, change)
            found[tuple(sorted(names.items()))] = names
        return list(found.values())


def assign(names: dict[str, int], change: Change) -> None:
    """Apply one change to a mapping of names."""
    for name, number in change:
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number
