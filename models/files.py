"""Compare-and-replace of one file, and its removal, with editors and crashes at every step.

Promises what names show and which bytes have a name, for one process at a time, whose death may
fall between any two steps, also in recovery. Other programs save, write in place, remove, open and
write late. Says nothing about durability, which the persistence model judges, nor about two
processes, which the schedules judge. Linearization point: `exchange`, or `quarantine`.
The actions of recovery are derived here from what is known, never looked up in the table.
"""

from __future__ import annotations

from typing import Final

from dpone.contracts.transaction import Phase
from models.authoring_world import (
    ABSENT,
    DESIRED,
    EXPECTED,
    NO_JOURNAL,
    RETIRING,
    SAVED,
    FileBounds,
    FileRules,
    Steps,
    World,
    act,
    late,
    released,
    version,
)
from models.explorer import Model


def side_of(world: World, rules: FileRules) -> str:
    """What recovery sees beside the file."""
    shown = version(world, world.x)
    if not rules.identity and shown in world.owed and shown in SAVED:
        # The editor had saved the expected bytes: bytes alone cannot tell.
        return "earlier"
    if not rules.digest_again:
        shown = world.x
    known = {ABSENT: "absent", EXPECTED: "earlier", DESIRED: "ours"}
    return known.get(shown, "other")


def target_of(world: World) -> str:
    """What recovery sees under the name."""
    known = {ABSENT: "absent", DESIRED: "ours"}
    return known.get(version(world, world.t), "other")


def action_of(phase: int, side: str, target: str, rules: FileRules) -> str:
    """What has to be done, from what can be known.

    A journal in staging says that nothing was exchanged. Expected bytes beside the file mean that
    the exchange happened to the right version; other bytes beside ours that it hit a wrong one.
    """
    if phase == Phase.STAGING:
        return "drop_side"
    if phase == Phase.KEPT:
        return "finish_keeping"
    if phase == Phase.COMMITTED:
        known = {"absent": "close_committed", "earlier": "discard_earlier"}
        return known.get(side, "keep_committed")
    if phase == Phase.REMOVING:
        if side in ("absent", "earlier"):
            return "removed" if side == "absent" else "discard_removed"
        return "put_back" if target == "absent" and rules.put_back else "keep"
    if side in ("absent", "ours"):
        return "close" if side == "absent" else "discard_ours"
    if side == "earlier":
        is_kept = target == "absent" and rules.empty_name_keeps
        return "keep_earlier" if is_kept else "commit"
    return "exchange_back" if target == "ours" and rules.exchange_back else "keep"


# -- the process -----------------------------------------------------------------------------------


def _change(world: World, rules: FileRules) -> Steps:
    """From the comparison to the exchange, or to the quarantine."""
    if world.at == "compare":
        if version(world, world.t) != EXPECTED:
            yield "refused", world._replace(at="end", said="refused")
            return
        first = "journal" if rules.journal_first else "side"
        yield "compared", world._replace(at=first)
    elif world.at == "journal":
        phase = Phase.STAGING if world.is_named else Phase.PREPARED
        if world.is_removal:
            yield "journal", world._replace(phase=int(Phase.REMOVING), at="quarantine")
            return
        following = "side" if world.x == ABSENT else "exchange"
        yield "journal", world._replace(phase=int(phase), at=following)
    elif world.at == "side":
        following = "journal" if world.phase == NO_JOURNAL else "exchange"
        if world.is_named and rules.prepared_first and following == "exchange":
            following = "prepare"
        yield "side", world._replace(x=DESIRED, at=following)
    elif world.at == "prepare":
        yield "prepare", world._replace(phase=int(Phase.PREPARED), at="exchange")
    elif world.at == "exchange":
        if world.t == ABSENT:
            yield "exchange:missing", world._replace(at="decide")
            return
        is_overtaken = version(world, world.t) != EXPECTED
        swapped = world._replace(t=world.x, x=world.t, at="decide", is_exchanged=True)
        yield "exchange", swapped._replace(is_overtaken=is_overtaken)
    elif world.at == "quarantine":
        yield "quarantine", world._replace(t=ABSENT, x=world.t, at="decide")


