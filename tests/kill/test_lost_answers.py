"""The server's answer is lost, late or never comes: nothing is loaded twice or called failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from faultinject.answers import lost_answer
from faultinject.matrix import World
from faultinject.proxy import Plan, Proxy, Step
from faultinject.worlds import Databases
from faultinject.zygote import Zygote

pytestmark = pytest.mark.kill

LANDED = {Step.ANSWER_RECEIVED}
# What a worker that may repeat its change ends with in its first run, and whether the COMMIT
# whose answer was lost was carried out.
OF_TARGET: list[Any] = [
    pytest.param(Plan.CUT_BEFORE, {}, "0 committed", False, id="cut-before"),
    pytest.param(Plan.CUT_BEFORE, {"half_open": True}, "0 committed", False, id="half-open"),
    pytest.param(Plan.CUT_AFTER, {}, "0 settled", True, id="cut-after"),
    pytest.param(Plan.DELAY, {}, "0 committed", False, id="delayed-for-ever"),
    pytest.param(
        Plan.DELAY, {"delay_s": 0.2, "lock_wait_s": 8.0}, "0 settled", True, id="landing-late"
    ),
    pytest.param(Plan.UNFORWARDED_HANG, {}, "0 committed", False, id="hang"),
    pytest.param(Plan.HANG_AFTER, {}, "0 settled", True, id="hang-after"),
]


@pytest.fixture(scope="module")
def proxy(databases: Databases) -> Iterator[Proxy]:
    with Proxy(databases.places[0]) as made:
        yield made


@pytest.mark.parametrize("world", ["postgres", "postgres-postgres"], indirect=True)
@pytest.mark.parametrize(("plan", "how", "first", "landed"), OF_TARGET)
def test_a_lost_answer_of_the_target_is_settled_in_the_same_run(
    zygote: Zygote,
    proxy: Proxy,
    world: World,
    plan: Plan,
    how: dict[str, Any],
    first: str,
    landed: bool,
) -> None:
    heard = lost_answer(zygote, proxy, world, plan, **how)
    assert (heard.faults, heard.first, heard.second) == ((), first, "0 replayed")
    assert (set(heard.steps) >= LANDED) == landed


@pytest.mark.parametrize("world", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    ("plan", "first", "second"),
    [
        (Plan.CUT_BEFORE, "3 DPONE_TARGET_COMMIT_BUSY", "0 committed"),
        (Plan.CUT_AFTER, "0 settled", "0 replayed"),
        (Plan.UNFORWARDED_HANG, "3 DPONE_TARGET_COMMIT_BUSY", "0 committed"),
    ],
)
def test_a_change_that_cannot_be_repeated_is_left_to_the_next_run(
    zygote: Zygote, proxy: Proxy, world: World, plan: Plan, first: str, second: str
) -> None:
    heard = lost_answer(zygote, proxy, world, plan, replayable=False)
    assert (heard.faults, heard.first, heard.second) == ((), first, second)


@pytest.mark.parametrize("world", ["postgres-joint"], indirect=True)
@pytest.mark.parametrize(
    ("plan", "first"),
    [
        (Plan.CUT_BEFORE, "0 committed"),
        (Plan.CUT_AFTER, "0 settled"),
        (Plan.DELAY, "0 committed"),
        (Plan.UNFORWARDED_HANG, "0 committed"),
        (Plan.HANG_AFTER, "0 settled"),
    ],
)
def test_a_lost_answer_of_one_database_for_both_is_settled(
    zygote: Zygote, proxy: Proxy, world: World, plan: Plan, first: str
) -> None:
    heard = lost_answer(zygote, proxy, world, plan, of="joint")
    assert (heard.faults, heard.first, heard.second) == ((), first, "0 replayed")


@pytest.fixture(scope="module")
def journal_proxy(databases: Databases) -> Iterator[Proxy]:
    with Proxy(databases.places[1]) as made:
        yield made


@pytest.mark.parametrize("world", ["postgres-postgres"], indirect=True)
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize(
    ("plan", "applied"),
    [
        pytest.param(Plan.CUT_BEFORE, False, id="not-applied"),
        pytest.param(Plan.CUT_AFTER, True, id="applied"),
        pytest.param(Plan.DELAY, False, id="applied-after-the-retry"),
    ],
)
def test_a_lost_answer_of_the_journal_is_read_back(
    zygote: Zygote,
    journal_proxy: Proxy,
    world: World,
    number: int,
    plan: Plan,
    applied: bool,
) -> None:
    steps: dict[str, Any] = {"obligations": ["checkpoint"]}
    heard = lost_answer(zygote, journal_proxy, world, plan, of="journal", number=number, **steps)
    # The first write begins; the others come after the target's commit, and it is said so.
    lost = "3 DPONE_JOURNAL_UNAVAILABLE" if number == 1 else "3 DPONE_TARGET_COMMIT_UNFINISHED"
    assert (heard.faults, heard.first) == ((), "0 committed" if applied else lost)
