"""What earlier versions left: logs, receipts and acknowledgements of version 1."""

from __future__ import annotations

import fcntl
import json
import shutil
from typing import Any

import pytest

from dpone.contracts.cache_layout import durable, sealed_digest
from dpone.contracts.errors_retention import EvidenceUnavailable
from dpone.contracts.retention_apply import report_of_receipt
from dpone.contracts.retention_receipt import (
    LEGACY_SCHEMA,
    LegacyReceipt,
    decode_receipt,
    legacy_operation_id,
    receipt_name,
)
from dpone.contracts.retention_wal import (
    LEGACY_WAL_SCHEMA,
    TRANSACTION_SCHEMA,
    decode_snapshot,
    encode_snapshot,
    snapshot_of,
)
from dpone.retention import wal
from faultinject.deletion_worlds import OTHER_REVIEW, World
from tests.retention.apply.boundaries import ABORTED, stopped
from tests.retention.caches import number


def _legacy_wal(made: World, phase: str, *, is_in_trash: bool = False) -> str:
    """A log of version 1 about the first candidate; its revision."""
    first = made.candidates[0]
    place = made.deployment(first)
    found = place.stat()
    leaf = f"{place.name}.{'0' * 32}"
    if is_in_trash:
        made.trash.mkdir(mode=0o700)
        place.rename(made.trash / leaf)
    ended = phase in ("committed", "restored")
    body: dict[str, Any] = {
        "schema": LEGACY_WAL_SCHEMA,
        "status": "recovered" if ended else "recovering",
        "restored_deployment_ids": [first] if phase == "restored" else [],
        "pending_deployment_ids": [] if ended else [first],
        "transactions": {
            first: {
                "deployment_id": first,
                "environment": "dev",
                "phase": phase,
                "original_path": f"deployments/dev/{place.name}",
                "detached_path": f".retention-trash/{leaf}",
                "activation_path": f"activations/dev/{place.name}",
                "expected_device": found.st_dev,
                "expected_inode": found.st_ino,
            }
        },
    }
    revision = sealed_digest(body)
    made.wal.write_bytes(durable({**body, "revision": revision}))
    made.wal.chmod(0o600)
    return revision


def _legacy_ack(made: World, revision: str, ids: list[str]) -> None:
    body = {
        "schema": "dpone.deployment-cache-retention-recovery-ack.v1",
        "environment": "dev",
        "journal_revision": revision,
        "restored_deployment_ids": ids,
    }
    path = made.root / ".retention-recovery-ack.json"
    path.write_bytes(durable({**body, "revision": sealed_digest(body)}))
    path.chmod(0o600)


@pytest.mark.parametrize("phase", ["prepared", "detached"])
def test_what_a_log_of_version_1_had_moved_gets_its_name_back(made: World, phase: str) -> None:
    _legacy_wal(made, phase, is_in_trash=True)
    plan = made.plan().sha256
    ended = made.apply(plan)
    assert ended.code == "committed"
    assert made.there() == [made.candidates[0]]
    assert made.trashed() == []
    snapshot = decode_snapshot(made.wal.read_bytes())
    assert snapshot.schema.endswith(".v2")
    (kept,) = snapshot.transactions.values()
    assert (kept.phase, getattr(kept, "operation_id", "?")) == ("restored", None)


def _absolute(made: World, root: str) -> None:
    """Every path of the snapshot becomes absolute, as if it lay below `root`."""
    value = json.loads(made.wal.read_text())
    del value["revision"]
    transactions = {}
    for key, it in value["transactions"].items():
        for name in ("original_path", "detached_path", "activation_path"):
            it[name] = f"{root}/{it[name]}"
        if "transaction_id" in it:
            rest = {name: it[name] for name in it if name not in ("transaction_id", "phase")}
            it["transaction_id"] = sealed_digest({**rest, "schema": TRANSACTION_SCHEMA})
        transactions[it.get("transaction_id", key)] = it
    value["transactions"] = transactions
    made.wal.write_bytes(durable({**value, "revision": sealed_digest(value)}))


@pytest.mark.parametrize("root", ["", "/srv/where it lay before"])
@pytest.mark.parametrize("phase", ["prepared", "detached", "deletion_started", "committed"])
def test_an_earlier_log_with_absolute_paths_is_ended(made: World, phase: str, root: str) -> None:
    _legacy_wal(made, phase, is_in_trash=True)
    if phase == "committed":
        shutil.rmtree(made.trash)
    _absolute(made, root or str(made.root))
    assert made.apply(made.plan().sha256).code == "committed"
    is_back = phase in ("prepared", "detached")
    assert (made.there(), made.trashed()) == (list(made.candidates[:is_back]), [])


