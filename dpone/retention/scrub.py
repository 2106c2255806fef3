"""Deletes a tree by descriptor: no recursion, one open directory at a time, no link followed.

Promise: nothing outside the tree is changed, whatever its entries are or become, also when a file
system is mounted in it meanwhile; memory and descriptors do not grow with it; only directories of
the tree are opened up, never a file, which may have other links. Not promised: that a tree can be
deleted; the first entry that cannot ends it, and what is left is still in the trash. Source: ADR
0043.
"""

from __future__ import annotations

from dpone.contracts.authoring import Kind
from dpone.ports.cachefiles import CacheFolder
from dpone.ports.files import AccessDenied, FilesError, NameMissing, NotRegular

DEPTH_MAX = 100_000


class Undeletable(Exception):
    """An entry of a tree cannot be deleted: `reason` is a stable word."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def scrub(parent: CacheFolder, leaf: str, identity: str) -> bool:
    """Delete the tree `leaf` of `parent` if it is this very directory; False when it is gone.

    Raises `Undeletable`, also when another directory bears the name.
    """
    look = parent.look(leaf)
    if look is None:
        return False
    if look.kind is not Kind.FOLDER or look.identity != identity:
        raise Undeletable("occurrence_changed")
    try:
        _empty(_entered(parent, leaf))
        removed = parent.remove_folder(leaf)
    except FilesError as error:
        raise Undeletable(error.reason) from error
    if not removed and parent.look(leaf) is not None:
        raise Undeletable("directory_not_empty")
    return True


def _empty(folder: CacheFolder) -> None:
    """Remove everything below an open directory, and close it.

    The way up is remembered as identities, so that a directory that was moved away meanwhile is
    noticed instead of climbed out of.
    """
    above: list[tuple[str, str]] = []
    try:
        here = root = folder.itself()
        while True:
            inner = _clear_files(folder)
            if inner is not None:
                if len(above) >= DEPTH_MAX:
                    raise Undeletable("too_deep")
                above.append((here.identity, inner))
                folder = _stepped(folder, _entered(folder, inner))
                here = folder.itself()
                if (here.mount, here.device) != (root.mount, root.device):
                    # It was mounted after the candidates were looked at.
                    raise Undeletable("mount_point")
            elif above:
                identity, name = above.pop()
                folder = _stepped(folder, folder.ascend())
                here = folder.itself()
                if here.identity != identity:
                    raise Undeletable("tree_changed")
                if not folder.remove_folder(name) and folder.look(name) is not None:
                    raise Undeletable("directory_not_empty")
            else:
                return
    finally:
        folder.close()


def _stepped(left: CacheFolder, entered: CacheFolder) -> CacheFolder:
    left.close()
    return entered


def _clear_files(folder: CacheFolder) -> str | None:
    """Unlink what is no directory; return the first directory, None when there is none."""
    folder.open_up()
    while True:
        is_clean = True
        for name, kind in folder.entries():
            if kind is Kind.FOLDER:
                return name
            is_clean = False
            _unlink(folder, name)
        # A listing that is changed while it is read may leave something out.
        if is_clean:
            return None


def _unlink(folder: CacheFolder, name: str) -> None:
    try:
        folder.unlink(name)
    except NameMissing:
        # Another cleaner was quicker.
        return
    except NotRegular:
        # It became a directory between listing and unlinking; the next listing shows it.
        return


def _entered(folder: CacheFolder, name: str) -> CacheFolder:
    try:
        return folder.descend(name)
    except AccessDenied:
        folder.unseal(name)
        return folder.descend(name)
