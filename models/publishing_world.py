"""What the model of a publication consists of, and what other programs do to its files.

A plan has two new files and a root. A file is shown as one letter: `F` is ours, `W` ours and
written to by somebody, `P` another's with the planned bytes, `U` another's with other bytes. The
root shows `E` as planned, `D` as we put it in force, and `P` or `U` when it is another's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

ABSENT: Final = "-"
OURS: Final = "F"
WRITTEN: Final = "W"
PLANNED: Final = "P"
OTHER: Final = "U"
BEFORE: Final = "E"
FORCE: Final = "D"
BOTH: Final = (0, 1)


@dataclass(frozen=True)
class PublishRules:
    """The rules of publishing several files; each can be left out."""

    files_first: bool = True
    in_order: bool = True
    receipt_first: bool = True
    receipt_lasts: bool = True
    no_overwrite: bool = True
    look_again: bool = True
    keep_when_pending: bool = True
    keep_when_unknown: bool = True
    receipt_until_durable: bool = True
    receipt_until_clean: bool = True
    settle_last: bool = True
    reverse: bool = True
    the_rest_continues: bool = True
    identity: bool = True
    durable_first: bool = True
    conclude_by_root: bool = True
    leave_to_others: bool = True
    adopt_nothing: bool = True


@dataclass(frozen=True)
class PublishBounds:
    """How often other programs act, processes die, calls fail, and somebody tries again."""

    rivals: int = 2
    crashes: int = 2
    failures: int = 1
    runs: int = 2


class World(NamedTuple):
    """The files, the receipt, the process and what it knows, and what is owed to whom.

    `receipt` are the new files that it names; None: there is none. `adopted` were right before this
    run and are not its own; `named` are. `late`: another program acted on it after this run's last
    look. `failed`: its removal failed in this run; `loose`: one did in any, or another program
    removed one, so that order is not owed. `removed`: another program took the name away; `given`:
    it was in force at some time, or left to a root of somebody's own. `undurable`: a loss of power
    may yet take the root back. `ours`: the root was put in force by us.
    """

    root: str = BEFORE
    files: tuple[str, str] = (ABSENT, ABSENT)
    receipt: frozenset[int] | None = None
    at: str = "conclude"
    step: int = 0
    named: frozenset[int] = frozenset()
    adopted: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    late: frozenset[int] = frozenset()
    removed: frozenset[int] = frozenset()
    given: frozenset[int] = frozenset()
    said: str = ""
    undurable: bool = False
    ours: bool = False
    touched: bool = False
    concluding: bool = False
    recovering: bool = False
    is_new: bool = False
    # What must never become true.
    lost: bool = False
    stood: bool = True
    meddled: bool = False
    loose: bool = False
    rivals: int = 0
    crashes: int = 0
    failures: int = 0
    runs: int = 0


Steps = Iterator[tuple[str, World]]


def shows(world: World, number: int, letter: str) -> World:
    """The world with another thing under the name of a new file."""
    pair = (letter, world.files[1]) if number == 0 else (world.files[0], letter)
    return world._replace(files=pair)


def act(world: World) -> Steps:
    """One act of another program."""
    after = world._replace(rivals=world.rivals - 1)
    for number in BOTH:
        shown = world.files[number]
        is_late = world.at == "activate" or (world.at == "again" and world.step > number)
        late = after.late | {number} if is_late else after.late
        mark = after._replace(late=late, removed=after.removed - {number})
        for letter in (OTHER, PLANNED):
            yield f"save:{letter}@{number}", shows(mark, number, letter)
        if shown == OURS:
            yield f"write@{number}", shows(mark, number, WRITTEN)
        if shown != ABSENT:
            gone = mark._replace(removed=mark.removed | {number}, loose=True)
            yield f"remove@{number}", shows(gone, number, ABSENT)
    changed = after._replace(ours=False, touched=True, undurable=False)
    for letter in (OTHER, PLANNED, BEFORE, ABSENT):
        if letter != world.root and not (world.is_new and letter == BEFORE):
            yield f"root:{letter}", changed._replace(root=letter)


def planned(world: World) -> str:
    """What the root shows before anything is done."""
    return ABSENT if world.is_new else BEFORE
