"""Places for project files: a real scratch directory, and a disk in memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpone.adapters.posix.files import PosixFiles
from dpone.contracts.authoring import Kind
from faultinject.authoring_inodes import ROOT, Disk
from faultinject.disk import MemoryFiles


class MemoryPlace:
    """A disk in memory."""

    def __init__(self, *, nameless: bool = True, proves: bool = True) -> None:
        self.disk = Disk.empty()
        self.disk.nameless, self.disk.proves, self.disk.certified = nameless, proves, None
        self.files = MemoryFiles(self.disk)

    def put(self, leaf: str, data: bytes, mode: int = 0o644) -> None:
        inode = self.disk.at(leaf)
        if inode is None:
            inode = self.disk.make(foreign=True)
            self.disk.change(ROOT, (leaf, inode.number))
        inode.mode = mode
        self.disk.write(inode, data)

    def link(self, leaf: str, target: str) -> None:
        self.disk.change(ROOT, (leaf, self.disk.make(kind=Kind.LINK, foreign=True).number))

    def pipe(self, leaf: str) -> None:
        self.disk.change(ROOT, (leaf, self.disk.make(kind=Kind.OTHER, foreign=True).number))

    def show(self) -> dict[str, bytes | None]:
        found = {leaf: self.disk.inodes[n] for leaf, n in self.disk.entries().live.items()}
        return {
            leaf: inode.data if inode.kind is Kind.FILE else None for leaf, inode in found.items()
        }

    def rename(self, leaf: str, other: str) -> None:
        inode = self.disk.at(leaf)
        assert inode is not None
        self.disk.change(ROOT, (leaf, None), (other, inode.number))

    @contextmanager
    def writer(self, leaf: str) -> Iterator[None]:
        inode = self.disk.at(leaf)
        assert inode is not None
        inode.writers += 1
        try:
            yield
        finally:
            inode.writers -= 1

    def knock(self, leaf: str) -> None:
        inode = self.disk.at(leaf)
        assert inode is not None
        if inode.leases:
            inode.waiting.append((inode.data, False))


class PosixPlace:
    """A scratch directory; the adapter under test is the real one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = PosixFiles(root)

    def put(self, leaf: str, data: bytes, mode: int = 0o644) -> None:
        (self.root / leaf).write_bytes(data)
        (self.root / leaf).chmod(mode)

    def link(self, leaf: str, target: str) -> None:
        (self.root / leaf).symlink_to(target)

    def pipe(self, leaf: str) -> None:
        os.mkfifo(self.root / leaf)

    def show(self) -> dict[str, bytes | None]:
        return {
            path.name: path.read_bytes() if path.is_file() and not path.is_symlink() else None
            for path in self.root.iterdir()
        }

    def rename(self, leaf: str, other: str) -> None:
        (self.root / leaf).rename(self.root / other)

    @contextmanager
    def writer(self, leaf: str) -> Iterator[None]:
        descriptor = os.open(self.root / leaf, os.O_WRONLY | os.O_CLOEXEC)
        try:
            yield
        finally:
            os.close(descriptor)

    def knock(self, leaf: str) -> None:
        with contextlib.suppress(BlockingIOError):
            os.close(os.open(self.root / leaf, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
