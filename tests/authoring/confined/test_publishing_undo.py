"""What a publication leaves and says when its receipts, names or syncs fail half-way."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpone.adapters.posix.files import PosixFiles, PosixFolder
from dpone.adapters.posix.held import PosixHeld, PosixRecord
from dpone.authoring.publish import Publisher, Unpublished
from dpone.contracts.authoring import Look, Proof, Status
from dpone.contracts.errors_authoring import RecoveryRequired, TransactionInProgress
from dpone.contracts.publication import Change, Publication
from dpone.ports.files import FilesError, SyncFailed
from dpone.ports.probe import Probe, quiet
from dpone.wiring import authoring_desk
from faultinject.writing import NEW, OLD, _refused, tree_of
from tests.authoring.confined.studio import At
from tests.loading.project import Project

A = Change(path="new/a.yaml", after=b"a\n")
B = Change(path="new/deep/b.yaml", after=b"b\n")
PLAN = Publication(root=Change(path="root.yaml", before=OLD, after=NEW), fragments=(A, B))
NEW_ROOT = Publication(root=Change(path="root.yaml", after=NEW), fragments=(A, B))
RECEIPT = ".root.yaml.dpone-publish.json"
JOURNAL = ".root.yaml.dpone-transaction.json"
WANTED = {change.path: change.after for change in PLAN.changes}


@pytest.fixture
def tree(place: Path) -> Path:
    (place / "root.yaml").write_bytes(OLD)
    return place


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system on which no file can lack a name."""
    monkeypatch.setattr(PosixFolder, "_nameless", _refused)


def publisher(tree: Path, probe: Probe = quiet) -> Publisher:
    return Publisher(authoring_desk(tree, probe=probe).confined)


class Died(BaseException):
    """As a kill, within this process."""


def die() -> None:
    raise Died


def dead(tree: Path, point: str, number: int = 1) -> None:
    with pytest.raises(Died):
        publisher(tree, At(point, die, number)).publish(PLAN)


def saved(path: Path, data: bytes) -> None:
    """Somebody else's save by rename."""
    beside = path.with_name("swp")
    beside.write_bytes(data)
    beside.rename(path)


@contextmanager
def syncs_fail(monkeypatch: pytest.MonkeyPatch, tree: Path, when: str) -> Iterator[None]:
    """Every sync of the root's folder fails once this effect has happened."""
    real = PosixFolder.sync
    is_over: list[bool] = []

    def failing(self: PosixFolder) -> None:
        if is_over and not self.path:
            raise SyncFailed("root.yaml")
        real(self)

    with monkeypatch.context() as patch:
        patch.setattr(PosixFolder, "sync", failing)
        probe = At(when, lambda: is_over.append(True))
        yield publisher(tree, probe).publish(PLAN)  # type: ignore[misc]


@pytest.mark.usefixtures("named")
def test_a_side_file_that_somebody_wrote_to_is_kept_and_told(tree: Path) -> None:
    """A power cut took the rename back, and what was written under the proper name since."""
    dead(tree, "authoring.publish:after")
    side = json.loads((tree / RECEIPT).read_bytes())["entries"][0]["side"]
    (tree / "new/a.yaml").rename(tree / "new" / side)
    with (tree / "new" / side).open("ab") as file:
        file.write(b"theirs\n")
    outcome = publisher(tree).publish(PLAN)
    assert outcome.status is Status.COMMITTED
    [kept] = outcome.recovery_names
    assert (tree / kept).read_bytes() == b"a\ntheirs\n"
    assert tree_of(tree) == {**WANTED, kept: b"a\ntheirs\n"}


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize("root", [b"theirs\n", NEW], ids=["changed", "in force"])
def test_side_files_go_whatever_the_root_shows(tree: Path, root: bytes) -> None:
    dead(tree, "authoring.publish:before")
    assert any("side" in path for path in tree_of(tree))
    saved(tree / "root.yaml", root)
    publisher(tree).conclude("root.yaml")
    assert tree_of(tree) == {"root.yaml": root}


