"""How an operation is closed in the model: trees first, then the status, then the log."""

from __future__ import annotations

from models.retention_steps import append, changed, emptied, ended, phase_of, within
from models.retention_world import (
    BOTH,
    NO_LOG,
    NOTHING,
    RetentionRules,
    Steps,
    World,
    put,
)


def _whose(world: World) -> int:
    """Whose operation is being closed: another's on the way to the beginning, or our own."""
    return 1 - world.op if world.back else world.op


def settle(world: World, rules: RetentionRules) -> Steps:
    """Bring every tree to an end before the status is written."""
    op, index = _whose(world), world.item
    if index > 1 or not rules.settle_before_abort:
        following = "status" if rules.drop_after_status else "drop"
        yield "settled", world._replace(at=following)
        return
    phase, occurrence = world.log[op][index]
    is_in_trash = world.trash[op][index] != NOTHING
    is_unknown = is_in_trash and world.trash[op][index] != occurrence
    onward = world._replace(item=index + 1)
    is_whole_again = not rules.started_goes_forward and world.name[index] == NOTHING
    if phase == "started" and not (is_whole_again and is_in_trash):
        if world.stuck[index]:
            yield "settle:stuck", onward
            return
        after = append(emptied(world, rules, op, index), rules, op, index, "committed")
        after = changed(after, "confirmed", op, put(world.confirmed[op], index, True))
        yield "settle:forward", after._replace(item=index + 1)
    elif is_in_trash and phase in ("prepared", "detached", "started"):
        if world.loader:
            return
        if world.name[index] == NOTHING or not rules.restore_when_free:
            yield "settle:back", world._replace(at="back_act")
        elif is_unknown:
            yield "settle:left", onward
        else:
            after = world if rules.activation_stays else _taken(world, op, index)
            yield "settle:occupied", append(after, rules, op, index, "started")
    else:
        yield "settle:nothing", onward


def _taken(world: World, op: int, index: int) -> World:
    """The activation too, by its occurrence; nobody asks what uses it."""
    if index or world.act == NOTHING or world.act != world.trash[op][0]:
        return world
    bad = "current lost its activation" if world.protected[0] else ""
    after = changed(world, "trash_act", op, world.act)
    return after._replace(act=NOTHING, bad=world.bad or bad)


def back(world: World, rules: RetentionRules) -> Steps:
    op, index = _whose(world), world.item
    if world.at == "back_act":
        after = world._replace(at="back")
        if index == 0 and world.trash_act[op] and world.act == NOTHING:
            after = changed(after._replace(act=world.trash_act[op]), "trash_act", op, NOTHING)
        yield "back:activation", after
    elif world.at == "back":
        if world.name[index] != NOTHING and rules.restore_when_free:
            yield "back:taken", world._replace(at="settle")
            return
        bad = "a half tree bears its name" if world.half[op][index] else ""
        if world.name[index] != NOTHING:
            bad = "a later tree was replaced"
        after = changed(world, "name", index, world.trash[op][index])
        after = within(after, "trash", op, index, NOTHING)
        yield "back", after._replace(at="say_back", bad=world.bad or bad)
    else:
        after = append(world, rules, op, index, "restored")
        yield "restored", after._replace(at="settle", item=index + 1)


def status_step(world: World, rules: RetentionRules) -> Steps:
    op = _whose(world)
    _, items = world.receipts[op]
    shown = []
    for index in BOTH:
        is_gone = phase_of(world, op, index) == "committed" and rules.absorb_before_abort
        pending = "deleted" if is_gone else "skipped"
        shown.append(pending if items[index] == "pending" else items[index])
    plan, bad = world.plans[world.op], ""
    if world.back and plan is not None and not world.intents[world.op]:
        bad = "closed without an intent"
    if world.back and plan is not None and plan.closes != world.receipts[op]:
        bad = "an old plan closed a newer operation"
    after = changed(world, "receipts", op, ("aborted", tuple(shown)))
    yield (
        "abort",
        after._replace(at="drop" if rules.drop_after_status else "closed", bad=world.bad or bad),
    )


def drop(world: World, rules: RetentionRules) -> Steps:
    op = _whose(world)
    kept = tuple(
        world.log[op][it]
        if phase_of(world, op, it) in ("started", "restored") or world.trash[op][it]
        else ("", 0)
        for it in BOTH
    )
    if not rules.settle_before_abort:
        kept = NO_LOG
    after = changed(world, "log", op, kept)
    yield "drop", after._replace(at="closed" if rules.drop_after_status else "status")


def closed(world: World) -> Steps:
    if world.back:
        yield "closed", world._replace(at="begin", back="", item=0)
    else:
        yield "aborted", ended(world, "aborted")
