"""Publishing two new files and a root: crashes, editors and failing calls at every step.

Promises what the names show, for one process at a time, whose death may fall between any two steps,
also in recovery and in the next run. Another program saves, writes, removes, at any file. Says
nothing about the exchange of one file, which `models.files` judges and which is one step here, nor
about the order of syncs, which the persistence model judges; one loss of power is in it, that of a
root whose sync failed. Linearization point: `activate`. What recovery does with a dead run's
receipt is derived here from what can be known, never looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from models.explorer import Model
from models.publishing_world import (
    ABSENT,
    BOTH,
    FORCE,
    OTHER,
    OURS,
    PLANNED,
    PublishBounds,
    PublishRules,
    Steps,
    World,
    act,
    planned,
    shows,
)


def conclusion_of(world: World, rules: PublishRules) -> str:
    """What a dead run's receipt comes to, from the root alone.

    Planned bytes there stand on the new files, whoever wrote them. The bytes from before do not
    name them. Any other version is somebody's own, and may.
    """
    if not rules.conclude_by_root:
        return "withdraw"
    if world.root in (FORCE, PLANNED):
        return "in_force"
    if world.root == planned(world):
        return "withdraw"
    return "leave" if rules.leave_to_others else "withdraw"


# -- the process -----------------------------------------------------------------------------------


def _conclude(world: World, rules: PublishRules) -> Steps:
    """Look for what a dead run left, have it durable, and act by what the root shows."""
    world = world._replace(undurable=world.undurable and not rules.durable_first)
    following = "end" if world.recovering else "check"
    if world.receipt is None:
        yield "conclude:nothing", world._replace(at=following, said="nothing")
        return
    doing = conclusion_of(world, rules)
    label = f"conclude:{world.root}/{doing}"
    after = world._replace(concluding=True, failed=frozenset(), said=doing)
    if doing == "withdraw":
        meddled = world.touched and world.root != planned(world)
        yield label, _undoing(after._replace(meddled=world.meddled or meddled), rules)
    else:
        given = world.given if world.undurable else frozenset(BOTH)
        yield label, after._replace(at="settle", given=given)


def _check(world: World, rules: PublishRules) -> Steps:
    """Algorithm step 1: every path, with no write at all."""
    is_done = world.root in (FORCE, PLANNED)
    is_taken = any(world.files[n] not in (ABSENT, OURS, PLANNED) for n in BOTH)
    if is_taken or not (is_done or world.root == planned(world)):
        yield "refuse", world._replace(at="end", said="refused")
        return
    there = frozenset(n for n in BOTH if world.files[n] in (OURS, PLANNED))
    after = world._replace(adopted=there, named=frozenset(), late=frozenset(), failed=frozenset())
    if not rules.adopt_nothing:
        after = after._replace(adopted=frozenset(), named=there)
    if is_done and there == set(BOTH):
        yield "no-op", after._replace(at="end", said="none")
    elif not rules.files_first:
        yield "check", after._replace(at="activate")
    else:
        yield "check", after._replace(at="receipt" if rules.receipt_first else "name")


def _receipt(world: World, rules: PublishRules) -> Steps:
    """Algorithm step 2: one receipt names every new file that is missing."""
    missing = frozenset(BOTH) - world.adopted
    following = "name" if rules.receipt_first else "again"
    if not rules.adopt_nothing:
        missing = frozenset(BOTH)
    yield "receipt", world._replace(receipt=missing, at=following, step=0)


def _name(world: World, rules: PublishRules) -> Steps:
    """Each new file gets its name, in the plan's order; a name that is taken stays theirs."""
    order = BOTH if rules.in_order else BOTH[::-1]
    number = order[world.step]
    following = world._replace(step=world.step + 1)
    if world.step == len(BOTH) - 1:
        last = "again" if rules.receipt_first else "receipt"
        following = world._replace(step=0, at=last if rules.files_first else "settle")
    if number in world.adopted | world.named:
        yield f"name:there@{number}", following
    elif world.files[number] == ABSENT or not rules.no_overwrite:
        lost = world.lost or world.files[number] != ABSENT
        named = following._replace(
            named=world.named | {number},
            late=world.late - {number},
            given=world.given - {number},
            lost=lost,
        )
        if not world.ours:
            # Below a root in force it is given back to whoever removed it, and may go again.
            named = named._replace(removed=named.removed - {number})
        yield f"name@{number}", shows(named, number, OURS)
    else:
        yield f"name:taken@{number}", _undoing(world, rules)
    if world.failures:
        yield f"name:failed@{number}", _undoing(_failed(world), rules)


