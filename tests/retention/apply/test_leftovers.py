"""What lies beside the control files: temporaries, drift, copies, and what it all costs."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
from pathlib import Path
from uuid import UUID

import pytest

from dpone.adapters.posix.cachefiles import PosixCacheFolder
from dpone.contracts import cache_layout as layout
from dpone.contracts.retention_archive import ARCHIVE
from dpone.contracts.retention_drift import DRIFT, decode_drift
from dpone.contracts.retention_receipt import (
    ReceiptItem,
    begun,
    committed,
    encode_receipt,
    receipt_name,
)
from faultinject.deletion_files import WatchedCache
from faultinject.deletion_worlds import OTHER_REVIEW, World, world
from tests.retention.apply.boundaries import stopped
from tests.retention.caches import number
from tests.retention.ordinary import owner

RUNBOOK = Path(__file__).parents[3] / "docs" / "runbooks" / "cache-retention.md"


def test_what_comes_back_is_told_in_a_file_of_its_own_and_once(made: World) -> None:
    plan = made.plan().sha256
    assert made.apply(plan).code == "committed"
    receipts = {path.name: path.read_bytes() for path in made.receipts.iterdir()}
    assert not (made.root / DRIFT).exists()
    assert made.apply(plan).replayed
    assert not (made.root / DRIFT).exists()
    made.deployment(made.candidates[1]).mkdir()
    ended = made.apply(plan)
    assert (ended.exit_code, ended.replayed) == (0, True)
    assert ended.receipt is not None
    written = (made.root / DRIFT).read_bytes()
    found = decode_drift(written)
    assert found.seen_again == {ended.receipt.operation_id: (made.candidates[1],)}
    assert made.apply(plan).replayed
    assert (made.root / DRIFT).read_bytes() == written
    assert {path.name: path.read_bytes() for path in made.receipts.iterdir()} == receipts


def test_a_drift_that_cannot_be_recorded_keeps_nobody_from_the_receipt(made: World) -> None:
    plan = made.plan().sha256
    first = made.apply(plan)
    made.rebuild(made.candidates[0])
    (made.root / DRIFT).mkdir()
    ended = made.apply(plan)
    assert (ended.code, ended.receipt) == ("committed", first.receipt)


LEAVES = (
    *(layout.WAL, layout.LOG, layout.HISTORY, layout.ACKNOWLEDGEMENT),
    f"{layout.RECEIPTS}/{receipt_name(number(1))}",
)


@pytest.mark.parametrize("leaf", LEAVES)
def test_only_our_own_temporaries_with_our_names_are_cleared(made: World, leaf: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give files to another user")
    made.receipts.mkdir(mode=0o700)
    folder, _, name = leaf.rpartition("/")
    place = made.root / folder
    ours, theirs = place / f".{name}.{'a' * 32}.tmp", place / f".{name}.{'b' * 32}.tmp"
    unknown = made.root / f".other.{'a' * 32}.tmp"
    for path in (ours, theirs, unknown):
        path.touch()
    os.chown(theirs, owner(), -1)
    assert made.apply(made.plan().sha256).code == "committed"
    assert (ours.exists(), theirs.exists(), unknown.exists()) == (False, True, True)


def _stored(made: World, count: int) -> None:
    made.receipts.mkdir(mode=0o700)
    items = tuple(
        ReceiptItem(
            deployment_id=number(value), action="skipped", reason="current", path="deployments/x"
        )
        for value in range(1, 40)
    )
    for value in range(count):
        receipt = committed(
            begun(
                environment="dev",
                promoted_by="somebody",
                current_deployment_id=number(1),
                plan_sha256=number(value),
                review_id=str(UUID(int=value + 1, version=4)),
                protected_ids=(),
                recovery_revision=None,
                history_revision=number(value),
                items=items,
            )
        )
        path = made.receipts / receipt_name(receipt.operation_id)
        path.write_bytes(encode_receipt(receipt))
        path.chmod(0o600)


def _peak(folder: Path, receipts: int) -> int:
    made = world(folder, 1)
    _stored(made, receipts)
    plan = made.plan().sha256
    tracemalloc.start()
    try:
        assert made.apply(plan).code == "committed"
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_receipts(tmp_path: Path) -> None:
    _peak(tmp_path / "warm", 2)
    few, many = _peak(tmp_path / "few", 2), _peak(tmp_path / "many", 150)
    # One of them is ten thousand bytes long.
    assert many - few < 150_000


def test_a_log_is_forgotten_only_when_its_receipt_has_ended(made: World) -> None:
    plan = made.plan().sha256
    seen: list[tuple[str, int]] = []

    def watch(call: str, path: str) -> None:
        if call == "replace" and path.startswith(layout.RECEIPTS):
            receipt = made.receipt(plan)
            status = "none" if receipt is None else receipt.status
            seen.append((status, len(made.recovery().transactions)))

    assert made.apply(plan, files=WatchedCache(made.root, watch)).code == "committed"
    assert {count for _, count in seen} == {len(made.candidates)}
    assert made.recovery().transactions == {}


def test_releases_are_never_reclaimed_and_no_other_entry_goes(made: World) -> None:
    kept = _shared(made)
    odd = made.root / "deployments" / "dev" / "notes"
    odd.mkdir()
    assert made.apply(made.plan().sha256).code == "committed"
    assert (_shared(made), odd.is_dir()) == (kept, True)


def _shared(made: World) -> set[str]:
    places = (made.root / "releases", made.root / "activations")
    return {str(path) for place in places for path in place.rglob("*")}


def test_no_copy_of_a_tree_is_made(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (made.deployment(made.candidates[0]) / "more").write_bytes(b"x" * 1_000_000)
    plan = made.plan().sha256
    made_folders: set[str] = set()
    written = 0

    def watch(call: str, path: str) -> None:
        nonlocal written
        if call == "mkdir":
            made_folders.add(path)
        elif call == "after create":
            written += (made.root / path).stat().st_size

    monkeypatch.setattr(PosixCacheFolder, "create", None)
    assert made.apply(plan, files=WatchedCache(made.root, watch)).code == "committed"
    assert made_folders == {f"{layout.RECEIPTS}.making", f"{layout.TRASH}.making"}
    assert 0 < written < 100_000


def test_paths_in_control_files_are_relative_to_the_root(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "detached")
    raw = made.raw(plan)
    assert raw is not None
    for data in (raw, made.log.read_bytes()):
        assert str(made.root).encode() not in data
    for item in json.loads(raw)["items"]:
        assert item["path"].startswith("deployments/dev/")
    for it in made.recovery().transactions.values():
        assert not it.original_path.startswith("/")
        assert it.detached_path.startswith(".retention-trash/")


def test_the_runbook_of_a_downgrade_names_the_whole_control_state() -> None:
    section = RUNBOOK.read_text().partition("## Before an earlier release")[2]
    names = (
        *(layout.WAL, layout.LOG, layout.ACKNOWLEDGEMENT, layout.RECEIPTS, layout.HISTORY),
        *(layout.EARLIER_HISTORY, layout.TRASH, ARCHIVE, DRIFT, layout.MARKER),
    )
    assert [name for name in names if f"`{name}" not in section] == []
    assert "by hand is not" in " ".join(section.split())


def test_an_archived_control_state_is_a_whole_one(made: World, tmp_path: Path) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "history")
    kept = tmp_path / "kept"
    shutil.copytree(made.root, kept, symlinks=True)
    assert made.apply(plan).code == "committed"
    again = World(kept, made.ack, made.candidates, made.current)
    # A copy is another occurrence: it deletes nothing, and a fresh review does.
    assert again.apply(plan).exit_code == 1
    assert again.there() == list(made.candidates)
    assert again.apply(again.plan().sha256, OTHER_REVIEW).code == "committed"
