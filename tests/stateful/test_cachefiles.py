"""The real adapter for a cache's files and the one in memory agree after every step.

Both are driven with the same calls on the same few names; what each call answers, the kind of its
refusal, and what the names show then have to be equal. So whatever the persistence model proves of
deletion on the disk in memory, short of a crash, is about this adapter.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dpone.adapters.posix.cachefiles import PosixCache
from dpone.contracts.authoring import Kind, Look
from dpone.ports.cachefiles import CacheFiles, CacheFolder
from dpone.ports.files import FilesError
from faultinject.authoring_inodes import ROOT
from faultinject.deletion_disk import CacheDisk
from faultinject.deletion_memory import MemoryCache
from tests.depth import FULL
from tests.stateful.until import run_until

PLACES = st.sampled_from(["", "d", "d/e", "f"])
LEAVES = st.sampled_from(["d", "e", "f", "x", "y"])
DATA = st.sampled_from([b"", b"one", b"second"])
MODES = st.sampled_from([0o700, 0o755, 0o500, 0o640])
Call = Callable[[CacheFolder], Any]


class Real:
    """The real adapter on a scratch directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: CacheFiles = PosixCache(root)

    def show(self) -> dict[str, tuple[str, int, bytes]]:
        found = {}
        for path in self.root.rglob("*"):
            look = path.lstat()
            kind = "link" if path.is_symlink() else "folder" if path.is_dir() else "file"
            data = path.read_bytes() if kind == "file" else b""
            mode = 0 if kind == "link" else stat.S_IMODE(look.st_mode)
            found[str(path.relative_to(self.root))] = (kind, mode, data)
        return found


class Modelled:
    """The disk in memory."""

    def __init__(self) -> None:
        self.disk = CacheDisk.empty()
        self.disk.user = os.geteuid()
        self.files: CacheFiles = MemoryCache(self.disk)

    def show(self) -> dict[str, tuple[str, int, bytes]]:
        return {
            path: (
                inode.kind.value,
                0 if inode.kind is Kind.LINK else inode.mode,
                inode.data if inode.kind is Kind.FILE else b"",
            )
            for path, inode in self.disk.tree(ROOT)
        }