def _again(world: World, rules: PublishRules) -> Steps:
    """Algorithm step 3: all of it is looked at again, immediately before the root."""
    if not rules.look_again:
        yield "again:skipped", world._replace(at="activate", step=0)
        return
    number = world.step
    following = world._replace(step=number + 1, late=world.late - {number})
    if number == BOTH[-1]:
        at = "activate" if rules.settle_last else "settle"
        following = following._replace(step=0, at=at)
    is_right = world.files[number] == OURS or (
        world.files[number] == PLANNED and number in world.adopted
    )
    if is_right:
        yield f"again@{number}", following
    else:
        yield f"again:changed@{number}", _undoing(world, rules)


def _activate(world: World, rules: PublishRules) -> Steps:
    """Algorithm step 4: the root puts everything in force. Its own change is one step here."""
    if world.root in (FORCE, PLANNED):
        there = world._replace(at="settle", said="committed", given=frozenset(BOTH))
        yield "activate:there", there
        return
    if world.root != planned(world):
        yield "activate:changed", _undoing(world, rules)
        return
    right = (world.files[n] in (OURS, PLANNED) or n in world.late for n in BOTH)
    done = world._replace(root=FORCE, ours=True, touched=False, stood=all(right))
    following = "settle" if rules.settle_last else "end"
    following = following if rules.files_first else "receipt"
    yield "activate", done._replace(at=following, said="committed", given=frozenset(BOTH))
    if world.failures:
        yield from _half_activated(_failed(world), _failed(done), rules)


def _half_activated(world: World, done: World, rules: PublishRules) -> Steps:
    """The root's change failed before, after, or at a moment that nobody can tell."""
    yield "activate:failed", _undoing(world, rules)
    pending = done._replace(said="committed_pending", at="end", undurable=True)
    if not rules.receipt_until_durable:
        pending = pending._replace(receipt=None)
    if not rules.keep_when_pending:
        pending = _undoing(pending, rules)
    yield "activate:pending", pending
    for label, unknown in (("did", done), ("did-not", world)):
        ended = unknown._replace(at="end", said="recovery_required")
        if not rules.keep_when_unknown:
            ended = _undoing(unknown, rules)
        yield f"activate:unknown-{label}", ended


def _failed(world: World) -> World:
    return world._replace(failures=world.failures - 1)


def _settle(world: World, rules: PublishRules) -> Steps:
    """The receipt goes. Concluding is followed by what this run is about."""
    following = "end"
    if world.concluding and not world.recovering:
        following = "check"
    if not rules.settle_last and not world.concluding:
        following = "activate"
    after = world._replace(receipt=None, at=following, concluding=False)
    yield f"settle:{world.said}", after
    if world.failures:
        said = f"{world.said}_pending" if world.said == "committed" else "recovery_required"
        yield "settle:failed", _failed(world)._replace(at="end", said=said)


def _undoing(world: World, rules: PublishRules) -> World:
    """Algorithm steps 5 and 6 begin: with the last new file."""
    return world._replace(at="undo", step=0)


def _undo(world: World, rules: PublishRules) -> Steps:
    """One compensation; its failure is recorded and stops no other."""
    order = BOTH[::-1] if rules.reverse else BOTH
    number = order[world.step]
    is_last = world.step == len(BOTH) - 1
    following = world._replace(at="undone", step=0) if is_last else world._replace(step=1)
    known = world.receipt if world.receipt is not None else world.named
    removable = (OURS,) if rules.identity else (OURS, PLANNED)
    if number in known and world.files[number] in removable:
        lost = world.lost or world.files[number] != OURS
        taken = following._replace(lost=lost)
        yield f"undo@{number}", shows(taken, number, ABSENT)
        if world.failures:
            failed = _failed(following)._replace(failed=world.failed | {number}, loose=True)
            if not rules.the_rest_continues:
                failed = failed._replace(at="undone", step=0)
            yield f"undo:failed@{number}", failed
    else:
        yield f"undo:none@{number}", following


def _undone(world: World, rules: PublishRules) -> Steps:
    """The receipt goes when nothing failed; else the next run takes it up."""
    if world.failed and rules.receipt_until_clean:
        yield "undone:failed", world._replace(at="end", said="recovery_required", concluding=False)
    elif world.concluding:
        yield "undone:concluded", world._replace(at="settle")
    else:
        yield "undone", world._replace(at="end", said="rolled_back", receipt=None)


_PROCESS: Final = {
    "conclude": _conclude,
    "check": _check,
    "receipt": _receipt,
    "name": _name,
    "again": _again,
    "activate": _activate,
    "settle": _settle,
    "undo": _undo,
    "undone": _undone,
}


