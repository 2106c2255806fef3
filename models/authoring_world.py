"""What the model of one file consists of, and what other programs do to it.

Promises that an act of another program changes names and bytes as a real one does, and keeps the
books: a version that it wrote and did not itself give up is owed to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

ABSENT: Final = "-"
# Inodes: the expected one, the desired one, and two that editors make.
EXPECTED: Final = "E"
DESIRED: Final = "D"
SAVED: Final = ("U", "V")
NO_JOURNAL: Final = -1
RETIRING: Final = ("commit", "discard_earlier", "discard_ours", "discard_removed")


@dataclass(frozen=True)
class FileRules:
    """The rules of the protocol; each can be left out."""

    journal_first: bool = True
    prepared_first: bool = True
    proof_first: bool = True
    proof_heeded: bool = True
    proof_kept: bool = True
    digest_again: bool = True
    committed_first: bool = True
    kept_first: bool = True
    own_proof: bool = True
    identity: bool = True
    empty_name_keeps: bool = True
    exchange_back: bool = True
    put_back: bool = True


@dataclass(frozen=True)
class FileBounds:
    """How often other programs act and processes die."""

    rivals: int = 2
    crashes: int = 2


class World(NamedTuple):
    """Names, bytes, journal, the process and what it is about, and what is owed to whom.

    `written` are the inodes that another program wrote to in place, `open` those that one has open
    for writing, `waiting` those where a lease holds one up. `owed` are versions: an inode's letter,
    with `!` when it was written to. `copied` is a rescued version under the recovery name.
    """

    t: str = EXPECTED
    x: str = ABSENT
    r: str = ABSENT
    written: frozenset[str] = frozenset()
    open: frozenset[str] = frozenset()
    flying: frozenset[str] = frozenset()
    waiting: str = ""
    leased: str = ""
    phase: int = NO_JOURNAL
    at: str = "compare"
    doing: str = ""
    proof: bool = False
    is_right: bool = False
    said: str = ""
    kept: bool = False
    owed: frozenset[str] = frozenset()
    copied: str = ""
    is_overtaken: bool = False
    is_exchanged: bool = False
    was_removed: bool = False
    was_empty: bool = False
    is_dropped: bool = False
    is_removal: bool = False
    is_named: bool = False
    rivals: int = 0
    crashes: int = 0


Steps = Iterator[tuple[str, World]]


def version(world: World, inode: str) -> str:
    """The bytes that an inode holds, as a word."""
    return inode + "!" if inode in world.written else inode


# -- other programs --------------------------------------------------------------------------------


def _destroyed(world: World) -> World:
    """Whoever replaces or removes the file gives up the version that he sees."""
    shown = version(world, world.t)
    if shown in (version(world, world.x), version(world, world.r), world.copied):
        return world
    return world._replace(owed=world.owed - {shown})


def _wrote(world: World, inode: str) -> World:
    """New bytes in an inode, by somebody else."""
    owed = world.owed - {inode}
    if inode in (world.t, world.x, world.r) or inode == world.leased:
        owed |= {inode + "!"}
    return world._replace(written=world.written | {inode}, owed=owed)


def act(world: World) -> Steps:
    """One act of another program."""
    after = _destroyed(world)._replace(rivals=world.rivals - 1)
    free = [inode for inode in SAVED if inode not in (world.t, world.x, world.r)]
    unused = [inode for inode in free if inode not in world.owed]
    for inode in unused[:1]:
        yield "save", after._replace(t=inode, owed=after.owed | {inode})
    if world.t == ABSENT:
        return
    yield "remove", after._replace(t=ABSENT, was_removed=True)
    shown = world.t
    if shown in SAVED or shown in world.written:
        return
    spent = world._replace(rivals=world.rivals - 1)
    if shown == world.leased:
        yield "write:held-up", spent._replace(waiting=shown)
    else:
        yield "write", _wrote(spent, shown)
        yield "open", spent._replace(open=world.open | {shown})
    yield "open:begun", spent._replace(flying=world.flying | {shown})


def late(world: World) -> Steps:
    """Who has the file open writes and closes; an open that was in flight arrives."""
    for inode in sorted(world.open):
        yield "write:late", _wrote(world, inode)._replace(open=world.open - {inode})
    for inode in sorted(world.flying):
        landed = world._replace(flying=world.flying - {inode})
        if inode == world.leased:
            yield "open:held-up", landed._replace(waiting=inode)
        elif inode in (world.t, world.x, world.r):
            yield "open:arrived", _wrote(landed, inode)
        else:
            yield "open:too-late", landed


def released(world: World) -> World:
    """The proof is given back; whoever was held up writes, if anybody can still see it."""
    after = world._replace(leased="", waiting="")
    if world.waiting and world.waiting in (world.t, world.x, world.r):
        return _wrote(after, world.waiting)
    return after
