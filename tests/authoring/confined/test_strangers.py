"""Records that this user cannot open, that somebody forged, or that have a second name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dpone.adapters.posix.files import PosixFiles, PosixFolder
from dpone.adapters.posix.held import PosixRecord
from dpone.authoring.confined import ConfinedFiles
from dpone.authoring.publish import Publisher
from dpone.contracts.authoring import Status
from dpone.contracts.errors import EXIT_CLOSED, EXIT_LATER, ContractInvalid
from dpone.contracts.errors_authoring import (
    RecordUnreadable,
    RecoveryRequired,
    TransactionInProgress,
    WriteFailed,
)
from dpone.contracts.publication import Change, Publication, decode_receipt
from dpone.contracts.transaction import NO_IDENTITY, Phase, recovery_name, side_name
from dpone.ports.files import ChangedDuringRead, FilesError
from faultinject.writing import NEW, OLD, _refused
from tests.authoring.confined.studio import JOURNAL, NONCE, Single

SIDE, RECEIPT = side_name(NONCE), ".f.yaml.dpone-publish.json"
SAVED = b"# a save that was caught\n"
NOBODY = 65534


@contextmanager
def another_user(root: Path, *records: str) -> Iterator[None]:
    """Nobody's eyes where we may, else records without permissions."""
    root.chmod(0o777)
    for path in root.rglob("*"):
        path.chmod(0o777 if path.is_dir() else 0o666)
    is_root = os.geteuid() == 0
    for name in records:
        (root / name).chmod(0o600 if is_root else 0)
    if not is_root:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def finish(confined: ConfinedFiles, *, by_hand: bool = False) -> None:
    """What `dpone authoring recover` does."""
    confined.recover_file_transaction("f.yaml", by_hand=by_hand)
    Publisher(confined).conclude("f.yaml")


def refused(single: Single, which: str) -> None:
    """The command that meets a record which is none."""
    if which == JOURNAL:
        single.replace()
    else:
        Publisher(single.confined()).conclude("f.yaml")


def state(root: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.lstat().st_ino, path.lstat().st_mtime_ns) for path in root.iterdir()}


def receipt(**fields: Any) -> bytes:
    """A receipt as a dead run leaves it, with fields of somebody's choice."""
    nonce = fields.get("nonce", NONCE)
    entry = {
        "path": "new.yaml",
        "sha256": "0" * 64,
        "size": 1,
        "device": 0,
        "identity": NO_IDENTITY,
        "side": f".dpone-side-{nonce}-0",
        **fields.pop("entry", {}),
    }
    value = {
        "phase": 0,
        "schema": "dpone.authoring-publish.v1",
        "root_name": "f.yaml",
        "plan_id": "sha256:" + "0" * 64,
        "nonce": nonce,
        "before_sha256": "",
        "after_sha256": "0" * 64,
        "entries": [entry],
        **fields,
    }
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


# -- what cannot be opened


@pytest.mark.parametrize("which", [JOURNAL, JOURNAL + ".draft", RECEIPT, RECEIPT + ".draft"])
@pytest.mark.parametrize("by_hand", [False, True])
def test_a_record_of_another_user_is_left_alone(single: Single, which: str, by_hand: bool) -> None:
    single.journal(Phase.PREPARED, side=SAVED)
    if which != JOURNAL:
        (single.root / JOURNAL).rename(single.root / which)
    with another_user(single.root, which):
        before = state(single.root)
        confined = single.confined()
        with pytest.raises(RecordUnreadable) as caught:
            finish(confined, by_hand=by_hand)
        assert state(single.root) == before
    assert caught.value.exit_code == EXIT_CLOSED
    assert caught.value.fields["record"] == which
    assert caught.value.fields["owner"] == str(os.geteuid())
    assert "recover f.yaml" in caught.value.report()["next"]


def test_no_apply_goes_round_it(single: Single) -> None:
    single.journal(Phase.PREPARED, side=SAVED)
    with another_user(single.root, JOURNAL):
        before = state(single.root)
        with pytest.raises(RecordUnreadable):
            single.replace()
        with pytest.raises(RecordUnreadable):
            single.confined().remove_file_if_owned(single.owned())
        assert state(single.root) == before
    # Its owner finishes it, and the file works again.
    single.confined().recover_file_transaction("f.yaml")
    assert single.replace().committed


