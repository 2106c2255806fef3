"""Reviewed deletions with crashes, torn appends, drift, rebuilding, promotion and a stuck tree.

Promises what names, trash, log and receipts say after any of these, for one process at a time (the
reconcile lock), whose death may fall between any two durable steps, also in recovery. Says nothing
about the order in which a disk makes writes durable: each step here is synced. Linearization point
of a deletion: the step `rename`.
"""

from __future__ import annotations

from typing import Any, Final

from models.explorer import Model
from models.retention_closing import back, closed, drop, settle, status_step
from models.retention_judge import INVARIANTS, LABELS, SOMETIMES
from models.retention_steps import append, changed, emptied, ended, is_same, phase_of, within
from models.retention_world import (
    BOTH,
    NO_RECEIPT,
    NOTHING,
    RetentionBounds,
    RetentionRules,
    Steps,
    World,
    others,
    planned,
    put,
)


def _is(world: World, rules: RetentionRules, op: int, index: int) -> bool:
    """Whether what bears the name is the occurrence of the record."""
    return is_same(rules, world.name[index], world.log[op][index][1])


def _drifted(world: World) -> bool:
    plan = world.plans[world.op]
    items = world.receipts[world.op][1]
    assert plan is not None
    is_protected = any(world.protected[it] and items[it] == "pending" for it in BOTH)
    return world.authority != plan.authority or is_protected


# -- beginning -------------------------------------------------------------------------------------


def _look(world: World, rules: RetentionRules) -> Steps:
    status, items = world.receipts[world.op]
    if status == "committed":
        came_back = any(items[it] == "deleted" and world.name[it] for it in BOTH)
        if came_back and not rules.committed_for_ever:
            rewritten = changed(world, "receipts", world.op, ("aborted", items))
            yield "rewrite", ended(rewritten, "aborted")
            return
        yield "replay", ended(_forgotten(world, world.op), "committed")
    elif status == "aborted":
        yield "refuse:aborted", ended(world, "aborted")
    elif status == "applying":
        is_back = any(items[it] == "deleted" and world.name[it] for it in BOTH)
        after = "settle" if _drifted(world) or is_back else "item"
        known = tuple(items[it] == "deleted" for it in BOTH)
        calm = world.calm and (world.op == 1 or not world.intents[1])
        yield "resume", world._replace(calm=calm, at=after, item=0, known=known, back="")  # type: ignore[arg-type]
    else:
        yield from _compare(world, rules)


def _compare(world: World, rules: RetentionRules) -> Steps:
    """Step 9, before anything of others is settled."""
    plan, other = world.plans[world.op], 1 - world.op
    assert plan is not None
    now = planned(world)
    is_applying = world.receipts[other][0] == "applying"
    if world.op == 0:
        now = now._replace(closes=world.receipts[1] if is_applying else NO_RECEIPT)
    if world.intents[world.op] and is_applying and world.receipts[other] != plan.closes:
        # It went on, or began, behind the intent.
        yield "refuse:changed", ended(world, "refused")
        return
    if world.intents[world.op] and rules.intent:
        put_back = tuple(phase_of(world, other, it) == "restored" for it in BOTH)
        seen = tuple(now.candidates[it] and not put_back[it] for it in BOTH)
        now = now._replace(closes=plan.closes, candidates=seen)  # type: ignore[arg-type]
    if not rules.compare_before_settling:
        now = now._replace(closes=plan.closes)
    if now != plan:
        yield "refuse:changed", ended(world, "refused")
    elif not any(plan.candidates) and not is_applying:
        yield "nothing", ended(world, "nothing")
    else:
        calm = world.calm and (world.op == 1 or not world.intents[1])
        yield "compared", world._replace(at="prepare", calm=calm)


def _prepare(world: World, rules: RetentionRules) -> Steps:
    """Step 10: one record for the intent and for every candidate."""
    plan = world.plans[world.op]
    assert plan is not None
    records = tuple(
        ("prepared", world.name[it])
        if plan.candidates[it] and rules.occurrence_before_receipt
        else ("", 0)
        for it in BOTH
    )
    after = world
    if not world.torn or rules.torn_end_cut:
        after = changed(world._replace(torn=False), "log", world.op, records)
        after = changed(after, "intents", world.op, True)
    is_applying = world.receipts[1 - world.op][0] == "applying"
    following = "settle" if is_applying else "begin"
    yield "intent", after._replace(at=following, item=0, back="begin" if is_applying else "")


