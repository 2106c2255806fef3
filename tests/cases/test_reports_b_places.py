"""Public reports of names, owners, modes, links, mounts and folders."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpone.adapters.posix.files import PosixFolder
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_authoring import (
    FolderReadOnly,
    PathInvalid,
    PathUnsafe,
    TargetHardLinked,
    TargetMountPoint,
    TargetReadOnly,
)
from dpone.contracts.errors_project import NameCollision
from dpone.wiring import authoring_desk
from faultinject import filesystems
from faultinject.writing import NEW, OLD
from tests.authoring.confined.studio import CATALOG, At, Single, codes
from tests.authoring.confined.test_editors import leftovers
from tests.authoring.mounts.skipping import bound
from tests.cli.ordinary import ordinary_folder
from tests.loading.project import Project

pytest_plugins = ("tests.authoring.confined.fixtures",)

INIT = ("init", "workload", "sales/items", "--format", "json")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


# -- B10: side names longer than the target's ------------------------------------------------------

LONG = [letter * (size // len(letter.encode())) for size in (231, 232, 243, 255) for letter in "aé"]


@pytest.mark.parametrize("leaf", LONG, ids=lambda leaf: f"{len(leaf.encode())} bytes")
def test_b10_a_long_name_is_changed_like_any_other(place: Path, leaf: str) -> None:
    (place / leaf).write_bytes(OLD)
    seen: set[int] = set()

    def note() -> None:
        seen.update(len(os.fsencode(name)) for name in os.listdir(place))  # noqa: PTH208

    single = Single(place)
    confined = single.confined(At("authoring.exchange:after", note))
    from dpone.contracts.authoring import sha256_of

    outcome = confined.replace_file_if_digest(leaf, expected_sha256=sha256_of(OLD), desired=NEW)
    assert outcome.committed
    assert (place / leaf).read_bytes() == NEW
    assert max(seen) <= 255
    assert single.names == {leaf, "f.yaml"}


@pytest.mark.parametrize(("size", "is_fit"), [(100, True), (143, True), (144, False)])
def test_b10_where_names_are_shorter(
    place: Path, monkeypatch: pytest.MonkeyPatch, size: int, is_fit: bool
) -> None:
    real = PosixFolder.__init__

    def short(self: PosixFolder, descriptor: int, path: str) -> None:
        real(self, descriptor, path)
        self.name_bytes_max = 143

    seen: set[int] = set()
    leaf = "a" * size
    (place / leaf).write_bytes(OLD)
    monkeypatch.setattr(PosixFolder, "__init__", short)
    single = Single(place)

    def note() -> None:
        seen.update(len(name) for name in single.names)

    from dpone.contracts.authoring import sha256_of

    confined = single.confined(At("authoring.exchange:after", note))
    change = {"expected_sha256": sha256_of(OLD), "desired": NEW}
    if not is_fit:
        with pytest.raises(PathInvalid):
            confined.replace_file_if_digest(leaf, **change)  # type: ignore[arg-type]
        assert (place / leaf).read_bytes() == OLD
        return
    assert confined.replace_file_if_digest(leaf, **change).committed  # type: ignore[arg-type]
    assert max(seen) <= 143


def test_b10_the_longest_name_of_a_workload(authored: Project) -> None:
    name = "w" * 128
    said = authored.call("init", "workload", f"sales/{name}", "--apply", "--format", "json")
    assert said.code == 0
    said = authored.call(
        "authoring", "migrate", f"workloads/sales/{name}", "--to", "folder", "--apply",
        "--format", "json",
    )  # fmt: skip
    assert said.code == 0
    assert leftovers(authored) == set()


# -- B11: a link becomes a file --------------------------------------------------------------------


@pytest.mark.parametrize("where", ["inside", "outside", "dangling"])
def test_b11_a_link_is_refused_and_stays(single: Single, tmp_path: Path, where: str) -> None:
    target = {"inside": single.root / "t", "outside": tmp_path / "t", "dangling": tmp_path / "no"}
    if where != "dangling":
        target[where].write_bytes(OLD)
    single.path.unlink()
    single.path.symlink_to(target[where])
    with pytest.raises(PathUnsafe) as caught:
        single.replace()
    assert caught.value.exit_code == 4
    assert "f.yaml" in str(caught.value)
    assert single.path.readlink() == target[where]
    assert not (tmp_path / "no").exists()
    assert where == "dangling" or target[where].read_bytes() == OLD


@pytest.mark.parametrize(
    "path", [CATALOG, "workloads/sales", "dpone_workloads", "dpone_workloads/gitops/gitops.yaml"]
)
def test_b11_the_commands_refuse_links_on_the_way(authored: Project, path: str) -> None:
    moved = authored.root.parent / "moved"
    (authored.root / path).rename(moved)
    (authored.root / path).symlink_to(moved)
    before = authored.snapshot()
    said = authored.call(*INIT, "--apply")
    assert (said.code, codes(said)) == (4, ["DPONE_AUTHORING_PATH_UNSAFE"])
    assert authored.snapshot() == before


# -- B12: the owner is lost ------------------------------------------------------------------------


@contextmanager
def shared(place: Path, *, owner: int = 1000, mode: int = 0o664) -> Iterator[Single]:
    """A file of another user in a folder that a group may write."""
    single = Single(place)
    os.chown(single.path, owner, 1500)
    single.path.chmod(mode)
    place.chmod(0o2775)
    os.chown(place, owner, 1500)
    yield single


def told(work: Callable[[], object]) -> str:
    """What became of a change, as one word."""
    try:
        return str(work())
    except DponeError as error:
        return error.code


@needs_root
def test_b12_root_keeps_the_owner(place: Path) -> None:
    with shared(place) as single:
        assert single.replace().committed
        found = single.path.stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1000, 1500, 0o664)


@needs_root
def test_b12_somebody_who_cannot_keep_the_owner_is_refused_before(place: Path) -> None:
    place.chmod(0o755)
    with shared(place) as single:
        before = single.path.stat()
        said = filesystems.as_user(1001, 1500, lambda: told(single.replace))
        assert said == "DPONE_AUTHORING_OWNERSHIP_NOT_PRESERVABLE"
        assert single.shown == OLD
        assert single.path.stat() == before
        assert single.names == {"f.yaml"}


# -- B13: the mode of a temporary file survives ----------------------------------------------------


@pytest.mark.parametrize("umask", [0o022, 0o077])
@pytest.mark.parametrize("mode", [0o644, 0o664, 0o755])
def test_b13_the_mode_is_kept_whatever_the_umask(single: Single, mode: int, umask: int) -> None:
    single.path.chmod(mode)
    before = os.umask(umask)
    try:
        assert single.replace().committed
    finally:
        os.umask(before)
    assert stat.S_IMODE(single.path.stat().st_mode) == mode


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_b13_a_new_file_follows_the_umask(authored: Project, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert authored.call(*INIT, "--apply").code == 0
    finally:
        os.umask(before)
    mode = (authored.root / "workloads/sales/items.yaml").stat().st_mode
    assert stat.S_IMODE(mode) == 0o666 & ~umask


# -- B14: hard links -------------------------------------------------------------------------------


def test_b14_a_file_with_two_names_is_refused(single: Single) -> None:
    alias = single.root / "alias.yaml"
    alias.hardlink_to(single.path)
    inode = single.path.stat().st_ino
    with pytest.raises(TargetHardLinked) as caught:
        single.replace()
    assert (caught.value.code, caught.value.exit_code) == ("DPONE_AUTHORING_HARD_LINK", 4)
    assert alias.stat().st_ino == single.path.stat().st_ino == inode
    assert (single.shown, single.names) == (OLD, {"f.yaml", "alias.yaml"})


def test_a_read_only_file_is_refused(single: Single) -> None:
    single.path.chmod(0o444)
    with pytest.raises(TargetReadOnly):
        single.replace()
    assert (single.shown, single.names) == (OLD, {"f.yaml"})


# -- B15: a directory without write permission -----------------------------------------------------


@needs_root
def test_b15_a_folder_that_may_not_be_written(place: Path) -> None:
    single = Single(place)
    single.path.chmod(0o666)
    place.chmod(0o555)
    os.chown(place, 1001, 1500)
    os.chown(single.path, 1001, 1500)
    said = filesystems.as_user(1001, 1500, lambda: told(single.replace))
    assert said == FolderReadOnly.code
    assert (single.shown, single.names) == (OLD, {"f.yaml"})


# -- B16: the file is a mount point ----------------------------------------------------------------


def test_b16_a_file_that_is_mounted_by_itself(single: Single, tmp_path: Path) -> None:
    other = tmp_path / "mounted.yaml"
    other.write_bytes(OLD)
    with bound(other, single.path):
        with pytest.raises(TargetMountPoint) as caught:
            single.replace()
        assert caught.value.exit_code == 4
        assert single.names == {"f.yaml"}
    assert other.read_bytes() == single.shown == OLD


def test_b16_a_mount_of_the_same_file_system(single: Single) -> None:
    other = single.root / "other.yaml"
    other.write_bytes(OLD)
    with bound(other, single.path), pytest.raises(TargetMountPoint):
        single.replace()
    assert single.names == {"f.yaml", "other.yaml"}


# -- B28: names that some file systems take for one ------------------------------------------------


def test_b28_a_domain_that_differs_in_case_only(authored: Project) -> None:
    (authored.root / "workloads/Shop").mkdir()
    before = authored.snapshot()
    for apply in ((), ("--apply",)):
        said = authored.call("init", "domain", "shop", "--format", "json", *apply)
        assert (said.code, codes(said)) == (1, ["DPONE_INIT_NAME_COLLISION"])
    assert authored.snapshot() == before
    said = authored.call("init", "workload", "sales/Orders", "--format", "json")
    assert (said.code, codes(said)) == (2, ["DPONE_INIT_NAME_INVALID"])
    (authored.root / "workloads/sales/Items.yaml").write_bytes(b"mine\n")
    said = authored.call(*INIT, "--apply")
    assert (said.code, codes(said)) == (1, ["DPONE_INIT_NAME_COLLISION"])


def test_b28_two_normal_forms_of_one_name(place: Path) -> None:
    composed, decomposed = "caf\u00e9.yaml", "cafe\u0301.yaml"
    (place / composed).write_bytes(b"mine\n")
    tree = authoring_desk(place).tree
    with pytest.raises(NameCollision):
        tree.check_name(decomposed)
    tree.check_name(composed)
    with pytest.raises(NameCollision):
        tree.check_name("CAF\u00c9.yaml")


# -- B33: attributes, access lists and labels ------------------------------------------------------

ACL = "system.posix_acl_access"


def acl(uid: int) -> bytes:
    entries = [(1, 6, -1), (2, 4, uid), (4, 4, -1), (16, 4, -1), (32, 4, -1)]
    packed = (struct.pack("<HHI", tag, rights, who & 0xFFFFFFFF) for tag, rights, who in entries)
    return struct.pack("<I", 2) + b"".join(packed)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user.origin", b"a person"),
        (ACL, acl(1002)),
        ("security.selinux", b"system_u:object_r:etc_t:s0\0"),
        ("trusted.note", b"root's own"),
    ],
)
def test_b33_what_a_file_carries_is_kept(tmp_path: Path, name: str, value: bytes) -> None:
    single = Single(tmp_path)
    try:
        os.setxattr(single.path, name, value)
    except OSError as error:
        pytest.skip(f"UNVERIFIED: {name} cannot be set here: {error.strerror}")
    before = os.getxattr(single.path, name)
    assert single.replace().committed
    assert os.getxattr(single.path, name) == before
    assert single.names == {"f.yaml"}


def test_b33_a_folder_gives_the_new_file_nothing_that_the_old_one_lacks(tmp_path: Path) -> None:
    single = Single(tmp_path)
    try:
        os.setxattr(tmp_path, "system.posix_acl_default", acl(1002))
    except OSError as error:
        pytest.skip(f"UNVERIFIED: no access lists here: {error.strerror}")
    beside = tmp_path / "beside"
    beside.write_bytes(b"")
    assert ACL in os.listxattr(beside)
    before = single.path.stat().st_mode
    assert single.replace().committed
    assert os.listxattr(single.path) == []
    assert single.path.stat().st_mode == before


@needs_root
def test_b33_what_cannot_be_kept_is_refused_before() -> None:
    with ordinary_folder() as folder:
        single = Single(folder)
        os.setxattr(single.path, "security.other", b"only root may set it")
        folder.chmod(0o755)
        os.chown(folder, 1001, 1500)
        os.chown(single.path, 1001, 1500)
        said = filesystems.as_user(1001, 1500, lambda: told(single.replace))
        assert said == "DPONE_AUTHORING_OWNERSHIP_NOT_PRESERVABLE"
        assert (single.shown, single.names) == (OLD, {"f.yaml"})


# -- B34: sticky and world-writable folders --------------------------------------------------------


@needs_root
def test_b34_somebody_elses_file_in_a_sticky_folder(place: Path) -> None:
    single = Single(place)
    os.chown(single.path, 1000, 1500)
    single.path.chmod(0o666)
    place.chmod(0o1777)
    said = filesystems.as_user(1001, 1500, lambda: told(single.replace))
    assert said == FolderReadOnly.code
    assert (single.shown, single.names) == (OLD, {"f.yaml"})


@needs_root
@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_b34_ones_own_file_in_a_folder_for_everybody_is_allowed(place: Path, mode: int) -> None:
    # A decision: whoever may write such a folder may do so without us; nothing is lost by it.
    single = Single(place)
    os.chown(single.path, 1001, 1500)
    place.chmod(mode)
    said = filesystems.as_user(1001, 1500, lambda: told(lambda: single.replace().committed))
    assert said == "True"
    assert (single.shown, single.names) == (NEW, {"f.yaml"})
