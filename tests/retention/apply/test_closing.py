"""What a later plan closes, what it must not close, and a candidate that nobody can delete."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone.ports import files
from faultinject.deletion_files import Stop, WatchedCache, failing_at, stop_at
from faultinject.deletion_worlds import OTHER_REVIEW, REVIEW, World, world
from tests.retention.apply.boundaries import (
    ABORTED,
    BOUNDARIES,
    CLOSED,
    RECEIPT,
    stopped,
)

THIRD_REVIEW = "9b2c1f64-3f0e-4a53-8a39-0d2d9c1d3a11"
INCOMPLETE = "DPONE_DEPLOYMENT_CACHE_GC_INCOMPLETE_OPERATION"
INVALID = "DPONE_DEPLOYMENT_CACHE_GC_RECOVERY_INVALID"
CHANGED = "DPONE_DEPLOYMENT_CACHE_GC_PLAN_CHANGED"


@pytest.mark.parametrize("at", sorted(BOUNDARIES))
def test_a_later_plan_names_what_it_closes_and_closes_it(made: World, at: str) -> None:
    plan = made.plan().sha256
    stopped(made, plan, at)
    opened = made.receipt(plan)
    assert opened is not None
    later = made.plan()
    (closing,) = later.closings
    assert (closing.operation_id, closing.receipt_revision) == (
        opened.operation_id,
        opened.receipt_revision,
    )
    ended = made.apply(later.sha256, OTHER_REVIEW)
    assert ended.code == "committed"
    closed = made.receipt(plan)
    assert closed is not None
    assert closed.status == "aborted"
    # What had begun to be deleted is confirmed where it was begun.
    assert closed.deleted_ids == made.candidates[: BOUNDARIES[at].deleted]
    reasons = {item.reason for item in closed.items if item.action == "skipped"}
    assert CLOSED in reasons
    refused = made.apply(plan)
    assert (refused.exit_code, refused.code) == (1, ABORTED)
    assert made.trashed() == []


def test_an_operation_that_the_plan_does_not_name_is_not_closed(made: World) -> None:
    first = made.plan(given=made.candidates[:1]).sha256
    second = made.plan(given=made.candidates[:2]).sha256
    with pytest.raises(Stop):
        made.apply(
            first,
            files=WatchedCache(made.root, stop_at("unlink", "deployment.json")),
            given=made.candidates[:1],
        )
    raw = made.raw(first)
    # Reviewed before the other one began: it names nothing to close.
    ended = made.apply(second, OTHER_REVIEW, given=made.candidates[:2])
    assert (ended.exit_code, ended.code) == (1, INCOMPLETE)
    assert made.raw(first) == raw
    assert made.apply(first, given=made.candidates[:1]).code == "committed"
    # What it saw is gone by now.
    ended = made.apply(second, OTHER_REVIEW, given=made.candidates[:2])
    assert ended.code == CHANGED


def test_a_plan_that_names_an_earlier_state_of_the_operation_closes_nothing(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "history")
    later = made.plan().sha256
    # Meanwhile the operation went on.
    stopped(made, plan, "progress")
    raw = made.raw(plan)
    ended = made.apply(later, OTHER_REVIEW)
    assert (ended.code, made.raw(plan)) == (INCOMPLETE, raw)


def test_an_operation_that_began_after_the_intent_of_another_is_not_closed_by_it(
    made: World,
) -> None:
    plan = made.plan().sha256
    with pytest.raises(Stop):
        made.apply(plan, OTHER_REVIEW, files=WatchedCache(made.root, stop_at("after append")))
    fresh = made.plan().sha256
    stopped(made, fresh, "history")
    raw = made.raw(fresh)
    ended = made.apply(plan, OTHER_REVIEW)
    assert (ended.exit_code, ended.code) == (1, INCOMPLETE)
    assert made.raw(fresh) == raw
    assert made.apply(fresh).code == "committed"


def test_what_went_on_after_the_intent_of_another_is_not_closed_by_it(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "history")
    later = made.plan().sha256
    with pytest.raises(Stop):
        made.apply(later, OTHER_REVIEW, files=WatchedCache(made.root, stop_at("after append")))
    # It is what was reviewed still, until its own command goes on.
    busy = failing_at("carry", files.NameBusy, "deployments/")
    assert made.apply(plan, files=WatchedCache(made.root, busy)).code == "unfinished"
    raw = made.raw(plan)
    ended = made.apply(later, OTHER_REVIEW)
    assert (ended.exit_code, ended.code) == (1, INCOMPLETE)
    assert made.raw(plan) == raw
    assert made.apply(plan).code == "committed"


@pytest.mark.parametrize("at", ["detached", "half", "committed"])
@pytest.mark.parametrize(
    "stop",
    [
        ("after append", "", 1),
        ("after append", "", 2),
        ("create", RECEIPT, 1),
        ("after replace", RECEIPT, 1),
        ("create", RECEIPT, 2),
        ("after replace", RECEIPT, 2),
    ],
)
def test_a_crash_between_closing_and_beginning_needs_no_new_plan(
    made: World, at: str, stop: tuple[str, str, int]
) -> None:
    plan = made.plan().sha256
    stopped(made, plan, at)
    later = made.plan().sha256
    with pytest.raises(Stop):
        made.apply(later, OTHER_REVIEW, files=WatchedCache(made.root, stop_at(*stop)))
    ended = made.apply(later, OTHER_REVIEW)
    assert ended.code == "committed"
    assert made.trashed() == []
    closed = made.receipt(plan)
    assert closed is not None
    assert closed.status == "aborted"


def test_a_plan_with_nothing_to_delete_closes_too_and_survives_a_crash(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "history")
    later = made.plan(given=made.candidates)
    assert later.delete_candidates == ()
    assert len(later.closings) == 1
    with pytest.raises(Stop):
        made.apply(
            later.sha256,
            OTHER_REVIEW,
            files=WatchedCache(made.root, stop_at("after replace", RECEIPT)),
            given=made.candidates,
        )
    ended = made.apply(later.sha256, OTHER_REVIEW, given=made.candidates)
    assert (ended.exit_code, ended.code) == (0, "nothing")
    closed = made.receipt(plan)
    assert closed is not None
    assert closed.status == "aborted"
    assert made.there() == list(made.candidates)


def _undeletable(made: World, number: int = 0) -> WatchedCache:
    leaf = made.deployment(made.candidates[number]).name
    watch = failing_at("unlink", files.AccessDenied, f".retention-trash/{leaf}")
    return WatchedCache(made.root, watch)


def test_what_cannot_be_deleted_blocks_nobody_and_is_retried(made: World) -> None:
    plan = made.plan().sha256
    denied = _undeletable(made)
    ended = made.apply(plan, files=denied)
    assert (ended.exit_code, ended.code) == (4, "unfinished")
    assert made.there() == []
    # Closed by a later plan, its tree still lies in the trash, and the log knows.
    made.rebuild(made.candidates[1])
    later = made.plan().sha256
    ended = made.apply(later, OTHER_REVIEW, files=denied)
    assert (ended.code, ended.stuck) == ("committed", 1)
    assert made.phases() == ["deletion_started"]
    assert made.desk().receipts().stuck == 1
    # A later apply tries again, and once it can, nothing is left.
    made.rebuild(made.candidates[2])
    ended = made.apply(made.plan().sha256, THIRD_REVIEW)
    assert (ended.code, ended.stuck, made.trashed()) == ("committed", 0, [])


def test_a_retry_with_the_same_cause_stays_unfinished_and_repeats_nothing(made: World) -> None:
    plan = made.plan().sha256
    denied = _undeletable(made, 1)
    first = made.apply(plan, files=denied)
    again = made.apply(plan, files=denied)
    assert (first.code, again.code) == ("unfinished", "unfinished")
    assert first.receipt is not None
    assert again.receipt is not None
    assert first.receipt.items == again.receipt.items


@pytest.mark.parametrize("is_occupied", [False, True])
def test_a_detached_one_is_put_back_when_authority_drifted_and_its_name_is_free(
    made: World, is_occupied: bool
) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "detached")
    first = made.candidates[0]
    inode = next(made.trash.iterdir()).stat().st_ino
    if is_occupied:
        made.deployment(first).mkdir()
    made.activate("yet another")
    assert made.apply(plan).code == ABORTED
    receipt = made.receipt(plan)
    assert receipt is not None
    if is_occupied:
        assert receipt.deleted_ids == (first,)
        assert list(made.deployment(first).iterdir()) == []
    else:
        assert (receipt.deleted_ids, made.phases()) == ((), ["restored"])
        assert made.deployment(first).stat().st_ino == inode
    assert made.trashed() == []


def test_a_restored_activation_is_sealed_again(tmp_path, made: World) -> None:  # type: ignore[no-untyped-def]
    from faultinject.deletion_worlds import world

    made = world(tmp_path / "active", active=1)
    plan = made.plan().sha256
    stopped(made, plan, "detached")
    assert not made.activation(made.candidates[0]).exists()
    made.activate("yet another")
    assert made.apply(plan).code == ABORTED
    assert made.activation(made.candidates[0]).stat().st_mode & 0o777 == 0o555


@pytest.mark.parametrize("stop", [("carry", 1), ("after carry", 1), ("after carry", 2)])
def test_a_crash_in_the_middle_of_putting_back_is_continued(
    tmp_path: Path, stop: tuple[str, int]
) -> None:
    made = world(tmp_path, active=1)
    plan = made.plan().sha256
    stopped(made, plan, "detached")
    made.activate("yet another")
    watch = stop_at(stop[0], ".retention-trash/", stop[1])
    with pytest.raises(Stop):
        made.apply(plan, files=WatchedCache(made.root, watch))
    assert made.apply(plan).code == ABORTED
    first = made.candidates[0]
    assert made.deployment(first).exists()
    assert made.activation(first).stat().st_mode & 0o777 == 0o555
    assert made.trashed() == []


def test_what_was_put_back_is_acknowledged_once_and_for_all(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "detached")
    made.activate("yet another")
    assert made.apply(plan).code == ABORTED
    bound = made.plan().recovery
    assert bound is not None
    said = made.desk().acknowledge(apply=False)
    assert [row["deployment_id"] for row in said.restored] == [made.candidates[0]]
    assert made.plan().recovery == bound
    assert made.desk().acknowledge(apply=True).acknowledged == 1
    assert made.plan().recovery is None
    assert made.desk().acknowledge(apply=True).restored == ()
    # Unrelated writes to the log do not reopen it.
    assert made.apply(made.plan(given=made.candidates[:1]).sha256, OTHER_REVIEW).code == CHANGED
    given = made.candidates[:1]
    later = made.plan(given=given).sha256
    assert made.apply(later, OTHER_REVIEW, given=given).code == "committed"
    assert made.plan().recovery is None
    assert made.phases() == ["restored"]


def test_what_was_put_back_by_hand_is_closed_and_not_deleted(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "detached")
    first = made.candidates[0]
    next(made.trash.iterdir()).rename(made.deployment(first))
    ended = made.apply(plan)
    # It is the reviewed occurrence still, at its name, and authority is what it was.
    assert (ended.code, made.there()) == ("committed", [])


@pytest.mark.parametrize("how", ["torn", "of another kind", "too long"])
def test_a_plan_names_an_acknowledgement_that_cannot_be_used(made: World, how: str) -> None:
    plan = made.plan().sha256
    path = made.root / ".retention-recovery-ack.json"
    path.write_text({"torn": "{", "of another kind": "{}"}.get(how, "x" * (2 * 1024 * 1024 + 1)))
    path.chmod(0o600)
    shown = made.planned()
    assert (shown.plan, getattr(shown.blocker, "code", "")) == (None, INVALID)
    assert path.name in str(getattr(shown.blocker, "fields", {}))
    # The same that an apply answers.
    assert (made.apply(plan).code, made.there()) == (INVALID, list(made.candidates))
    path.unlink()
    assert made.apply(plan).code == "committed"


def test_beside_a_second_unfinished_operation_neither_goes_on_and_a_plan_closes_both(
    made: World,
) -> None:
    """No command makes two; a directory of receipts that was put together by hand may hold them."""
    plan = made.plan().sha256
    stopped(made, plan, "history")
    (path,) = made.receipts.iterdir()
    aside = path.rename(made.root.parent / path.name)
    second = made.plan().sha256
    with pytest.raises(Stop):
        made.apply(
            second, OTHER_REVIEW, files=WatchedCache(made.root, stop_at("after replace", RECEIPT))
        )
    aside.rename(path)
    before = (made.raw(plan), made.raw(second, OTHER_REVIEW))
    for digest, review in ((plan, REVIEW), (second, OTHER_REVIEW)):
        ended = made.apply(digest, review)
        assert (ended.exit_code, ended.code) == (1, INCOMPLETE)
    assert (made.raw(plan), made.raw(second, OTHER_REVIEW)) == before
    assert made.there() == list(made.candidates)
    both = made.plan()
    assert len(both.closings) == 2
    assert made.apply(both.sha256, THIRD_REVIEW).code == "committed"
    assert (made.there(), made.phases()) == ([], [])
