"""Public reports of deletions that went wrong in the tree: links, owners, names, handles."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dpone.adapters.posix.cachefiles import PosixCache
from dpone.adapters.posix.swap import exchange
from dpone.ports import files
from dpone.retention.scrub import Undeletable, scrub
from faultinject.deletion_files import Stop as Stopped
from faultinject.deletion_files import (
    WatchedCache,
    acting_at,
    failing_at,
    stop_at,
)
from faultinject.deletion_worlds import World, unseal, world
from tests.retention.ordinary import as_owner, owned_folder

OBSTRUCTED = "DPONE_DEPLOYMENT_CACHE_GC_CANDIDATE_OBSTRUCTED"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    yield world(tmp_path)
    unseal(tmp_path)


def test_c01_a_link_to_a_file_outside_leaves_its_mode_time_and_bytes(
    made: World, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    outside.chmod(0o600)
    before = outside.stat()
    closed = made.deployment(made.candidates[0]) / "closed"
    closed.mkdir()
    (closed / "link").symlink_to(outside)
    (closed / "folder-link").symlink_to(tmp_path)
    closed.chmod(0o500)
    assert made.apply(made.plan().sha256).code == "committed"
    after = outside.stat()
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    assert outside.read_text() == "mine"


def test_c08_the_rest_follow_when_the_middle_one_cannot_be_deleted(made: World) -> None:
    middle = made.candidates[1].replace(":", "-")
    plan = made.plan().sha256
    watched = WatchedCache(made.root, failing_at("unlink", files.AccessDenied, middle))
    ended = made.apply(plan, files=watched)
    assert (ended.exit_code, ended.code) == (4, "unfinished")
    assert ended.receipt is not None
    assert ended.receipt.status == "applying"
    assert ended.receipt.deleted_ids == (made.candidates[0], made.candidates[2])
    assert [item.deployment_id for item in ended.receipt.pending] == [made.candidates[1]]
    assert [item.reason for item in ended.receipt.pending] == ["access_denied"]
    again = made.apply(plan)
    assert (again.code, made.trashed()) == ("committed", [])


def test_c19_a_file_that_a_network_file_system_keeps_for_its_reader_is_busy_not_deleted(
    made: World,
) -> None:
    first = made.deployment(made.candidates[0])
    plan = made.plan().sha256
    leaf = first.name

    def silly(call: str, path: str) -> None:
        # What NFS does with an open file: its name changes and the directory stays.
        if call == "rmdir" and path.startswith(f".retention-trash/{leaf}"):
            (made.root / path / ".nfs0001").touch()

    ended = made.apply(plan, files=WatchedCache(made.root, silly))
    assert (ended.exit_code, ended.code) == (4, "unfinished")
    assert ended.receipt is not None
    assert made.candidates[0] not in ended.receipt.deleted_ids
    assert [item.reason for item in ended.receipt.pending] == ["directory_not_empty"]
    assert made.apply(plan).code == "committed"
    assert made.trashed() == []


def test_c20_another_cleaner_of_the_detached_tree_is_tolerated(made: World) -> None:
    plan = made.plan().sha256

    def rival(call: str, path: str) -> None:
        if call == "unlink" and path.endswith("_SUCCESS"):
            (made.root / path).unlink()

    ended = made.apply(plan, files=WatchedCache(made.root, rival))
    assert (ended.code, made.trashed(), made.there()) == ("committed", [], [])


def test_c20_a_trash_that_was_emptied_by_hand_does_not_block(made: World) -> None:
    plan = made.plan().sha256
    with pytest.raises(Stopped):
        made.apply(plan, files=WatchedCache(made.root, stop_at("after append", count=2)))
    assert made.phases()[0] == "detached"
    shutil.rmtree(next(made.trash.iterdir()))
    ended = made.apply(plan)
    assert (ended.exit_code, ended.code) == (0, "committed")
    assert made.recovery().transactions == {}


def test_c20_the_same_at_the_canonical_name_is_drift(made: World) -> None:
    plan = made.plan().sha256
    with pytest.raises(Stopped):
        made.apply(plan, files=WatchedCache(made.root, stop_at("carry", "deployments/")))
    shutil.rmtree(made.deployment(made.candidates[0]))
    ended = made.apply(plan)
    assert ended.code == "DPONE_DEPLOYMENT_CACHE_GC_OPERATION_ABORTED"
    assert (ended.fields or {})["reason"] == "occurrence_identity_changed_requires_fresh_review"


@pytest.mark.parametrize("mode", [0o555, 0o500, 0o000])
def test_c22_directories_that_are_read_only_or_closed_are_deleted_by_their_owner(
    mode: int,
) -> None:
    with owned_folder() as folder:

        def work() -> str:
            made = world(folder / "world")
            tree = made.deployment(made.candidates[0])
            for name in ("one", "one/two", "three"):
                (tree / name).mkdir()
                (tree / name / "file").touch()
            for name in ("one/two", "one", "three"):
                (tree / name).chmod(mode)
            ended = made.apply(made.plan().sha256)
            return str((ended.code, made.there(), made.trashed()))

        assert as_owner(work) == "('committed', [], [])"


def test_c22_a_sealed_activation_is_deleted_by_its_owner() -> None:
    with owned_folder() as folder:

        def work() -> str:
            made = world(folder / "world", active=2)
            ended = made.apply(made.plan().sha256)
            left = [it for it in made.candidates if made.activation(it).exists()]
            return str((ended.code, made.there(), made.trashed(), left))

        assert as_owner(work) == "('committed', [], [], [])"


def test_c23_a_hard_link_in_another_deployment_keeps_mode_time_and_bytes(made: World) -> None:
    shared = made.deployment(made.current) / "shared"
    shared.write_text("both")
    shared.chmod(0o444)
    tree = made.deployment(made.candidates[0]) / "sealed"
    tree.mkdir()
    os.link(shared, tree / "shared")
    tree.chmod(0o555)
    before = shared.stat()
    assert made.apply(made.plan().sha256).code == "committed"
    after = shared.stat()
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    assert (shared.read_text(), after.st_nlink) == ("both", 1)


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_c24_names_that_are_no_text_are_carried_and_deleted(made: World, locale: str) -> None:
    tree = made.deployment(made.candidates[0])
    for folder in (tree, tree / "below"):
        folder.mkdir(exist_ok=True)
        (folder / os.fsdecode(b"bad\xff")).touch()
        (folder / os.fsdecode(b"dir\xfe")).mkdir()
    odd = tree.parent / os.fsdecode(b"odd\xff")
    odd.mkdir()
    plan = made.plan().sha256
    options = ["--cache-root", str(made.root), "--format", "json"]
    said = _cli(locale, "cache-retention-plan", *options)
    assert said.returncode == 0
    assert plan in said.stdout
    assert r"odd\\xff" in said.stdout
    options += ["--promoted-by", "me", "--allowed-promoter", "me", "--confirm-delete"]
    options += ["--expected-plan-sha256", plan, "--loader-ack-file", str(made.ack)]
    options += ["--review-id", "0f8fad5b-d9cb-469f-a165-70867728950e"]
    said = _cli(locale, "cache-retention-apply", *options)
    assert (said.returncode, said.stderr) == (0, "")
    receipt = made.receipt(plan)
    assert receipt is not None
    assert receipt.status == "committed"
    assert (made.trashed(), made.there(), odd.exists()) == ([], [], True)


def _cli(locale: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "LC_ALL": locale, "PYTHONPATH": str(Path.cwd())}
    return subprocess.run(
        [sys.executable, "-m", "dpone", "airflow", *arguments],
        env=environment,
        capture_output=True,
        text=True,
    )


def test_c31_an_unlink_that_is_denied_is_no_success(made: World) -> None:
    plan = made.plan().sha256
    watched = WatchedCache(made.root, failing_at("unlink", files.AccessDenied, "deployment.json"))
    for _ in range(2):
        ended = made.apply(plan, files=watched)
        assert (ended.exit_code, ended.code) == (4, "unfinished")
        assert ended.receipt is not None
        assert (ended.receipt.status, ended.receipt.deleted_ids) == ("applying", ())
    assert made.apply(plan).code == "committed"


def test_c33_a_directory_of_another_user_is_found_before_anything_is_deleted() -> None:
    _need_root()
    with owned_folder() as folder:
        place = Path(as_owner(lambda: str(_made_in(folder))))
        (place / "foreign").mkdir()

        def work() -> str:
            found = World(folder / "world/cache", folder / "world/ack.json", (), "")
            ended = found.apply(found.plan().sha256)
            left = len(list(place.parent.iterdir()))
            return str((ended.code, (ended.fields or {})["reason"], left))

        assert as_owner(work) == str((OBSTRUCTED, "foreign_owner", 4))
        os.chown(place / "foreign", place.stat().st_uid, -1)
        os.chown(place, 0, 0)
        assert as_owner(work) == str((OBSTRUCTED, "foreign_owner", 4))


def _made_in(folder: Path) -> Path:
    made = world(folder / "world")
    return made.deployment(made.candidates[1])


def test_a_directory_that_takes_the_place_of_a_file_meanwhile_is_deleted_as_one(
    made: World,
) -> None:
    plan = made.plan().sha256

    def swap() -> None:
        (leaf,) = made.trashed()
        file = made.trash / leaf / "_SUCCESS"
        if file.exists():
            file.unlink()
        file.mkdir()
        (file / "below").touch()

    watched = WatchedCache(made.root, acting_at("unlink", swap, "_SUCCESS"))
    assert made.apply(plan, files=watched).code == "committed"


def test_c02_a_directory_that_is_swapped_for_a_link_leads_nobody_outside(
    tmp_path: Path,
) -> None:
    sentinel = tmp_path / "sentinel"
    sentinel.mkdir()
    (sentinel / "keep").write_text("x")
    trash = tmp_path / "trash"
    trash.mkdir()
    link = tmp_path / "link"
    link.symlink_to(sentinel)
    left = 10_000
    _grow(trash / "tree")

    def flip() -> None:
        nonlocal left
        descriptor = os.open(tmp_path, os.O_RDONLY)
        while left:
            with suppress(OSError):
                exchange(descriptor, "trash/tree/sub", "link")
                left -= 1
        os.close(descriptor)

    thread = threading.Thread(target=flip)
    thread.start()
    scrubs = 0
    while thread.is_alive():
        scrubs += 1
        _grow(trash / "tree")
        with PosixCache(trash).folder("") as folder:
            look = folder.look("tree")
            assert look is not None
            with suppress(Undeletable):
                scrub(folder, "tree", look.identity)
    thread.join()
    assert scrubs >= 10
    assert (sentinel / "keep").read_text() == "x"
    assert [path.name for path in sentinel.iterdir()] == ["keep"]


def _grow(tree: Path) -> None:
    """A tree with a directory in it, or with the link that stands for it just now."""
    with suppress(OSError):
        (tree / "sub").mkdir(parents=True)
    for number in range(5):
        with suppress(OSError):
            (tree / f"file-{number}").touch()


def _need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give files to another user")
