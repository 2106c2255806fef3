"""What must hold of reviewed deletions in every state, and what has to occur in some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from models.retention_world import BOTH, NOTHING, World

_OPEN: Final = ("prepared", "detached", "started")


def _never(words: str) -> Callable[[World], bool]:
    return lambda world: world.bad != words


def _receipt_never_leads(world: World) -> bool:
    """What a receipt calls deleted, the log had made certain."""
    return all(
        world.receipts[op][1][it] != "deleted" or world.confirmed[op][it]
        for op in BOTH
        for it in BOTH
    )


def _outcomes_are_kept(world: World) -> bool:
    """What the log had made certain, a receipt in its last state calls deleted."""
    return all(
        world.receipts[op][1][it] == "deleted" or not world.confirmed[op][it]
        for op in BOTH
        for it in BOTH
        if world.receipts[op][0] in ("committed", "aborted")
    )


def _committed_stays(world: World) -> bool:
    """What was committed once is committed for ever."""
    return all(not world.commits[op] or world.receipts[op][0] == "committed" for op in BOTH)


def _trash_is_known(world: World) -> bool:
    """Whatever lies in the trash has a record, so that somebody will end it."""
    return all(
        world.trash[op][it] == NOTHING or world.log[op][it][0] in _OPEN
        for op in BOTH
        for it in BOTH
    )


def _one_receipt_applies(world: World) -> bool:
    return sum(status == "applying" for status, _ in world.receipts) <= 1


def _others_go_on(world: World) -> bool:
    """An unfinished run leaves only what could not be deleted."""
    for op in BOTH:
        status, items = world.receipts[op]
        if world.at or world.said[op] != "unfinished" or status != "applying":
            continue
        untouched = [
            it for it in BOTH if items[it] == "pending" and world.log[op][it][0] == "prepared"
        ]
        if untouched:
            return False
    return True


def _a_crash_needs_no_review(world: World) -> bool:
    """What a run had closed before it died does not make its own plan another."""
    return not (world.calm and world.intents[1] and world.said[1] == "refused")


INVARIANTS: Final = {
    "a crash needs no fresh review": _a_crash_needs_no_review,
    "no protected deployment is detached": _never("a protected deployment was detached"),
    "nothing unreviewed is detached": _never("what nobody reviewed was detached"),
    "current keeps its activation": _never("current lost its activation"),
    "no half tree bears a name": _never("a half tree bears its name"),
    "no later tree is replaced": _never("a later tree was replaced"),
    "an old plan closes nothing newer": _never("an old plan closed a newer operation"),
    "nothing is closed without an intent": _never("closed without an intent"),
    "the receipt never leads the log": _receipt_never_leads,
    "confirmed outcomes are kept": _outcomes_are_kept,
    "a committed receipt never changes": _committed_stays,
    "the trash is known": _trash_is_known,
    "one receipt applies at most": _one_receipt_applies,
    "one stuck tree does not stop the rest": _others_go_on,
}
SOMETIMES: Final[dict[str, Callable[[World], bool]]] = {
    f"operation {op} is {word}": (lambda world, op=op, word=word: world.said[op] == word)  # type: ignore[misc]
    for op in BOTH
    for word in ("committed", "aborted", "unfinished")
}
SOMETIMES["both are committed"] = lambda world: world.said == ("committed", "committed")
LABELS: Final = frozenset(
    {
        *("rebuild", "promote", "undeletable", "crash:torn", "replay", "settle:back", "back:taken"),
        *("settle:forward", "settle:occupied", "settle:stuck", "in-trash", "closed", "known"),
        *("drift:authority", "drift:occurrence", "drift:unknown", "refuse:changed", "lag"),
    }
)
