"""What journals and receipts hold, how they move on, and how little recovery looks at."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpone.adapters.posix import glance, swap
from dpone.adapters.posix.files import PosixFiles, PosixFolder
from dpone.authoring.publish import Publisher
from dpone.contracts.authoring import Status, sha256_of
from dpone.contracts.effects import Effect
from dpone.contracts.errors_authoring import StorageExhausted, TransactionInProgress, WriteFailed
from dpone.contracts.publication import (
    RECEIPT_PHASE_OFFSET,
    Change,
    Publication,
    receipt_name,
)
from dpone.contracts.transaction import (
    JOURNAL_BYTES_MAX,
    PHASE_OFFSET,
    Phase,
    draft_name,
    journal_name,
    recovery_name,
    side_name,
)
from dpone.wiring import authoring_desk
from faultinject.writing import NEW, OLD, _refused
from tests.authoring.confined.studio import JOURNAL, At, Single

FIELDS = {
    "phase", "schema", "version", "target_name", "exchange_name", "recovery_name",
    "expected_sha256", "desired_sha256", "expected_identity", "desired_identity", "nonce",
}  # fmt: skip
RECEIPT_FIELDS = {
    "phase", "schema", "root_name", "plan_id", "nonce", "before_sha256", "after_sha256", "entries",
}  # fmt: skip
ENTRY_FIELDS = {"path", "sha256", "size", "device", "identity", "side", "shared"}
RECEIPT = ".root.yaml.dpone-publish.json"
PLAN = Publication(
    root=Change(path="root.yaml", before=OLD, after=NEW),
    fragments=(Change(path="parts/a.yaml", after=b"secret: hunter2\n"),),
)


@pytest.fixture(params=[False, True], ids=["nameless", "named"])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system with nameless files, and one without."""
    if request.param:
        monkeypatch.setattr(PosixFolder, "_nameless", _refused)


