"""Two processes at one file: every schedule with two preemptions, and a crash of either."""

from __future__ import annotations

import pytest

from faultinject.authoring_contests import CONTESTS
from faultinject.schedules import Contest, Figures, Schedule, explore, schedules
from faultinject.violations import Violated


def explored(contest: Contest, *, stride: int, crashes: bool = False) -> Figures:
    """The figures of schedules that break no rule."""
    try:
        return explore(contest, stride=stride, crashes=crashes)
    except Violated as found:
        pytest.fail(f"{contest.name}: {found.explain()}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("contest", CONTESTS, ids=lambda contest: contest.name)
def test_no_schedule_breaks_a_rule(contest: Contest) -> None:
    figures = explored(contest, stride=2)
    assert figures.schedules > 400
    # Whoever loses is told so: more than one pair of answers occurs.
    assert len(figures.answers) >= 2


@pytest.mark.timeout(300)
@pytest.mark.parametrize("contest", CONTESTS, ids=lambda contest: contest.name)
def test_no_crash_in_a_schedule_breaks_a_rule(contest: Contest) -> None:
    figures = explored(contest, stride=15, crashes=True)
    assert figures.crashed > 100


def test_a_schedule_takes_the_same_steps_again() -> None:
    first, again = (explored(CONTESTS[1], stride=7) for _ in range(2))
    assert first == again


def test_schedules_are_all_different_and_bounded() -> None:
    found = list(schedules(5, preemptions=2))
    assert len(found) == len(set(found)) == 2 * (1 + 5 + 10)
    assert found[0] == Schedule(0, ())
