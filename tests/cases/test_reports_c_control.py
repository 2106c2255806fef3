"""Public reports of deletions that went wrong in the control files: receipts, owners, room."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from dpone.contracts.retention_receipt import (
    Receipt,
    ReceiptItem,
    begun,
    committed,
    encode_receipt,
    receipt_name,
)
from faultinject.deletion_files import Stop, WatchedCache, stop_at
from faultinject.deletion_worlds import OTHER_REVIEW, World, world
from tests.retention.caches import call, number
from tests.retention.ordinary import as_owner, owned_folder

INVALID = "DPONE_DEPLOYMENT_CACHE_GC_RECEIPT_INVALID"
FULL = "DPONE_DEPLOYMENT_CACHE_GC_CAPACITY_EXHAUSTED"


@pytest.fixture
def made(tmp_path: Path) -> World:
    return world(tmp_path)


def test_c03_a_receipt_root_that_is_a_link_to_a_folder_of_ours_is_refused(
    made: World, tmp_path: Path
) -> None:
    ours = tmp_path / "ours"
    ours.mkdir(mode=0o700)
    made.receipts.symlink_to(ours)
    # A plan reads it and refuses; what was planned before is refused as well.
    made.receipts.unlink()
    plan = made.plan().sha256
    made.receipts.symlink_to(ours)
    ended = made.apply(plan)
    assert (ended.exit_code, ended.code) == (4, INVALID)
    assert list(ours.iterdir()) == []
    assert made.there() == list(made.candidates)


def _finished(value: int) -> Receipt:
    item = ReceiptItem(
        deployment_id=number(value), action="skipped", reason="current", path="deployments/dev/x"
    )
    return committed(
        begun(
            environment="dev",
            promoted_by="somebody",
            current_deployment_id=number(value),
            plan_sha256=number(value),
            review_id=str(UUID(int=value, version=4)),
            protected_ids=(),
            recovery_revision=None,
            history_revision=number(value),
            items=(item,),
        )
    )


def _stored(made: World, count: int) -> list[Receipt]:
    made.receipts.mkdir(mode=0o700)
    found = [_finished(value) for value in range(1, count + 1)]
    for receipt in found:
        path = made.receipts / receipt_name(receipt.operation_id)
        path.write_bytes(encode_receipt(receipt))
        path.chmod(0o600)
    return found


@pytest.mark.timeout(240)
def test_c15_receipts_near_their_bound_warn_then_block_and_an_archive_keeps_replay(
    made: World,
) -> None:
    stored = _stored(made, 9_999)
    shown = made.planned()
    assert any(
        "9999 receipts" in note and "cache-retention-archive" in note for note in shown.warnings
    )
    assert shown.plan is not None
    plan = shown.plan.sha256
    first = made.apply(plan)
    assert first.code == "committed"
    # Ten thousand are there now.
    again = world_with_one_more(made)
    ended = made.apply(again)
    assert (ended.exit_code, ended.code) == (4, FULL)
    assert "10000 receipts" in str(ended.fields)
    assert made.phases() == []
    proposed = made.desk().archive_receipts("", apply=False)
    assert proposed.receipts == 10_000
    moved = made.desk().archive_receipts(proposed.archive_sha256, apply=True)
    assert (moved.receipts, list(made.receipts.iterdir())) == (10_000, [])
    assert made.apply(again).code == "committed"
    replayed = made.apply(plan)
    assert (replayed.replayed, replayed.receipt) == (True, first.receipt)
    raw = made.desk().receipt(stored[77].operation_id)
    assert raw == encode_receipt(stored[77])


def world_with_one_more(made: World) -> str:
    """One more candidate; the plan that names it."""
    current = made.fixture(made.current)
    made.activate("more")
    made.activate(current)
    made.activate("yet another")
    made.activate(current)
    return made.plan().sha256


@pytest.mark.parametrize("mode", [0o2770, 0o770, 0o755])
def test_c16_group_bits_of_a_remount_are_named_and_repaired(made: World, mode: int) -> None:
    plan = made.plan().sha256
    first = made.apply(plan)
    for folder in (made.receipts, made.trash):
        folder.chmod(mode)
    for path in made.receipts.iterdir():
        path.chmod(0o660)
    said = call("airflow", "cache-retention-receipts", "--cache-root", made.root)
    assert said.code == 4
    assert f"its mode is {mode:04o}, not 0700" in said.out
    ended = made.apply(plan)
    assert ended.exit_code == 4
    assert sorted(path.name for path in made.root.glob(".retention-apply*")) == [
        ".retention-apply-receipts"
    ]
    asked = ("airflow", "cache-retention-receipts", "--cache-root", made.root, "--repair")
    assert call(*asked).code == 4
    assert oct(made.receipts.stat().st_mode & 0o7777) == oct(mode)
    assert call(*asked, "--apply").code == 0
    assert made.receipts.stat().st_mode & 0o777 == 0o700
    again = made.apply(plan)
    assert (again.replayed, again.receipt) == (True, first.receipt)


def test_c16_setgid_alone_is_tolerated(made: World) -> None:
    plan = made.plan().sha256
    first = made.apply(plan)
    made.receipts.chmod(0o2700)
    assert made.apply(plan).receipt == first.receipt


def test_c17_receipts_of_another_user_are_named_and_stay_readable() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give files to another user")
    with owned_folder() as folder:
        made = world(folder / "world")
        plan = made.plan().sha256
        first = made.apply(plan)
        assert first.receipt is not None
        operation = first.receipt.operation_id
        for path in [folder / "world", *(folder / "world").rglob("*")]:
            if ".retention-" not in str(path):
                os.chown(path, folder.stat().st_uid, -1, follow_symlinks=False)
        # As a volume that a group shares: the other user may read.
        made.receipts.chmod(0o755)
        for path in made.receipts.iterdir():
            path.chmod(0o644)

        def work() -> str:
            ended = made.apply(plan)
            listed = made.desk().receipts()
            raw = made.desk().receipt(operation)
            words = [line for line in listed.repairs if "chown" in line]
            return str((ended.exit_code, ended.code, bool(words), raw is not None))

        code = "DPONE_DEPLOYMENT_CACHE_GC_TRASH_UNSAFE"
        assert as_owner(work) == str((4, code, True, True))
        assert len(list(made.root.glob(".retention-apply*"))) == 1


def test_c18_names_that_file_systems_put_there_are_tolerated_and_reported(made: World) -> None:
    first = made.apply(made.plan().sha256)
    assert first.receipt is not None
    for name in (".nfs0001", ".DS_Store"):
        (made.receipts / name).touch()
    for name in ("lost+found", ".snapshot"):
        (made.receipts / name).mkdir()
    temporary = f".{receipt_name(first.receipt.operation_id)}.{'a' * 32}.tmp"
    (made.receipts / temporary).touch()
    assert made.planned().blocker is None
    listed = made.desk().receipts()
    assert listed.tolerated == (".DS_Store", ".nfs0001", ".snapshot", "lost+found")
    ended = made.apply(first.receipt.reviewed_plan_sha256)
    assert (ended.replayed, (made.receipts / temporary).exists()) == (True, False)
    assert (made.receipts / "lost+found").exists()


def test_c18_a_temporary_that_a_crash_left_is_cleared_by_the_next_run(made: World) -> None:
    plan = made.plan().sha256
    for part in (".retention-apply-receipts/", ".retention-activation", ".retention-recovery.json"):
        with pytest.raises(Stop):
            made.apply(plan, files=WatchedCache(made.root, stop_at("after create", part)))
    assert len(list(made.root.rglob("*.tmp"))) == 1
    assert made.apply(plan).code == "committed"
    assert list(made.root.rglob("*.tmp")) == []


def test_c18_a_name_of_nobody_is_named(made: World) -> None:
    made.apply(made.plan().sha256)
    (made.receipts / "notes.txt").touch()
    said = call("airflow", "cache-retention-receipts", "--cache-root", made.root)
    assert (said.code, "notes.txt: it is no receipt" in said.out) == (4, True)


def _torn(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _other_revision(data: bytes) -> bytes:
    value = json.loads(data)
    value["promoted_by"] = "somebody else"
    return json.dumps(value, indent=2, sort_keys=True).encode()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "zeros": lambda data: bytes(len(data)),
    "half": _torn,
    "revision": _other_revision,
}


@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_c27_a_damaged_receipt_is_a_named_blocker_that_leaves_its_bytes(
    made: World, damage: str
) -> None:
    plan = made.plan().sha256
    with pytest.raises(Stop):
        made.apply(plan, files=WatchedCache(made.root, stop_at("unlink", "deployment.json")))
    (path,) = made.receipts.iterdir()
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    before = path.read_bytes()
    left = made.there()
    for review in ("0f8fad5b-d9cb-469f-a165-70867728950e", OTHER_REVIEW):
        ended = made.apply(plan, review)
        assert (ended.exit_code, ended.code) == (4, INVALID)
        assert path.name in str((ended.fields or {})["file"])
    assert (path.read_bytes(), made.there()) == (before, left)
    # Commands that only read still answer, and say what to do.
    shown = made.planned()
    assert (shown.plan, shown.blocker is not None, len(shown.rows)) == (None, True, 3)
    assert "Move it out of the cache" in str(shown.blocker.advice if shown.blocker else "")
    listed = made.desk().receipts()
    assert path.name in (listed.blocker or "")
    # Moved out as the advice says, a fresh plan ends what was begun.
    path.rename(made.root.parent / "quarantined.json")
    fresh = made.plan().sha256
    assert made.apply(fresh, OTHER_REVIEW).code == "committed"
    assert (made.trashed(), made.there()) == ([], [])
