"""Looks at a candidate's tree before anything begins: what could not be deleted is found now.

Promise: nothing is changed; one open directory at a time, no recursion, no link followed. Found are
mount points (also of the same file system), entries of another owner, immutable entries,
directories that their owner could not open up, and one above in which this user may not rename.
Source: ADR 0043.
"""

from __future__ import annotations

from typing import NamedTuple

from dpone.contracts.authoring import Kind, Look
from dpone.ports.cachefiles import CacheFolder
from dpone.ports.files import AccessDenied, FilesError

DEPTH_MAX = 100_000
_NO_BIRTH = "." + "0" * 16


class Obstacle(NamedTuple):
    """Why a tree cannot be deleted, and where: `path` is relative to the tree's root."""

    reason: str
    path: str


class Tree(NamedTuple):
    """What a look at a tree found: its root, its size in bytes, and all obstacles."""

    root: Look
    size: int
    obstacles: tuple[Obstacle, ...]


OBSTACLES_MAX = 100


def inspect(parent: CacheFolder, leaf: str, *, user: int) -> Tree:
    """Look at every entry of a tree. `user` is the effective user; 0 may do everything.

    Raises `FilesError` when not even its root can be looked at.
    """
    folder = parent.descend(leaf)
    walk = _Walk(folder.itself(), user)
    if walk.root.identity.endswith(_NO_BIRTH):
        walk.obstacles.append(Obstacle("no_identity", "."))
    if not parent.may_change():
        # It could be emptied, and could not be moved before.
        walk.obstacles.append(Obstacle("folder_above_closed", "."))
    walk.judge_owner(walk.root, [], "")
    walk.run(folder)
    return Tree(walk.root, walk.size, tuple(walk.obstacles[:OBSTACLES_MAX]))


class _Walk:
    def __init__(self, root: Look, user: int) -> None:
        self.root = root
        self.user = user
        self.size = 0
        self.obstacles: list[Obstacle] = []

    def run(self, folder: CacheFolder) -> None:
        """Visit every directory once; the way up is checked by identity."""
        parts: list[str] = []
        waiting: list[tuple[str, list[str]]] = []
        names = self._visit(folder, parts)
        try:
            while True:
                if names and len(parts) < DEPTH_MAX:
                    name = names.pop()
                    below = self._entered(folder, name, parts)
                    if below is None:
                        continue
                    waiting.append((folder.itself().identity, names))
                    parts.append(name)
                    folder.close()
                    folder = below
                    names = self._visit(folder, parts)
                elif waiting:
                    identity, names = waiting.pop()
                    parts.pop()
                    above = folder.ascend()
                    folder.close()
                    folder = above
                    if folder.itself().identity != identity:
                        self._found("tree_changed", parts, "")
                        return
                else:
                    return
        finally:
            folder.close()

    def _entered(self, folder: CacheFolder, name: str, parts: list[str]) -> CacheFolder | None:
        try:
            return folder.descend(name)
        except AccessDenied:
            look = folder.look(name)
            if look is None or look.owner != self.user:
                self._found("cannot_enter", parts, name)
        except FilesError as error:
            self._found(error.reason, parts, name)
        return None

    def _visit(self, folder: CacheFolder, parts: list[str]) -> list[str]:
        """Look at all entries of a directory; return its directories."""
        below: list[str] = []
        for name, kind in folder.entries():
            look = folder.look(name)
            if look is None:
                continue
            self.size += look.size
            self._judge(look, parts, name)
            if kind is Kind.FOLDER and (look.mount, look.device) == self._place:
                below.append(name)
        return below

    @property
    def _place(self) -> tuple[int, int]:
        return self.root.mount, self.root.device

    def _judge(self, look: Look, parts: list[str], name: str) -> None:
        if (look.mount, look.device) != self._place:
            self._found("mount_point", parts, name)
        else:
            self.judge_owner(look, parts, name)

    def judge_owner(self, look: Look, parts: list[str], name: str) -> None:
        """Find what this user may not move or remove."""
        if self.user not in (0, look.owner):
            self._found("foreign_owner", parts, name)
        if look.immutable:
            self._found("immutable", parts, name)

    def _found(self, reason: str, parts: list[str], name: str) -> None:
        if len(self.obstacles) < OBSTACLES_MAX:
            path = "/".join([*parts, name] if name else parts)
            self.obstacles.append(Obstacle(reason, path or "."))