def _begin(world: World) -> Steps:
    plan = world.plans[world.op]
    assert plan is not None
    if world.loader:
        return
    is_protected = any(plan.candidates[it] and world.protected[it] for it in BOTH)
    if is_protected or world.authority != plan.authority:
        yield "refuse:drift", ended(world, "refused")
        return
    if not any(plan.candidates):
        yield "nothing", ended(world, "nothing")
        return
    items = tuple("pending" if plan.candidates[it] else "none" for it in BOTH)
    after = changed(world, "receipts", world.op, ("applying", items))
    after = changed(after, "authorised", world.op, world.name)
    yield "begin", after._replace(at="item", item=0, known=(False, False), kept=(False, False))


# -- deleting --------------------------------------------------------------------------------------


def _item(world: World, rules: RetentionRules) -> Steps:
    """Steps 12 to 14."""
    if world.item > 1:
        yield "all", world._replace(at="finish")
        return
    index, items = world.item, world.receipts[world.op][1]
    if items[index] != "pending":
        yield "skip", world._replace(item=index + 1)
        return
    phase = phase_of(world, world.op, index)
    if phase == "" and not rules.occurrence_before_receipt and world.name[index]:
        log = put(world.log[world.op], index, ("prepared", world.name[index]))
        yield "prepare:late", changed(world, "log", world.op, log)
    elif phase in ("", "restored"):
        yield "drift:unknown", world._replace(at="settle", item=0)
    elif phase == "committed":
        yield "known", _known(world)
    elif phase == "started":
        yield "go-on", world._replace(at="scrub")
    elif not world.loader:
        if rules.read_again and _drifted(world):
            yield "drift:authority", world._replace(at="settle", item=0)
        elif is_same(rules, world.trash[world.op][index], world.log[world.op][index][1]):
            # What bears the name again uses the activation that it finds.
            is_used = world.name[index] != NOTHING and rules.activation_stays
            yield "in-trash", world._replace(at="say_detached" if is_used else "activation")
        elif _is(world, rules, world.op, index):
            yield "locked", world._replace(at="rename")
        else:
            yield "drift:occurrence", world._replace(at="settle", item=0)


def _known(world: World) -> World:
    """It is deleted for certain. What bears its name now ends the operation, if more is left."""
    index = world.item
    after = changed(world, "known", index, True)
    is_more = any(world.receipts[world.op][1][it] == "pending" for it in range(index + 1, 2))
    if world.name[index] != NOTHING and is_more:
        return after._replace(at="settle", item=0)
    return after._replace(at="progress")


def _detach(world: World, rules: RetentionRules) -> Steps:
    index = world.item
    if world.at == "rename":
        bad = ""
        if world.protected[index]:
            bad = "a protected deployment was detached"
        if world.name[index] == NOTHING:
            yield "rename:missing", world._replace(at="settle", item=0)
            return
        after = within(world, "trash", world.op, index, world.name[index])
        after = changed(after, "name", index, NOTHING)
        following = "check" if rules.look_after_rename else "activation"
        yield "rename", after._replace(at=following, bad=world.bad or bad)
    elif world.at == "check":
        if is_same(rules, world.trash[world.op][index], world.log[world.op][index][1]):
            yield "check", world._replace(at="activation")
            return
        # Swapped between the look and the rename: another occurrence.
        yield "swapped", world._replace(at="settle", item=0)
    elif world.at == "activation":
        after = world._replace(at="say_detached")
        is_ours = index == 0 and world.act == world.trash[world.op][0]
        if is_ours and world.act and rules.activation_with_deployment:
            after = changed(after._replace(act=NOTHING), "trash_act", world.op, world.act)
        yield "activation", after
    else:
        after = append(world, rules, world.op, index, "detached")
        if world.trash[world.op][index] != world.authorised[world.op][index]:
            after = after._replace(bad=world.bad or "what nobody reviewed was detached")
        if not rules.log_first:
            status, items = world.receipts[world.op]
            after = changed(after, "receipts", world.op, (status, put(items, index, "deleted")))
        yield "detached", after._replace(at="say_started")