class CacheFilesMachine(RuleBasedStateMachine):
    """One tree in two worlds."""

    def __init__(self, root: Path, seen: Counter[str]) -> None:
        super().__init__()
        self.seen = seen
        self.scratch = tempfile.TemporaryDirectory(dir=root)
        self.modelled = Modelled()
        self.worlds: tuple[Real | Modelled, ...] = (Real(Path(self.scratch.name)), self.modelled)
        self.locks: list[tuple[ExitStack, ...]] = []
        for leaf in ("d", "f"):
            self.made("", leaf)

    def teardown(self) -> None:
        for held in self.locks:
            for stack in held:
                stack.close()
        self.scratch.cleanup()

    def both(self, name: str, place: str, call: Call) -> Any:
        """The same call in both worlds; what it answered."""
        found = [self._answer(world.files, place, call) for world in self.worlds]
        assert found[0] == found[1], f"{name}: real {found[0]}, in memory {found[1]}"
        self.seen[f"{name}: {found[0][0]}"] += 1
        return found[0]

    def _answer(self, files: CacheFiles, place: str, call: Call) -> tuple[str, Any]:
        try:
            with files.folder(place) as folder:
                return "done", _comparable(call(folder))
        except FilesError as error:
            return type(error).__name__, None

    # -- names

    @rule(place=PLACES, leaf=LEAVES, data=DATA)
    def created(self, place: str, leaf: str, data: bytes) -> None:
        self.both("create", place, lambda folder: folder.create_record(leaf, data).close())
        self.both("read", place, lambda folder: _bytes_of(folder, leaf, 4))

    @rule(place=PLACES, leaf=LEAVES)
    def made(self, place: str, leaf: str) -> None:
        self.both("make", place, lambda folder: folder.make_folder(leaf))

    @rule(place=PLACES, leaf=LEAVES, over=LEAVES)
    def replaced(self, place: str, leaf: str, over: str) -> None:
        self.both("replace", place, lambda folder: folder.replace(leaf, over))

    @rule(place=PLACES, leaf=LEAVES, free=LEAVES)
    def moved(self, place: str, leaf: str, free: str) -> None:
        self.both("move", place, lambda folder: folder.move(leaf, free))

    @rule(place=PLACES, leaf=LEAVES, to=PLACES, free=LEAVES)
    def carried(self, place: str, leaf: str, to: str, free: str) -> None:
        def call(files: CacheFiles) -> Call:
            def carry(folder: CacheFolder) -> None:
                with files.folder(to) as target:
                    folder.carry(leaf, target, free)

            return carry

        found = [self._answer(it.files, place, call(it.files)) for it in self.worlds]
        assert found[0] == found[1], f"carry: real {found[0]}, in memory {found[1]}"
        self.seen[f"carry: {found[0][0]}"] += 1

    @rule()
    def carried_into_itself(self) -> None:
        self.made("", "d")
        self.made("d", "e")
        self.carried("", "d", "d/e", "x")

    @rule(place=PLACES, leaf=LEAVES)
    def unlinked(self, place: str, leaf: str) -> None:
        self.both("unlink", place, lambda folder: folder.unlink(leaf))

    @rule(place=PLACES, leaf=LEAVES)
    def removed(self, place: str, leaf: str) -> None:
        said = self.both("remove", place, lambda folder: folder.remove_folder(leaf))
        self.seen[f"remove: {said[1]}"] += 1

    @rule(place=PLACES, leaf=LEAVES)
    def linked(self, place: str, leaf: str) -> None:
        self.both("link", place, lambda folder: folder.make_link(leaf, "nowhere"))
        self.both("read link", place, lambda folder: folder.read_link(leaf))
        self.both("mode", place, lambda folder: folder.set_mode(leaf, 0o600))

    # -- looking, modes, trees

    @rule(place=PLACES, leaf=LEAVES)
    def looked(self, place: str, leaf: str) -> None:
        self.both("look", place, lambda folder: folder.look(leaf))
        self.both("entries", place, lambda folder: sorted(folder.entries()))
        self.both("names", place, lambda folder: sorted(folder.names(100)))

    @rule(place=PLACES, leaf=LEAVES)
    def walked(self, place: str, leaf: str) -> None:
        def there_and_back(folder: CacheFolder) -> bool:
            below = folder.descend(leaf)
            above = below.ascend()
            is_same = above.itself().identity == folder.itself().identity
            below.close()
            above.close()
            return is_same

        self.both("walk", place, there_and_back)

    @rule(place=PLACES, leaf=LEAVES, mode=MODES)
    def mode_set(self, place: str, leaf: str, mode: int) -> None:
        self.both("mode", place, lambda folder: folder.set_mode(leaf, mode))

    @rule(place=PLACES, leaf=LEAVES)
    def unsealed(self, place: str, leaf: str) -> None:
        self.both("unseal", place, lambda folder: folder.unseal(leaf))
        self.both("open up", place, lambda folder: folder.open_up())

    # -- bytes

    @rule(place=PLACES, leaf=LEAVES, data=DATA, forced=st.booleans())
    def appended(self, place: str, leaf: str, data: bytes, forced: bool) -> None:
        def append(folder: CacheFolder) -> bytes:
            log = folder.log(leaf, create=True)
            assert log is not None
            try:
                log.append(data, forced=forced)
                return log.read(1000)
            finally:
                log.close()

        self.both("append", place, append)

    @rule(place=PLACES, leaf=LEAVES, size=st.integers(0, 4))
    def cut(self, place: str, leaf: str, size: int) -> None:
        def cut(folder: CacheFolder) -> bytes | None:
            log = folder.log(leaf, create=False)
            if log is None:
                return None
            try:
                whole = log.read(1000)
                log.cut(min(size, len(whole)))
                log.sync()
                return log.read(1000)
            finally:
                log.close()

        self.both("cut", place, cut)

    @rule(place=PLACES, leaf=LEAVES, bytes_max=st.sampled_from([2, 100]))
    def read(self, place: str, leaf: str, bytes_max: int) -> None:
        self.both("read", place, lambda folder: _bytes_of(folder, leaf, bytes_max))

    # -- locks

    @rule(leaf=st.sampled_from([".", ".lock"]), shared=st.booleans())
    def locked(self, leaf: str, shared: bool) -> None:
        """Take a lock and keep it, or find it busy."""
        taken: list[ExitStack] = []
        answers: list[str] = []
        for world in self.worlds:
            stack = ExitStack()
            try:
                folder = stack.enter_context(world.files.folder(""))
                lock: AbstractContextManager[None] = folder.lock(leaf, 0.0, shared=shared)
                stack.enter_context(lock)
            except FilesError as error:
                answers.append(type(error).__name__)
                stack.close()
            else:
                answers.append("done")
                taken.append(stack)
        assert answers[0] == answers[1], f"lock: {answers}"
        self.seen[f"lock: {answers[0]}"] += 1
        if taken:
            self.locks.append(tuple(taken))

    @rule()
    def let_go(self) -> None:
        if self.locks:
            for stack in self.locks.pop(0):
                stack.close()

    @invariant()
    def they_agree(self) -> None:
        real, modelled = (world.show() for world in self.worlds)
        assert real == modelled


