"""Steps that the model of reviewed deletions takes in several places: records, trees, ends."""

from __future__ import annotations

from typing import Any

from models.retention_world import NOTHING, RetentionRules, World, put


def changed(world: World, field: str, index: int, value: Any) -> World:
    made: dict[str, Any] = {field: put(getattr(world, field), index, value)}
    return world._replace(**made)


def within(world: World, field: str, op: int, index: int, value: Any) -> World:
    return changed(world, field, op, put(getattr(world, field)[op], index, value))


def phase_of(world: World, op: int, index: int) -> str:
    return world.log[op][index][0]


def append(world: World, rules: RetentionRules, op: int, index: int, phase: str) -> World:
    """A record, durable when this returns; behind a torn end that nobody cut it is never read."""
    if world.torn and not rules.torn_end_cut:
        return world
    occurrence = world.log[op][index][1]
    log = put(world.log[op], index, (phase, occurrence))
    return changed(world._replace(torn=False), "log", op, log)


def is_same(rules: RetentionRules, shown: int, wanted: int) -> bool:
    """An inode's number alone is the same for whatever was made next."""
    return shown != NOTHING and (shown == wanted or not rules.birth_time)


def ended(world: World, word: str) -> World:
    after = changed(world, "said", world.op, word)
    return after._replace(at="", item=0, known=(False, False), kept=(False, False), back="")


def emptied(world: World, rules: RetentionRules, op: int, index: int) -> World:
    """The tree is gone, and the activation with it."""
    after = within(within(world, "trash", op, index, NOTHING), "half", op, index, False)
    if index:
        return after
    after = changed(after, "trash_act", op, NOTHING)
    if not rules.activation_with_deployment or not rules.trash_alone:
        # By its name: whose it is by now nobody asked.
        is_current = world.protected[0] and world.act != NOTHING
        bad = "current lost its activation" if is_current else ""
        after = after._replace(act=NOTHING, bad=world.bad or bad)
    return after
