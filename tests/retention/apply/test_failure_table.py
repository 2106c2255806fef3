"""The failure table: one test for each row, and each kind of drift at each boundary."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from dpone.contracts.retention_apply import report_of_receipt
from faultinject.deletion_files import Stop, WatchedCache, stop_at
from faultinject.deletion_worlds import OTHER_REVIEW, World
from tests.retention.apply.boundaries import (
    ABORTED,
    AUTHORITY,
    BOUNDARIES,
    HISTORY,
    PROTECTED,
    RECEIPT,
    stopped,
)


def test_before_the_receipt_begins_nothing_is_changed_and_the_plan_still_stands(
    made: World,
) -> None:
    plan = made.plan().sha256
    for call in ("append", "after append", "create"):
        with pytest.raises(Stop):
            made.apply(plan, files=WatchedCache(made.root, stop_at(call)))
        assert made.there() == list(made.candidates)
        assert not (made.root / HISTORY).exists()
        assert made.raw(plan) is None
    assert made.apply(plan).code == "committed"


def test_before_the_receipt_begins_another_review_of_the_same_plan_works_too(made: World) -> None:
    plan = made.plan().sha256
    with pytest.raises(Stop):
        made.apply(plan, files=WatchedCache(made.root, stop_at("create", RECEIPT)))
    assert made.phases() == ["prepared"] * 3
    fresh = made.plan().sha256
    assert made.apply(fresh, OTHER_REVIEW).code == "committed"
    assert made.recovery().transactions == {}


def test_after_the_beginning_the_bound_history_is_persisted_and_no_other(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "begun")
    receipt = made.receipt(plan)
    assert receipt is not None
    assert not (made.root / HISTORY).exists()
    assert made.apply(plan).code == "committed"
    history = json.loads((made.root / HISTORY).read_text())
    assert history["revision"] == receipt.activation_history_revision


def test_a_newer_acknowledgement_before_the_history_is_another_history(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "begun")
    made.edit_ack(acknowledged_at="2026-08-05T00:00:00+00:00")
    ended = made.apply(plan)
    assert (ended.code, (ended.fields or {})["reason"]) == (ABORTED, AUTHORITY)
    assert made.there() == list(made.candidates)


def test_a_newer_acknowledgement_after_the_history_is_ignored(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "history")
    before = (made.root / HISTORY).read_bytes()
    made.edit_ack(acknowledged_at="2026-08-05T00:00:00+00:00")
    assert made.apply(plan).code == "committed"
    assert (made.root / HISTORY).read_bytes() == before


@pytest.mark.parametrize("at", sorted(BOUNDARIES))
def test_after_every_boundary_the_same_command_ends_it_and_deletes_nothing_twice(
    made: World, at: str
) -> None:
    plan = made.plan().sha256
    stopped(made, plan, at)
    gone = [it for it in made.candidates if it not in made.there()]
    carried: list[str] = []

    def watch(call: str, path: str) -> None:
        if call == "carry" and path.startswith("deployments/"):
            carried.append(path.rpartition("/")[2].replace("-", ":", 1))

    ended = made.apply(plan, files=WatchedCache(made.root, watch))
    assert ended.code == "committed"
    assert ended.receipt is not None
    assert ended.receipt.deleted_ids == made.candidates
    assert set(carried).isdisjoint(gone)
    assert (made.trashed(), made.there(), made.recovery().transactions) == ([], [], {})


def test_after_the_log_committed_the_receipt_still_lags(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "committed")
    receipt = made.receipt(plan)
    assert receipt is not None
    assert (receipt.deleted_ids, made.phases()) == ((), ["committed", "prepared", "prepared"])


def test_after_progress_the_receipt_knows_what_the_log_does(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "progress")
    receipt = made.receipt(plan)
    assert receipt is not None
    assert (receipt.deleted_ids, made.phases()[0]) == ((made.candidates[0],), "committed")


def test_after_the_commit_and_before_the_report_the_same_receipt_is_returned(made: World) -> None:
    plan = made.plan().sha256
    with pytest.raises(Stop):
        made.apply(plan, files=WatchedCache(made.root, stop_at("after replace", RECEIPT, count=4)))
    receipt, raw = made.receipt(plan), made.raw(plan)
    assert receipt is not None
    assert receipt.status == "committed"
    for _ in range(2):
        ended = made.apply(plan, promoter="somebody else")
        assert (ended.code, ended.replayed, ended.receipt) == ("committed", True, receipt)
        assert made.raw(plan) == raw
    assert made.recovery().transactions == {}
    assert report_of_receipt(receipt, "v3") == report_of_receipt(receipt, "v3")


def _promote(made: World) -> None:
    made.activate("yet another")


def _acknowledge_fatal(made: World) -> None:
    made.edit_ack(fatal=True)


def _acknowledge_other(made: World) -> None:
    made.edit_ack(activation_id="11111111-1111-4111-8111-111111111111")


def _checkpoint_other(made: World) -> None:
    path = made.root / "status/desired-state-checkpoint.json"
    data = json.loads(path.read_text()) | {"expected_dag_ids": ["another"]}
    path.write_text(json.dumps(data, sort_keys=True, separators=(",", ":")))


def _checkpoint_gone(made: World) -> None:
    (made.root / "status/desired-state-checkpoint.json").unlink()


DRIFTS: dict[str, Callable[[World], None]] = {
    "promoted": _promote,
    "fatal": _acknowledge_fatal,
    "another activation": _acknowledge_other,
    "another checkpoint": _checkpoint_other,
    "no checkpoint": _checkpoint_gone,
}


@pytest.mark.parametrize("drift", sorted(DRIFTS))
@pytest.mark.parametrize("at", sorted(BOUNDARIES))
def test_authority_that_drifts_closes_the_receipt_and_keeps_its_outcomes(
    made: World, at: str, drift: str
) -> None:
    plan = made.plan().sha256
    stopped(made, plan, at)
    DRIFTS[drift](made)
    ended = made.apply(plan)
    assert (ended.exit_code, ended.code) == (1, ABORTED)
    _judge(made, plan, at, AUTHORITY)
    # The same command says so again, and changes nothing.
    raw = made.raw(plan)
    assert made.apply(plan).code == ABORTED
    assert made.raw(plan) == raw


def _judge(made: World, plan: str, at: str, reason: str) -> None:
    """Confirmed is what is gone; everything else has its name, and nothing is in the trash."""
    receipt = made.receipt(plan)
    assert receipt is not None
    expected = made.candidates[: BOUNDARIES[at].deleted]
    assert (receipt.status, receipt.deleted_ids) == ("aborted", expected)
    assert made.there() == [it for it in made.candidates if it not in expected]
    assert made.trashed() == []
    reasons = {item.reason for item in receipt.items if item.deployment_id in made.there()}
    assert reasons == {reason}


@pytest.mark.parametrize("at", sorted(BOUNDARIES))
def test_a_candidate_that_becomes_protected_closes_the_receipt(made: World, at: str) -> None:
    plan = made.plan().sha256
    stopped(made, plan, at)
    last = made.candidates[-1]
    ended = made.apply(plan, given=(last,))
    assert (ended.code, (ended.fields or {})["reason"]) == (ABORTED, PROTECTED)
    _judge(made, plan, at, PROTECTED)


@pytest.mark.parametrize("at", ["history", "committed"])
def test_protection_of_something_else_closes_the_receipt_too(made: World, at: str) -> None:
    plan = made.plan().sha256
    stopped(made, plan, at)
    ended = made.apply(plan, given=("sha256:" + "a" * 64,))
    assert (ended.code, (ended.fields or {})["reason"]) == (ABORTED, AUTHORITY)
    _judge(made, plan, at, AUTHORITY)


@pytest.mark.parametrize("at", sorted(BOUNDARIES))
def test_after_an_abort_a_fresh_review_deletes_the_rest(made: World, at: str) -> None:
    plan = made.plan().sha256
    stopped(made, plan, at)
    made.activate("yet another")
    assert made.apply(plan).code == ABORTED
    assert made.apply(made.plan().sha256, OTHER_REVIEW).code == "committed"
    assert (made.there(), made.trashed()) == ([], [])


def test_a_history_that_somebody_changed_is_refused_and_nothing_is_deleted(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "history")
    (made.root / HISTORY).write_text("{}")
    ended = made.apply(plan)
    assert ended.code == "DPONE_DEPLOYMENT_CACHE_ACTIVATION_HISTORY_INVALID"
    assert (ended.exit_code, made.there()) == (4, list(made.candidates))


def test_an_abort_that_cannot_be_written_is_not_reported_as_one(made: World) -> None:
    from dpone.ports.files import StorageFull
    from faultinject.deletion_files import failing_at

    plan = made.plan().sha256
    stopped(made, plan, "committed")
    made.activate("yet another")
    ended = made.apply(plan, files=WatchedCache(made.root, failing_at("create", StorageFull)))
    assert (ended.exit_code, ended.code) == (4, "DPONE_DEPLOYMENT_CACHE_GC_RECEIPT_INVALID")
    receipt = made.receipt(plan)
    assert receipt is not None
    assert receipt.status == "applying"
    assert made.apply(plan).code == ABORTED
    _judge(made, plan, "committed", AUTHORITY)
