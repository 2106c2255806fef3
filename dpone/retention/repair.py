"""Sets the mode of our own control directories back, after a remount changed it.

Promise: only modes of what belongs to this user are set; an owner is never changed, and never is a
second directory made; files of another owner are named, and stay readable. Source: ADR 0043.
"""

from __future__ import annotations

from typing import NamedTuple

from dpone.contracts.authoring import Kind
from dpone.contracts.cache_layout import RECEIPTS, TRASH, text_of
from dpone.contracts.effects import Effect
from dpone.contracts.retention_archive import ARCHIVE
from dpone.ports.cachefiles import CacheFiles, CacheFolder
from dpone.ports.files import FilesError
from dpone.ports.probe import Probe
from dpone.retention.receipts import is_receipt

_FOLDER, _FILE, _SETGID = 0o700, 0o600, 0o2000


class Fault(NamedTuple):
    """What is wrong with a name, and whether its mode alone mends it."""

    path: str
    words: str
    mendable: bool


def faults(files: CacheFiles) -> list[Fault]:
    """What keeps the control directories from being used."""
    found: list[Fault] = []
    with files.folder("") as root:
        for name in (RECEIPTS, TRASH, ARCHIVE):
            look = root.look(name)
            if look is None:
                continue
            if look.kind is not Kind.FOLDER:
                found.append(Fault(name, f"it is a {look.kind.value}", mendable=False))
                continue
            if look.owner != files.user:
                words = f"it belongs to user {look.owner}; give it to {files.user}: chown"
                found.append(Fault(name, words, mendable=False))
            elif look.mode & ~_SETGID != _FOLDER:
                found.append(Fault(name, f"its mode is {look.mode:04o}, not 0700", mendable=True))
            if name == RECEIPTS and look.owner == files.user:
                found += _files(root, files.user)
    return found


def _files(root: CacheFolder, user: int) -> list[Fault]:
    found: list[Fault] = []
    try:
        with root.below(RECEIPTS) as folder:
            for name, _ in folder.entries():
                look = folder.look(name)
                if look is None or not is_receipt(name):
                    continue
                path = f"{RECEIPTS}/{text_of(name)}"
                if look.owner != user:
                    words = f"it belongs to user {look.owner}; give it to {user}: chown"
                    found.append(Fault(path, words, mendable=False))
                elif look.mode != _FILE:
                    found.append(Fault(path, f"its mode is {look.mode:04o}, not 0600", True))
    except FilesError as error:
        found.append(Fault(RECEIPTS, error.reason, mendable=False))
    return found


def mend(files: CacheFiles, listed: list[Fault], probe: Probe) -> int:
    """Set the modes of what is mendable; return how many."""
    count = 0
    for fault in listed:
        if not fault.mendable:
            continue
        parent, _, leaf = fault.path.rpartition("/")
        with files.folder(parent) as folder, probe(Effect.RETENTION_REPAIR):
            folder.set_mode(leaf, _FILE if parent else _FOLDER)
        count += 1
    return count
