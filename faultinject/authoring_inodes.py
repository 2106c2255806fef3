"""What a disk holds: inodes and directories, what of them is durable, and what a crash may leave.

An inode has its synced bytes and its present bytes; a directory its durable entries and the ordered
list of changes that no sync has forced yet, each an atomic assignment of names to inodes. `killed`
is the state after the death of a process, `power_cuts` yields every state after a loss of power:
weak (any subset of the unforced changes, in order) or ordered (a prefix of them).
Not promised: anything about file systems that reorder across a sync.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from dpone.contracts.authoring import Kind, Look
from faultinject.authoring_entries import Entries

__all__ = ["FOREIGN", "ROOT", "Disk", "Entries", "Inode"]

ROOT = 1
# Inodes of other programs have numbers of their own, so that ours do not depend on their acts.
FOREIGN = 1 << 20


@dataclass(slots=True)
class Inode:
    """A file, a link, something else, or a directory with its entries.

    `intact` is what its maker meant it to hold; `by_user` says whether another program made it or
    wrote to it. `writers` counts descriptors open for writing, `opened` those of other programs;
    `was_shown`: it had a name that people see; `waiting` are the writes of programs whose open is
    held up by a lease.
    """

    number: int
    kind: Kind = Kind.FILE
    data: bytes = b""
    durable: bytes = b""
    intact: bytes = b""
    mode: int = 0o644
    owner: int = 1000
    group: int = 1000
    modified: int = 0
    by_user: bool = False
    writers: int = 0
    opened: int = 0
    was_shown: bool = False
    leases: int = 0
    waiting: list[tuple[bytes, bool]] = field(default_factory=list)
    lock: object = None
    entries: Entries | None = None

    def copy(self) -> Inode:
        """Another with the same content, without locks and leases of its holders."""
        return Inode(
            self.number,
            self.kind,
            self.data,
            self.durable,
            self.intact,
            self.mode,
            self.owner,
            self.group,
            self.modified,
            self.by_user,
            self.writers,
            self.opened,
            self.was_shown,
            self.leases,
            list(self.waiting),
            self.lock,
            None if self.entries is None else self.entries.copy(),
        )


def torn_versions(inode: Inode) -> list[bytes]:
    """What an inode may hold after a power cut, each once."""
    old, new = inode.durable, inode.data
    if old == new:
        return [new]
    if len(old) == len(new):
        # Written over in place. One byte is old or new; of more, a part may be new.
        changed = [
            place for place, pair in enumerate(zip(old, new, strict=True)) if len({*pair}) > 1
        ]
        middle = changed[len(changed) // 2]
        versions = [old, new, new[:middle] + old[middle:]]
    else:
        versions = [old, new, new[: len(new) // 2], b"\0" * len(new)]
    return list(dict.fromkeys(versions))


@dataclass(slots=True)
class Disk:
    """All inodes, and the truth that a judge compares with.

    `precious` are the byte versions that some other program wrote and has not itself destroyed;
    `secured` are those of them that were durable at some time; `rescuable` were written to a file
    that had just lost its name, by an open that a lease held up: a live process owes them a name,
    its death is the stated remainder. `nameless`, `proves`, `exchanges`
    say what this file system can do: `exchanges` is `works`, `missing` or `drops`.
    """

    inodes: dict[int, Inode] = field(default_factory=dict)
    precious: set[bytes] = field(default_factory=set)
    secured: set[bytes] = field(default_factory=set)
    rescuable: set[bytes] = field(default_factory=set)
    nameless: bool = True
    proves: bool = True
    exchanges: str = "works"
    certified: bool | None = True
    clock: int = 1
    version: int = 0
    next_ours: int = ROOT + 1
    next_foreign: int = FOREIGN
    nonces: int = 0

    @classmethod
    def empty(cls) -> Disk:
        """A disk with an empty root directory."""
        return cls(inodes={ROOT: Inode(ROOT, Kind.FOLDER, mode=0o755, entries=Entries())})

    def copy(self) -> Disk:
        """The same disk, for another course of events."""
        twin = Disk(
            {number: inode.copy() for number, inode in self.inodes.items()},
            set(self.precious),
            set(self.secured),
            set(self.rescuable),
            self.nameless,
            self.proves,
            self.exchanges,
            self.certified,
            self.clock,
            self.version,
            self.next_ours,
            self.next_foreign,
            self.nonces,
        )
        return twin

    # -- what is there

    def entries(self, number: int = ROOT) -> Entries:
        """The names in a directory."""
        found = self.inodes[number].entries
        assert found is not None
        return found

    def at(self, leaf: str, folder: int = ROOT) -> Inode | None:
        """What bears a name."""
        number = self.entries(folder).live.get(leaf)
        return None if number is None else self.inodes[number]

    def links(self, number: int) -> int:
        """How many names an inode has."""
        return sum(
            list(inode.entries.live.values()).count(number)
            for inode in self.inodes.values()
            if inode.entries is not None
        )

    def look(self, inode: Inode) -> Look:
        """The port's look at an inode."""
        return Look(
            inode.kind,
            f"{inode.number:016x}.{1:016x}",
            1,
            1,
            1 if inode.entries is not None else self.links(inode.number),
            len(inode.data),
            inode.mode,
            inode.owner,
            inode.group,
            inode.modified,
        )

    def reachable(self) -> set[bytes]:
        """All bytes that some name shows."""
        below = {
            number: inode.entries.live
            for number, inode in self.inodes.items()
            if inode.entries is not None
        }
        return {self.inodes[number].data for number in _reached(below) - {ROOT}}

    # -- changes

    def make(self, *, kind: Kind = Kind.FILE, foreign: bool = False) -> Inode:
        """A new inode without a name."""
        if foreign:
            number, self.next_foreign = self.next_foreign, self.next_foreign + 1
        else:
            number, self.next_ours = self.next_ours, self.next_ours + 1
        inode = Inode(number, kind, by_user=foreign)
        if kind is Kind.FOLDER:
            inode.entries = Entries()
        self.inodes[number] = inode
        return inode

    def write(self, inode: Inode, data: bytes) -> None:
        """Change an inode's bytes, unsynced."""
        self.version += 1
        self.clock += 1
        inode.data, inode.modified = data, self.clock

    def change(self, folder: int, *change: tuple[str, int | None]) -> None:
        """One atomic change of names, unforced."""
        self.version += 1
        self.entries(folder).apply(change)
        for name, number in change:
            if number is not None and not name.startswith("."):
                self.inodes[number].was_shown = True

    def sync_inode(self, inode: Inode) -> None:
        """Force an inode's bytes."""
        if inode.durable != inode.data:
            self.version += 1
        inode.durable = inode.data
        self._secure()

    def sync_folder(self, folder: int = ROOT) -> None:
        """Force a directory's names."""
        if self.entries(folder).pending:
            self.version += 1
        self.entries(folder).force()
        self._secure()

    def _secure(self) -> None:
        """Note which versions of other programs are durable now."""
        if not self.precious:
            return
        below = {
            number: inode.entries.durable
            for number, inode in self.inodes.items()
            if inode.entries is not None
        }
        for number in _reached(below) - {ROOT}:
            if self.inodes[number].durable in self.precious:
                self.secured.add(self.inodes[number].durable)

    # -- crashes

    def killed(self) -> Disk:
        """The state after the death of every process of ours; other programs go on."""
        twin = self.copy()
        for inode in twin.inodes.values():
            inode.lock, inode.leases, inode.writers = None, 0, inode.opened
        for inode in list(twin.inodes.values()):
            twin.let_go(inode)
        twin.rescuable.clear()
        return twin

    def let_go(self, inode: Inode) -> None:
        """Whoever was held up by a lease writes now."""
        waiting, inode.waiting = inode.waiting, []
        for data, is_synced in waiting:
            inode.by_user = True
            if self.links(inode.number):
                self.replace_version(inode.data, data)
            else:
                self.rescuable.add(data)
            self.write(inode, data)
            if is_synced:
                self.sync_inode(inode)

    def replace_version(self, old: bytes, new: bytes) -> None:
        """Another program puts new bytes in the place of old ones, by its own will."""
        self.precious.discard(old)
        self.secured.discard(old)
        self.precious.add(new)

    def power_cuts(self, *, weak: bool) -> Iterator[Disk]:
        """Every state that a loss of power may leave now; all of it is durable then."""
        folders = [number for number, inode in self.inodes.items() if inode.entries is not None]
        choices = [self.entries(number).after_power_cut(weak=weak) for number in folders]
        for chosen in itertools.product(*choices):
            names = dict(zip(folders, chosen, strict=True))
            shown = _reached(names)
            unsynced = [
                self.inodes[number]
                for number in sorted(shown)
                if self.inodes[number].data != self.inodes[number].durable
            ]
            for versions in itertools.product(*(torn_versions(inode) for inode in unsynced)):
                data = {
                    inode.number: version for inode, version in zip(unsynced, versions, strict=True)
                }
                yield self._after(names, shown, data)

    def _after(
        self, names: dict[int, dict[str, int]], shown: set[int], data: dict[int, bytes]
    ) -> Disk:
        twin = self.copy()
        twin.inodes = {number: inode for number, inode in twin.inodes.items() if number in shown}
        for number, inode in twin.inodes.items():
            inode.data = inode.durable = data.get(number, inode.durable)
            if number < FOREIGN and inode.data == inode.intact:
                inode.by_user = False
            inode.lock, inode.leases, inode.waiting = None, 0, []
            inode.writers = inode.opened = 0
            if inode.entries is not None:
                inode.entries = Entries(dict(names[number]), dict(names[number]), [])
        twin.precious = (self.precious & twin.reachable()) | self.secured
        twin.secured = set(twin.precious)
        twin.rescuable.clear()
        return twin

    def key(self) -> Hashable:
        """Equal for disks on which the same things can happen; times are left out."""
        named = {ROOT}
        for inode in self.inodes.values():
            if inode.entries is not None:
                named.update(inode.entries.live.values(), inode.entries.durable.values())
                named.update(n for c in inode.entries.pending for _, n in c if n is not None)
        files = tuple(
            (
                number,
                inode.data,
                inode.durable,
                inode.mode,
                inode.by_user,
                inode.opened,
                inode.was_shown,
                tuple(inode.waiting),
                _names(inode.entries),
            )
            for number, inode in sorted(self.inodes.items())
            if number in named or inode.opened
        )
        return files, frozenset(self.precious), frozenset(self.secured), self.certified


def _names(entries: Entries | None) -> Hashable:
    if entries is None:
        return None
    return (
        tuple(sorted(entries.live.items())),
        tuple(sorted(entries.durable.items())),
        tuple(entries.pending),
    )


def _reached(names: dict[int, dict[str, int]]) -> set[int]:
    """The inodes that some path from the root leads to, the root included."""
    found, open_ones = {ROOT}, [ROOT]
    while open_ones:
        for number in names[open_ones.pop()].values():
            if number not in found:
                found.add(number)
                if number in names:
                    open_ones.append(number)
    return found