def _scrub(world: World, rules: RetentionRules) -> Steps:
    index = world.item
    if world.at == "say_started":
        after = append(world, rules, world.op, index, "started")
        yield "started", after._replace(at="scrub")
    elif world.at == "scrub":
        if world.stuck[index]:
            following = world._replace(item=index + 1, at="item")
            if not rules.the_rest_continues:
                following = ended(world, "unfinished")
            yield "undeletable:kept", changed(following, "kept", index, True)
        elif world.trash[world.op][index] and not world.half[world.op][index]:
            yield "scrub:half", within(world, "half", world.op, index, True)
        else:
            after = emptied(world, rules, world.op, index)
            yield "scrub", after._replace(at="say_committed")
    else:
        after = append(world, rules, world.op, index, "committed")
        after = changed(after, "confirmed", world.op, put(world.confirmed[world.op], index, True))
        yield "committed", _known(after)


def _progress(world: World) -> Steps:
    """Step 16; the receipt may lag."""
    yield "lag", world._replace(at="item", item=world.item + 1)
    status, items = world.receipts[world.op]
    shown = tuple("deleted" if world.known[it] else items[it] for it in BOTH)
    after = changed(world, "receipts", world.op, (status, shown))
    yield "progress", after._replace(at="item", item=world.item + 1)


def _finish(world: World, rules: RetentionRules) -> Steps:
    status, items = world.receipts[world.op]
    shown = tuple(
        "deleted" if items[it] == "pending" and world.known[it] else items[it] for it in BOTH
    )
    if "pending" in shown:
        yield (
            "unfinished",
            ended(changed(world, "receipts", world.op, (status, shown)), "unfinished"),
        )
        return
    if not rules.forget_after_commit and world.at == "finish":
        yield "forget", _forgotten(world, world.op)._replace(at="commit")
        return
    after = changed(world, "receipts", world.op, ("committed", shown))
    yield "commit", changed(after, "commits", world.op, True)._replace(at="forget")


def _forget(world: World) -> Steps:
    """Step 17, and what others could not delete is tried again."""
    after = _forgotten(world, world.op)
    other = 1 - world.op
    for index in BOTH:
        is_open = phase_of(after, other, index) == "started"
        if is_open and not world.stuck[index] and world.receipts[other][0] != "applying":
            after = emptied(after, RetentionRules(), other, index)
            after = changed(after, "log", other, put(after.log[other], index, ("", 0)))
    yield "forget", ended(after, "committed")


def _forgotten(world: World, op: int) -> World:
    kept = tuple(it if it[0] == "started" else ("", 0) for it in world.log[op])
    return changed(world, "log", op, kept)


# -- all -------------------------------------------------------------------------------------------


def process(world: World, rules: RetentionRules) -> Steps:
    """What the one process does next."""
    at = world.at
    if at == "":
        for op in BOTH:
            if world.plans[op] is not None:
                yield f"start@{op}", world._replace(at="look", op=op)
    elif at in ("rename", "check", "activation", "say_detached"):
        yield from _detach(world, rules)
    elif at in ("say_started", "scrub", "say_committed"):
        yield from _scrub(world, rules)
    elif at in ("back_act", "back", "say_back"):
        yield from back(world, rules)
    elif at in _PLAIN:
        yield from _PLAIN[at](world)
    else:
        yield from _RULED[at](world, rules)


_PLAIN: Final[dict[str, Any]] = {
    "begin": _begin,
    "progress": _progress,
    "forget": _forget,
    "closed": closed,
}
_RULED: Final[dict[str, Any]] = {
    "look": _look,
    "prepare": _prepare,
    "item": _item,
    "finish": _finish,
    "commit": _finish,
    "settle": settle,
    "status": status_step,
    "drop": drop,
}


def step(world: World, rules: RetentionRules) -> Steps:
    """The process, its death, and everybody else."""
    yield from process(world, rules)
    if world.at and world.crashes:
        dead = world._replace(crashes=world.crashes - 1, at="", item=0, back="")
        dead = dead._replace(known=(False, False), kept=(False, False))
        yield "crash", dead
        if world.at.startswith("say_") or world.at in ("prepare", "drop", "forget"):
            yield "crash:torn", dead._replace(torn=True)
    yield from others(world)


def retention_model(
    rules: RetentionRules | None = None,
    bounds: RetentionBounds | None = None,
    *,
    is_complete: bool = True,
) -> Model[World]:
    """The protocol from its one start: two candidates reviewed, nothing begun."""
    chosen, limits = rules or RetentionRules(), bounds or RetentionBounds()
    begin = World(crashes=limits.crashes, acts=limits.acts)
    return Model(
        name="retention",
        initial=(begin,),
        step=lambda world: step(world, chosen),
        invariants=INVARIANTS,
        sometimes=SOMETIMES if is_complete else {},
        sometimes_labels=LABELS if is_complete else frozenset(),
    )