@pytest.mark.parametrize("root", ["", "/srv/where it lay before"])
def test_an_earlier_operation_with_absolute_paths_is_ended(made: World, root: str) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "progress")
    # Such a release knew no log: its snapshot told everything, without birth times.
    made.wal.write_bytes(encode_snapshot(snapshot_of(made.recovery().transactions)))
    made.wal.chmod(0o600)
    made.log.unlink()
    root = root or str(made.root)
    _absolute(made, root)
    receipt = made.receipt(plan)
    assert receipt is not None
    path = made.receipts / receipt_name(receipt.operation_id)
    value = json.loads(path.read_text())
    del value["receipt_revision"]
    for item in value["items"]:
        item["path"] = f"{root}/{item['path']}"
    path.write_bytes(durable({**value, "receipt_revision": sealed_digest(value)}))
    assert made.apply(plan).code == ABORTED
    closed = made.receipt(plan)
    assert closed is not None
    assert closed.deleted_ids == made.candidates[:1]
    assert made.apply(made.plan().sha256, OTHER_REVIEW).code == "committed"
    assert (made.there(), made.trashed()) == ([], [])


@pytest.mark.parametrize("which", ["original_path", "detached_path", "activation_path"])
def test_an_absolute_path_that_is_not_of_the_layout_is_no_place(made: World, which: str) -> None:
    _legacy_wal(made, "detached", is_in_trash=True)
    value = json.loads(made.wal.read_text())
    del value["revision"]
    (found,) = value["transactions"].values()
    found[which] = f"/srv/{made.deployment(made.candidates[1]).name}"
    made.wal.write_bytes(durable({**value, "revision": sealed_digest(value)}))
    before, trashed = made.wal.read_bytes(), made.trashed()
    ended = made.apply(made.plan().sha256)
    if which == "activation_path":
        # Nothing of it was ever moved, so nothing asks for it.
        assert ended.code == "committed"
        return
    assert ended.exit_code == 4
    assert (made.wal.read_bytes(), made.trashed()) == (before, trashed)
    assert made.there() == list(made.candidates[1:])