class Copies:
    """Keeps the bytes and the mode of a record around every effect."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: dict[str, bytes] = {}
        self.modes: set[int] = set()

    @contextmanager
    def __call__(self, effect: Effect, /) -> Iterator[None]:
        self._copy(f"{effect.value}:before")
        yield
        self._copy(f"{effect.value}:after")

    def _copy(self, point: str) -> None:
        if self.path.exists():
            self.seen[point] = self.path.read_bytes()
            self.modes.add(stat.S_IMODE(self.path.stat().st_mode))


def differing(one: bytes, other: bytes) -> list[int]:
    """The offsets at which two records of one length differ."""
    assert len(one) == len(other)
    return [at for at, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]]


def check_private(copies: Copies, root: Path) -> None:
    """Nobody else may read it, and nothing of the files or of this machine is in it."""
    assert copies.modes == {0o600}
    for data in copies.seen.values():
        assert len(data) <= JOURNAL_BYTES_MAX
        for secret in (OLD, NEW, b"value", b"hunter2", os.fsencode(root)):
            assert secret not in data


def test_a_journal_holds_names_digests_and_identities_only(single: Single, each_way: None) -> None:
    copies = Copies(single.root / JOURNAL)
    assert single.replace(probe=copies).committed
    check_private(copies, single.root)
    shown = json.loads(copies.seen["authoring.exchange:before"])
    assert set(shown) == FIELDS
    assert (shown["version"], shown["target_name"]) == (2, "f.yaml")
    assert (shown["expected_sha256"], shown["desired_sha256"]) == (sha256_of(OLD), sha256_of(NEW))
    assert shown["exchange_name"] == side_name(shown["nonce"])
    assert shown["recovery_name"] == recovery_name(shown["nonce"])


def test_a_phase_is_one_digit_at_one_place(single: Single, each_way: None) -> None:
    copies = Copies(single.root / JOURNAL)
    assert single.replace(probe=copies).committed
    before, after = (copies.seen[f"authoring.commit:{side}"] for side in ("before", "after"))
    assert differing(before, after) == [PHASE_OFFSET]
    assert before[PHASE_OFFSET : PHASE_OFFSET + 1] == str(int(Phase.PREPARED)).encode()
    assert after[PHASE_OFFSET : PHASE_OFFSET + 1] == str(int(Phase.COMMITTED)).encode()


def test_a_receipt_holds_paths_identities_and_digests_only(place: Path, each_way: None) -> None:
    (place / "root.yaml").write_bytes(OLD)
    copies = Copies(place / RECEIPT)
    publisher = Publisher(authoring_desk(place, probe=copies).confined)
    assert publisher.publish(PLAN).status is Status.COMMITTED
    check_private(copies, place)
    shown = json.loads(copies.seen["authoring.publish:before"])
    assert set(shown) == RECEIPT_FIELDS
    assert (shown["root_name"], shown["plan_id"]) == ("root.yaml", PLAN.plan_id)
    assert (shown["before_sha256"], shown["after_sha256"]) == (sha256_of(OLD), sha256_of(NEW))
    (entry,) = shown["entries"]
    assert set(entry) == ENTRY_FIELDS
    made = Single.__new__(Single)
    made.root = place / "parts"
    assert entry["identity"] == made.identity("a.yaml")
    assert copies.seen["authoring.publish:before"][RECEIPT_PHASE_OFFSET:][:1] == b"1"
    assert not (place / RECEIPT).exists()


@pytest.mark.parametrize("size", [*range(224, 240), 254, 255])
def test_a_root_of_any_length_is_published_and_recovered(
    place: Path, each_way: None, size: int
) -> None:
    """Neither a record nor its draft has a name that is too long."""
    leaf = "r" * (size - 5) + ".yaml"
    (place / leaf).write_bytes(OLD)
    confined = authoring_desk(place).confined
    assert confined.pending(leaf) is False
    plan = Publication(
        root=Change(path=leaf, before=OLD, after=NEW),
        fragments=(Change(path="n.yaml", after=b"a"),),
    )

    def die() -> None:
        raise KeyboardInterrupt

    stopped = authoring_desk(place, probe=At("authoring.publish:after", die)).confined
    with pytest.raises(KeyboardInterrupt):
        Publisher(stopped).publish(plan)
    assert confined.pending(leaf) is True
    assert confined.recover_file_transaction(leaf).found is False
    assert Publisher(confined).conclude(leaf) is not None
    assert (confined.pending(leaf), sorted(os.listdir(place))) == (False, [leaf])  # noqa: PTH208
    assert Publisher(confined).publish(plan).status is Status.COMMITTED
    assert sorted(os.listdir(place)) == ["n.yaml", leaf]  # noqa: PTH208


@pytest.mark.parametrize("limit", [143, 255])
@pytest.mark.parametrize("name_of", [journal_name, receipt_name])
def test_the_name_of_a_draft_is_never_too_long(
    name_of: Callable[[str, int], str], limit: int
) -> None:
    for size in range(1, limit + 1):
        for leaf in ("r" * size, "\N{CYRILLIC SMALL LETTER A}" * (size // 2)):
            assert len(draft_name(name_of(leaf, limit)).encode()) <= limit


def test_who_comes_second_to_the_journal_wrote_nothing(single: Single, each_way: None) -> None:
    """Another process names its journal after our look and before our own gets the name."""
    with PosixFiles(single.root).folder("") as folder:
        probe = At("authoring.record:before", lambda: folder.create_record(JOURNAL, b"alive\n"))
        with pytest.raises(TransactionInProgress) as caught:
            single.replace(probe=probe)
    assert caught.value.exit_code == 3
    assert (single.shown, single.names) == (OLD, {"f.yaml", JOURNAL})
    assert (single.root / JOURNAL).read_bytes() == b"alive\n"


def test_recovery_looks_at_its_own_names_and_lists_nothing(
    single: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listing(self: PosixFolder, limit: int) -> Iterator[str]:
        raise AssertionError("recovery listed a folder")

    monkeypatch.setattr(PosixFolder, "names", listing)
    strangers = {".g.yaml.dpone-transaction.json", side_name("f" * 32), recovery_name("f" * 32)}
    for name in strangers:
        (single.root / name).write_bytes(b"somebody's\n")
    single.journal(Phase.PREPARED, side=NEW)
    assert single.confined().recover_file_transaction("f.yaml").reason == "not_committed"
    assert single.names == {"f.yaml", *strangers}
    single.journal(Phase.PREPARED, side=NEW)
    assert single.replace().committed
    assert single.names == {"f.yaml", *strangers}


def test_no_program_that_is_started_meanwhile_inherits_a_descriptor(
    single: Single, each_way: None
) -> None:
    found: list[str] = []
    leaking: list[str] = []

    def look() -> None:
        for entry in Path("/proc/self/fd").iterdir():
            try:
                target, flags = str(entry.readlink()), fcntl.fcntl(int(entry.name), fcntl.F_GETFD)
            except OSError:
                continue
            if target.startswith(str(single.root)):
                found.append(target)
                leaking.extend([target] * (not flags & fcntl.FD_CLOEXEC))

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("UNVERIFIED: this system does not list open descriptors")
    assert single.replace(probe=At("authoring.exchange:after", look)).committed
    # The folder, the file that is replaced, and the journal at least.
    assert len(found) >= 3
    assert leaking == []


@pytest.mark.parametrize("expected", [OLD, b"what another plan saw\n"])
def test_a_file_that_is_as_wanted_is_left_alone(single: Single, expected: bytes) -> None:
    effects: list[Effect] = []

    @contextmanager
    def probe(effect: Effect, /) -> Iterator[None]:
        effects.append(effect)
        yield

    before = single.path.stat()
    outcome = single.replace(OLD, expected=expected, probe=probe)
    assert (outcome.committed, outcome.changed) == (True, False)
    assert outcome.reason == "already_identical"
    assert single.path.stat() == before
    assert effects == []


def test_a_rehearsal_counts_for_its_own_folder_only(single: Single) -> None:
    (single.root / "other").mkdir()
    files = PosixFiles(single.root)
    with files.folder("") as here, files.folder("other") as other:
        here.certify(True)
        assert (here.certified(), other.certified()) == (True, None)
        other.certify(False)
        assert (here.certified(), other.certified()) == (True, False)
    # A folder that was deleted and made again is another one.
    (single.root / "other").rmdir()
    (single.root / "other").mkdir()
    with files.folder("other") as again:
        assert again.certified() is None


def test_a_mount_has_a_number_that_is_never_given_again(
    single: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel is asked for the unique number; one that has none answers with the plain one."""
    asked = glance._statx
    if asked is None:
        pytest.skip("UNVERIFIED: this system has no statx")
    masks: list[int] = []

    def older(folder: int, name: bytes, flags: int, mask: int, buffer: object) -> int:
        masks.append(mask)
        return int(asked(folder, name, flags, mask & ~glance._UNIQUE_MOUNT, buffer))

    with PosixFiles(single.root).folder("") as folder:
        unique = folder._here.mount
    monkeypatch.setattr(glance, "_statx", older)
    with PosixFiles(single.root).folder("") as folder:
        plain = folder._here.mount
    assert all(mask & glance._UNIQUE_MOUNT for mask in masks)
    assert plain != 0
    assert unique == plain or unique > 2**31
    # Both numbers of one mount: nothing is taken for another mount.
    assert single.replace().committed


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_a_failing_disk_says_nothing_of_the_exchange(
    single: Single, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The rehearsal fails, is not taken for a verdict, and is made again the next time."""

    def exchange(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(swap, "exchange", exchange)
        with pytest.raises((WriteFailed, StorageExhausted)):
            single.replace()
    assert (single.shown, single.names) == (OLD, {"f.yaml"})
    with PosixFiles(single.root).folder("") as folder:
        assert folder.certified() is None
    assert single.replace().committed
