"""A draft: the files that a command would write, each with what was seen before.

Promise: a draft is made of reads alone; what it holds is exactly what apply will do, or refuse.
Source: ADR 0023, multi-file authoring apply, step 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from dpone.authoring.reading import Tree
from dpone.contracts.catalog import catalog_path
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_project import EarlierChangeWaits, ScaffoldConflict
from dpone.contracts.publication import Change, Publication

Accepts = Callable[[bytes], bool]


@dataclass(slots=True)
class Draft:
    """Collects changes. `root` names the file that puts all of them in force.

    `seen`: what each file held when it was first read. Every later step of the plan stands on
    those very bytes, so that a save in between is a conflict and never half of the plan.
    """

    tree: Tree
    root: str
    changes: dict[str, Change] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    seen: dict[str, bytes | None] = field(default_factory=dict)

    def read(self, path: str) -> bytes | None:
        """What the file held when this draft first read it; None: absent."""
        if path not in self.seen:
            self.seen[path] = self.tree.read(path)
        return self.seen[path]

    def current(self, path: str) -> bytes | None:
        """What the file will hold when the draft is applied so far; None: absent."""
        if path in self.changes:
            return self.changes[path].after
        return self.read(path)

    def create(self, path: str, data: bytes, accepts: Accepts | None = None) -> None:
        """Have a file that does not exist yet.

        An existing one with these bytes, or one that `accepts` finds right, stays as it is.
        Raises `ScaffoldConflict` for another one, and what `accepts` raises; or
        `EarlierChangeWaits`, when an interrupted change had made it.
        """
        found = self.read(path)
        if found is None:
            self.tree.check_name(path)
            self.changes[path] = Change(path=path, after=data)
            return
        try:
            is_right = found == data or (accepts is not None and accepts(found))
        except DponeError as error:
            self.refuse(path, error)
        if not is_right:
            self.refuse(path, ScaffoldConflict(path=path))
        self.changes[path] = Change(path=path, before=found, after=found)

    def refuse(self, path: str, error: DponeError) -> NoReturn:
        """Raise `error` for a file in the way, unless an interrupted change of ours had made it."""
        parts = path.split("/")
        # A workload's root is its domain's catalog, or the workload's own file.
        is_workload = len(parts) > 2 and parts[0] == "workloads"
        for root in (self.root, *((catalog_path(parts[1]),) if is_workload else ())):
            if path in self.tree.earlier(root):
                raise EarlierChangeWaits(root=root, path=path) from error
        raise error

    def edit(self, path: str, data: bytes) -> None:
        """Have an existing file, or one of this draft, hold other bytes."""
        known = self.changes.get(path)
        before = known.before if known is not None else self.read(path)
        self.changes[path] = Change(path=path, before=before, after=data)

    def publication(self) -> Publication:
        """The plan: new files, edits, and the root last."""
        root = self.changes[self.root]
        others = [change for path, change in self.changes.items() if path != self.root]
        return Publication(
            root=root,
            fragments=tuple(change for change in others if change.is_new),
            edits=tuple(change for change in others if not change.is_new),
        )
