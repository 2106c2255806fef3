"""When two moments of a publication are the same: nothing that can still matter differs.

Inodes and nonces are numbered by the order in which a walk from the root meets them, in names and
in records alike; times are left out. What is equal here can go on in the same ways.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from faultinject.authoring_inodes import ROOT
from faultinject.publishing_truth import Case

_IDENTITY = re.compile(rb"[0-9a-f]{16}\.0{15}1")
_NONCE = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")


@dataclass
class _Naming:
    """Numbers of inodes and nonces by the order in which a walk meets them."""

    inodes: dict[int, int] = field(default_factory=dict)
    nonces: dict[str, str] = field(default_factory=dict)

    def inode(self, number: int) -> int:
        return self.inodes.setdefault(number, len(self.inodes))

    def text(self, text: str) -> str:
        return _NONCE.sub(lambda m: self.nonces.setdefault(m[0], f"#{len(self.nonces)}"), text)

    def data(self, data: bytes) -> bytes:
        if not data.startswith(b'{"phase":'):
            return data
        found = _IDENTITY.sub(lambda m: b"<%d>" % self.inode(int(m[0][:16], 16)), data)
        return self.text(found.decode("latin-1")).encode("latin-1")


def key_of(case: Case) -> object:
    """Equal for cases that can go on in the same ways."""
    disk, naming = case.disk, _Naming()
    folders: list[object] = []
    files: list[object] = []
    met: set[int] = set()
    waiting = [ROOT]
    while waiting:
        number = waiting.pop(0)
        if number in met:
            continue
        met.add(number)
        inode = disk.inodes[number]
        if inode.entries is None:
            data, durable = naming.data(inode.data), naming.data(inode.durable)
            files.append(
                (
                    naming.inode(number),
                    inode.kind,
                    data,
                    durable,
                    inode.by_user,
                    inode.opened,
                    tuple(inode.waiting),
                )
            )
            continue
        live, lasting = inode.entries.live, inode.entries.durable
        for name in sorted({*live, *lasting}, key=lambda leaf: (_NONCE.sub("#", leaf), leaf)):
            found = [names[name] for names in (live, lasting) if name in names]
            waiting += found
            folders.append(
                (
                    naming.inode(number),
                    naming.text(name),
                    *(naming.inode(each) for each in found),
                    name in live,
                    name in lasting,
                )
            )
        for change in inode.entries.pending:
            waiting += [each for _, each in change if each is not None]
            folders.append(
                tuple(
                    (naming.text(name), None if each is None else naming.inode(each))
                    for name, each in change
                )
            )
    rival = (case.rival.name, case.rival.path) if case.rival is not None else None
    told = tuple(sorted(naming.text(name) for name in case.told))
    books = frozenset(disk.precious), frozenset(disk.secured), disk.certified
    return tuple(folders), tuple(files), books, rival, told, case.acknowledged, case.spoiled
