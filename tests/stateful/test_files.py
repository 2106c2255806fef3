"""The real adapter and the disk in memory agree after every step of one and the same life.

Both are driven by the same library with the same nonces: changes, removals, recoveries, other
programs between and during them, and runs that die at a point. What the names show and what was
answered has to be equal; so everything that the persistence model proves is about this adapter.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dpone.adapters.posix import files as posix_files
from dpone.adapters.posix.files import PosixFiles
from dpone.authoring.confined import ConfinedFiles
from dpone.contracts.authoring import Kind, OwnedFile, Proof, sha256_of
from dpone.contracts.effects import Effect
from dpone.contracts.errors_authoring import AuthoringError
from dpone.ports.files import Files
from faultinject import authoring_editors as editors
from faultinject.authoring_inodes import ROOT, Disk
from faultinject.authoring_places import PosixPlace
from faultinject.disk import Crash, MemoryFiles
from tests.stateful.until import run_until

LEAF = "pipeline.yaml"
VERSIONS = st.sampled_from([b"one\n", b"two: 2\n", b"three: [3]\n"])
POINTS = st.integers(1, 30)
ACTS = st.sampled_from(["save", "write", "away", "unlink", "link", "pipe", "chmod", "none"])
CALLS = st.sampled_from(["replace", "remove", "recover", "by hand"])
# A look at both adapters that differs on purpose: times are not compared.
NOT_COMPARED = {"newer"}


class Points:
    """Lets something happen at one point of a run: a rival's act, or death."""

    def __init__(self, at: int, act: Callable[[], None] | None) -> None:
        self.at = at
        self.act = act
        self.count = 0
        self.is_dead = False

    @contextmanager
    def __call__(self, effect: Effect, /) -> Iterator[None]:
        self._pass()
        yield
        self._pass()

    def _pass(self) -> None:
        self.count += 1
        if self.count == self.at and self.act is not None:
            self.act()
        if self.is_dead or (self.count >= self.at > 0 and self.act is None):
            self.is_dead = True
            raise Crash


