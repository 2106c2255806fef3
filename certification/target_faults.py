"""The second half of the target's suite: changes that misbehave, holders, restores, retention."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from certification.checks import equal, holds
from certification.holder import holding
from certification.places import Step, TargetPlace
from certification.target import (
    KEY,
    TARGET,
    ready,
    unit,
    unproven,
    untouched,
    verdict,
    writing,
)
from dpone.contracts.fence import (
    Absent,
    Already,
    Committed,
    Rejected,
    Sealed,
    Unknown,
)
from dpone.ports.target import Target

SHORT_WAIT_S = 0.3
SLACK_S = 20.0
LEADING_BACK = ("connection", "cursor", "commit", "rollback", "execute", "executemany")
HARD = 'quoted " \\ \n\t \x00\x1f 🛫 العربية 日本語 e\u0301 \u2028 %s $1 {x}'


class Mistake(Exception):
    """What a change of ours raises."""


# -- changes that misbehave ----------------------------------------------------------------------


@TARGET
def a_change_that_raises_leaves_nothing(place: TargetPlace) -> None:
    """Whatever the change raises, nothing of it stays, and REJECTED carries the exception."""
    target, incarnation = ready(place)

    def change(transaction: Any) -> None:
        place.write(transaction, "x")
        raise Mistake("the change gave up")

    answer = target.commit(unit(incarnation), change)
    assert isinstance(answer, Rejected), f"answered {answer}"
    holds(isinstance(answer.error, Mistake), f"the exception is {answer.error!r}")
    untouched(place, Absent())
    holds(isinstance(target.commit(unit(incarnation), writing(place, "y")), Committed), "stuck")


@TARGET
def a_failed_change_keeps_its_seal(place: TargetPlace) -> None:
    """A rejected unit leaves the seal of its attempt as it was."""
    target, incarnation = ready(place)
    mine = unit(incarnation, 2, "b")
    target.seal(mine)

    def change(transaction: Any) -> None:
        place.write(transaction, "x")
        raise Mistake("the change gave up")

    holds(isinstance(target.commit(mine, change), Rejected), "not rejected")
    untouched(place, Sealed(2, "b"))


@TARGET
def a_statement_that_fails_is_rejected(place: TargetPlace) -> None:
    """An error of the engine inside the change proves that nothing was applied."""
    target, incarnation = ready(place)

    def change(transaction: Any) -> None:
        place.write(transaction, "x")
        transaction.execute("INSERT INTO no_such_table VALUES (1)")

    holds(isinstance(target.commit(unit(incarnation), change), Rejected), "not rejected")
    untouched(place, Absent())


def _controlled(place: TargetPlace, control: Step) -> tuple[Target, object]:
    target, incarnation = ready(place)

    def change(transaction: Any) -> None:
        place.write(transaction, "before")
        control(transaction)
        place.write(transaction, "after")

    return target, target.commit(unit(incarnation), change)


@TARGET
def a_change_cannot_end_its_transaction(place: TargetPlace) -> None:
    """Transaction control is refused in whichever form; nothing of that change stays."""
    holds(bool(place.controls), "the place names no way to control a transaction")
    target, incarnation = ready(place)
    for number, control in enumerate(place.controls):

        def change(transaction: Any, control: Step = control) -> None:
            place.write(transaction, "before")
            control(transaction)

        answer = target.commit(unit(incarnation, key=f"k{number}"), change)
        holds(isinstance(answer, Rejected), f"control {number} was answered {answer}")
        equal([], place.rows(), f"rows after control {number}")
        equal(Absent(), verdict(place, f"k{number}"), f"fence after control {number}")


@TARGET
def a_careless_change_is_whole_or_not_there(place: TargetPlace) -> None:
    """A change that breaks its unit, swallows the error and goes on, leaves all or nothing."""
    target, incarnation = ready(place)
    for number, breaker in enumerate(place.breakers):
        before = place.rows()

        def change(transaction: Any, breaker: Step = breaker) -> None:
            place.write(transaction, "before")
            breaker(transaction)
            place.write(transaction, "after")

        key = f"k{number}"
        answer = target.commit(unit(incarnation, key=key), change)
        committed = isinstance(verdict(place, key), Committed)
        whole = sorted([*before, "before", "after"])
        equal(whole if committed else before, place.rows(), f"rows after {answer}")
        equal(committed, isinstance(answer, Committed), f"{answer}, while the fence disagrees")


@TARGET
def definitions_roll_back_with_the_fence(place: TargetPlace) -> None:
    """A table made by a change that fails is not there afterwards; one that commits makes it."""
    target, incarnation = ready(place)
    before = place.objects()

    def failing(transaction: Any) -> None:
        place.define(transaction)
        raise Mistake("after the definition")

    holds(isinstance(target.commit(unit(incarnation), failing), Rejected), "not rejected")
    equal(before, place.objects(), "objects")
    holds(isinstance(target.commit(unit(incarnation), place.define), Committed), "not committed")
    equal(sorted([*before, "defined"]), place.objects(), "objects")


@TARGET
def data_and_fence_are_seen_together(place: TargetPlace) -> None:
    """Inside the unit nobody else sees either; afterwards everybody sees both."""
    target, incarnation = ready(place)
    seen: list[object] = []

    def change(transaction: Any) -> None:
        place.write(transaction, "x")
        seen.append((place.rows(), verdict(place)))

    holds(isinstance(target.commit(unit(incarnation), change), Committed), "not committed")
    equal([([], Absent())], seen, "what others saw meanwhile")
    equal(["x"], place.rows(), "rows")
    holds(isinstance(verdict(place), Committed), "the fence shows nothing")


@TARGET
def what_a_change_is_given_leads_nowhere(place: TargetPlace) -> None:
    """Neither the transaction nor what a statement returns leads to the connection under it."""
    target, incarnation = ready(place)
    found: list[str] = []

    def change(transaction: Any) -> None:
        place.write(transaction, "x")
        given = transaction.execute("SELECT key FROM certified")
        equal([("x",)], [tuple(row) for row in given.fetchall()], "rows fetched")
        found.extend(name for name in LEADING_BACK if hasattr(given, name))
        found.extend(name for name in LEADING_BACK[:4] if hasattr(transaction, name))

    holds(isinstance(target.commit(unit(incarnation), change), Committed), "not committed")
    equal([], found, "ways to the connection")


@TARGET
def an_interrupted_change_leaves_nothing(place: TargetPlace) -> None:
    """A Ctrl-C inside a change is no verdict: it goes on its way, and nothing stays."""
    target, incarnation = ready(place)

    def change(transaction: Any) -> None:
        place.write(transaction, "x")
        raise KeyboardInterrupt

    try:
        answer = target.commit(unit(incarnation), change)
    except KeyboardInterrupt:
        untouched(place, Absent())
    else:
        raise AssertionError(f"answered {answer}")
    holds(isinstance(target.commit(unit(incarnation), writing(place, "y")), Committed), "stuck")


@TARGET
def nobody_wins_over_a_visible_claim(place: TargetPlace) -> None:
    """A claim that others see means that its unit was ended: UNKNOWN and held, whoever asks."""
    target, incarnation = ready(place)
    target.commit(unit(incarnation), writing(place, "x"))
    target.close()
    place.sql("UPDATE dpone_fence SET kind = 'claimed'")
    answers = [verdict(place), target.seal(unit(incarnation)), target.seal(unit(incarnation, 9))]
    for answer in answers:
        assert isinstance(answer, Unknown), f"answered {answer}"
        holds(answer.held, "the answer does not say that somebody must look")
    again = target.commit(unit(incarnation), unproven)
    holds(not isinstance(again, Committed), f"a commit was answered {again}")
    equal(["x"], place.rows(), "rows")


# -- results -------------------------------------------------------------------------------------


@TARGET
def a_receipt_reads_back_as_it_was_given(place: TargetPlace) -> None:
    """Results in any script, nested and large, come back from the fence as they were answered."""
    target, incarnation = ready(place)
    result = {
        "text": HARD,
        "list": [1, None, True, {"deep": HARD}],
        "n": 2**53 - 1,
        "big": "é" * 9999,
    }
    answer = target.commit(unit(incarnation), lambda transaction: result)
    assert isinstance(answer, Committed), f"answered {answer}"
    equal(result, answer.receipt.result, "result answered")
    equal(answer, verdict(place), "fence")
    equal(Already(answer.receipt), target.commit(unit(incarnation), unproven), "second commit")


@TARGET
def what_could_not_be_read_back_is_rejected(place: TargetPlace) -> None:
    """A result that the fence could store but never read is rejected before the commit."""
    target, incarnation = ready(place)
    results: Sequence[Any] = (
        {"ratio": 0.5},
        {"huge": 10**30},
        {"text": "\ud800"},
        {"not": float("nan")},
        {1: "key"},
        {"object": object()},
        {"large": "x" * (9 * 1024 * 1024)},
    )
    for number, result in enumerate(results):
        key = f"k{number}"

        def change(transaction: Any, result: Any = result, key: str = key) -> Any:
            place.write(transaction, key)
            return result

        answer = target.commit(unit(incarnation, key=key), change)
        try:
            shown = verdict(place, key)
        except Exception as error:  # noqa: BLE001 - whatever it is, the fence is unreadable
            raise AssertionError(f"result {number} makes the fence unreadable: {error}") from None
        if isinstance(answer, Committed):
            equal(answer, shown, f"fence after result {number}")
        else:
            holds(isinstance(answer, Rejected), f"result {number} was answered {answer}")
            equal(Absent(), shown, f"fence after result {number}")
            holds(key not in place.rows(), f"rows of result {number} stay")


# -- holders -------------------------------------------------------------------------------------


@TARGET
def a_seal_waits_a_bounded_time(place: TargetPlace) -> None:
    """While a paused process holds the key a seal concludes nothing, and says so in time."""
    _, incarnation = ready(place)
    with holding(place, unit(incarnation)) as holder:
        holder.pause()
        rival = place.open(lock_wait_s=SHORT_WAIT_S)
        started = time.monotonic()
        answer = rival.seal(unit(incarnation, 2, "b"))
        took_s = time.monotonic() - started
        assert isinstance(answer, Unknown), f"answered {answer}"
        holds(answer.held, "the answer does not say that somebody holds the key")
        holds(took_s < SLACK_S, f"the seal waited {took_s:.0f} s")
        other = place.open(lock_wait_s=SHORT_WAIT_S).commit(unit(incarnation, 1, "c"), unproven)
        holds(isinstance(other, Rejected | Unknown), f"another commit was answered {other}")
        equal("Committed", holder.finish(), "the holder, once it went on")
    shown = verdict(place)
    holds(isinstance(shown, Committed), f"the fence is {shown}")
    equal(["a"], place.rows(), "rows")
    equal(shown, place.open().seal(unit(incarnation, 2, "b")), "the seal, asked again")


@TARGET
def a_killed_holder_leaves_nothing(place: TargetPlace) -> None:
    """SIGKILL of a process inside its unit rolls it back, and a seal then wins."""
    _, incarnation = ready(place)
    with holding(place, unit(incarnation)) as holder:
        holder.kill()
        equal(Sealed(2, "b"), place.open().seal(unit(incarnation, 2, "b")), "seal")
        untouched(place, Sealed(2, "b"))


@TARGET
def a_seal_that_gave_up_leaves_the_target_usable(place: TargetPlace) -> None:
    """After a bounded wait the same object goes on to work."""
    _, incarnation = ready(place)
    rival = place.open(lock_wait_s=SHORT_WAIT_S)
    with holding(place, unit(incarnation)) as holder:
        holder.pause()
        rival.seal(unit(incarnation, 2, "b"))
        holder.kill()
        equal(Sealed(2, "b"), rival.seal(unit(incarnation, 2, "b")), "the next seal")


@TARGET
def ending_sessions_of_nobody_is_harmless(place: TargetPlace) -> None:
    """Asked to end sessions that do not exist, the target ends none."""
    target, _ = ready(place)
    equal(0, target.end_sessions(KEY, ["nobody", ""]), "ended sessions")
    equal(0, target.end_sessions(KEY, []), "ended sessions")