def test_what_only_a_snapshot_knows_stays_in_it_when_a_long_log_is_shortened(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _legacy_wal(made, "detached", is_in_trash=True)
    monkeypatch.setattr(wal, "LONG", 0)
    monkeypatch.setattr(wal, "ENTRIES_MAX", 1)
    plan = made.plan().sha256
    with (made.root / ".promotion.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        for _ in range(3):
            assert made.apply(plan, desk=made.desk(promotion_wait_s=0.001)).exit_code == 3
    assert made.phases() == ["detached", "prepared", "prepared"]
    monkeypatch.undo()
    assert made.apply(plan).code == "committed"
    assert (made.there(), made.trashed()) == ([made.candidates[0]], [])


def test_what_a_log_of_version_1_had_begun_to_delete_is_deleted(made: World) -> None:
    _legacy_wal(made, "deletion_started", is_in_trash=True)
    assert made.apply(made.plan().sha256).code == "committed"
    assert (made.there(), made.trashed()) == ([], [])


def test_a_log_of_version_1_that_only_prepared_authorises_nothing(made: World) -> None:
    _legacy_wal(made, "prepared")
    assert made.apply(made.plan(given=made.candidates).sha256, given=made.candidates).code == (
        "nothing"
    )
    assert made.there() == list(made.candidates)


def test_a_log_of_version_1_beside_an_unfinished_receipt_closes_it_and_is_kept(
    made: World,
) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "history")
    made.log.unlink()
    _legacy_wal(made, "detached", is_in_trash=True)
    before = made.wal.read_bytes()
    ended = made.apply(plan)
    assert (ended.exit_code, ended.code) == (1, ABORTED)
    assert (ended.fields or {})["reason"] == "legacy_wal_requires_fresh_review"
    assert (made.wal.read_bytes(), len(made.trashed())) == (before, 1)
    assert made.apply(made.plan().sha256, OTHER_REVIEW).code == "committed"
    assert made.trashed() == []


def _legacy_receipt(made: World, status: str, first: str) -> LegacyReceipt:
    plan = number(7)
    body: dict[str, Any] = {
        "schema": LEGACY_SCHEMA,
        "operation_id": legacy_operation_id("dev", plan),
        "status": status,
        "environment": "dev",
        "promoted_by": "somebody",
        "current_deployment_id": made.current,
        "reviewed_plan_sha256": plan,
        "activation_history_revision": number(8),
        "items": [
            {
                "deployment_id": deployment_id,
                "action": first if deployment_id == made.candidates[0] else "pending",
                "reason": "unreferenced",
                "path": f"deployments/dev/{made.deployment(deployment_id).name}",
            }
            for deployment_id in made.candidates
            if status == "applying" or deployment_id == made.candidates[0]
        ],
    }
    data = durable({**body, "receipt_revision": sealed_digest(body)})
    found = decode_receipt(data)
    assert isinstance(found, LegacyReceipt)
    made.receipts.mkdir(mode=0o700, exist_ok=True)
    path = made.receipts / receipt_name(found.operation_id)
    path.write_bytes(data)
    path.chmod(0o600)
    return found


def _read(made: World, old: LegacyReceipt) -> LegacyReceipt:
    found = decode_receipt((made.receipts / receipt_name(old.operation_id)).read_bytes())
    assert isinstance(found, LegacyReceipt)
    return found


def test_an_unfinished_receipt_of_version_1_is_closed_and_deletes_nothing(made: World) -> None:
    old = _legacy_receipt(made, "applying", "pending")
    plan = made.plan(given=made.candidates).sha256
    assert made.apply(plan, given=made.candidates).exit_code == 0
    closed = _read(made, old)
    assert closed.status == "aborted"
    assert {item.reason for item in closed.items} == {"legacy_receipt_requires_fresh_review"}
    assert made.there() == list(made.candidates)


def test_an_unfinished_receipt_of_version_1_keeps_what_the_log_confirmed_of_it(
    made: World,
) -> None:
    import shutil

    old = _legacy_receipt(made, "applying", "pending")
    plan = made.plan().sha256
    stopped_of(made, plan, old.operation_id)
    shutil.rmtree(made.deployment(made.candidates[0]))
    assert made.apply(made.plan().sha256, OTHER_REVIEW).code == "committed"
    closed = _read(made, old)
    assert closed.status == "aborted"
    deleted = [item.deployment_id for item in closed.items if item.action == "deleted"]
    assert deleted == [made.candidates[0]]


def stopped_of(made: World, plan: str, operation_id: str) -> None:
    """A snapshot of version 2 that says: the first candidate was deleted for this operation."""
    from dpone.contracts.retention_wal import encode_snapshot, in_phase, prepared, snapshot_of

    del plan
    place = made.deployment(made.candidates[0])
    made_now = prepared(
        deployment_id=made.candidates[0],
        environment="dev",
        original_path=f"deployments/dev/{place.name}",
        detached_path=f".retention-trash/{place.name}.{'1' * 32}",
        activation_path=f"activations/dev/{place.name}",
        device=place.stat().st_dev,
        inode=place.stat().st_ino,
        operation_id=operation_id,
    )
    ended = in_phase(made_now, "committed")
    made.wal.write_bytes(encode_snapshot(snapshot_of({ended.transaction_id: ended})))
    made.wal.chmod(0o600)


def test_a_finished_receipt_of_version_1_is_evidence_of_versions_1_and_2_alone(
    made: World,
) -> None:
    old = _legacy_receipt(made, "committed", "deleted")
    for version in ("v1", "v2"):
        assert report_of_receipt(old, version).deleted_deployment_ids == made.candidates[:1]
    with pytest.raises(EvidenceUnavailable, match="review_id"):
        report_of_receipt(old, "v3")
    assert made.apply(made.plan().sha256).code == "committed"


def test_an_acknowledgement_of_version_1_about_this_very_log_is_taken_over(made: World) -> None:
    revision = _legacy_wal(made, "restored")
    bound = made.plan().recovery
    assert bound is not None
    _legacy_ack(made, revision, [made.candidates[0]])
    assert made.plan().recovery is None
    given = made.candidates[:1]
    assert made.apply(made.plan(given=given).sha256, given=given).code == "committed"
    # The log was written anew since; it is not reopened.
    assert made.plan().recovery is None
    assert made.desk().acknowledge(apply=False).restored == ()


def test_an_acknowledgement_of_version_1_about_another_log_says_nothing(made: World) -> None:
    _legacy_wal(made, "restored")
    _legacy_ack(made, number(9), [made.candidates[0]])
    assert made.plan().recovery is not None
    assert len(made.desk().acknowledge(apply=True).restored) == 1
    assert made.plan().recovery is None
    data = json.loads((made.root / ".retention-recovery-ack.json").read_text())
    assert data["schema"].endswith(".v2")
