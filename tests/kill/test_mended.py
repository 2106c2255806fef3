"""Failed operations that are mended, and targets that are gone: killed on the way, loaded once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from faultinject import workloads
from faultinject.matrix import FENCED, World, fresh
from faultinject.operators import do, events_of
from faultinject.rivals import LOST, code_of, how_of, loaded_once, spread
from faultinject.scenarios import ANSWERED, DIVERGED, EXPIRED, OPERATE, expect, lose
from faultinject.zygote import Zygote, wake

pytestmark = pytest.mark.kill

REJECTED = "DPONE_TARGET_COMMIT_REJECTED"
MISMATCH = "DPONE_TARGET_COMMIT_INTENT_MISMATCH"
INCARNATION = "DPONE_TARGET_COMMIT_INCARNATION"
WORLDS = ("sqlite", "duckdb", "joint", "postgres", "postgres-joint")
every_world = pytest.mark.parametrize("world", WORLDS, indirect=True)
BROKEN: dict[str, Any] = {"strategy": "append", "statements": ["INSERT INTO nowhere VALUES (1)"]}
MENDED: dict[str, Any] = {"statements": [], "salt": "mended"}
Args = dict[str, Any]


def said(zygote: Zygote, args: Args, **more: Any) -> str:
    """What a load answers: its error code, else how it came to its outcome."""
    ended = zygote.run(FENCED, {**args, **more})
    return code_of(ended) or how_of(ended)


# -- another intent after a failure ----------------------------------------------------------------


@every_world
@pytest.mark.parametrize(
    "point",
    [
        "fencing.take_over:after#1",
        "fencing.seal:after#1",
        "fencing.intent:after#1",
        "fencing.change:after#1",
        "fencing.commit:after#1",
    ],
)
def test_a_mended_input_outlives_the_death_of_its_attempt(
    zygote: Zygote, world: World, point: str
) -> None:
    with fresh(world, BROKEN) as args:
        assert said(zygote, args) == REJECTED
        killed = zygote.run(FENCED, {**args, **MENDED}, point=point)
        assert killed.killed
        assert killed.hit(point)
        assert said(zygote, args) == MISMATCH
        assert said(zygote, args, **MENDED) in ("committed", "settled", "replayed")
        assert said(zygote, args, **MENDED) == "replayed"
        assert loaded_once(args, "append") == []


@every_world
def test_a_first_attempt_that_wakes_after_another_intent_was_recorded_adds_nothing(
    zygote: Zygote, world: World
) -> None:
    with fresh(world, {"strategy": "append"}) as args:
        point = "fencing.intent:after#1"
        first = zygote.start(FENCED, args, point=point, action="stop")
        assert zygote.wait(first).hit(point)
        assert do("settle", args, take_over=True)["entry"]["state"] == "FAILED_PRE_COMMIT"
        point = "fencing.take_over:after#1"
        assert zygote.run(FENCED, {**args, **MENDED}, point=point).hit(point)
        wake(first)
        woken = zygote.wait(first)
        assert (woken.exit_code, code_of(woken)) == (3, LOST)
        assert said(zygote, args, **MENDED) == "committed"
        assert loaded_once(args, "append") == []


@every_world
def test_two_intents_over_one_failed_operation_load_once(
    zygotes: list[Zygote], world: World
) -> None:
    with fresh(world, BROKEN) as args:
        assert said(zygotes[0], args) == REJECTED
        meet = Path(args["folder"]) / "meet"
        meet.mkdir()
        both = {**args, "statements": [], "options": {}, "meet": str(meet), "meet_count": 2}
        both["meet_at"] = "fencing.take_over"

        def load(zygote: Zygote, salt: str) -> str:
            return said(zygote, both, salt=salt)

        answers = spread(zygotes, [partial(load, salt=salt) for salt in ("one", "two")])
        assert sorted(answers) == sorted([LOST, "committed"])
        after = [said(zygotes[0], args, statements=[], salt=salt) for salt in ("one", "two")]
        assert sorted(after) == sorted([MISMATCH, "replayed"])
        assert loaded_once(args, "append") == []


# -- the target is gone ----------------------------------------------------------------------------


def vanish(args: Args) -> None:
    """Delete the target file and make an empty one; drop the fence where the journal lies in it."""
    kind, _, place = args["target"].partition(":")
    if kind == "postgres" or args["journal"] == args["target"]:
        connection = workloads.connect(args["target"])
        for table in ("dpone_fence", "dpone_fence_meta"):
            connection.execute(f"DROP TABLE {table}")
        connection.close()
        return
    Path(place).unlink()
    workloads.prepare(args["target"])


@every_world
@pytest.mark.parametrize(
    "point", ["", "fencing.take_over:after#1", "fencing.intent:after#1", "fencing.change:after#1"]
)
def test_an_unfinished_operation_whose_target_is_gone_is_adopted_and_loaded_once(
    zygote: Zygote, world: World, point: str
) -> None:
    with fresh(world, {"strategy": "append"}) as args:
        if not point or "take_over" in point:
            assert said(zygote, args, **{**BROKEN, "salt": ""}) == REJECTED
        if point:
            assert zygote.run(FENCED, args, point=point).hit(point)
        vanish(args)
        before = events_of(args)
        assert said(zygote, args) == INCARNATION
        assert events_of(args) == before
        adopt = {**args, "command": "adopt_target"}
        for effect in ("fencing.fence", "fencing.rebind"):
            for side in ("before", "after"):
                point = f"{effect}:{side}#1"
                killed = zygote.run(OPERATE, adopt, point=point)
                assert (killed.killed, killed.hit(point)) == (True, True), point
        assert zygote.run(OPERATE, adopt).exit_code == 0
        assert said(zygote, args) == "committed"
        assert said(zygote, args) == "replayed"
        assert expect(args, 1, state="COMPLETE") == []


@every_world
def test_a_worker_of_the_target_that_is_gone_wakes_to_nothing(zygote: Zygote, world: World) -> None:
    with fresh(world, {"strategy": "append"}) as args:
        point = "fencing.intent:after#1"
        first = zygote.start(FENCED, args, point=point, action="stop")
        assert zygote.wait(first).hit(point)
        vanish(args)
        assert do("adopt_target", args)["said"]["adopted"] == 1
        assert said(zygote, args) == "committed"
        wake(first)
        woken = zygote.wait(first)
        assert (woken.exit_code, code_of(woken)) == (3, LOST)
        assert expect(args, 1, state="COMPLETE") == []


# -- a floor over what an operator answered --------------------------------------------------------


@every_world
@pytest.mark.parametrize("answer", ["accept-loss", "reload"])
def test_a_first_attempt_that_wakes_below_a_floor_over_an_answered_loss_adds_nothing(
    zygote: Zygote, world: World, answer: str
) -> None:
    with fresh(world, {"strategy": "append", "position": "1"}) as args:
        point = "fencing.intent:after#1"
        first = zygote.start(FENCED, args, point=point, action="stop")
        assert zygote.wait(first).hit(point)
        assert said(zygote, args, take_over=True) == "committed"
        lose(args)
        assert said(zygote, args) == DIVERGED
        blocked = do("floor", args, floor="2")
        assert (blocked["exit_code"], blocked["code"]) == (1, "DPONE_JOURNAL_FLOOR_BLOCKED")
        assert do("resolve", args, answer=answer)["exit_code"] == 0
        assert said(zygote, args) == ANSWERED
        # The final seal goes with the floor, which refuses the same attempts.
        assert do("floor", args, floor="2")["said"] == 1
        wake(first)
        woken = zygote.wait(first)
        assert (woken.exit_code, code_of(woken)) == (3, LOST)
        assert said(zygote, args) == EXPIRED
        assert expect(args, 0) == []
