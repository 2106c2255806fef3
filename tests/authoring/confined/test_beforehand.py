"""What can be known beforehand is refused before the first effect, also of several files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from dpone.adapters.posix.files import PosixFiles
from dpone.authoring.publish import Publisher
from dpone.contracts.authoring import sha256_of
from dpone.contracts.effects import Effect
from dpone.contracts.errors import DponeError
from dpone.contracts.publication import Change, Publication
from dpone.wiring import authoring_desk
from faultinject import filesystems
from faultinject.writing import NEW, OLD, tree_of
from tests.authoring.confined.studio import Single
from tests.authoring.mounts.skipping import bound

ME, GROUP, OTHER = 1001, 1500, 1000
PLAN = Publication(
    root=Change(path="f.yaml", before=OLD, after=NEW),
    fragments=(Change(path="new/a.yaml", after=b"a\n"),),
)


def hard_link(single: Single) -> None:
    (single.root / "alias.yaml").hardlink_to(single.path)


def read_only(single: Single) -> None:
    single.path.chmod(0o444)


def link(single: Single) -> None:
    single.path.rename(single.root / "moved.yaml")
    single.path.symlink_to("moved.yaml")


def pipe(single: Single) -> None:
    single.path.unlink()
    os.mkfifo(single.path)


PLAIN: dict[str, tuple[Callable[[Single], None], str]] = {
    "hard link": (hard_link, "DPONE_AUTHORING_HARD_LINK"),
    "read only": (read_only, "DPONE_AUTHORING_READ_ONLY"),
    "link": (link, "DPONE_AUTHORING_PATH_UNSAFE"),
    "pipe": (pipe, "DPONE_AUTHORING_PATH_UNSAFE"),
}


def told(root: Path, call: str) -> str:
    """The code of the refusal, and every effect that came before it."""
    effects: list[str] = []

    @contextmanager
    def probe(effect: Effect, /) -> Iterator[None]:
        effects.append(effect.value)
        yield

    desk = authoring_desk(root, probe=probe)
    try:
        if call == "publish":
            Publisher(desk.confined).publish(PLAN)
        else:
            desk.confined.replace_file_if_digest(
                "f.yaml", expected_sha256=sha256_of(OLD), desired=NEW
            )
    except DponeError as error:
        return " ".join([error.code, *effects])
    return "nothing was refused"


@pytest.mark.parametrize("call", ["replace", "publish"])
@pytest.mark.parametrize("kind", PLAIN)
def test_an_unfit_file_is_refused_before_the_first_effect(
    single: Single, kind: str, call: str
) -> None:
    make, code = PLAIN[kind]
    make(single)
    before = single.names
    assert told(single.root, call) == code
    assert single.names == before


def changed(single: Single) -> None:
    single.path.write_bytes(b"somebody's\n")


def missing(single: Single) -> None:
    single.path.unlink()


def taken(single: Single) -> None:
    (single.root / "new").mkdir()
    (single.root / "new/a.yaml").write_bytes(b"somebody's\n")


CONFLICTS: dict[str, tuple[Callable[[Single], None], str]] = {
    "changed": (changed, "DPONE_AUTHORING_SOURCE_CHANGED"),
    "missing": (missing, "DPONE_AUTHORING_SOURCE_MISSING"),
    "taken": (taken, "DPONE_AUTHORING_FILE_CONFLICT"),
}


@pytest.mark.parametrize("kind", CONFLICTS)
def test_what_changed_since_the_plan_is_refused_before_the_first_effect(
    single: Single, kind: str
) -> None:
    make, code = CONFLICTS[kind]
    make(single)
    before = tree_of(single.root)
    assert told(single.root, "publish") == code
    assert tree_of(single.root) == before


@pytest.mark.parametrize("call", ["replace", "publish"])
def test_a_mount_point_is_refused_before_the_first_effect(
    single: Single, tmp_path: Path, call: str
) -> None:
    other = tmp_path / "mounted.yaml"
    other.write_bytes(OLD)
    with bound(other, single.path):
        assert told(single.root, call) == "DPONE_AUTHORING_MOUNT_POINT"
        assert single.names == {"f.yaml"}


# Owner and mode of the file, owner and mode of its folder, and what is said.
OWNED = {
    "owner lost": (OTHER, 0o664, OTHER, 0o2775, "DPONE_AUTHORING_OWNERSHIP_NOT_PRESERVABLE"),
    "sticky": (OTHER, 0o666, 0, 0o1777, "DPONE_AUTHORING_FOLDER_READ_ONLY"),
    "folder": (ME, 0o666, ME, 0o555, "DPONE_AUTHORING_FOLDER_READ_ONLY"),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize("call", ["replace", "publish"])
@pytest.mark.parametrize("kind", OWNED)
def test_what_this_user_may_not_do_is_refused_before_the_first_effect(
    single: Single, kind: str, call: str
) -> None:
    owner, mode, folder_owner, folder_mode, code = OWNED[kind]
    os.chown(single.path, owner, GROUP)
    single.path.chmod(mode)
    os.chown(single.root, folder_owner, GROUP)
    single.root.chmod(folder_mode)
    found = filesystems.as_user(ME, GROUP, lambda: told(single.root, call))
    single.root.chmod(0o755)
    assert found == code
    assert (single.shown, single.names) == (OLD, {"f.yaml"})


def test_a_rehearsal_counts_for_its_own_mount_only(single: Single) -> None:
    """The very same folder, seen through another mount, may lie on other layers."""
    for name in ("real", "seen"):
        (single.root / name).mkdir()
    with bound(single.root / "real", single.root / "seen"), ExitStack() as held:
        files = PosixFiles(single.root)
        real, seen = (held.enter_context(files.folder(name)) for name in ("real", "seen"))
        real.certify(True)
        assert (real.certified(), seen.certified()) == (True, None)