def test_a_receipt_whose_folder_cannot_be_synced_is_withdrawn(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = PosixFolder.sync
    due = [SyncFailed("root.yaml")]

    def failing(self: PosixFolder) -> None:
        if (tree / RECEIPT).exists() and due:
            raise due.pop()
        real(self)

    monkeypatch.setattr(PosixFolder, "sync", failing)
    with pytest.raises(Unpublished) as caught:
        publisher(tree).publish(PLAN)
    assert (caught.value.outcome.status, caught.value.outcome.cleanup_required) == (
        Status.ROLLED_BACK,
        False,
    )
    assert tree_of(tree) == {"root.yaml": OLD}
    assert not (tree / "new").exists()


def test_the_receipt_stays_until_the_root_is_durable(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with syncs_fail(monkeypatch, tree, "authoring.exchange:after") as outcome:
        assert outcome.status is Status.COMMITTED  # type: ignore[attr-defined]
        assert outcome.cleanup_required  # type: ignore[attr-defined]
    assert (tree / RECEIPT).exists()
    assert not publisher(tree).publish(PLAN).cleanup_required
    assert tree_of(tree) == WANTED


def test_the_receipt_stays_while_a_dead_run_s_file_cannot_be_removed(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(tree, "authoring.publish:after", 2)
    real = PosixFolder.move

    def move(self: PosixFolder, leaf: str, free: str) -> None:
        if leaf == "b.yaml":
            raise FilesError(leaf, "EIO")
        real(self, leaf, free)

    with monkeypatch.context() as patch:
        patch.setattr(PosixFolder, "move", move)
        with pytest.raises(RecoveryRequired) as caught:
            publisher(tree).conclude("root.yaml")
    assert caught.value.fields["path"] == B.path
    # The other one went all the same, and the receipt still knows the one that stays.
    assert not (tree / A.path).exists()
    assert (tree / B.path).read_bytes() == B.after
    assert (tree / RECEIPT).exists()
    assert publisher(tree).conclude("root.yaml") is not None
    assert tree_of(tree) == {"root.yaml": OLD}


@pytest.mark.parametrize("is_always", [False, True], ids=["while it is there", "always"])
@pytest.mark.parametrize("is_dead", [False, True], ids=["this run", "a dead run"])
def test_a_file_that_could_not_be_read_on_its_way_is_not_called_undone(
    tree: Path, monkeypatch: pytest.MonkeyPatch, is_dead: bool, is_always: bool
) -> None:
    """As when the process may open no more files: it gets its name back, and nobody took it."""
    if is_dead:
        dead(tree, "authoring.publish:after", 2)
    real = PosixFolder.hold

    def hold(self: PosixFolder, leaf: str) -> PosixHeld | None:
        if leaf.startswith(".dpone-side-") and (is_always or self.look(leaf) is not None):
            raise FilesError(leaf, "EMFILE")
        return real(self, leaf)

    def save() -> None:
        (tree / "root.yaml").write_bytes(b"saved\n")

    with monkeypatch.context() as patch:
        patch.setattr(PosixFolder, "hold", hold)
        if is_dead:
            with pytest.raises(RecoveryRequired):
                publisher(tree).conclude("root.yaml")
        else:
            with pytest.raises(Unpublished) as caught:
                publisher(tree, At("authoring.publish:after", save, 2)).publish(PLAN)
            assert caught.value.outcome.status is Status.RECOVERY_REQUIRED
            failed = {issue.path for issue in caught.value.outcome.issues}
            assert {A.path, B.path} <= failed
    assert (tree / A.path).read_bytes() == A.after
    assert (tree / RECEIPT).exists()
    (tree / "root.yaml").write_bytes(OLD)
    assert publisher(tree).conclude("root.yaml") is not None
    assert tree_of(tree) == {"root.yaml": OLD}


def stopped(tree: Path) -> set[str]:
    """Publish what cannot be put in force; the reasons of what was not cleared."""
    with pytest.raises(Unpublished) as caught:
        publisher(tree).publish(PLAN)
    outcome = caught.value.outcome
    assert (outcome.status, outcome.cleanup_required) == (Status.RECOVERY_REQUIRED, True)
    assert publisher(tree).publish(PLAN).status is Status.COMMITTED
    assert tree_of(tree) == WANTED
    return {issue.reason for issue in outcome.issues if issue.path == "root.yaml"}


def test_a_journal_that_nobody_can_look_for_is_not_called_undone(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync, look = PosixFolder.sync, PosixFolder.look
    failing = [FilesError("", "EIO")]

    def lost(self: PosixFolder) -> None:
        if JOURNAL in os.listdir(tree) and failing:  # noqa: PTH208 - names
            raise SyncFailed("")
        sync(self)

    def blind(self: PosixFolder, leaf: str) -> Look | None:
        if leaf == JOURNAL and failing:
            raise failing.pop()
        return look(self, leaf)

    monkeypatch.setattr(PosixFolder, "sync", lost)
    monkeypatch.setattr(PosixFolder, "look", blind)
    assert stopped(tree) == {"file_unavailable"}


def test_a_draft_that_stays_is_not_called_undone(
    tree: Path, named: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = PosixFolder.create_record
    failing = [JOURNAL]

    def create(self: PosixFolder, leaf: str, data: bytes) -> PosixRecord:
        if failing and leaf.startswith(failing[0]):
            failing.clear()
            (tree / leaf).write_bytes(data)
            raise SyncFailed(leaf)
        return real(self, leaf, data)

    monkeypatch.setattr(PosixFolder, "create_record", create)
    assert stopped(tree) == {"cleanup_required"}


def test_a_new_root_that_could_not_be_synced_is_told_as_created(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = PosixFolder.sync

    def failing(self: PosixFolder) -> None:
        if (place / "root.yaml").exists():
            raise SyncFailed("root.yaml")
        real(self)

    with monkeypatch.context() as patch:
        patch.setattr(PosixFolder, "sync", failing)
        with pytest.raises(Unpublished) as caught:
            publisher(place).publish(NEW_ROOT)
    outcome = caught.value.outcome
    assert outcome.status is Status.RECOVERY_REQUIRED
    assert [file.action for file in outcome.files] == ["create", "create", "create"]
    assert {path: data for path, data in tree_of(place).items() if path != RECEIPT} == WANTED
    assert publisher(place).publish(NEW_ROOT).status is Status.NONE
    assert tree_of(place) == WANTED


def test_a_lost_answer_to_naming_the_receipt_is_noticed(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = PosixFolder.link

    def link(self: PosixFolder, staged: object, leaf: str) -> None:
        real(self, staged, leaf)  # type: ignore[arg-type]
        if leaf == RECEIPT:
            raise SyncFailed(leaf)

    monkeypatch.setattr(PosixFolder, "link", link)
    assert publisher(tree).publish(PLAN).status is Status.COMMITTED
    assert tree_of(tree) == WANTED


@pytest.mark.usefixtures("named")
def test_the_second_of_two_leaves_no_draft_of_a_receipt(tree: Path) -> None:
    with PosixFiles(tree).folder("") as folder:
        # Another process has named its receipt between our look and our draft.
        probe = At("authoring.stage:before", lambda: folder.create_record(RECEIPT, b"alive\n"))
        with pytest.raises(Unpublished) as caught:
            publisher(tree, probe).publish(PLAN)
    assert isinstance(caught.value.error, TransactionInProgress)
    assert tree_of(tree) == {"root.yaml": OLD, RECEIPT: b"alive\n"}


def test_the_first_of_two_keeps_a_folder_that_the_second_had_made(tree: Path) -> None:
    """The second made the folder, met the first one's receipt, and must not take it away again."""
    has_receipt, may_go_on = threading.Event(), threading.Event()
    said: list[Status] = []

    def wait() -> None:
        has_receipt.set()
        may_go_on.wait()

    def first() -> None:
        said.append(publisher(tree, At("authoring.receipt:after", wait)).publish(PLAN).status)

    thread = threading.Thread(target=first)

    def overtake() -> None:
        thread.start()
        has_receipt.wait()

    try:
        # Both folders are there by now, made by the second.
        with pytest.raises(Unpublished) as caught:
            publisher(tree, At("authoring.folder:after", overtake, 2)).publish(PLAN)
    finally:
        may_go_on.set()
        thread.join()
    assert isinstance(caught.value.error, TransactionInProgress)
    assert said == [Status.COMMITTED]
    assert tree_of(tree) == WANTED


def test_recovery_tells_what_it_kept_of_the_other_files(
    authored: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody can prove that no editor has the file open, new files are kept, not removed."""
    monkeypatch.setattr("dpone.adapters.posix.held.PosixHeld.prove", lambda self: Proof.UNKNOWN)
    (authored.root / "root.yaml").write_bytes(OLD)
    dead(authored.root, "authoring.publish:after", 2)
    said = authored.call("authoring", "recover", "root.yaml", "--apply", "--format", "json")
    assert said.code == 0
    kept = said.report["kept"]
    assert {(authored.root / name).read_bytes() for name in kept} == {A.after, B.after}
    assert not (authored.root / "new/a.yaml").exists()
    text = authored.call("authoring", "recover", "root.yaml", "--apply")
    assert (text.code, "kept" in text.out) == (0, False)


def test_a_root_whose_own_change_is_stuck_concludes_nothing(authored: Project) -> None:
    """A link stands for the root; what its new files come to is decided when it is readable."""
    (authored.root / "root.yaml").write_bytes(OLD)
    dead(authored.root, "authoring.exchange:before")
    (authored.root / "root.yaml").unlink()
    (authored.root / "root.yaml").symlink_to("elsewhere")
    said = authored.call("authoring", "recover", "root.yaml", "--apply", "--format", "json")
    assert said.report["status"] == "recovery_required"
    assert (authored.root / RECEIPT).exists()
    assert (authored.root / "new/a.yaml").read_bytes() == A.after
