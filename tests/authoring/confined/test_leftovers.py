"""Names that earlier runs left for people: which are listed, and which still wait for recovery."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dpone.adapters.posix.files import PosixFiles
from dpone.authoring.leftovers import leftovers
from dpone.contracts.transaction import Phase, recovery_name, side_name
from faultinject.writing import NEW, OLD
from tests.authoring.confined.studio import JOURNAL, NONCE, Single
from tests.authoring.confined.test_strangers import RECEIPT, another_user, receipt

KEPT, SIDE = recovery_name("f" * 32), side_name("f" * 32)
EARLIER = ".f.yaml.dpone-cas-0123456789abcdef"
REMOVED = ".dpone-rollback-" + "e" * 32


def listed(root: Path, folder: str = "") -> tuple[str, ...]:
    """The leftovers of a folder; nothing in it may change."""
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    found = leftovers(PosixFiles(root), folder)
    assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == before
    return found


def test_kept_bytes_and_orphaned_side_files_are_listed_in_order(single: Single) -> None:
    none = (".dpone-side-x", ".dpone-rollback-x", "mine.yaml")
    for name in (SIDE, KEPT, EARLIER, REMOVED, SIDE + "-0", *none):
        (single.root / name).write_bytes(OLD)
    assert listed(single.root) == (KEPT, REMOVED, SIDE, SIDE + "-0", EARLIER)


def test_what_the_earlier_release_s_removal_left_is_named_beside_a_torn_journal(
    single: Single,
) -> None:
    """No journal of that release names such a file, so nothing else would."""
    (single.root / REMOVED).write_bytes(OLD)
    (single.root / JOURNAL).write_bytes(b"{")
    found = single.confined().recover_file_transaction("f.yaml")
    assert found.sides == (REMOVED,)


def test_a_side_file_whose_journal_waits_is_none(single: Single) -> None:
    single.journal(Phase.PREPARED, side=NEW)
    (single.root / SIDE).write_bytes(OLD)
    assert listed(single.root) == (SIDE,)
    (single.root / JOURNAL).unlink()
    assert listed(single.root) == (side_name(NONCE), SIDE)


def test_a_side_file_whose_journal_is_none_is_listed(single: Single) -> None:
    (single.root / SIDE).write_bytes(OLD)
    (single.root / JOURNAL).write_bytes(b"garbage\n")
    assert listed(single.root) == (SIDE,)


def test_an_earlier_release_s_journal_waits_as_well(single: Single) -> None:
    value = {
        "phase": "prepared",
        "schema": "dpone.confined-file-transaction",
        "version": 1,
        "target_name": "f.yaml",
        "exchange_name": EARLIER,
        "expected_sha256": "0" * 64,
        "desired_sha256": "1" * 64,
    }
    (single.root / EARLIER).write_bytes(OLD)
    (single.root / JOURNAL).write_text(json.dumps(value))
    assert listed(single.root) == ()


@pytest.mark.parametrize("root", ["", "parts", "elsewhere/deep"])
def test_a_receipt_may_wait_in_another_folder(place: Path, root: str) -> None:
    (place / "parts").mkdir()
    (place / root).mkdir(parents=True, exist_ok=True)
    side = side_name(NONCE) + "-0"
    (place / "parts" / side).write_bytes(NEW)
    assert listed(place, "parts") == (side,)
    (place / root / RECEIPT).write_bytes(receipt(entry={"path": "parts/a.yaml"}))
    assert listed(place, "parts") == ()


def test_what_cannot_be_read_may_wait(single: Single) -> None:
    single.journal(Phase.PREPARED, side=NEW)
    (single.root / KEPT).write_bytes(OLD)
    with another_user(single.root, JOURNAL):
        assert listed(single.root) == (KEPT,)


def test_no_link_is_followed(single: Single) -> None:
    (single.root / "real").mkdir()
    (single.root / "real" / KEPT).write_bytes(OLD)
    (single.root / "link").symlink_to("real")
    (single.root / KEPT).symlink_to("nowhere")
    (single.root / JOURNAL).symlink_to("real")
    assert listed(single.root, "link") == ()
    assert listed(single.root, "real") == (KEPT,)
    assert listed(single.root) == (KEPT,)


def test_an_absent_or_unreadable_folder_has_none(single: Single) -> None:
    sealed = single.root / "sealed"
    sealed.mkdir()
    (sealed / KEPT).write_bytes(OLD)
    assert listed(single.root, "absent") == ()
    assert listed(single.root, "f.yaml") == ()
    assert listed(single.root, "..") == ()
    with another_user(single.root):
        assert listed(single.root, "sealed") == (KEPT,)
    sealed.chmod(0o700 if os.geteuid() == 0 else 0)
    if os.geteuid() == 0:
        os.seteuid(65534)
    try:
        assert leftovers(PosixFiles(single.root), "sealed") == ()
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        sealed.chmod(0o700)


def test_the_project_s_folder_may_be_gone(place: Path) -> None:
    assert leftovers(PosixFiles(place / "gone"), "") == ()