def _bytes_of(folder: CacheFolder, leaf: str, bytes_max: int) -> bytes | None:
    held = folder.hold(leaf)
    if held is None:
        return None
    try:
        return held.read(bytes_max)
    finally:
        held.close()


def _comparable(value: Any) -> Any:
    """Identities and times are each world's own."""
    if isinstance(value, Look):
        size = value.size if value.kind is not Kind.FOLDER else 0
        mode = value.mode if value.kind is not Kind.LINK else 0
        return value.kind, size, mode, value.owner
    return value


REFUSED = {
    *("create: NameTaken", "create: NameMissing", "create: NotAFolder", "replace: NameMissing"),
    *("replace: NameTaken", "carry: NameTaken", "carry: NameMissing", "carry: FilesError"),
    *("unlink: NotRegular", "unlink: NameMissing", "remove: False", "walk: LinkForbidden"),
    *("mode: LinkForbidden", "unseal: NotAFolder", "read: FileTooLarge", "read: NotRegular"),
    "lock: LockBusy",
}
WANTED = {
    *("create: done", "replace: done", "carry: done", "unlink: done", "remove: True", "link: done"),
    *("walk: done", "mode: done", "unseal: done", "append: done", "cut: done", "read: done"),
    *("lock: done", "move: done"),
}


def test_every_refusal_is_the_same_in_both(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    machine = CacheFilesMachine(tmp_path, seen)
    machine.removed("", "f")
    for place in ("", "", "d/e", "f"):
        machine.created(place, "f", b"second")
    machine.made("", "e")
    machine.made("d", "e")
    machine.replaced("", "e", "d")
    machine.replaced("", "missing", "f")
    machine.carried("", "e", "d", "e")
    machine.carried("", "missing", "d", "x")
    machine.carried_into_itself()
    for leaf in ("d", "missing"):
        machine.unlinked("", leaf)
        machine.removed("", leaf)
    machine.linked("", "x")
    machine.walked("", "x")
    machine.unsealed("", "x")
    machine.read("", "d", 100)
    machine.locked(".lock", shared=False)
    machine.locked(".lock", shared=True)
    machine.they_agree()
    machine.teardown()
    assert REFUSED - set(seen) == set()


@pytest.mark.timeout(600)
def test_the_real_adapter_agrees_with_the_one_in_memory(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()

    class Machine(CacheFilesMachine):
        def __init__(self) -> None:
            super().__init__(tmp_path, seen)

    unseen = run_until(Machine, seen, WANTED, 1000 if FULL else 60)
    # What never happened was not tested.
    assert unseen == []


def test_a_world_that_differs_is_noticed(tmp_path: Path) -> None:
    """The control: a name that only one of them has."""
    machine = CacheFilesMachine(tmp_path, Counter())
    with machine.modelled.files.folder("") as folder:
        folder.make_folder("x")
    with pytest.raises(AssertionError):
        machine.created("", "x", b"")
    with pytest.raises(AssertionError):
        machine.they_agree()
    machine.teardown()
