"""What takes room in the log before an operation begins, and what does not."""

from __future__ import annotations

import fcntl

import pytest

from dpone.ports import files
from dpone.retention import capacity
from faultinject.deletion_files import Stop, WatchedCache, failing_at, stop_at
from faultinject.deletion_worlds import OTHER_REVIEW, REVIEW, World
from tests.retention.apply.boundaries import stopped

FULL = "DPONE_DEPLOYMENT_CACHE_GC_CAPACITY_EXHAUSTED"


@pytest.mark.parametrize("review", [REVIEW, OTHER_REVIEW])
def test_a_begin_that_found_the_lock_busy_takes_no_room_from_the_next(
    made: World, monkeypatch: pytest.MonkeyPatch, review: str
) -> None:
    monkeypatch.setattr(capacity, "ENTRIES_MAX", 5)
    plan = made.plan().sha256
    with (made.root / ".promotion.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert made.apply(plan, desk=made.desk(promotion_wait_s=0.01)).exit_code == 3
    assert made.phases() == ["prepared"] * 3
    # Another review was made later, and binds what the first one left.
    assert made.apply(plan if review == REVIEW else made.plan().sha256, review).code == "committed"


def test_what_begins_left_that_died_does_not_add_up(made: World) -> None:
    for number in range(4):
        with pytest.raises(Stop):
            made.apply(
                made.plan().sha256,
                f"7c9e6679-7425-40de-944b-{number:012x}",
                files=WatchedCache(made.root, stop_at("after append")),
            )
        assert made.phases() == ["prepared"] * 3
    assert made.apply(made.plan().sha256).code == "committed"


def test_an_operation_takes_no_room_from_the_plan_that_closes_it(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(made, made.plan().sha256, "history")
    monkeypatch.setattr(capacity, "ENTRIES_MAX", 5)
    assert made.apply(made.plan().sha256, OTHER_REVIEW).code == "committed"


def test_what_cannot_be_deleted_still_takes_its_room(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = failing_at("unlink", files.AccessDenied, ".retention-trash/")
    assert made.apply(made.plan().sha256, files=WatchedCache(made.root, denied)).exit_code == 4
    for candidate in made.candidates:
        made.rebuild(candidate)
    plan = made.plan().sha256
    monkeypatch.setattr(capacity, "ENTRIES_MAX", 5)
    assert made.apply(plan, OTHER_REVIEW).code == FULL
    monkeypatch.setattr(capacity, "ENTRIES_MAX", 6)
    assert made.apply(plan, OTHER_REVIEW).code == "committed"
