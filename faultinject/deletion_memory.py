"""A deployment cache in memory: the port of its files over a `CacheDisk`, one object a process.

As `faultinject.disk`: every call is told to a watcher before it happens, and after it where it
changed something, step by step where a real call is several. Permissions count for everybody but
user 0; a lock goes with its process.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from dpone.contracts.authoring import Kind, Look
from dpone.ports import cachefiles, files
from faultinject.authoring_inodes import ROOT, Inode
from faultinject.deletion_disk import CacheDisk
from faultinject.disk import (
    MemoryFiles,
    MemoryFolder,
    MemoryHeld,
    MemoryRecord,
    Watcher,
    unwatched,
)

_ALL, _WRITE, _ENTER = 0o700, 0o200, 0o500


class MemoryCache(MemoryFiles):
    """One process that works on a cache; `base` is the directory that is its root."""

    def __init__(self, disk: CacheDisk, watch: Watcher = unwatched, base: int = ROOT) -> None:
        super().__init__(disk, watch)
        self.cache = disk
        self.base = base
        self.user = disk.user
        self.held_locks: list[tuple[int, tuple[object, bool]]] = []

    @contextmanager
    def folder(self, path: str) -> Iterator[MemoryCacheFolder]:
        """Open a directory part by part."""
        opened = MemoryCacheFolder(self, self.base, "")
        for part in path.split("/") if path else []:
            opened = opened.entered(part)
        yield opened

    def die(self) -> None:
        """End the process: the kernel takes its locks back."""
        super().die()
        for number, holder in self.held_locks:
            if holder in self.cache.locks.get(number, []):
                self.cache.locks[number].remove(holder)

    def may(self, inode: Inode, wanted: int) -> bool:
        """Whether this user may do it; user 0 may do everything."""
        return self.user == 0 or inode.mode & wanted == wanted


class MemoryCacheFolder(MemoryFolder):
    """One open directory of a cache."""

    def __init__(self, owner: MemoryCache, number: int, path: str) -> None:
        super().__init__(owner, number, path)
        self.cache = owner.cache
        self.process = owner

    def _at(self, leaf: str) -> str:
        return f"{self.path}/{leaf}" if self.path else leaf

    @property
    def _inode(self) -> Inode:
        return self.cache.inodes[self.number]

    # -- looking

    def itself(self) -> Look:
        """What the open directory is."""
        self.owner.step(f"look-open {self.path}")
        return self.cache.look(self._inode)

    def entered(self, leaf: str) -> MemoryCacheFolder:
        """The directory under a name, opened."""
        self.owner.step(f"open {self._at(leaf)}")
        if leaf in ("", ".", ".."):
            raise files.NotAFolder(leaf)
        files.leaf_of(leaf)
        found = self.cache.at(leaf, self.number)
        if found is None:
            raise files.NameMissing(leaf)
        if found.kind is Kind.LINK:
            raise files.LinkForbidden(leaf)
        if found.entries is None:
            raise files.NotAFolder(leaf)
        if not self.process.may(found, _ENTER):
            raise files.AccessDenied(leaf)
        return MemoryCacheFolder(self.process, found.number, self._at(leaf))

    @contextmanager
    def below(self, leaf: str) -> Iterator[MemoryCacheFolder]:
        """Open a directory in it."""
        yield self.entered(leaf)

    def descend(self, leaf: str) -> MemoryCacheFolder:
        """The same, closed by the caller."""
        return self.entered(leaf)

    def ascend(self) -> MemoryCacheFolder:
        """The directory above."""
        self.owner.step(f"ascend {self.path}")
        above = self.cache.parents.get(self.number, ROOT)
        return MemoryCacheFolder(self.process, above, self.path.rpartition("/")[0])

    def close(self) -> None:
        """Nothing is kept open."""

    def entries(self) -> Iterator[tuple[str, Kind]]:
        """Names with kinds, as they were when the listing began."""
        self.owner.step(f"entries {self.path}")
        for leaf, number in list(self.cache.entries(self.number).live.items()):
            yield leaf, self.cache.inodes[number].kind

    def read_link(self, leaf: str) -> str | None:
        """Where a link leads."""
        self.owner.step(f"read-link {self._at(files.leaf_of(leaf))}")
        found = self.cache.at(leaf, self.number)
        if found is None or found.kind is not Kind.LINK:
            return None
        return found.data.decode("utf-8", "surrogateescape")

    # -- new names

    def _named(self, call: str, leaf: str) -> Inode:
        self.owner.step(f"{call} {self._at(files.leaf_of(leaf))}")
        self._free(leaf)
        self._writable(leaf)
        inode = self.cache.make()
        inode.mode = 0o600 if call == "create-record" else 0o644
        self.cache.change(self.number, (leaf, inode.number))
        return inode

    def make_link(self, leaf: str, leads_to: str) -> None:
        """Make a link; where it leads is part of it."""
        self.owner.step(f"make-link {self._at(files.leaf_of(leaf))}")
        self._free(leaf)
        inode = self.cache.make(kind=Kind.LINK)
        inode.data = inode.durable = inode.intact = leads_to.encode("utf-8", "surrogateescape")
        self._change(f"make-link {self._at(leaf)}", (leaf, inode.number))

    def replace(self, leaf: str, over: str) -> None:
        """Rename over."""
        files.leaf_of(leaf)
        label = f"replace {self._at(files.leaf_of(over))}"
        self.owner.step(label)
        inode, shown = self._shown(leaf), self.cache.at(over, self.number)
        if shown is inode:
            return
        if shown is not None and shown.entries is not None:
            if inode.entries is None:
                raise files.NotRegular(leaf)
            if shown.entries.live:
                raise files.NameTaken(leaf)
        elif shown is not None and inode.entries is not None:
            raise files.NotAFolder(leaf)
        self._change(label, (leaf, None), (over, inode.number))

    def carry(self, leaf: str, to: cachefiles.CacheFolder, free: str) -> None:
        """Rename into another directory; its new parent needs the directory's own permission."""
        assert isinstance(to, MemoryCacheFolder), "a folder of another adapter"
        label = f"carry {self._at(files.leaf_of(leaf))} to {to._at(files.leaf_of(free))}"
        self.owner.step(label)
        inode = self._shown(leaf)
        to._free(free)
        if inode.number in self.cache.above(to.number):
            raise files.FilesError(leaf, "into itself")
        self._writable(leaf)
        to._writable(free)
        if inode.entries is not None and not self.process.may(inode, _WRITE):
            raise files.AccessDenied(leaf)
        self.cache.rename((self.number, leaf, None), (to.number, free, inode.number))
        self.owner.step(f"after {label}")

    def may_change(self) -> bool:
        """By the mode alone."""
        return self.process.may(self._inode, _WRITE)

    def refusal(self, leaf: str, to: cachefiles.CacheFolder, full: str) -> str:
        """No layers here."""
        files.leaf_of(leaf)
        files.leaf_of(full)
        return ""

    def _change(self, label: str, *change: tuple[str, int | None]) -> None:
        self._writable(change[0][0])
        super()._change(label, *change)

    def _writable(self, leaf: str) -> None:
        if not self.process.may(self._inode, _WRITE):
            raise files.AccessDenied(leaf)

    # -- modes

    def open_up(self) -> None:
        """Give the owner all permissions on the directory itself."""
        self._mode(self._inode, self._inode.mode | _ALL, self.path)

    def unseal(self, leaf: str) -> None:
        """The same, of a directory in it."""
        inode = self._shown(files.leaf_of(leaf))
        if inode.entries is None:
            raise files.NotAFolder(leaf)
        self._mode(inode, inode.mode | _ALL, self._at(leaf))

    def set_mode(self, leaf: str, mode: int) -> None:
        """Set permission bits, then sync."""
        inode = self._shown(files.leaf_of(leaf))
        if inode.kind is Kind.LINK:
            raise files.LinkForbidden(leaf)
        self._mode(inode, mode, self._at(leaf))
        self._force("mode", inode)
        self.owner.step(f"after sync-mode {self._at(leaf)}")

    def _mode(self, inode: Inode, mode: int, path: str) -> None:
        if inode.mode == mode:
            return
        self.owner.step(f"mode {path}")
        self.cache.set_mode(inode, mode)
        self.owner.step(f"after mode {path}")

    # -- logs and locks

    def log(self, leaf: str, *, create: bool) -> MemoryLog | None:
        """Open or make a log."""
        inode = self._regular("log", leaf)
        if inode is None:
            if not create:
                return None
            inode = self._named("create-record", leaf)
            self.owner.step(f"after create {leaf}")
        return MemoryLog(self.owner, inode, leaf)

    @contextmanager
    def lock(self, leaf: str, wait_s: float, *, shared: bool = False) -> Iterator[None]:
        """Hold a lock, or find it busy: nobody lets go while we wait here."""
        self.owner.step(f"lock {leaf}")
        inode = self._inode if leaf == "." else self._regular("open-lock", leaf)
        if inode is None:
            inode = self._named("create-lock", leaf)
        holders = self.cache.locks.setdefault(inode.number, [])
        if any(not (shared and is_shared) for _, is_shared in holders):
            raise cachefiles.LockBusy(leaf)
        holder = (next(_HOLDERS), shared)
        holders.append(holder)
        self.process.held_locks.append((inode.number, holder))
        try:
            yield
        finally:
            if holder in holders:
                holders.remove(holder)


