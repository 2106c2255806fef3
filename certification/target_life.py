"""The last part of the target's suite: restores, newer protocols, joined writes, retention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from certification.checks import equal, holds
from certification.places import TargetPlace
from certification.target import KEY, TARGET, ready, unit, unproven, untouched, verdict, writing
from certification.target_faults import Mistake
from dpone.contracts.errors_fencing import ProtocolTooOld
from dpone.contracts.fence import (
    Absent,
    Already,
    Committed,
    Expired,
    Fenced,
    Floor,
    Foreign,
    Rejected,
    Sealed,
    Unknown,
)
from dpone.ports.target import Target

# -- incarnations, protocol ----------------------------------------------------------------------


@TARGET
def another_incarnation_is_refused(place: TargetPlace) -> None:
    """Claim and seal for another incarnation answer FOREIGN and write nothing."""
    target, incarnation = ready(place)
    for other in ("", "other", incarnation + "x"):
        equal(Foreign(incarnation), target.seal(unit(other)), f"seal in {other!r}")
        equal(Foreign(incarnation), target.commit(unit(other), unproven), f"commit in {other!r}")
    untouched(place, Absent())


@TARGET
def a_restored_target_is_another_incarnation(place: TargetPlace) -> None:
    """A store that was replaced by a copy refuses units of the one before, sealed or not."""
    target, incarnation = ready(place)
    target.seal(unit(incarnation, 2, "b"))
    place.reincarnate()
    for again in (target, place.open()):
        answer = again.ask(KEY, None)
        equal(Sealed(2, "b"), answer.verdict, "the fence travels with its data")
        holds(answer.incarnation not in ("", incarnation), "the incarnation is the same")
        refused = Foreign(answer.incarnation)
        equal(refused, again.commit(unit(incarnation, 2, "b"), unproven), "commit")
        equal(refused, again.seal(unit(incarnation, 3, "c")), "seal")
    untouched(place, Sealed(2, "b"))


@TARGET
def a_target_that_vanished_proves_nothing(place: TargetPlace) -> None:
    """Seal and commit on a store that is gone answer, and make none in its place."""
    target, incarnation = ready(place)
    if not place.vanish():
        return
    answers = [target.seal(unit(incarnation)), target.commit(unit(incarnation), unproven)]
    wrong = [a for a in answers if not isinstance(a, Foreign | Unknown | Rejected)]
    equal([], wrong, "answers")
    equal(Absent(), target.ask(KEY, None).verdict, "ask")
    equal(["no file"], place.objects(), "the store")


@TARGET
def a_newer_protocol_is_refused(place: TargetPlace) -> None:
    """A fence of a newer protocol version refuses every call of ours and is left as it is."""
    target, incarnation = ready(place)
    place.protocol(2)
    calls: Sequence[tuple[str, Callable[[Target], object]]] = (
        ("ask", lambda by: by.ask(KEY, None)),
        ("install", lambda by: by.install()),
        ("seal", lambda by: by.seal(unit(incarnation, 2, "b"))),
        ("commit", lambda by: by.commit(unit(incarnation), unproven)),
        ("commit of a later epoch", lambda by: by.commit(unit(incarnation, 2, "b"), unproven)),
    )
    for name, call in calls:
        for by in (target, place.open()):
            try:
                answer = call(by)
            except ProtocolTooOld:
                continue
            raise AssertionError(f"{name} answered {answer!r} to an older protocol")
    place.protocol(1)
    untouched(place, Absent())
    holds(isinstance(target.commit(unit(incarnation), writing(place, "x")), Committed), "stuck")


# -- `also` --------------------------------------------------------------------------------------


def _with_also(place: TargetPlace, also: Callable[[Any, Any], bool]) -> Any:
    target, incarnation = ready(place)
    if not target.store:
        return None
    return target.commit(unit(incarnation), writing(place, "x"), also)


@TARGET
def what_joins_the_unit_may_refuse_it(place: TargetPlace) -> None:
    """`also` that answers False rolls the unit back: FENCED, and nothing stays."""
    answer = _with_also(place, lambda transaction, receipt: False)
    if answer is not None:
        equal(Fenced(1), answer, "verdict")
        untouched(place, Absent())


@TARGET
def what_joins_the_unit_may_fail_it(place: TargetPlace) -> None:
    """`also` that raises rolls the unit back: REJECTED, and nothing stays."""

    def also(transaction: Any, receipt: Any) -> bool:
        raise Mistake("also gave up")

    answer = _with_also(place, also)
    if answer is not None:
        holds(isinstance(answer, Rejected), f"answered {answer}")
        untouched(place, Absent())


@TARGET
def what_joins_the_unit_sees_the_receipt(place: TargetPlace) -> None:
    """`also` is given the receipt that is committed."""
    seen: list[Any] = []

    def also(transaction: Any, receipt: Any) -> bool:
        seen.append(receipt)
        return True

    answer = _with_also(place, also)
    if answer is not None:
        assert isinstance(answer, Committed), f"answered {answer}"
        equal([answer.receipt], seen, "receipts")
        equal(["x"], place.rows(), "rows")


# -- retention -----------------------------------------------------------------------------------


@TARGET
def shortening_keeps_kind_and_epoch(place: TargetPlace) -> None:
    """A shortened row still refuses everybody; only its details are gone. Seals stay whole."""
    target, incarnation = ready(place)
    mine = unit(incarnation, 3, "c")
    target.seal(mine)
    target.commit(mine, writing(place, "x"))
    target.seal(unit(incarnation, 2, "b", key="sealed"))
    equal(1, target.shorten([KEY, "sealed", "unknown"]), "shortened rows")
    shown = verdict(place)
    assert isinstance(shown, Committed), f"the fence is {shown}"
    receipt = shown.receipt
    equal(
        (3, "c", {}, True), (receipt.epoch, receipt.attempt_id, receipt.result, receipt.shortened)
    )
    equal(mine.intent_digest, receipt.intent_digest, "intent")
    equal(Already(receipt), target.commit(mine, unproven), "commit")
    equal(shown, target.seal(unit(incarnation, 9, "z")), "seal")
    equal(Sealed(2, "b"), verdict(place, "sealed"), "the sealed key")
    equal(0, target.shorten([]), "shortened rows of none")


@TARGET
def below_the_floor_everybody_is_expired(place: TargetPlace) -> None:
    """Ask, seal and commit below the floor answer EXPIRED; at it and above nothing changes."""
    target, incarnation = ready(place)
    floors = {name: Floor("scope", name) for name in ("2024", "2025", "2026")}
    old = unit(incarnation, key="old", floor=floors["2024"])
    target.commit(old, writing(place, "old"))
    late = unit(incarnation, 2, "b", key="old", floor=floors["2024"])
    equal(1, target.raise_floor(floors["2025"], ["old", "unknown"]), "removed rows")
    expired = Expired("2025")
    for by in (target, place.open()):
        equal(expired, by.ask("old", floors["2024"]).verdict, "ask")
        equal(expired, by.commit(old, unproven), "commit")
        equal(expired, by.seal(late), "seal")
    for name in ("2025", "2026"):
        answer = target.commit(
            unit(incarnation, key=name, floor=floors[name]), writing(place, name)
        )
        holds(isinstance(answer, Committed), f"{name} was answered {answer}")
    equal(["2025", "2026", "old"], place.rows(), "rows")


@TARGET
def a_floor_never_sinks_and_keeps_to_its_scope(place: TargetPlace) -> None:
    """A lower floor changes nothing, another scope has its own, no floor is no limit."""
    target, incarnation = ready(place)
    target.raise_floor(Floor("scope", "b"), [])
    target.raise_floor(Floor("scope", "a"), [])
    equal(Expired("b"), target.ask("k", Floor("scope", "a")).verdict, "ask below")
    other = unit(incarnation, key="other", floor=Floor("elsewhere", "a"))
    holds(isinstance(target.commit(other, writing(place, "x")), Committed), "another scope")
    free = unit(incarnation, key="free")
    holds(isinstance(target.commit(free, writing(place, "y")), Committed), "no floor")


@TARGET
def floors_sort_by_code_point(place: TargetPlace) -> None:
    """Positions are compared by code point, whatever the collation of the store."""
    target, _ = ready(place)
    target.raise_floor(Floor("scope", "a"), [])
    for below, above in (("Z", "a"), ("A", "é"), ("", "b"), ("10", "a"), ("_", "\U0001f6eb")):
        equal(Expired("a"), target.ask("k", Floor("scope", below)).verdict, repr(below))
        equal(Absent(), target.ask("k", Floor("scope", above)).verdict, repr(above))
    target.raise_floor(Floor("scope", "\uffee"), [])
    equal(Absent(), target.ask("k", Floor("scope", "\U0001f6eb")).verdict, "an astral position")
