"""The disk below a deployment cache: many directories, renames between them, modes, logs.

As `faultinject.authoring_inodes`, and: the changes that no sync has forced stand in one order for
the whole disk. A rename between two directories is one step, durable when both were synced; a mode
is durable when its own inode was. After a loss of power any subset of them has happened (weak), or
a prefix, with a sync forcing whatever came before it (ordered). Bytes behind a file's durable end
are absent, torn, zeros or whole; its durable bytes stay.
Not promised: half a rename between directories; no journaling file system leaves one.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from dpone.contracts.authoring import Kind, Look
from faultinject.authoring_inodes import ROOT, Disk, Entries, Inode, torn_versions

USER = 1000
# Up to so many unforced changes all subsets are states of their own; of more, a sample.
ALL_MAX = 8


@dataclass(frozen=True, slots=True)
class Unforced:
    """One change that is not durable yet: names, or a mode.

    `due` are the inodes whose syncs force it, all of them together. `carried` is a folder, a name
    in it and an inode: the rename has not happened where the name does not show it.
    """

    due: frozenset[int]
    names: tuple[tuple[int, str, int | None], ...] = ()
    mode: tuple[int, int] | None = None
    carried: tuple[int, str, int] | None = None

    @property
    def keys(self) -> set[Hashable]:
        """What it changes: a later change of the same is durable only after it."""
        found: set[Hashable] = {(folder, leaf) for folder, leaf, _ in self.names}
        if self.mode is not None:
            found.add(self.mode[0])
        return found

    def happen(self, names: dict[int, dict[str, int]], modes: dict[int, int]) -> None:
        """Change names and modes."""
        if self.carried is not None:
            folder, leaf, number = self.carried
            if names[folder].get(leaf) != number:
                return
        for folder, leaf, shown in self.names:
            if shown is None:
                names[folder].pop(leaf, None)
            else:
                names[folder][leaf] = shown
        if self.mode is not None:
            modes[self.mode[0]] = self.mode[1]


@dataclass(slots=True)
class CacheDisk(Disk):
    """Many directories. `modes` are durable modes that differ from what is shown."""

    queue: list[Unforced] = field(default_factory=list)
    modes: dict[int, int] = field(default_factory=dict)
    parents: dict[int, int] = field(default_factory=dict)
    locks: dict[int, list[tuple[object, bool]]] = field(default_factory=dict)
    is_ordered: bool = False
    user: int = USER
    sampled: int = 0

    @classmethod
    def empty(cls) -> CacheDisk:
        """A disk with an empty root directory."""
        return cls(inodes={ROOT: Inode(ROOT, Kind.FOLDER, mode=0o755, entries=Entries())})

    def copy(self) -> CacheDisk:
        """The same disk, for another course of events; locks stay with their holders."""
        return CacheDisk(
            inodes={number: inode.copy() for number, inode in self.inodes.items()},
            clock=self.clock,
            version=self.version,
            next_ours=self.next_ours,
            next_foreign=self.next_foreign,
            nonces=self.nonces,
            queue=list(self.queue),
            modes=dict(self.modes),
            parents=dict(self.parents),
            is_ordered=self.is_ordered,
            user=self.user,
        )

    # -- what is there

    def look(self, inode: Inode) -> Look:
        """The port's look; nothing here has a second name."""
        return Look(
            inode.kind,
            f"{inode.number:016x}.{1:016x}",
            1,
            1,
            1,
            len(inode.data),
            inode.mode,
            inode.owner,
            inode.group,
            inode.modified,
        )

    def links(self, number: int) -> int:
        """Whether a directory has a name yet."""
        above = self.parents.get(number)
        if above is None:
            return 0
        return number in self.entries(above).live.values()

    def find(self, path: str, start: int = ROOT) -> Inode | None:
        """What a path shows, links not followed."""
        inode = self.inodes[start]
        for part in path.split("/"):
            number = inode.entries.live.get(part) if inode.entries is not None else None
            if number is None:
                return None
            inode = self.inodes[number]
        return inode

    def above(self, number: int) -> set[int]:
        """A directory, and every one that it lies in."""
        found = {number}
        while (number := self.parents.get(number, ROOT)) not in found:
            found.add(number)
        return found

    def tree(self, start: int = ROOT, prefix: str = "") -> Iterator[tuple[str, Inode]]:
        """Every path below a directory with what it shows, by name."""
        for leaf, number in sorted(self.entries(start).live.items()):
            inode = self.inodes[number]
            yield prefix + leaf, inode
            if inode.entries is not None:
                yield from self.tree(number, f"{prefix}{leaf}/")

    # -- changes

    def make(self, *, kind: Kind = Kind.FILE, foreign: bool = False) -> Inode:
        """A new inode without a name."""
        inode = super(CacheDisk, self).make(kind=kind, foreign=foreign)
        inode.mode = {Kind.FOLDER: 0o755, Kind.LINK: 0o777}.get(kind, 0o644)
        inode.owner = inode.group = self.user
        return inode

    def change(self, folder: int, *change: tuple[str, int | None]) -> None:
        """One atomic change of names of one directory, unforced."""
        self.rename(*((folder, leaf, number) for leaf, number in change))

    def rename(self, *names: tuple[int, str, int | None]) -> None:
        """One atomic change of names, of two directories perhaps."""
        left = [(folder, leaf) for folder, leaf, number in names if number is None]
        came = [number for _, _, number in names if number is not None]
        carried = (*left[0], came[0]) if left and came else None
        self._enqueue(Unforced(frozenset(it[0] for it in names), names, None, carried))
        for folder, leaf, number in names:
            live = self.entries(folder).live
            if number is None:
                live.pop(leaf, None)
                continue
            live[leaf] = number
            if self.inodes[number].entries is not None:
                self.parents[number] = folder

    def set_mode(self, inode: Inode, mode: int) -> None:
        """Change a mode, unforced."""
        if inode.mode != mode:
            self.modes.setdefault(inode.number, inode.mode)
            inode.mode = mode
            self._enqueue(Unforced(frozenset({inode.number}), mode=(inode.number, mode)))

    def _enqueue(self, change: Unforced) -> None:
        self.version += 1
        self.queue.append(change)

    def sync_inode(self, inode: Inode) -> None:
        """Force an inode's bytes and its mode."""
        if inode.durable != inode.data:
            self.version += 1
            inode.durable = inode.data
        self._force(inode.number)

    def sync_folder(self, folder: int = ROOT) -> None:
        """Force a directory's names and its mode."""
        self._force(folder)

    def settle(self) -> None:
        """Have everything durable, as after a long time."""
        for inode in self.inodes.values():
            inode.durable = inode.intact = inode.data
            if inode.entries is not None:
                inode.entries.durable = dict(inode.entries.live)
        self.queue.clear()
        self.modes.clear()

    def _force(self, number: int) -> None:
        """Take what this sync forces out of the queue, in order."""
        if not any(number in change.due for change in self.queue):
            return
        queue = [_synced(change, number) for change in self.queue]
        forced = {at for at, change in enumerate(queue) if not change.due}
        if self.is_ordered:
            reached = [at for at, change in enumerate(self.queue) if number in change.due]
            forced = set(range(reached[-1] + 1)) if reached else set()
        keys: set[Hashable] = set()
        for at in range(len(queue) - 1, -1, -1):
            if at in forced or keys & queue[at].keys:
                forced.add(at)
                keys |= queue[at].keys
        if forced:
            self.version += 1
            names = {n: it.entries.durable for n, it in self.inodes.items() if it.entries}
            for at in sorted(forced):
                queue[at].happen(names, self.modes)
        self.queue = [change for at, change in enumerate(queue) if at not in forced]
        self._prune()

    def _prune(self) -> None:
        """What no name can ever show again is nobody's business."""
        for n in [n for n, mode in self.modes.items() if self.inodes[n].mode == mode]:
            if not any(change.mode and change.mode[0] == n for change in self.queue):
                del self.modes[n]
        names: dict[int, set[int]] = {}
        for number, inode in self.inodes.items():
            if inode.entries is not None:
                names[number] = {*inode.entries.live.values(), *inode.entries.durable.values()}
        for change in self.queue:
            for folder, _, shown in change.names:
                if shown is not None and folder in names:
                    names[folder].add(shown)
        shown_now = _reached(names)
        self.queue = [it for it in self.queue if _matters(it, shown_now)]

    # -- crashes

    def killed(self) -> CacheDisk:
        """The state after the death of every process."""
        twin = self.copy()
        for inode in twin.inodes.values():
            inode.lock, inode.leases, inode.writers = None, 0, 0
        return twin

    def power_cuts(self, *, weak: bool) -> Iterator[CacheDisk]:
        """Every state that a loss of power may leave now; all of it is durable then."""
        seen: set[Hashable] = set()
        for kept in self._kept(weak=weak):
            names = {
                n: dict(it.entries.durable)
                for n, it in self.inodes.items()
                if it.entries is not None
            }
            modes = {n: self.modes.get(n, it.mode) for n, it in self.inodes.items()}
            for change in kept:
                change.happen(names, modes)
            shown = _reached({n: set(below.values()) for n, below in names.items()})
            key = tuple((n, modes[n], *sorted(names.get(n, {}).items())) for n in sorted(shown))
            if key in seen:
                continue
            seen.add(key)
            torn = [self.inodes[n] for n in sorted(shown) if self._is_unsynced(n)]
            for versions in itertools.product(*(versions_of(inode) for inode in torn)):
                data = {it.number: data for it, data in zip(torn, versions, strict=True)}
                yield self._cut(names, modes, shown, data)

    def _is_unsynced(self, number: int) -> bool:
        return self.inodes[number].data != self.inodes[number].durable

    def _kept(self, *, weak: bool) -> Iterator[tuple[Unforced, ...]]:
        """What of the queue has happened, each choice once."""
        queue = self.queue
        count = len(queue)
        if not weak:
            yield from (tuple(queue[:n]) for n in range(count + 1))
            return
        flags: Iterable[tuple[bool, ...]]
        if count <= ALL_MAX:
            flags = itertools.product((False, True), repeat=count)
        else:
            self.sampled += 1
            flags = _sample(count)
        for chosen in flags:
            yield tuple(it for it, is_kept in zip(queue, chosen, strict=True) if is_kept)

    def _cut(
        self,
        names: dict[int, dict[str, int]],
        modes: dict[int, int],
        shown: set[int],
        data: dict[int, bytes],
    ) -> CacheDisk:
        twin = self.copy()
        twin.inodes = {number: inode for number, inode in twin.inodes.items() if number in shown}
        twin.queue, twin.modes, twin.parents = [], {}, {}
        for number, inode in twin.inodes.items():
            inode.data = inode.durable = data.get(number, inode.durable)
            inode.mode = modes[number]
            inode.lock, inode.leases, inode.writers = None, 0, 0
            if inode.entries is not None:
                inode.entries = Entries(dict(names[number]), dict(names[number]), [])
                for below in names[number].values():
                    twin.parents[below] = number
        return twin

    def key(self) -> Hashable:
        """Equal for disks on which the same can happen: files have no identity, directories do."""
        walked: list[Hashable] = []
        open_ones, seen = [ROOT], {ROOT}
        queued: dict[int, list[int | None]] = {}
        for change in self.queue:
            for folder, _, shown in change.names:
                queued.setdefault(folder, []).append(shown)
        while open_ones:
            number = open_ones.pop()
            inode = self.inodes[number]
            walked.append((number, inode.mode, self.modes.get(number)))
            assert inode.entries is not None
            for names in (inode.entries.live, inode.entries.durable):
                walked.append(tuple((leaf, self._value(n)) for leaf, n in sorted(names.items())))
            below = (*inode.entries.live.values(), *inode.entries.durable.values())
            for shown in (*below, *queued.get(number, ())):
                if shown is not None and shown not in seen and self.inodes[shown].entries:
                    seen.add(shown)
                    open_ones.append(shown)
        return tuple(walked), tuple(self._unforced(change) for change in self.queue)

    def _value(self, number: int | None) -> Hashable:
        if number is None:
            return None
        inode = self.inodes[number]
        if inode.entries is not None:
            return number
        return inode.kind.value, inode.data, inode.durable, inode.mode, self.modes.get(number)

    def _unforced(self, change: Unforced) -> Hashable:
        names = tuple((folder, leaf, self._value(n)) for folder, leaf, n in change.names)
        mode = None if change.mode is None else (self._value(change.mode[0]), change.mode[1])
        return names, mode, len(change.due)