_HOLDERS = itertools.count(1)


class MemoryLog(MemoryHeld):
    """A log, open for appending."""

    def read(self, bytes_max: int) -> bytes:
        """All bytes, once."""
        self.owner.step(f"read {self.leaf}")
        if len(self.inode.data) > bytes_max:
            raise files.FileTooLarge(self.leaf)
        return self.inode.data

    def append(self, data: bytes, *, forced: bool = True) -> None:
        """Write at the end, then sync; a crash may fall in between."""
        self.owner.step(f"append {self.leaf}")
        self._write("append", self.inode.data + data, forced=forced)

    def sync(self) -> None:
        """Have the bytes durable, whoever wrote them."""
        self.owner.step(f"sync {self.leaf}")
        self._force("sync")
        self.owner.step(f"after sync {self.leaf}")

    def cut(self, size: int) -> None:
        """Truncate, then sync."""
        self.owner.step(f"cut {self.leaf}")
        self._write("cut", self.inode.data[:size])

    def _write(self, call: str, data: bytes, *, forced: bool = True) -> None:
        self.owner.disk.write(self.inode, data)
        self.inode.intact = data
        if forced:
            self.owner.step(f"sync-{call} {self.leaf}")
            self._force(call)
        self.owner.step(f"after {call} {self.leaf}")

    def _force(self, call: str) -> None:
        self.owner.disk.sync_inode(self.inode)


__all__ = ["MemoryCache", "MemoryCacheFolder", "MemoryLog", "MemoryRecord"]
