"""Replace, remove and recover on real file systems, with what each of them can prove and keep."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from dpone.adapters.posix.files import PosixFiles
from dpone.contracts.authoring import Proof
from dpone.contracts.errors_authoring import FolderReadOnly, StorageExhausted
from dpone.contracts.transaction import Phase
from faultinject.editing_process import LATE, held
from faultinject.failing_calls import uncertified
from faultinject.filesystems import KINDS, LOWER
from faultinject.writing import NEW, OLD
from tests.authoring.confined.loops import against_an_editor, leftovers, tokens
from tests.authoring.confined.studio import Single
from tests.authoring.mounts.skipping import on

HONEST = ("ext4", "xfs", "btrfs", "tmpfs")
ACL = "system.posix_acl_access"


@pytest.mark.parametrize("kind", KINDS)
def test_replace_remove_and_recover(kind: str) -> None:
    with on(kind) as place, uncertified():
        single = Single(place)
        outcome = single.replace()
        assert outcome.committed
        assert single.shown == NEW
        if kind in HONEST:
            assert outcome.recovery_name is None
        else:
            # Nothing there can prove that nobody writes: the earlier bytes are kept and told.
            assert outcome.recovery_name is not None
            assert (place / outcome.recovery_name).read_bytes() == OLD
            (place / outcome.recovery_name).unlink()
        kept = single.confined().remove_file_if_owned(single.owned())
        assert kept.removed
        assert kept.recovery_name is None or kind not in HONEST
        assert not single.path.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_recovery_of_an_exchange_that_had_happened(kind: str) -> None:
    with on(kind) as place, uncertified():
        single = Single(place, NEW)
        single.journal(
            Phase.PREPARED,
            side=OLD,
            expected_identity="0" * 16 + "." + "0" * 16,
            desired_identity=single.identity("f.yaml"),
        )
        found = single.confined().recover_file_transaction("f.yaml")
        # The side file's identity is unknown: it was somebody's, and gets the name back.
        assert found.reason == "source_changed"
        assert single.shown == OLD


@pytest.mark.parametrize("kind", KINDS)
def test_who_can_prove_that_nobody_writes(kind: str) -> None:
    with on(kind) as place:
        single = Single(place)
        assert proof_of(place) is (Proof.PROVEN if kind in HONEST else Proof.UNKNOWN)
        with single.path.open("r+b"):
            assert proof_of(place) is (Proof.WRITER if kind in HONEST else Proof.UNKNOWN)


def test_a_rehearsal_counts_for_one_mount_alone() -> None:
    """Plain numbers of mounts and devices come back as soon as they are free."""
    keys = []
    for _ in range(4):
        with on("tmpfs") as place, uncertified(), PosixFiles(place).folder("") as folder:
            assert folder.certified() is None
            folder.certify(True)
            keys.append(folder._key())
    assert len(set(keys)) == len(keys)
    mounts = {mount for mount, _, _ in keys}
    if max(mounts) < 2**31:
        pytest.skip("UNVERIFIED: this kernel has no unique numbers of mounts")
    assert len(mounts) == len(keys)


def proof_of(place: Path) -> Proof:
    with PosixFiles(place).folder("") as folder:
        found = folder.hold("f.yaml")
        assert found is not None
        try:
            return found.prove()
        finally:
            found.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_late_writer_loses_nothing(kind: str) -> None:
    with on(kind) as place, uncertified():
        single = Single(place)
        late = held(single.path)
        assert late is not None
        outcome = single.replace()
        late()
        assert outcome.committed
        assert outcome.recovery_name is not None
        assert (place / outcome.recovery_name).read_bytes() == OLD + LATE


@pytest.mark.parametrize("kind", KINDS)
def test_metadata_is_carried_over(kind: str) -> None:
    with on(kind) as place, uncertified():
        single = Single(place)
        single.path.chmod(0o2654)
        os.chown(single.path, 1000, 1001)
        single.path.chmod(0o654)
        wanted = {}
        for name, value in (("user.note", b"mine"), (ACL, acl(1002))):
            try:
                os.setxattr(single.path, name, value)
            except OSError:
                continue
            wanted[name] = os.getxattr(single.path, name)
        before = single.path.stat()
        assert single.replace().committed
        after = single.path.stat()
        assert (after.st_mode, after.st_uid, after.st_gid) == (
            before.st_mode,
            before.st_uid,
            before.st_gid,
        )
        assert {name: os.getxattr(single.path, name) for name in wanted} == wanted
        assert "user.note" in wanted


def acl(uid: int) -> bytes:
    """An access list that gives one more user the right to read."""
    entries = [(1, 6, -1), (2, 4, uid), (4, 4, -1), (16, 4, -1), (32, 4, -1)]
    packed = (struct.pack("<HHI", tag, rights, who & 0xFFFFFFFF) for tag, rights, who in entries)
    return struct.pack("<I", 2) + b"".join(packed)


def test_a_file_of_the_lower_layer_is_copied_up_and_replaced() -> None:
    with on("overlay") as place, uncertified():
        single = Single.__new__(Single)
        single.root, single.path = place, place / "f.yaml"
        assert single.shown == LOWER
        outcome = single.replace(expected=LOWER)
        assert outcome.committed
        assert single.shown == NEW
        assert outcome.recovery_name is not None
        assert (place / outcome.recovery_name).read_bytes() == LOWER
        assert (place.parent / "lower" / "f.yaml").read_bytes() == LOWER


def test_who_vouches_that_nobody_edits_keeps_no_earlier_bytes() -> None:
    with on("overlay") as place, uncertified():
        single = Single(place)
        confined = single.confined()
        confined.accept_unproven = True
        from dpone.contracts.authoring import sha256_of

        outcome = confined.replace_file_if_digest(
            "f.yaml", expected_sha256=sha256_of(OLD), desired=NEW
        )
        assert (outcome.committed, outcome.recovery_name) == (True, None)
        assert single.names == {"f.yaml"}


@pytest.mark.parametrize("free", [0, 1, 2])
def test_a_full_file_system_changes_nothing(free: int) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    with on("tmpfs", f"size={16 * page}") as place, uncertified():
        single = Single(place)
        (place / "fill").write_bytes(b"x" * (15 - free) * page)
        big = b"y" * 3 * page
        with pytest.raises(StorageExhausted):
            single.replace(big)
        assert (single.shown, single.names) == (OLD, {"f.yaml", "fill"})
        (place / "fill").unlink()
        assert single.replace(big).committed


def test_a_read_only_mount_is_refused() -> None:
    from faultinject import filesystems
    from tests.authoring.mounts.skipping import bound

    with on("tmpfs") as place, uncertified():
        single = Single(place)
        with bound(place, place, "ro"), pytest.raises(FolderReadOnly):
            single.replace()
        assert (single.shown, single.names) == (OLD, {"f.yaml"})
        assert filesystems.KINDS


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_a_free_editor_on_a_disk(kind: str) -> None:
    with on(kind) as place, uncertified():
        seen = against_an_editor(place, "in_place", 60)
        assert tokens(place) == set(range(60))
        assert leftovers(place, seen) == set()