def step(world: World, rules: PublishRules) -> Steps:
    """Everything that can happen next."""
    if world.at in _PROCESS:
        yield from _PROCESS[world.at](world, rules)
        if world.crashes:
            yield "crash", _dead(world, rules)
    elif world.runs:
        begun = world._replace(
            at="conclude",
            step=0,
            runs=world.runs - 1,
            said="",
            named=frozenset(),
            adopted=frozenset(),
            late=frozenset(),
            concluding=False,
        )
        yield "publish", begun._replace(recovering=False)
        yield "recover", begun._replace(recovering=True)
    if world.undurable and world.at in ("end", "dead"):
        yield "power", world._replace(root=planned(world), ours=False, undurable=False)
    if world.rivals:
        yield from act(world)


def _dead(world: World, rules: PublishRules) -> World:
    kept = world.receipt if rules.receipt_lasts else None
    return world._replace(at="dead", said="", receipt=kept, crashes=world.crashes - 1)


# -- what must hold --------------------------------------------------------------------------------


def _stands(world: World) -> bool:
    """A root that we put in force has the files that it names, unless another took them."""
    if not world.ours:
        return True
    return all(world.files[n] != ABSENT or n in world.removed for n in BOTH)


def _ordered(world: World) -> bool:
    """The second new file of ours is not there without the first."""
    return world.files != (ABSENT, OURS) or world.loose


def _no_orphan(world: World) -> bool:
    """A file of ours that no root of ours names is known to a receipt, or to who is at it."""
    if world.ours or world.touched:
        return True
    known = world.receipt or frozenset()
    return all(world.files[n] != OURS or n in known | world.given for n in BOTH)


def _rolled_back_is_true(world: World) -> bool:
    is_left = any(world.files[n] == OURS for n in world.named)
    return world.said != "rolled_back" or not is_left


def _committed_is_true(world: World) -> bool:
    return world.said != "committed" or world.ours or world.touched


def _only_failures_stay(world: World) -> bool:
    """Whoever undid says which files he could not take back: no other is left."""
    if world.at != "end" or world.said != "recovery_required" or not world.failed:
        return True
    known = world.receipt if world.receipt is not None else world.named
    return all(world.files[n] != OURS or n in world.failed for n in known)


def _ended_clean(world: World) -> bool:
    pending = ("recovery_required", "committed_pending")
    return world.at != "end" or world.receipt is None or world.said in pending


INVARIANTS: Final = {
    "the root stands on what it names": _stands,
    "the root was put on what had been planned": lambda world: world.stood,
    "nobody's file is taken": lambda world: not world.lost,
    "new files come and go in order": _ordered,
    "no file of ours is forgotten": _no_orphan,
    "rolled back is true": _rolled_back_is_true,
    "committed is true": _committed_is_true,
    "one failure stops no other compensation": _only_failures_stay,
    "nothing is left at the end": _ended_clean,
    "another's root is not built on sand": lambda world: not world.meddled,
}


def _says(word: str, world: World) -> bool:
    return world.said == word


_WORDS: Final = (
    "committed",
    "committed_pending",
    "rolled_back",
    "recovery_required",
    "refused",
    "none",
    "nothing",
    "in_force",
    "leave",
)
SOMETIMES: Final[dict[str, Callable[[World], bool]]] = {
    **{word: partial(_says, word) for word in _WORDS},
    "another's file in the place of ours": lambda world: (
        world.said == "rolled_back" and OTHER in world.files
    ),
    "a receipt of a root in force": lambda world: (
        world.at == "dead" and world.ours and world.receipt is not None
    ),
}
LABELS: Final = frozenset(
    {"again:changed", "name:taken", "undo:failed", "activate:changed", "power", "activate:there"}
)


def publish_model(
    rules: PublishRules | None = None,
    bounds: PublishBounds | None = None,
    *,
    is_complete: bool = True,
) -> Model[World]:
    """The protocol from its two starts: with a root that is there, and with a new one."""
    chosen, limits = rules or PublishRules(), bounds or PublishBounds()
    begin = World(
        rivals=limits.rivals, crashes=limits.crashes, failures=limits.failures, runs=limits.runs
    )
    return Model(
        name="publish",
        initial=(begin, begin._replace(is_new=True, root=ABSENT)),
        step=lambda world: step(world, chosen),
        invariants=INVARIANTS,
        sometimes=SOMETIMES if is_complete else {},
        sometimes_labels=LABELS if is_complete else frozenset(),
    )
