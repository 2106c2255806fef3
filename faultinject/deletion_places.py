"""Places for the files of a cache: a real scratch directory, and a disk in memory."""

from __future__ import annotations

import stat
from pathlib import Path

from dpone.adapters.posix.cachefiles import PosixCache
from dpone.contracts.authoring import Kind
from dpone.ports.cachefiles import CacheFiles
from faultinject.authoring_inodes import ROOT, Inode
from faultinject.deletion_disk import CacheDisk
from faultinject.deletion_memory import MemoryCache


class PosixCachePlace:
    """A real directory; `files` is the adapter that works on it."""

    def __init__(self, root: Path, files: CacheFiles | None = None) -> None:
        self.root = root
        self.files: CacheFiles = files or PosixCache(root)

    def touch(self, path: str) -> None:
        (self.root / path).touch()

    def mkdir(self, path: str, mode: int = 0o755) -> None:
        made = self.root / path
        made.mkdir(parents=True)
        made.chmod(mode)

    def link(self, path: str, leads_to: str) -> None:
        (self.root / path).symlink_to(leads_to)

    def mode(self, path: str) -> int:
        return stat.S_IMODE((self.root / path).stat().st_mode)


class MemoryCachePlace:
    """A disk in memory."""

    def __init__(self) -> None:
        self.disk = CacheDisk.empty()
        self.files: CacheFiles = MemoryCache(self.disk)

    def _made(self, path: str, kind: Kind) -> Inode:
        above, _, leaf = path.rpartition("/")
        folder = self.disk.find(above) if above else self.disk.inodes[ROOT]
        assert folder is not None
        inode = self.disk.make(kind=kind, foreign=True)
        self.disk.change(folder.number, (leaf, inode.number))
        return inode

    def touch(self, path: str) -> None:
        self._made(path, Kind.FILE)

    def mkdir(self, path: str, mode: int = 0o755) -> None:
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            part = "/".join(parts[:count])
            if self.disk.find(part) is None:
                self._made(part, Kind.FOLDER)
        found = self.disk.find(path)
        assert found is not None
        found.mode = mode

    def link(self, path: str, leads_to: str) -> None:
        inode = self._made(path, Kind.LINK)
        inode.data = inode.durable = leads_to.encode()

    def mode(self, path: str) -> int:
        found = self.disk.find(path)
        assert found is not None
        return found.mode
