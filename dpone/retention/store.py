"""Small control files that are replaced whole: written aside, synced, renamed over, synced again.

Promise: whoever reads one sees the earlier or the new bytes; what a crash left is a temporary of
ours, known by its name and its owner, and is cleared. Source: ADR 0043.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from dpone.contracts.authoring import Kind
from dpone.contracts.effects import Effect
from dpone.ports.cachefiles import CacheFolder
from dpone.ports.files import NameMissing
from dpone.ports.probe import Probe

Nonces = Callable[[], str]
_TEMPORARY = re.compile(r"\.(?P<leaf>.+?)\.(?:[0-9a-f]{8,64}\.)?tmp")


def put(
    folder: CacheFolder, leaf: str, data: bytes, *, effect: Effect, probe: Probe, nonce: str
) -> None:
    """Replace a control file (mode 0600) and have it durable. Raises `FilesError`."""
    temporary = f".{leaf}.{nonce}.tmp"
    with probe(effect):
        folder.create_record(temporary, data).close()
        folder.replace(temporary, leaf)
        folder.sync()


def read(folder: CacheFolder, leaf: str, bytes_max: int) -> bytes | None:
    """The bytes of a control file; None when there is none. Raises `FilesError`."""
    held = folder.hold(leaf)
    if held is None:
        return None
    try:
        return held.read(bytes_max)
    finally:
        held.close()


def is_temporary(name: str, leaves: Callable[[str], bool]) -> bool:
    """Whether a name is an unfinished temporary beside one of our files."""
    match = _TEMPORARY.fullmatch(name)
    return match is not None and leaves(match["leaf"])


def clear_temporaries(
    folder: CacheFolder, leaves: Callable[[str], bool], *, user: int, probe: Probe
) -> int:
    """Remove unfinished temporaries of ours; return how many there were."""
    found = [name for name, kind in folder.entries() if kind is Kind.FILE]
    count = 0
    for name in found:
        look = folder.look(name) if is_temporary(name, leaves) else None
        if look is None or look.kind is not Kind.FILE or look.owner not in (user, 0):
            continue
        try:
            with probe(Effect.RETENTION_CLEAR):
                folder.unlink(name)
        except NameMissing:
            continue
        count += 1
    if count:
        folder.sync()
    return count