def versions_of(inode: Inode) -> list[bytes]:
    """What an inode may hold after a power cut; what was durable at its beginning stays."""
    old, new = inode.durable, inode.data
    if old and new.startswith(old):
        tail = new[len(old) :]
        parts = (b"", tail[: len(tail) // 2], b"\0" * len(tail), tail)
        return list(dict.fromkeys(old + part for part in parts))
    if old.startswith(new):
        return [old, new]
    return torn_versions(inode)


def _synced(change: Unforced, number: int) -> Unforced:
    if number not in change.due:
        return change
    return Unforced(change.due - {number}, change.names, change.mode, change.carried)


def _sample(count: int) -> Iterator[tuple[bool, ...]]:
    """None, all, each alone, all but each, and every prefix and suffix."""
    chosen: set[tuple[bool, ...]] = set()
    for at in range(count + 1):
        chosen.add(tuple(n < at for n in range(count)))
        chosen.add(tuple(n >= at for n in range(count)))
        chosen.add(tuple(n == at for n in range(count)))
        chosen.add(tuple(n != at for n in range(count)))
    yield from sorted(chosen)


def _reached(names: dict[int, set[int]]) -> set[int]:
    found, open_ones = {ROOT}, [ROOT]
    while open_ones:
        for number in names[open_ones.pop()] - found:
            found.add(number)
            if number in names:
                open_ones.append(number)
    return found


def _matters(change: Unforced, shown: set[int]) -> bool:
    folders = {folder for folder, _, _ in change.names}
    return bool(folders & shown) or (change.mode is not None and change.mode[0] in shown)