def _decide(world: World, rules: FileRules) -> Steps:
    """Look, and turn to what has to be done."""
    side, target = side_of(world, rules), target_of(world)
    doing = action_of(world.phase, side, target, rules)
    label = f"decide:{Phase(world.phase).name}/{side}/{target}/{doing}"
    after = world._replace(doing=doing, was_empty=target == "absent")
    if doing in ("close", "removed", "close_committed"):
        yield label, after._replace(at="close")
    elif doing == "drop_side" or (doing == "discard_ours" and not rules.own_proof):
        yield label, after._replace(at="unlink")
    elif doing in RETIRING:
        yield label, after._replace(at="prove" if rules.proof_first else "digest")
    elif doing == "exchange_back":
        yield label, after._replace(phase=int(Phase.ROLLING_BACK), at="back")
    elif doing == "put_back":
        yield label, after._replace(at="back")
    elif doing in ("keep", "keep_earlier") and rules.kept_first:
        yield label, after._replace(phase=int(Phase.KEPT), at="move")
    else:
        yield label, after._replace(at="move")


def _retire(world: World, rules: FileRules) -> Steps:
    """Proof, digest, phase, a last look, unlink, and a look after it."""
    if world.at == "prove":
        is_proven = world.x not in world.open
        leased = world.x if is_proven else ""
        following = "digest" if rules.proof_first else "say"
        yield "prove", world._replace(proof=is_proven, leased=leased, at=following)
    elif world.at == "digest":
        wanted = DESIRED if world.doing == "discard_ours" else EXPECTED
        shown = version(world, world.x) if rules.digest_again else world.x
        is_right = shown == wanted or not rules.identity
        if not is_right:
            yield "digest:differs", released(world)._replace(at="decide")
            return
        yield "digest", world._replace(at="say" if rules.proof_first else "prove")
    elif world.at == "say":
        after = world._replace(at="check")
        if world.doing == "commit" and rules.committed_first:
            after = after._replace(phase=int(Phase.COMMITTED))
        yield "say", after
    elif world.at == "check":
        is_quiet = (world.proof and not world.waiting) or not rules.proof_heeded
        yield "check", world._replace(at="unlink" if is_quiet else "move")
    elif world.at == "after":
        if world.waiting and rules.proof_kept:
            rescued = world.waiting + "!"
            after = world._replace(leased="", waiting="", copied=rescued, kept=True, at="close")
            yield (
                "rescue",
                after._replace(
                    written=world.written | {world.waiting}, owed=world.owed | {rescued}
                ),
            )
            return
        lost = {world.waiting + "!"} if world.waiting else set()
        after = world._replace(owed=world.owed | lost, leased="", waiting="", at="close")
        yield "gone", after


def _finish(world: World) -> Steps:
    """Names and the journal."""
    if world.at == "unlink":
        following = "after" if world.doing in RETIRING else "close"
        is_dropped = world.was_empty and world.doing == "commit"
        yield "unlink", world._replace(x=ABSENT, at=following, is_dropped=is_dropped)
    elif world.at == "move":
        moved = released(world)
        if world.x != ABSENT:
            moved = moved._replace(r=world.x, x=ABSENT)
        yield "move", moved._replace(kept=True, at="close")
    elif world.at == "back":
        if world.doing == "put_back":
            if world.t == ABSENT:
                yield "put-back", world._replace(t=world.x, x=ABSENT, at="decide")
            else:
                yield "put-back:taken", world._replace(at="decide")
        elif world.t == ABSENT:
            yield "exchange-back:missing", world._replace(at="decide")
        else:
            yield "exchange-back", world._replace(t=world.x, x=world.t, at="decide")
    elif world.at == "close":
        said = _said(world)
        yield f"close:{said}", world._replace(phase=NO_JOURNAL, at="end", said=said)


