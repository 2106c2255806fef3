"""What the model of reviewed deletions consists of, and what others do to it.

Two candidates; the first one has an activation. Occurrence 1 is the reviewed one, 2 was built later
under the same name. Two operations: the second is planned later and closes the first. What a
process knows and has not written dies with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

BOTH: Final = (0, 1)
NOTHING: Final = 0
REVIEWED: Final = 1
LATER: Final = 2
Pair = tuple[int, int]
Flags = tuple[bool, bool]
Transaction = tuple[str, int]
Log = tuple[Transaction, Transaction]
Receipt = tuple[str, tuple[str, str]]
NO_LOG: Final[Log] = (("", 0), ("", 0))
NO_RECEIPT: Final[Receipt] = ("", ("", ""))


@dataclass(frozen=True)
class RetentionRules:
    """The rules of the protocol; each can be left out."""

    occurrence_before_receipt: bool = True
    birth_time: bool = True
    log_first: bool = True
    torn_end_cut: bool = True
    read_again: bool = True
    look_after_rename: bool = True
    activation_with_deployment: bool = True
    trash_alone: bool = True
    activation_stays: bool = True
    committed_for_ever: bool = True
    compare_before_settling: bool = True
    settle_before_abort: bool = True
    absorb_before_abort: bool = True
    drop_after_status: bool = True
    forget_after_commit: bool = True
    started_goes_forward: bool = True
    restore_when_free: bool = True
    the_rest_continues: bool = True
    intent: bool = True


@dataclass(frozen=True)
class RetentionBounds:
    """How often processes die and others act."""

    crashes: int = 1
    acts: int = 2


class Reviewed(NamedTuple):
    """A plan: its candidates, the authority it saw, and the receipt it closes."""

    candidates: Flags
    authority: int
    closes: Receipt


class World(NamedTuple):
    """Names, trash, log and receipts; the process; what an observer knows; what may still happen.

    `confirmed` are deletions that the log made certain for an operation; `authorised` is what stood
    at the name when the receipt began; `calm` ends with anything that asks for a fresh review;
    `bad` names what must never happen.
    """

    name: Pair = (REVIEWED, REVIEWED)
    act: int = REVIEWED
    trash: tuple[Pair, Pair] = ((NOTHING, NOTHING), (NOTHING, NOTHING))
    half: tuple[Flags, Flags] = ((False, False), (False, False))
    trash_act: Pair = (NOTHING, NOTHING)
    log: tuple[Log, Log] = (NO_LOG, NO_LOG)
    torn: bool = False
    receipts: tuple[Receipt, Receipt] = (NO_RECEIPT, NO_RECEIPT)
    intents: Flags = (False, False)
    plans: tuple[Reviewed | None, Reviewed | None] = (
        Reviewed((True, True), 0, NO_RECEIPT),
        None,
    )
    authority: int = 0
    protected: Flags = (False, False)
    stuck: Flags = (False, False)
    loader: bool = False
    at: str = ""
    op: int = 0
    item: int = 0
    known: Flags = (False, False)
    kept: Flags = (False, False)
    back: str = ""
    confirmed: tuple[Flags, Flags] = ((False, False), (False, False))
    authorised: tuple[Pair, Pair] = ((0, 0), (0, 0))
    said: tuple[str, str] = ("", "")
    commits: Flags = (False, False)
    calm: bool = True
    bad: str = ""
    crashes: int = 0
    acts: int = 0


Steps = Iterator[tuple[str, World]]
# Between these and the next step the promotion lock is held.
LOCKED: Final = frozenset(
    {"rename", "check", "activation", "say_detached", "back_act", "back", "say_back"}
)


def put(pair: tuple[object, object], index: int, value: object) -> tuple[object, object]:
    """The pair with another value at an index."""
    return (value, pair[1]) if index == 0 else (pair[0], value)


def others(world: World) -> Steps:
    """Publisher, promoter, loader, file system, reviewer."""
    if world.loader:
        yield "loader:done", world._replace(loader=False)
    for index in BOTH:
        if world.stuck[index]:
            yield "mended", world._replace(stuck=put(world.stuck, index, False))  # type: ignore[arg-type]
    if world.at == "" and world.plans[1] is None:
        yield "reviewed", world._replace(plans=(world.plans[0], planned(world)))
    if not world.acts:
        return
    spent = world._replace(acts=world.acts - 1)
    for index in BOTH:
        if world.name[index] != LATER:
            label = "rebuild" if world.name[index] == NOTHING else "rebuild:over"
            name = put(world.name, index, LATER)
            yield label, spent._replace(name=name, calm=False)  # type: ignore[arg-type]
        if not world.stuck[index]:
            yield "undeletable", spent._replace(stuck=put(world.stuck, index, True))  # type: ignore[arg-type]
    if world.at not in LOCKED and not world.loader:
        yield "loader:reads", spent._replace(loader=True)
        yield from _promoter(spent)


def planned(world: World) -> Reviewed:
    """What a plan made now says."""
    found = tuple(world.name[it] != NOTHING and not world.protected[it] for it in BOTH)
    first = world.receipts[0]
    return Reviewed(found, world.authority, first if first[0] == "applying" else NO_RECEIPT)  # type: ignore[arg-type]


def _promoter(world: World) -> Steps:
    spent = world._replace(authority=world.authority + 1, calm=False)
    yield "promote:other", spent
    for index in BOTH:
        if world.name[index] == NOTHING:
            continue
        after = spent._replace(protected=put(world.protected, index, True))  # type: ignore[arg-type]
        if index == 0 and world.act == NOTHING:
            after = after._replace(act=world.name[0])
        yield "promote", after