class Real:
    """The real adapter on a scratch directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.place = PosixPlace(root)

    def files(self) -> Files:
        return PosixFiles(self.root)

    def ended(self, files: Files) -> None:
        """What the kernel does at death: whatever is open below the root is closed."""
        for entry in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                if entry.readlink().is_relative_to(self.root):
                    os.close(int(entry.name))

    def act(self, name: str, data: bytes) -> None:
        path = self.root / LEAF
        if name == "save":
            (self.root / "new~").write_bytes(data)
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            (self.root / "new~").rename(path)
        elif name == "write" and path.is_file() and not path.is_symlink():
            path.write_bytes(data)
        elif name == "away" and os.path.lexists(path):
            path.rename(self.root / (LEAF + "~"))
            path.write_bytes(data)
        elif name == "unlink":
            path.unlink(missing_ok=True)
        elif name in ("link", "pipe"):
            path.unlink(missing_ok=True)
            path.symlink_to("nowhere") if name == "link" else os.mkfifo(path)
        elif name == "chmod" and path.is_file() and not path.is_symlink():
            path.chmod(0o640)

    def show(self) -> dict[str, bytes | None]:
        return self.place.show()

    def owned(self) -> OwnedFile | None:
        with self.files().folder("") as folder:
            look = folder.look(LEAF)
            if look is None or look.kind is not Kind.FILE:
                return None
            digest = sha256_of((self.root / LEAF).read_bytes())
            return OwnedFile(
                path=LEAF,
                device=look.device,
                identity=look.identity,
                size=look.size,
                sha256=digest,
            )

    def proves(self) -> bool:
        with self.files().folder("") as folder:
            held = folder.create("probe", b"")
            proof = held.prove()
            held.close()
            folder.unlink("probe")
        return proof is Proof.PROVEN


class Modelled:
    """The disk in memory."""

    def __init__(self, *, proves: bool, nameless: bool) -> None:
        self.disk = Disk.empty()
        self.disk.proves, self.disk.nameless, self.disk.certified = proves, nameless, None

    def files(self) -> Files:
        return MemoryFiles(self.disk)

    def ended(self, files: Files) -> None:
        assert isinstance(files, MemoryFiles)
        files.die()

    def act(self, name: str, data: bytes) -> None:
        shown = self.disk.at(LEAF)
        if name == "save":
            editors.save(self.disk, LEAF, data)
        elif name == "write":
            editors.write(self.disk, LEAF, data)
        elif name == "away" and shown is not None:
            editors.away(self.disk, LEAF, data)
        elif name == "unlink":
            editors.unlink(self.disk, LEAF)
        elif name in ("link", "pipe"):
            kind = Kind.LINK if name == "link" else Kind.OTHER
            editors.swap_in(self.disk, LEAF, kind)
        elif name == "chmod" and shown is not None and shown.kind is Kind.FILE:
            editors.chmod(self.disk, LEAF)

    def show(self) -> dict[str, bytes | None]:
        found = {leaf: self.disk.inodes[n] for leaf, n in self.disk.entries(ROOT).live.items()}
        return {
            leaf: inode.data if inode.kind is Kind.FILE else None for leaf, inode in found.items()
        }

    def owned(self) -> OwnedFile | None:
        inode = self.disk.at(LEAF)
        if inode is None or inode.kind is not Kind.FILE:
            return None
        look = self.disk.look(inode)
        return OwnedFile(
            path=LEAF,
            device=look.device,
            identity=look.identity,
            size=look.size,
            sha256=sha256_of(inode.data),
        )


World = Real | Modelled


class FilesMachine(RuleBasedStateMachine):
    """One file in two worlds."""

    def __init__(self, root: Path, seen: Counter[str], *, nameless: bool = True) -> None:
        super().__init__()
        self.seen = seen
        self.folder = tempfile.TemporaryDirectory(dir=root)
        real = Real(Path(self.folder.name))
        self.worlds: tuple[World, World] = (real, Modelled(proves=real.proves(), nameless=nameless))
        self.numbers = itertools.count(1)
        self.both("save", b"one\n")

    def teardown(self) -> None:
        self.folder.cleanup()

    def both(self, name: str, data: bytes) -> None:
        for world in self.worlds:
            world.act(name, data)

    def answers(self, call: str, data: bytes, at: int, act: str | None, new: bytes) -> None:
        """The same call in both worlds, with the same thing at the same point."""
        shown = self.worlds[1].show().get(LEAF)
        nonces = [f"{next(self.numbers):032x}" for _ in range(3)]
        found = [
            self._answer(world, call, data, shown, at, act, new, nonces) for world in self.worlds
        ]
        assert found[0] == found[1], f"real {found[0]}, in memory {found[1]}"
        words = (str(found[0].get(name, "")) for name in ("status", "reason"))
        self.seen[f"{call}: {' '.join(word for word in words if word)}"] += 1

    def _answer(
        self,
        world: World,
        call: str,
        data: bytes,
        shown: bytes | None,
        at: int,
        act: str | None,
        new: bytes,
        nonces: list[str],
    ) -> dict[str, Any]:
        files, left = world.files(), iter(nonces)
        probe = Points(at, None if act is None else lambda: world.act(act, new))
        library = ConfinedFiles(files, probe=probe, nonces=lambda: next(left))
        try:
            answer = self._called(library, world, call, data, shown)
        except AuthoringError as error:
            return {"status": "refused", "reason": error.code}
        except Crash:
            return {"status": "died", "reason": ""}
        finally:
            world.ended(files)
        fields = {name: getattr(answer, name) for name in type(answer).__struct_fields__}
        return {name: value for name, value in fields.items() if name not in NOT_COMPARED}

    def _called(
        self, library: ConfinedFiles, world: World, call: str, data: bytes, shown: bytes | None
    ) -> Any:
        if call == "replace":
            expected = sha256_of(shown or b"")
            return library.replace_file_if_digest(LEAF, expected_sha256=expected, desired=data)
        owned = world.owned()
        if call == "remove" and owned is not None:
            return library.remove_file_if_owned(owned)
        return library.recover_file_transaction(LEAF, by_hand=call == "by hand")

    # -- rules

    @rule(call=CALLS, data=VERSIONS)
    def called(self, call: str, data: bytes) -> None:
        self.answers(call, data, 0, "none", data)

    @rule(act=ACTS, data=VERSIONS)
    def edited(self, act: str, data: bytes) -> None:
        self.both(act, data)

    @rule(data=VERSIONS)
    def saved(self, data: bytes) -> None:
        """A plain file is there often enough for the rest to mean something."""
        self.both("save", data)

    @rule(call=CALLS, data=VERSIONS, at=POINTS)
    def died_at_a_point(self, call: str, data: bytes, at: int) -> None:
        self.answers(call, data, at, None, data)

    @rule(data=VERSIONS, at=POINTS, again=st.integers(1, 6))
    def died_again_in_recovery(self, data: bytes, at: int, again: int) -> None:
        self.answers("replace", data, at, None, data)
        self.answers("recover", data, again, None, data)

    @rule(call=CALLS, data=VERSIONS, at=POINTS, act=ACTS, new=VERSIONS)
    def raced(self, call: str, data: bytes, at: int, act: str, new: bytes) -> None:
        self.answers(call, data, at, act, new)

    @invariant()
    def they_agree(self) -> None:
        real, modelled = (_comparable(world.show()) for world in self.worlds)
        assert real == modelled


def _comparable(shown: dict[str, bytes | None]) -> dict[str, bytes | None]:
    """Journals hold identities, which are each world's own."""
    return {name: b"journal" if "transaction" in name else data for name, data in shown.items()}


WANTED = {
    "replace: committed committed",
    "replace: committed already_identical",
    "replace: died",
    "replace: rolled_back source_changed",
    "remove: removed",
    "remove: died",
    "recover: none",
    "recover: rolled_back not_committed",
    "recover: died",
    "by hand: none",
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("nameless", [True, False], ids=["nameless files", "names only"])
def test_the_real_adapter_agrees_with_the_disk_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool
) -> None:
    seen: Counter[str] = Counter()
    if not nameless:
        monkeypatch.setattr(posix_files, "_TMPFILE", 0)

    class Machine(FilesMachine):
        def __init__(self) -> None:
            super().__init__(tmp_path, seen, nameless=nameless)

    unseen = run_until(Machine, seen, WANTED, 120)
    # What never happened was not tested.
    assert unseen == []


def test_a_world_that_differs_is_noticed(tmp_path: Path) -> None:
    """The control: a disk without proof keeps bytes that the real one removes, or the reverse."""
    machine = FilesMachine(tmp_path, Counter())
    modelled = machine.worlds[1]
    assert isinstance(modelled, Modelled)
    modelled.disk.proves = not modelled.disk.proves
    with pytest.raises(AssertionError):
        machine.answers("replace", b"two: 2\n", 0, "none", b"")
    machine.teardown()
