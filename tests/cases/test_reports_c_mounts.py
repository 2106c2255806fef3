"""Public reports of deletions that went wrong over mounts and layers of file systems."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from dpone.ports import files
from faultinject.deletion_files import Stop as Stopped
from faultinject.deletion_files import (
    WatchedCache,
    failing_at,
    stop_at,
)
from faultinject.deletion_worlds import World, unseal, world
from faultinject.filesystems import Unavailable, bound, mounted

OBSTRUCTED = "DPONE_DEPLOYMENT_CACHE_GC_CANDIDATE_OBSTRUCTED"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    yield world(tmp_path)
    unseal(tmp_path)


def test_c06_a_bind_mount_of_the_same_file_system_is_found_before_the_first_unlink(
    made: World, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("x")
    place = made.deployment(made.candidates[1]) / "mounted"
    place.mkdir()
    plan = made.plan().sha256
    with _bound(precious, place):
        ended = made.apply(plan)
        assert (ended.code, (ended.fields or {})["reason"]) == (OBSTRUCTED, "mount_point")
        assert (ended.fields or {})["path"].endswith("/mounted")
        assert made.there() == list(made.candidates)
        assert not made.receipts.exists()
    assert made.apply(plan).code == "committed"
    assert (precious / "data").read_text() == "x"


def test_c06_a_mount_on_the_candidate_itself_is_found_too(made: World, tmp_path: Path) -> None:
    place = made.deployment(made.candidates[1])
    shutil.copytree(place, tmp_path / "same")
    plan = made.plan().sha256
    with _bound(tmp_path / "same", place):
        ended = made.apply(plan)
    assert (ended.code, (ended.fields or {})["reason"]) == (OBSTRUCTED, "mount_point")
    assert not made.receipts.exists()


@pytest.mark.parametrize("when", ["pending", "detached"])
def test_c06_a_mount_made_after_the_beginning_is_not_entered(
    made: World, tmp_path: Path, when: str
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("x")
    tree = made.deployment(made.candidates[0])
    (tree / "mounted").mkdir()
    plan = made.plan().sha256
    call = {"pending": "carry", "detached": "after carry"}[when]
    with pytest.raises(Stopped):
        made.apply(plan, files=WatchedCache(made.root, stop_at(call, "deployments/")))
    tree = tree if when == "pending" else next(made.trash.iterdir())
    _need_root()
    # A rename of a directory takes along what is mounted in it.
    subprocess.run(["mount", "--bind", str(precious), str(tree / "mounted")], check=True)
    try:
        ended = made.apply(plan)
        assert (ended.exit_code, ended.code) == (4, "unfinished")
        assert ended.receipt is not None
        assert [item.reason for item in ended.receipt.pending] == ["mount_point"]
        assert (precious / "data").read_text() == "x"
    finally:
        (inner,) = made.trash.rglob("mounted")
        subprocess.run(["umount", str(inner)], check=True)
    assert made.apply(plan).code == "committed"
    assert (precious / "data").read_text() == "x"


def test_c07_a_detach_that_is_busy_stops_before_any_unlink(made: World) -> None:
    first = made.candidates[0].replace(":", "-")
    plan = made.plan().sha256
    calls: list[str] = []

    def watch(call: str, path: str) -> None:
        calls.append(f"{call} {path}")
        if call == "carry" and first in path:
            raise files.NameBusy(path)

    ended = made.apply(plan, files=WatchedCache(made.root, watch))
    assert (ended.exit_code, ended.code) == (4, "unfinished")
    assert made.there() == [made.candidates[0]]
    assert [it for it in calls if it.startswith(("unlink", "rmdir")) and first in it] == []
    assert ended.receipt is not None
    assert [item.reason for item in ended.receipt.pending] == ["mount_point"]


def _paths(root: Path) -> list[str]:
    return sorted(str(path) for path in root.rglob("*") if path.suffix != ".lock")


def test_c32_every_mount_in_a_candidate_is_named_and_nothing_is_removed(
    made: World, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    (precious / "inner").mkdir(parents=True)
    (precious / "data").write_text("x")
    tree = made.deployment(made.candidates[0])
    (tree / "folder").mkdir()
    (tree / "file").touch()
    plan = made.plan().sha256
    before = _paths(made.root)
    with ExitStack() as held:
        held.enter_context(_bound(precious, tree / "folder"))
        held.enter_context(_bound(precious, tree / "folder" / "inner"))
        held.enter_context(_bound(precious / "data", tree / "file"))
        ended = made.apply(plan)
        assert ended.code == OBSTRUCTED
        assert (ended.fields or {})["more"] >= 1
        shown = made.table_notes()
        named = [note.split(" ")[0] for note in shown if "mount_point" in note]
        assert sorted(path.rpartition("/")[2] for path in named) == ["file", "folder"]
    assert _paths(made.root) == before
    assert (precious / "data").read_text() == "x"


def test_c28_a_rename_across_file_systems_is_refused_before_anything_begins(
    made: World, tmp_path: Path
) -> None:
    with _mounted("tmpfs") as place:
        shutil.copytree(made.root / "deployments", place / "deployments", symlinks=True)
        plan = made.plan().sha256
        with _bound(place / "deployments", made.root / "deployments"):
            ended = made.apply(plan)
            assert (ended.exit_code, ended.code) == (4, OBSTRUCTED)
            assert made.there() == list(made.candidates)
    assert not made.receipts.exists()
    assert not (made.root / ".retention-activation-history.v2.json").exists()


def test_c28_a_directory_of_a_lower_layer_is_refused_before_anything_begins(
    tmp_path: Path,
) -> None:
    with _mounted("tmpfs") as base:
        made = world(base / "lower")
        plan = made.plan().sha256
        for name in ("upper", "work", "at"):
            (base / name).mkdir()
        layers = f"lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work,redirect_dir=off"
        command = ["mount", "-t", "overlay", "overlay", "-o", layers, str(base / "at")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no overlay here: {done.stderr.strip()}")
        try:
            seen = World(base / "at/cache", base / "at/ack.json", made.candidates, made.current)
            ended = seen.apply(plan)
            assert (ended.exit_code, ended.code) == (4, OBSTRUCTED)
            assert (ended.fields or {})["reason"] == "other_file_system"
            assert seen.there() == list(made.candidates)
            assert not seen.receipts.exists()
            assert not (seen.root / ".retention-activation-history.v2.json").exists()
        finally:
            subprocess.run(["umount", str(base / "at")], check=True)


def test_c28_no_copy_is_made_when_the_rename_itself_says_so(made: World) -> None:
    from dpone.ports.cachefiles import OtherFileSystem

    plan = made.plan().sha256
    watched = WatchedCache(made.root, failing_at("carry", OtherFileSystem, "deployments/"))
    ended = made.apply(plan, files=watched)
    assert (ended.exit_code, ended.code) == (4, "unfinished")
    assert ended.receipt is not None
    assert {item.reason for item in ended.receipt.pending} == {"other_file_system"}
    assert (made.there(), made.trashed()) == (list(made.candidates), [])


def _need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give files to another user")


@contextmanager
def _bound(source: Path, place: Path) -> Iterator[None]:
    """A bind mount, or a visible skip."""
    with ExitStack() as held:
        try:
            held.enter_context(bound(source, place))
        except Unavailable as error:
            pytest.skip(str(error))
        yield


@contextmanager
def _mounted(kind: str) -> Iterator[Path]:
    """A mounted file system, or a visible skip."""
    with ExitStack() as held:
        try:
            place = held.enter_context(mounted(kind))
        except Unavailable as error:
            pytest.skip(str(error))
        yield place