@pytest.mark.parametrize("which", [JOURNAL, RECEIPT])
def test_a_record_that_changes_as_it_is_read_is_somebody_at_work(
    single: Single, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (single.root / which).write_bytes(receipt())

    def changing(self: PosixRecord, bytes_max: int) -> bytes:
        raise ChangedDuringRead(self.leaf)

    monkeypatch.setattr(PosixRecord, "read", changing)
    before = state(single.root)
    with pytest.raises(TransactionInProgress) as caught:
        finish(single.confined())
    assert caught.value.exit_code == EXIT_LATER
    assert state(single.root) == before


@pytest.mark.parametrize("which", [JOURNAL, RECEIPT])
@pytest.mark.parametrize("step", ["open", "read"])
def test_a_record_that_nobody_can_read_now_is_left_alone(
    single: Single, which: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (single.root / which).write_bytes(receipt())

    def failing(self: PosixRecord | PosixFolder, *_: object) -> None:
        raise FilesError(which, "EIO")

    owner: object = PosixFolder if step == "open" else PosixRecord
    monkeypatch.setattr(owner, "record" if step == "open" else "read", failing)
    before = state(single.root)
    with pytest.raises(WriteFailed) as caught:
        finish(single.confined())
    assert caught.value.exit_code == EXIT_CLOSED
    assert state(single.root) == before
    # Its lock was given back, so that the next run gets on.
    monkeypatch.undo()
    finish(single.confined())
    assert which not in single.names


# -- what is set aside


NEWER = b'{"phase":1,"schema":"dpone.confined-file-transaction","version":3}\n'


@pytest.mark.parametrize("data", [b"", b"garbage\n", NEWER])
def test_the_side_files_of_a_journal_that_was_set_aside_are_named(
    single: Single, data: bytes
) -> None:
    earlier = ".f.yaml.dpone-migrate-0123456789abcdef"
    (single.root / SIDE).write_bytes(SAVED)
    (single.root / earlier).write_bytes(SAVED)
    (single.root / JOURNAL).write_bytes(data)
    found = single.confined().recover_file_transaction("f.yaml")
    assert (found.status, found.reason) == (Status.RECOVERY_REQUIRED, "journal_invalid")
    assert found.sides == (SIDE, earlier)
    assert (single.root / SIDE).read_bytes() == SAVED
    assert not single.confined().recover_file_transaction("f.yaml").found


@pytest.mark.parametrize("which", [JOURNAL, RECEIPT])
def test_a_refusal_names_them_too(single: Single, which: str) -> None:
    (single.root / SIDE).write_bytes(SAVED)
    (single.root / which).write_bytes(b"garbage\n")
    with pytest.raises(RecoveryRequired) as caught:
        refused(single, which)
    assert SIDE in str(caught.value.fields["recovery_name"]).split(", ")


def test_the_side_file_of_another_journal_is_not_named(single: Single) -> None:
    single.journal(Phase.PREPARED, side=SAVED, target_name="g.yaml")
    (single.root / JOURNAL).rename(single.root / ".g.yaml.dpone-transaction.json")
    (single.root / JOURNAL).write_bytes(b"garbage\n")
    assert single.confined().recover_file_transaction("f.yaml").sides == ()


# -- what somebody forged


OUTSIDE = "x/../../outside/backup"
FORGED: dict[str, dict[str, Any]] = {
    "nonce that climbs": {"nonce": OUTSIDE},
    "nonce too short": {"nonce": NONCE[:-1]},
    "nonce with a slash": {"nonce": "0" * 31 + "/"},
    "root that climbs": {"root_name": "../f.yaml"},
    "plan of no form": {"plan_id": "sha256:../x"},
    "plan without its kind": {"plan_id": "0" * 64},
    "root digest of no form": {"after_sha256": "x"},
    "earlier digest of no form": {"before_sha256": "x"},
    "path that climbs": {"entry": {"path": "a/../../b"}},
    "path with a zero": {"entry": {"path": "a\0b"}},
    "path with a control character": {"entry": {"path": "a\nb"}},
    "path too long": {"entry": {"path": "a/" * 3000 + "b"}},
    "name too long": {"entry": {"path": "a" * 256}},
    "absolute path": {"entry": {"path": "/etc/hostname"}},
    "side of somebody": {"entry": {"side": "mine.yaml"}},
    "file digest of no form": {"entry": {"sha256": "x" * 64}},
    "identity of no form": {"entry": {"identity": "x" * 33}},
    "size below zero": {"entry": {"size": -1}},
    "device below zero": {"entry": {"device": -1}},
}


def test_the_plain_receipt_is_one() -> None:
    assert decode_receipt(receipt(), "f.yaml").nonce == NONCE


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_receipt_is_none(name: str) -> None:
    with pytest.raises(ContractInvalid):
        decode_receipt(receipt(**FORGED[name]), "f.yaml")


def test_two_entries_of_one_file_are_none() -> None:
    value = json.loads(receipt())
    second = {**value["entries"][0], "side": f".dpone-side-{NONCE}-1"}
    value["entries"].append(second)
    with pytest.raises(ContractInvalid):
        decode_receipt(json.dumps(value).encode(), "f.yaml")


@pytest.mark.parametrize("step", ["folder", "link"])
@pytest.mark.parametrize("phase", [0, 1])
def test_a_forged_nonce_reaches_nothing_outside(place: Path, step: str, phase: int) -> None:
    root, outside = place / "project", place / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "f.yaml").write_bytes(OLD)
    (outside / "backup-0").write_bytes(SAVED)
    stepping = root / ".dpone-side-x"
    if step == "folder":
        stepping.mkdir()
    else:
        stepping.symlink_to(outside)
    (root / RECEIPT).write_bytes(receipt(nonce="x/../../outside/backup", phase=phase))
    confined = ConfinedFiles(PosixFiles(root))
    with pytest.raises(RecoveryRequired):
        Publisher(confined).conclude("f.yaml")
    assert (outside / "backup-0").read_bytes() == SAVED
    assert os.listdir(outside) == ["backup-0"]  # noqa: PTH208 - names
    assert (root / "f.yaml").read_bytes() == OLD


# -- what bears a draft's name and is no file


@pytest.mark.parametrize("nameless", [True, False])
@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
@pytest.mark.parametrize("which", [JOURNAL, RECEIPT])
def test_what_bears_a_draft_s_name_is_moved_aside_and_blocks_nobody(
    single: Single, which: str, kind: str, nameless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.authoring.confined.test_refusals import KINDS

    if not nameless:
        monkeypatch.setattr(PosixFolder, "_nameless", _refused)
    draft = single.root / f"{which}.draft"
    KINDS[kind](draft)
    inode = draft.lstat().st_ino
    assert single.confined().pending("f.yaml")
    plan = Publication(
        root=Change(path="f.yaml", before=OLD, after=NEW),
        fragments=(Change(path="new.yaml", after=b"new\n"),),
    )
    with pytest.raises(RecoveryRequired) as caught:
        Publisher(single.confined()).publish(plan)
    reasons = {JOURNAL: "draft_invalid", RECEIPT: "receipt_invalid"}
    assert caught.value.fields["reason"] == reasons[which]
    name = str(caught.value.fields["recovery_name"])
    assert (single.root / name).lstat().st_ino == inode
    assert (single.names, single.shown) == ({"f.yaml", name}, OLD)
    assert not single.confined().pending("f.yaml")
    assert Publisher(single.confined()).publish(plan).status is Status.COMMITTED


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("which", [JOURNAL, RECEIPT])
def test_recovery_moves_a_draft_that_is_no_file(single: Single, which: str, by_hand: bool) -> None:
    """A journal that waits beside it is none of its business, and is recovered next."""
    single.journal(Phase.PREPARED, side=NEW)
    (single.root / f"{which}.draft").symlink_to("nowhere")
    told: set[str] = set()
    for _ in range(2):
        try:
            found = single.confined().recover_file_transaction("f.yaml", by_hand=by_hand)
            told |= {*found.names}
            Publisher(single.confined()).conclude("f.yaml")
        except RecoveryRequired as error:
            told.add(str(error.fields["recovery_name"]))
    assert not single.confined().pending("f.yaml")
    assert len(told) == 1
    assert single.names == {"f.yaml", *told}
    assert single.shown == OLD


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
@pytest.mark.parametrize("phase", [0, 1])
def test_what_is_no_file_under_a_side_name_of_a_receipt_is_kept(
    single: Single, kind: str, phase: int
) -> None:
    from tests.authoring.confined.test_refusals import KINDS

    side = single.root / f"{SIDE}-0"
    KINDS[kind](side)
    inode = side.lstat().st_ino
    (single.root / RECEIPT).write_bytes(receipt(phase=phase))
    concluded = Publisher(single.confined()).conclude("f.yaml")
    assert concluded is not None
    names = {file.recovery_name for file in concluded if file.recovery_name}
    assert single.names == {"f.yaml", *names}
    assert [(single.root / name).lstat().st_ino for name in names] == [inode]


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_what_is_no_file_under_a_side_name_of_a_journal_is_moved_by_hand(
    single: Single, kind: str
) -> None:
    """Also in the phase in which the side file holds nobody's bytes."""
    from tests.authoring.confined.test_refusals import KINDS

    KINDS[kind](single.root / SIDE)
    inode = (single.root / SIDE).lstat().st_ino
    single.journal(Phase.STAGING)
    assert single.confined().recover_file_transaction("f.yaml").reason == "unsafe_path"
    found = single.confined().recover_file_transaction("f.yaml", by_hand=True)
    assert found.recovery_name is not None
    assert (single.root / found.recovery_name).lstat().st_ino == inode
    assert single.names == {"f.yaml", found.recovery_name}
    assert single.replace().committed


# -- a second name


@pytest.mark.parametrize("is_named", [False, True])
def test_a_second_link_of_a_journal_blocks_nobody(
    single: Single, is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_named:
        monkeypatch.setattr(PosixFolder, "_nameless", _refused)
    single.journal(Phase.PREPARED, side=NEW)
    os.link(single.root / JOURNAL, single.root / "backup.json")
    found = single.confined().recover_file_transaction("f.yaml")
    assert (found.found, found.reason) == (True, "not_committed")
    assert single.names == {"f.yaml", "backup.json"}
    assert single.replace().committed


def test_a_second_link_of_a_receipt_blocks_nobody(single: Single) -> None:
    (single.root / RECEIPT).write_bytes(receipt())
    os.link(single.root / RECEIPT, single.root / "backup.json")
    concluded = Publisher(single.confined()).conclude("f.yaml")
    assert concluded is not None
    assert single.names == {"f.yaml", "backup.json"}
    assert recovery_name(NONCE) not in single.names