def _said(world: World) -> str:
    """The word of the outcome."""
    if world.doing in ("keep", "finish_keeping"):
        return "recovery_required"
    committed = ("commit", "discard_earlier", "keep_committed", "close_committed", "keep_earlier")
    return "committed" if world.doing in committed else "rolled_back"


def step(world: World, rules: FileRules) -> Steps:
    """Everything that can happen next."""
    if world.at == "dead":
        following = "end" if world.phase == NO_JOURNAL else "decide"
        yield "recover", world._replace(at=following, doing="", said="nothing")
    elif world.at == "decide":
        yield from _decide(world, rules)
    elif world.at in ("prove", "digest", "say", "check", "after"):
        yield from _retire(world, rules)
    elif world.at != "end":
        yield from _change(world, rules)
        yield from _finish(world)
    if world.at not in ("compare", "end", "dead") and world.crashes:
        yield "crash", released(world)._replace(at="dead", crashes=world.crashes - 1)
    if world.rivals:
        yield from act(world)
    yield from late(world)


# -- what must hold --------------------------------------------------------------------------------


def _owed_have_names(world: World) -> bool:
    shown = {version(world, inode) for inode in (world.t, world.x, world.r)} | {world.copied}
    return world.owed <= shown


def _ended_clean(world: World) -> bool:
    return world.at != "end" or (world.phase == NO_JOURNAL and world.x == ABSENT)


def _name_is_kept(world: World) -> bool:
    """Absent only by another's will, or on the way of a removal."""
    return world.t != ABSENT or world.was_removed or world.is_removal


def _committed_is_true(world: World) -> bool:
    return world.said != "committed" or (world.is_exchanged and not world.is_overtaken)


def _rolled_back_is_true(world: World) -> bool:
    is_shown = version(world, world.t) == DESIRED
    return world.said != "rolled_back" or not is_shown


def _earlier_is_kept(world: World) -> bool:
    """What was found beside an empty name, and not yet committed, is not dropped."""
    return not world.is_dropped


def _kept_is_said(world: World) -> bool:
    """Another's file under the recovery name is never passed over in silence."""
    is_foreign = world.r in SAVED and world.r in world.owed
    return not (world.at == "end" and is_foreign) or world.said in (
        "recovery_required",
        "committed",
    )


def _returned(world: World) -> bool:
    """A version that lost the race for the name to us has it back, if nobody took it since."""
    if world.said != "recovery_required" or world.was_removed:
        return True
    return world.t != ABSENT if world.is_removal else version(world, world.t) != DESIRED


INVARIANTS: Final = {
    "owed versions have names": _owed_have_names,
    "nothing is left at the end": _ended_clean,
    "the name is never absent by us": _name_is_kept,
    "committed is true": _committed_is_true,
    "rolled back is true": _rolled_back_is_true,
    "the earlier bytes are kept beside an empty name": _earlier_is_kept,
    "kept is said": _kept_is_said,
    "the loser has his name back": _returned,
}
SOMETIMES: Final = {
    word: (lambda world, word=word: world.said == word)
    for word in ("committed", "rolled_back", "recovery_required", "refused", "nothing")
}
LABELS: Final = frozenset(
    {"rescue", "open:held-up", "write:late", "exchange-back", "put-back", "prepare", "move"}
)


def files_model(
    rules: FileRules | None = None, bounds: FileBounds | None = None, *, is_complete: bool = True
) -> Model[World]:
    """The protocol from its three starts: without and with names only, and a removal."""
    chosen, limits = rules or FileRules(), bounds or FileBounds()
    begin = World(rivals=limits.rivals, crashes=limits.crashes)
    return Model(
        name="files",
        initial=(begin, begin._replace(is_named=True), begin._replace(is_removal=True)),
        step=lambda world: step(world, chosen),
        invariants=INVARIANTS,
        sometimes=SOMETIMES if is_complete else {},
        sometimes_labels=LABELS if is_complete else frozenset(),
    )
