"""What cannot be deleted is found before anything begins: identity, flags, closed directories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpone.adapters.posix.cachefiles import PosixCache, PosixCacheFolder
from dpone.contracts.authoring import Look
from dpone.retention.checks import OBSTACLES_MAX, inspect
from faultinject.deletion_files import WatchedFolder
from faultinject.deletion_worlds import World, world
from tests.retention.apply.boundaries import stopped
from tests.retention.ordinary import as_owner, owned_folder

OBSTRUCTED = "DPONE_DEPLOYMENT_CACHE_GC_CANDIDATE_OBSTRUCTED"
Change = Callable[[str, Look], Look]


@pytest.fixture
def made(tmp_path: Path) -> World:
    return world(tmp_path)


class OtherFolder(WatchedFolder):
    """An open directory of which every look is changed."""

    change: Change

    def look(self, leaf: str) -> Look | None:
        found = super().look(leaf)
        return found and self.change(self._at(leaf), found)

    def itself(self) -> Look:
        return self.change(self.path, super().itself())

    @contextmanager
    def below(self, leaf: str) -> Iterator[PosixCacheFolder]:
        with super().below(leaf) as inner:
            yield other(inner.descriptor, self._at(leaf), self.change)

    def descend(self, leaf: str) -> PosixCacheFolder:
        inner = super().descend(leaf)
        return other(inner.descriptor, self._at(leaf), self.change)

    def ascend(self) -> PosixCacheFolder:
        inner = super().ascend()
        return other(inner.descriptor, self.path.rpartition("/")[0], self.change)


def other(descriptor: int, path: str, change: Change) -> OtherFolder:
    folder = OtherFolder(descriptor, path, lambda _call, _path: None)
    folder.change = change
    return folder


class OtherCache(PosixCache):
    """A cache on a file system that shows its entries otherwise."""

    def __init__(self, root: Path, change: Change) -> None:
        super().__init__(root)
        self.change = change

    @contextmanager
    def folder(self, path: str) -> Iterator[PosixCacheFolder]:
        with super().folder(path) as inner:
            yield other(inner.descriptor, path, self.change)


def _no_birth(_path: str, look: Look) -> Look:
    return look._replace(identity=look.identity.partition(".")[0] + "." + "0" * 16)


def _immutable(path: str, look: Look) -> Look:
    return look._replace(immutable=path.endswith("/deployment.json"))


@pytest.mark.parametrize(
    ("change", "reason"), [(_no_birth, "no_identity"), (_immutable, "immutable")]
)
def test_a_candidate_that_cannot_be_told_or_removed_is_refused_before_anything_begins(
    made: World, change: Change, reason: str
) -> None:
    plan = made.plan().sha256
    ended = made.apply(plan, files=OtherCache(made.root, change))
    assert (ended.exit_code, ended.code) == (4, OBSTRUCTED)
    assert (ended.fields or {})["reason"] == reason
    assert made.there() == list(made.candidates)
    assert [path for path in (made.receipts, made.log, made.trash) if path.exists()] == []
    assert made.apply(plan).code == "committed"


@pytest.mark.parametrize("at", ["history", "detached", "half"])
def test_another_number_of_the_mount_is_no_other_occurrence(made: World, at: str) -> None:
    plan = made.plan().sha256
    stopped(made, plan, at)

    def mounted_anew(_path: str, look: Look) -> Look:
        return look._replace(mount=look.mount + 1)

    ended = made.apply(plan, files=OtherCache(made.root, mounted_anew))
    assert (ended.code, made.there(), made.trashed()) == ("committed", [], [])


def test_an_obstacle_in_the_last_candidate_keeps_the_first_one_too(made: World) -> None:
    last = made.deployment(made.candidates[-1]).name

    def change(path: str, look: Look) -> Look:
        return look._replace(immutable=last in path and path.endswith("/_SUCCESS"))

    ended = made.apply(made.plan().sha256, files=OtherCache(made.root, change))
    assert (ended.code, made.there()) == (OBSTRUCTED, list(made.candidates))
    assert last in (ended.fields or {})["path"]


def test_an_obstacle_in_an_activation_is_found_too(tmp_path: Path) -> None:
    made = world(tmp_path / "active", 1, active=1)

    def change(path: str, look: Look) -> Look:
        return look._replace(immutable=path.startswith("activations/dev/") and "_SUCCESS" in path)

    ended = made.apply(made.plan().sha256, files=OtherCache(made.root, change))
    current = (made.root / "current").resolve().name
    assert (ended.code, (ended.fields or {})["reason"]) == (OBSTRUCTED, "immutable")
    assert current not in (ended.fields or {})["path"]


def test_a_directory_that_nobody_here_may_enter_is_found() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give files to another user")
    with owned_folder() as folder:
        place = Path(as_owner(lambda: str(_made_in(folder))))
        closed = place / "closed"
        closed.mkdir(mode=0o700)
        (closed / "file").touch()

        def work() -> str:
            with PosixCache(place.parent).folder("") as parent:
                found = inspect(parent, place.name, user=os.geteuid()).obstacles
            return str(sorted({(it.reason, it.path) for it in found}))

        wanted = [("cannot_enter", "closed"), ("foreign_owner", "closed")]
        assert as_owner(work) == str(wanted)


def _made_in(folder: Path) -> Path:
    made = world(folder / "world")
    return made.deployment(made.candidates[0])


def test_a_tree_with_very_many_obstacles_tells_some_and_uses_no_more_room(made: World) -> None:
    tree = made.deployment(made.candidates[0])
    for number in range(2 * OBSTACLES_MAX):
        (tree / f"f{number}").touch()

    def change(path: str, look: Look) -> Look:
        return look._replace(immutable="/f" in path)

    with OtherCache(made.root, change).folder("deployments/dev") as parent:
        found = inspect(parent, tree.name, user=0)
    assert len(found.obstacles) == OBSTACLES_MAX


@pytest.mark.parametrize("place", ["deployments", "activations"])
def test_a_directory_above_in_which_nobody_here_may_rename_is_found(place: str) -> None:
    with owned_folder() as folder:

        def work() -> str:
            made = world(folder / "world", 2, active=2)
            above = made.root / place / "dev"
            plan = made.plan().sha256
            above.chmod(0o555)
            told = [it for it in made.table_notes() if "folder_above_closed" in it]
            ended = made.apply(plan)
            begun = [path for path in (made.receipts, made.log, made.trash) if path.exists()]
            above.chmod(0o755)
            said = (ended.exit_code, ended.code, (ended.fields or {}).get("reason"))
            return str((said, begun, len(told) > 0, made.apply(plan).code))

        said = (4, OBSTRUCTED, "folder_above_closed")
        assert as_owner(work) == str((said, [], True, "committed"))
