"""The suite that every fenced target passes: asking, installing, sealing, claiming, committing.

`suite` takes a factory of fresh places. What goes wrong around a unit (changes that misbehave,
holders that pause) stands in `certification.target_faults`, what happens to a target in its life
(restores, floors) in `certification.target_life`; the three are one suite.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from certification.checks import Check, Suite, equal, holds, race
from certification.places import TargetPlace
from dpone.contracts.fence import (
    Absent,
    Already,
    Answer,
    Capability,
    Committed,
    Fenced,
    Floor,
    Rejected,
    Sealed,
    Unit,
    Unknown,
)
from dpone.ports.target import Target

RIVALS = 8
KEY = "operation"

TARGET: Suite[TargetPlace] = Suite("target")


def suite(make: Callable[[], AbstractContextManager[TargetPlace]]) -> list[Check]:
    """Every check of a target, on fresh places made by `make`."""
    return complete().checks(make)


def complete() -> Suite[TargetPlace]:
    """The suite with all its parts; each part adds its checks when it is imported."""
    from certification import target_faults, target_life  # noqa: F401

    return TARGET


def ready(place: TargetPlace) -> tuple[Target, str]:
    """A target with its table and its fence; the incarnation."""
    place.prepare()
    target = place.open()
    return target, target.install()


def unit(
    incarnation: str,
    epoch: int = 1,
    attempt: str = "a",
    *,
    key: str = KEY,
    floor: Floor | None = None,
) -> Unit:
    """Whom a call speaks for."""
    return Unit(
        operation_id=key,
        epoch=epoch,
        attempt_id=attempt,
        intent_digest=f"sha256:intent-of-{attempt}",
        incarnation=incarnation,
        floor=floor,
    )


def writing(place: TargetPlace, key: str) -> Callable[[Any], dict[str, Any]]:
    """A change that writes one row."""

    def change(transaction: Any) -> dict[str, Any]:
        place.write(transaction, key)
        return {"rows_written": 1, "key": key}

    return change


def verdict(place: TargetPlace, key: str = KEY) -> Any:
    """What a fresh object is answered."""
    return place.open().ask(key, None).verdict


def untouched(place: TargetPlace, expected: object) -> None:
    """Assert that no row was written and the fence shows `expected`."""
    equal([], place.rows(), "rows")
    equal(expected, verdict(place), "fence")


def unproven(transaction: Any) -> None:
    """A change that must not be called."""
    raise AssertionError("the change was called")


# -- asking and installing -----------------------------------------------------------------------


@TARGET
def the_capability_is_declared(place: TargetPlace) -> None:
    """A target that passes this suite is at least reconcilable."""
    holds(place.open().capability in set(Capability) - {Capability.NONE}, "no capability")


@TARGET
def asking_writes_nothing(place: TargetPlace) -> None:
    """A target without a fence answers ABSENT, in no incarnation, and stays as it is."""
    before = place.objects()
    equal(Answer(Absent()), place.open().ask(KEY, None), "answer of an empty store")
    equal(before, place.objects(), "objects")
    place.prepare()
    equal(Answer(Absent()), place.open().ask(KEY, Floor("s", "1")), "answer without a fence")
    equal(["certified"], place.objects(), "objects")


@TARGET
def installing_may_be_repeated(place: TargetPlace) -> None:
    """The second install changes nothing: one incarnation, and the rows of the fence stay."""
    target, incarnation = ready(place)
    target.commit(unit(incarnation), writing(place, "x"))
    equal(incarnation, target.install(), "incarnation")
    equal(incarnation, place.open().install(), "incarnation, by another object")
    answer = place.open().ask(KEY, None)
    equal(incarnation, answer.incarnation, "incarnation that ask saw")
    holds(isinstance(answer.verdict, Committed), "the fence lost its row")


@TARGET
def eight_installs_make_one_incarnation(place: TargetPlace) -> None:
    """Eight that install at once agree on one incarnation."""
    place.prepare()
    answers = race([place.open().install for _ in range(RIVALS)])
    equal(1, len({str(answer) for answer in answers}), f"incarnations among {answers}")
    equal(answers[0], place.open().ask(KEY, None).incarnation, "incarnation")


@TARGET
def an_unknown_key_is_absent(place: TargetPlace) -> None:
    """A fence without a row for the key answers ABSENT, in its incarnation."""
    target, incarnation = ready(place)
    equal(Answer(Absent(), incarnation), target.ask(KEY, None), "answer")


@TARGET
def close_may_be_repeated(place: TargetPlace) -> None:
    """Closing twice is harmless, and a closed object opens again when it is used."""
    target, incarnation = ready(place)
    target.close()
    target.close()
    holds(isinstance(target.commit(unit(incarnation), writing(place, "x")), Committed), "unused")


# -- committing ----------------------------------------------------------------------------------


@TARGET
def the_first_epoch_claims_an_absent_key(place: TargetPlace) -> None:
    """Epoch 1 commits on an absent key; data, fence and receipt say the same."""
    target, incarnation = ready(place)
    answer = target.commit(unit(incarnation), writing(place, "x"))
    holds(isinstance(answer, Committed), f"answered {answer}")
    equal(["x"], place.rows(), "rows")
    equal(answer, verdict(place), "receipt in the fence")
    assert isinstance(answer, Committed)
    receipt = answer.receipt
    equal((KEY, 1, "a"), (receipt.operation_id, receipt.epoch, receipt.attempt_id), "author")
    equal("sha256:intent-of-a", receipt.intent_digest, "intent")
    equal({"rows_written": 1, "key": "x"}, receipt.result, "result")
    equal(False, receipt.shortened, "shortened")


@TARGET
def a_later_epoch_needs_its_own_seal(place: TargetPlace) -> None:
    """A later epoch is fenced on an absent key: a target that lost the seal admits nobody."""
    target, incarnation = ready(place)
    for epoch in (2, 3, 1000):
        equal(Fenced(0), target.commit(unit(incarnation, epoch), unproven), f"epoch {epoch}")
    untouched(place, Absent())


@TARGET
def the_sealed_attempt_commits(place: TargetPlace) -> None:
    """The attempt that the seal names commits, and the fence then names it."""
    target, incarnation = ready(place)
    for epoch in (4, 1):
        key = f"sealed-{epoch}"
        mine = unit(incarnation, epoch, "b", key=key)
        equal(Sealed(epoch, "b"), target.seal(mine), "seal")
        answer = target.commit(mine, writing(place, key))
        holds(isinstance(answer, Committed), f"epoch {epoch} was answered {answer}")
        equal(answer, verdict(place, key), "fence")
    equal(["sealed-1", "sealed-4"], place.rows(), "rows")


@TARGET
def a_seal_admits_only_whom_it_names(place: TargetPlace) -> None:
    """Another epoch, another attempt id, an older or a first attempt: all are fenced."""
    target, incarnation = ready(place)
    target.seal(unit(incarnation, 3, "b"))
    for epoch, attempt in ((1, "a"), (2, "b"), (4, "b"), (3, "a"), (1, "b")):
        answer = place.open().commit(unit(incarnation, epoch, attempt), unproven)
        equal(Fenced(3), answer, f"epoch {epoch} of {attempt}")
    untouched(place, Sealed(3, "b"))


@TARGET
def a_committed_key_is_never_changed_again(place: TargetPlace) -> None:
    """Whoever commits a committed key gets ALREADY with the first receipt; no change is run."""
    target, incarnation = ready(place)
    first = target.commit(unit(incarnation), writing(place, "x"))
    assert isinstance(first, Committed)
    for epoch, attempt in ((1, "a"), (1, "b"), (2, "a"), (7, "c")):
        answer = place.open().commit(unit(incarnation, epoch, attempt), unproven)
        equal(Already(first.receipt), answer, f"epoch {epoch} of {attempt}")
    equal(["x"], place.rows(), "rows")
    equal(first, verdict(place), "fence")


@TARGET
def operations_do_not_touch_each_other(place: TargetPlace) -> None:
    """A seal or a commit of one key says nothing about another."""
    target, incarnation = ready(place)
    target.seal(unit(incarnation, 9, "z", key="sealed"))
    target.commit(unit(incarnation, key="committed"), writing(place, "x"))
    holds(isinstance(target.commit(unit(incarnation), writing(place, "y")), Committed), "fenced")
    target.seal(unit(incarnation, 2, "b", key="third"))
    equal(Sealed(9, "z"), verdict(place, "sealed"), "the sealed key")
    holds(isinstance(verdict(place, "committed"), Committed), "the committed key")
    equal(["x", "y"], place.rows(), "rows")


@TARGET
def a_change_may_report_nothing(place: TargetPlace) -> None:
    """A change that returns None leaves an empty result in its receipt."""
    target, incarnation = ready(place)
    target.commit(unit(incarnation), lambda transaction: None)
    shown = verdict(place)
    assert isinstance(shown, Committed)
    equal({}, shown.receipt.result, "result")


# -- sealing -------------------------------------------------------------------------------------


@TARGET
def a_seal_is_won_on_an_absent_key(place: TargetPlace) -> None:
    """A seal on an absent key wins and is durable when it is answered."""
    target, incarnation = ready(place)
    equal(Sealed(1, "a"), target.seal(unit(incarnation)), "seal")
    target.close()
    equal(Sealed(1, "a"), verdict(place), "fence")


@TARGET
def an_own_seal_may_be_repeated(place: TargetPlace) -> None:
    """An attempt that seals again is answered its seal, and nothing changes."""
    target, incarnation = ready(place)
    mine = unit(incarnation, 2, "b")
    for _ in range(3):
        equal(Sealed(2, "b"), place.open().seal(mine), "seal")
    equal(Sealed(2, "b"), verdict(place), "fence")
    holds(isinstance(target.commit(mine, writing(place, "x")), Committed), "the seal is lost")


@TARGET
def a_seal_never_lowers_an_epoch(place: TargetPlace) -> None:
    """A lower epoch is answered the higher seal, which stays."""
    target, incarnation = ready(place)
    target.seal(unit(incarnation, 5, "e"))
    for epoch in (1, 2, 4):
        equal(Sealed(5, "e"), target.seal(unit(incarnation, epoch, "low")), f"epoch {epoch}")
    equal(Sealed(5, "e"), verdict(place), "fence")


@TARGET
def an_equal_seal_of_another_is_never_replaced(place: TargetPlace) -> None:
    """Of two attempts with one epoch the first that sealed keeps the key."""
    target, incarnation = ready(place)
    target.seal(unit(incarnation, 2, "first"))
    equal(Sealed(2, "first"), target.seal(unit(incarnation, 2, "second")), "second seal")
    equal(Sealed(2, "first"), verdict(place), "fence")
    equal(Fenced(2), target.commit(unit(incarnation, 2, "second"), unproven), "second commit")


@TARGET
def a_higher_seal_takes_over(place: TargetPlace) -> None:
    """A higher epoch replaces a lower seal, and the lower attempt is fenced from then on."""
    target, incarnation = ready(place)
    low, high = unit(incarnation, 2, "low"), unit(incarnation, 3, "high")
    target.seal(low)
    equal(Sealed(3, "high"), target.seal(high), "higher seal")
    equal(Fenced(3), target.commit(low, unproven), "the lower attempt")
    holds(isinstance(target.commit(high, writing(place, "x")), Committed), "the higher attempt")


@TARGET
def a_seal_loses_to_a_commit(place: TargetPlace) -> None:
    """A committed key is not sealed, at whatever epoch; the seal is answered the receipt."""
    target, incarnation = ready(place)
    first = target.commit(unit(incarnation), writing(place, "x"))
    for epoch in (1, 2, 2**31 - 1):
        equal(first, target.seal(unit(incarnation, epoch, "late")), f"epoch {epoch}")
    equal(first, verdict(place), "fence")


@TARGET
def a_final_seal_admits_nobody(place: TargetPlace) -> None:
    """The highest epoch with an attempt id of nobody shuts everybody out, for ever."""
    target, incarnation = ready(place)
    final = unit(incarnation, 2**31 - 1, "nobody")
    equal(Sealed(2**31 - 1, "nobody"), target.seal(final), "final seal")
    equal(Sealed(2**31 - 1, "nobody"), target.seal(unit(incarnation, 2, "b")), "a later seal")
    equal(Fenced(2**31 - 1), target.commit(unit(incarnation, 1), unproven), "a first attempt")


# -- contending ----------------------------------------------------------------------------------


def _sealing(place: TargetPlace, incarnation: str, number: int) -> Callable[[], object]:
    return lambda: place.open().seal(unit(incarnation, 2, f"rival-{number}"))


@TARGET
def of_eight_commits_one_is_applied(place: TargetPlace) -> None:
    """Eight first attempts at once: one commits, the rest are answered and change nothing."""
    _, incarnation = ready(place)

    def rival(number: int) -> Callable[[], object]:
        key = f"rival-{number}"
        return lambda: place.open().commit(unit(incarnation, 1, key), writing(place, key))

    answers = race([rival(number) for number in range(RIVALS)])
    won = [answer for answer in answers if isinstance(answer, Committed)]
    rest = [answer for answer in answers if not isinstance(answer, Committed)]
    polite = (Already, Fenced, Rejected, Unknown)
    equal([], [answer for answer in rest if not isinstance(answer, polite)], "other answers")
    shown = verdict(place)
    assert isinstance(shown, Committed), f"the fence is {shown} after {answers}"
    holds(len(won) <= 1, f"{len(won)} of them were told that they committed")
    equal([shown.receipt.attempt_id], place.rows(), "rows")
    if won:
        equal(shown, won[0], "who was told so")


@TARGET
def of_eight_equal_seals_one_is_kept(place: TargetPlace) -> None:
    """Eight that seal one epoch at once: one is named, and no other is told that it won."""
    _, incarnation = ready(place)
    answers = race([_sealing(place, incarnation, number) for number in range(RIVALS)])
    shown = verdict(place)
    assert isinstance(shown, Sealed), f"the fence is {shown} after {answers}"
    wrong = [answer for answer in answers if answer != shown and not isinstance(answer, Unknown)]
    equal([], wrong, f"answers that differ from {shown}")


@TARGET
def a_seal_and_a_commit_agree(place: TargetPlace) -> None:
    """A first attempt and seals of a second at once: all that is answered agrees with the fence."""
    _, incarnation = ready(place)
    actors: list[Callable[[], object]] = [
        lambda: place.open().commit(unit(incarnation), writing(place, "a")),
        *[_sealing(place, incarnation, number) for number in range(RIVALS - 1)],
    ]
    commit, *seals = race(actors)
    shown = verdict(place)
    if isinstance(shown, Committed):
        equal(["a"], place.rows(), "rows")
        equal([], [seal for seal in seals if isinstance(seal, Sealed)], "won seals")
    else:
        holds(isinstance(shown, Sealed | Absent), f"the fence is {shown}")
        equal([], place.rows(), "rows")
        holds(not isinstance(commit, Committed), "a commit was answered and is not there")
