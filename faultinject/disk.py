"""Project files in memory: the port of files over a `Disk`, one object for each process.

Promise: every call is told to a watcher before it happens, mutating ones after it too, step by step
where a real call is several; the watcher may crash the process, refuse the call, let a rival act or
hand on a baton. A dead process does nothing any more. Locks and leases go as they do in the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dpone.contracts.authoring import Kind, Look, Proof
from dpone.ports import files
from faultinject.authoring_inodes import ROOT, Disk, Inode

Watcher = Callable[[str], None]
"""Called with `<call> <names>` before a call, and with `after <call> <names>` once it changed."""


class Crash(BaseException):
    """The process is dead. No `except Exception` may catch it."""


def unwatched(label: str) -> None:
    """The default watcher."""


class MemoryFiles:
    """One process that works on a disk."""

    def __init__(self, disk: Disk, watch: Watcher = unwatched) -> None:
        self.disk = disk
        self.watch = watch
        self.is_dead = False
        self.handles: list[MemoryHeld] = []

    @contextmanager
    def folder(self, path: str) -> Iterator[MemoryFolder]:
        """Open a directory part by part."""
        number = ROOT
        for part in path.split("/") if path else []:
            found = self.disk.at(part, number)
            if found is None:
                raise files.NameMissing(part)
            if found.kind is Kind.LINK:
                raise files.LinkForbidden(part)
            if found.entries is None:
                raise files.NotAFolder(part)
            number = found.number
        yield MemoryFolder(self, number, path)

    def step(self, label: str) -> None:
        """Something is about to happen, or has happened, in this process."""
        if self.is_dead:
            raise Crash(label)
        self.watch(label)
        if self.is_dead:
            raise Crash(label)

    def die(self) -> None:
        """End the process: the kernel takes its locks and leases back."""
        self.is_dead = True
        for handle in list(self.handles):
            handle.drop()


class MemoryHeld:
    """An open file of one process."""

    def __init__(self, owner: MemoryFiles, inode: Inode, leaf: str = "") -> None:
        self.owner = owner
        self.inode = inode
        self.leaf = leaf
        self.is_open = True
        self.is_leased = False
        owner.handles.append(self)

    def look(self) -> Look:
        """What it is now."""
        self.owner.step(f"look-open {self.leaf}")
        return self.owner.disk.look(self.inode)

    def read(self, bytes_max: int) -> bytes:
        """All its bytes, read twice."""
        self.owner.step(f"read {self.leaf}")
        first, written = self.inode.data, self.inode.modified
        self.owner.step(f"read-again {self.leaf}")
        if len(first) > bytes_max:
            raise files.FileTooLarge(self.leaf)
        if self.inode.data != first or self.inode.modified != written:
            raise files.ChangedDuringRead(self.leaf)
        return first

    def attributes(self) -> files.Attributes:
        """Mode, owner and group; there is nothing else here."""
        self.owner.step(f"attributes {self.leaf}")
        return self.inode.mode, self.inode.owner, self.inode.group, ()

    def prove(self) -> Proof:
        """Take a lease, which is refused while anybody has the file open for writing."""
        self.owner.step(f"prove {self.leaf}")
        if not self.owner.disk.proves:
            return Proof.UNKNOWN
        if self.inode.writers:
            return Proof.WRITER
        if not self.is_leased:
            self.is_leased = True
            self.inode.leases += 1
        return Proof.PROVEN

    def undisturbed(self) -> bool:
        """Whether nobody waits for the lease to go."""
        self.owner.step(f"undisturbed {self.leaf}")
        return self.is_leased and not self.inode.waiting

    def release(self) -> None:
        """Give the lease back."""
        self.owner.step(f"release {self.leaf}")
        self._end_lease()

    def close(self) -> None:
        """Close the descriptor."""
        if self.is_open and not self.owner.is_dead:
            self.drop()

    def drop(self) -> None:
        """What the kernel does at close and at death."""
        if not self.is_open:
            return
        self.is_open = False
        self.owner.handles.remove(self)
        if self.inode.lock is self:
            self.inode.lock = None
        self._end_lease()

    def _end_lease(self) -> None:
        if self.is_leased:
            self.is_leased = False
            self.inode.leases -= 1
            if not self.inode.leases:
                self.owner.disk.let_go(self.inode)


class MemoryRecord(MemoryHeld):
    """A record of ours, open for patching."""

    def __init__(self, owner: MemoryFiles, inode: Inode, leaf: str = "") -> None:
        super().__init__(owner, inode, leaf)
        inode.writers += 1

    def lock(self) -> bool:
        """Take the lock without waiting."""
        self.owner.step(f"lock {self.leaf}")
        if self.inode.lock not in (None, self):
            return False
        self.inode.lock = self
        return True

    def patch(self, offset: int, data: bytes) -> None:
        """Write in place, then sync; a crash may fall in between."""
        self.owner.step(f"patch {self.leaf}")
        old = self.inode.data
        self.owner.disk.write(self.inode, old[:offset] + data + old[offset + len(data) :])
        self.inode.intact = self.inode.data
        self.owner.step(f"sync-record {self.leaf}")
        self._force()
        self.owner.step(f"after patch {self.leaf}")

    def _force(self) -> None:
        self.owner.disk.sync_inode(self.inode)

    def drop(self) -> None:
        """Close; a writer less."""
        if self.is_open:
            self.inode.writers -= 1
        super().drop()


class MemoryFolder:
    """One open directory of one process."""

    name_bytes_max = 255

    def __init__(self, owner: MemoryFiles, number: int, path: str) -> None:
        self.owner = owner
        self.disk = owner.disk
        self.number = number
        self.path = path
        self.has_failed = False

    # -- looking

    def look(self, leaf: str) -> Look | None:
        """What bears the name."""
        self.owner.step(f"look {files.leaf_of(leaf)}")
        inode = self.disk.at(leaf, self.number)
        return None if inode is None else self.disk.look(inode)

    def names(self, limit: int) -> Iterator[str]:
        """The names, at most `limit`."""
        self.owner.step("names")
        found = list(self.disk.entries(self.number).live)
        if len(found) > limit:
            raise files.FileTooLarge(self.path)
        yield from found

    def hold(self, leaf: str) -> MemoryHeld | None:
        """Hold a regular file for reading."""
        inode = self._regular("hold", leaf)
        return None if inode is None else MemoryHeld(self.owner, inode, leaf)

    def record(self, leaf: str) -> MemoryRecord | None:
        """Hold one of our records."""
        inode = self._regular("record", leaf)
        return None if inode is None else MemoryRecord(self.owner, inode, leaf)

    def _regular(self, call: str, leaf: str) -> Inode | None:
        self.owner.step(f"{call} {files.leaf_of(leaf)}")
        inode = self.disk.at(leaf, self.number)
        if inode is not None and inode.kind is Kind.LINK:
            raise files.LinkForbidden(leaf)
        if inode is not None and inode.kind is not Kind.FILE:
            raise files.NotRegular(leaf)
        return inode

    # -- new files

    def stage(self, data: bytes, like: files.Held | None = None) -> MemoryHeld:
        """A nameless file, complete and synced."""
        inode = self._nameless("stage")
        self._fill("stage", inode, data, like)
        return MemoryHeld(self.owner, inode)

    def create(self, leaf: str, data: bytes, like: files.Held | None = None) -> MemoryHeld:
        """The same under a free name."""
        inode = self._named("create", leaf)
        self._fill("create", inode, data, like)
        return MemoryHeld(self.owner, inode, leaf)

    def stage_record(self, data: bytes) -> MemoryRecord:
        """A locked record without a name."""
        record = MemoryRecord(self.owner, self._nameless("stage-record"))
        record.inode.lock = record
        self._fill("stage-record", record.inode, data, None)
        return record

    def create_record(self, leaf: str, data: bytes) -> MemoryRecord:
        """A locked record under a free name."""
        inode = self._named("create-record", leaf)
        record = MemoryRecord(self.owner, inode, leaf)
        if not record.lock():
            record.close()
            raise files.NameTaken(leaf)
        self._fill("create-record", inode, data, None)
        return record

    def _nameless(self, call: str) -> Inode:
        self.owner.step(call)
        if not self.disk.nameless:
            raise files.NamelessUnsupported
        return self.disk.make()

    def _named(self, call: str, leaf: str) -> Inode:
        self.owner.step(f"{call} {files.leaf_of(leaf)}")
        self._free(leaf)
        inode = self.disk.make()
        self.disk.change(self.number, (leaf, inode.number))
        return inode

    def _fill(self, call: str, inode: Inode, data: bytes, like: files.Held | None) -> None:
        if like is not None:
            shown = like.look()
            inode.mode, inode.owner, inode.group = shown.mode, shown.owner, shown.group
        self.owner.step(f"write {call}")
        inode.intact = data
        self.disk.write(inode, data)
        self.owner.step(f"sync-{call}")
        self._force(call, inode)
        self.owner.step(f"after {call}")

    def _force(self, call: str, inode: Inode) -> None:
        self.disk.sync_inode(inode)

    # -- names

    def link(self, staged: files.Held, leaf: str) -> None:
        """Name a nameless file."""
        assert isinstance(staged, MemoryHeld)
        self.owner.step(f"link {files.leaf_of(leaf)}")
        self._free(leaf)
        staged.leaf = leaf
        self._change(f"link {leaf}", (leaf, staged.inode.number))

    def exchange(self, left: str, right: str) -> None:
        """Swap two names."""
        self.owner.step(f"exchange {files.leaf_of(left)} {files.leaf_of(right)}")
        first, second = self._shown(left), self._shown(right)
        if self.disk.exchanges == "missing":
            raise files.ExchangeUnsupported(left)
        change = ((left, second.number), (right, first.number))
        if self.disk.exchanges == "drops":
            change = ((left, second.number), (right, None))  # type: ignore[assignment]
        self._change(f"exchange {left} {right}", *change)

    def move(self, leaf: str, free: str) -> None:
        """Rename to a free name."""
        self.owner.step(f"move {files.leaf_of(leaf)} {files.leaf_of(free)}")
        inode = self._shown(leaf)
        self._free(free)
        self._change(f"move {leaf} {free}", (leaf, None), (free, inode.number))

    def unlink(self, leaf: str) -> None:
        """Take a name from a file."""
        self.owner.step(f"unlink {files.leaf_of(leaf)}")
        if self._shown(leaf).entries is not None:
            raise files.NotRegular(leaf)
        self._change(f"unlink {leaf}", (leaf, None))

    def make_folder(self, leaf: str) -> None:
        """Make a directory."""
        self.owner.step(f"make-folder {files.leaf_of(leaf)}")
        self._free(leaf)
        self._change(f"make-folder {leaf}", (leaf, self.disk.make(kind=Kind.FOLDER).number))

    def remove_folder(self, leaf: str) -> bool:
        """Remove an empty directory."""
        self.owner.step(f"remove-folder {files.leaf_of(leaf)}")
        found = self.disk.at(leaf, self.number)
        if found is None or found.entries is None or found.entries.live:
            return False
        self._change(f"remove-folder {leaf}", (leaf, None))
        return True

    def sync(self) -> None:
        """Have the names durable; refused for ever once it failed, as the adapter does."""
        if self.has_failed:
            raise files.SyncFailed(self.path, "failed before")
        try:
            self.owner.step("sync-folder")
        except files.FilesError:
            self.has_failed = True
            raise
        self.disk.sync_folder(self.number)
        self.owner.step("after sync-folder")

    def _change(self, label: str, *change: tuple[str, int | None]) -> None:
        self.disk.change(self.number, *change)
        self.owner.step(f"after {label}")

    def _free(self, leaf: str) -> None:
        if self.number != ROOT and not self.disk.links(self.number):
            # Its folder was removed while this process held it open.
            raise files.NameMissing(leaf)
        if self.disk.at(leaf, self.number) is not None:
            raise files.NameTaken(leaf)

    def _shown(self, leaf: str) -> Inode:
        inode = self.disk.at(leaf, self.number)
        if inode is None:
            raise files.NameMissing(leaf)
        return inode

    # -- fitness

    def fitness(self, leaf: str) -> str:
        """Always fit, unless the file system has no exchange at all."""
        self.owner.step(f"fitness {files.leaf_of(leaf)}")
        return ""

    def certified(self) -> bool | None:
        """What a rehearsal showed."""
        return self.disk.certified

    def certify(self, verdict: bool) -> None:
        """Remember it."""
        self.disk.certified = verdict
