"""Other programs at the same file: each act is one that an editor, a shell or git really makes.

An act keeps the books of the disk: which versions that program wrote, and which it destroyed itself
by its own rename, write or unlink. Whatever it wrote and did not destroy is owed to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dpone.contracts.authoring import FILE_BYTES_MAX, Kind
from faultinject.authoring_inodes import ROOT, Disk, Inode

USER = b"user: other bytes\n"
OTHER = b"another user: yet other bytes\n"
_LARGE = b"L" * (FILE_BYTES_MAX + 1)


class Act(NamedTuple):
    """One thing that another program does to a name.

    `may_remove`: the name may be absent after. `is_opaque`: nobody can read what the name shows
    then. `gap`: he only opens the file; so many steps later he writes through his descriptor.
    `follows`: what somebody does when the name shows our file after that: `open` it and write at
    the end, `save` over it, or `unlink` it.
    """

    name: str
    act: Callable[[Disk, str], None]
    may_remove: bool = False
    is_opaque: bool = False
    gap: int = 0
    follows: str = ""


def put(disk: Disk, leaf: str, data: bytes, *, durable: bool = True, folder: int = ROOT) -> Inode:
    """A file that was there before anything else happened; by a user."""
    inode = disk.make(foreign=True)
    disk.write(inode, data)
    inode.intact = data
    disk.change(folder, (leaf, inode.number))
    if durable:
        disk.sync_inode(inode)
        disk.sync_folder(folder)
    return inode


def save(
    disk: Disk,
    leaf: str,
    data: bytes,
    *,
    synced: bool = True,
    forced: bool = True,
    folder: int = ROOT,
) -> None:
    """Write a temporary file and rename it over the name, as careful editors do."""
    inode = disk.make(foreign=True)
    disk.write(inode, data)
    inode.intact = data
    if synced:
        disk.sync_inode(inode)
    _destroy(disk, disk.at(leaf, folder), leaf, folder)
    disk.precious.add(data)
    disk.change(folder, (leaf, inode.number))
    if forced:
        disk.sync_folder(folder)


def write(disk: Disk, leaf: str, data: bytes, *, synced: bool = True, folder: int = ROOT) -> None:
    """Open the file for writing and put new bytes into it; a lease holds the open up."""
    inode = disk.at(leaf, folder)
    if inode is None or inode.kind is not Kind.FILE:
        return
    inode.waiting.append((data, synced))
    if not inode.leases:
        disk.let_go(inode)


def open_for_writing(disk: Disk, leaf: str) -> None:
    """Open the file and keep it open; where a lease holds the open up, write at once after it."""
    inode = disk.at(leaf)
    if inode is None or inode.kind is not Kind.FILE:
        return
    if inode.leases:
        inode.waiting.append((USER, True))
        return
    inode.writers += 1
    inode.opened += 1
    disk.version += 1


def open_in_flight(disk: Disk, leaf: str) -> None:
    """Finish an open that began while the name still showed the file; write, sync and close.

    One that finds the file without a name and without a lease came after the last check: the
    stated remainder, in which nothing is owed.
    """
    shown = disk.at(leaf)
    for inode in list(disk.inodes.values()):
        if inode.was_shown and inode.kind is Kind.FILE and inode is not shown:
            if inode.leases or disk.links(inode.number):
                inode.waiting.append((USER, True))
            if not inode.leases:
                disk.let_go(inode)


def write_late(disk: Disk) -> bool:
    """Write through each descriptor that was opened before, sync, close; whether there was one."""
    found = [inode for inode in disk.inodes.values() if inode.opened]
    for inode in found:
        disk.replace_version(inode.data, USER)
        inode.by_user = True
        disk.write(inode, USER)
        disk.sync_inode(inode)
        inode.writers -= inode.opened
        inode.opened = 0
    return bool(found)


def away(disk: Disk, leaf: str, data: bytes, *, folder: int = ROOT) -> None:
    """Rename the file to a backup, then make a new one under the name."""
    inode = disk.at(leaf, folder)
    if inode is not None:
        disk.change(folder, (leaf, None), (leaf + "~", inode.number))
    save(disk, leaf, data, folder=folder)


def unlink(disk: Disk, leaf: str, *, folder: int = ROOT) -> None:
    """Remove the file, durably."""
    inode = disk.at(leaf, folder)
    if inode is not None:
        _destroy(disk, inode, leaf, folder)
        disk.change(folder, (leaf, None))
        disk.sync_folder(folder)


def swap_in(disk: Disk, leaf: str, kind: Kind, *, folder: int = ROOT) -> None:
    """Put a link, a pipe or a folder in the file's place."""
    _destroy(disk, disk.at(leaf, folder), leaf, folder)
    disk.change(folder, (leaf, disk.make(kind=kind, foreign=True).number))
    disk.sync_folder(folder)


def chmod(disk: Disk, leaf: str) -> None:
    """Change the file's mode."""
    inode = disk.at(leaf)
    if inode is not None:
        inode.mode = 0o640
        disk.version += 1


def _destroy(disk: Disk, inode: Inode | None, leaf: str, folder: int = ROOT) -> None:
    """The version under the name goes by its user's own will, unless it has another name."""
    if inode is None:
        return
    names = disk.entries(folder).live
    others = {disk.inodes[number].data for name, number in names.items() if name != leaf}
    if inode.data not in others:
        disk.precious.discard(inode.data)
        disk.secured.discard(inode.data)


def _save_other(disk: Disk, leaf: str) -> None:
    save(disk, leaf, OTHER)


def follow(disk: Disk, leaf: str, what: str) -> None:
    """The second act of somebody who sees our file."""
    if what == "open":
        open_for_writing(disk, leaf)
    elif what == "save":
        save(disk, leaf, USER)
    else:
        unlink(disk, leaf)


GAPS = (1, 6, 18, 400)


def acts(expected: bytes, desired: bytes) -> tuple[Act, ...]:
    """Every act, for a file that holds `expected` and is to hold `desired`."""
    return (
        Act("save", lambda disk, leaf: save(disk, leaf, USER)),
        Act("save, unforced", lambda disk, leaf: save(disk, leaf, USER, forced=False)),
        Act("save, unsynced", lambda disk, leaf: save(disk, leaf, USER, synced=False)),
        Act("save the expected bytes", lambda disk, leaf: save(disk, leaf, expected)),
        Act("save the desired bytes", lambda disk, leaf: save(disk, leaf, desired)),
        Act("write", lambda disk, leaf: write(disk, leaf, USER)),
        Act("write, unsynced", lambda disk, leaf: write(disk, leaf, USER, synced=False)),
        Act("rename away", lambda disk, leaf: away(disk, leaf, USER), may_remove=True),
        Act("unlink", unlink, may_remove=True),
        Act("chmod", chmod),
        *(Act(f"open, write {gap} later", open_for_writing, gap=gap) for gap in GAPS),
        Act("an open in flight", open_in_flight),
        *(
            Act(f"save, then {what}", _save_other, what == "unlink", follows=what)
            for what in ("open", "save", "unlink")
        ),
        Act("symlink", lambda disk, leaf: swap_in(disk, leaf, Kind.LINK), is_opaque=True),
        Act("pipe", lambda disk, leaf: swap_in(disk, leaf, Kind.OTHER), is_opaque=True),
        Act("folder", lambda disk, leaf: swap_in(disk, leaf, Kind.FOLDER), is_opaque=True),
        Act("large", lambda disk, leaf: save(disk, leaf, _LARGE), is_opaque=True),
    )
