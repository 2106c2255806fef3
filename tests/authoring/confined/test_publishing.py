"""Several files as one: late winners, failing compensations, receipts, files that were there."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpone.adapters.posix.files import PosixFolder
from dpone.authoring.draft import Draft
from dpone.authoring.publish import Publisher, Unpublished
from dpone.contracts.authoring import Status
from dpone.contracts.effects import Effect
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_authoring import (
    FileConflict,
    PlanTooLarge,
    RecoveryRequired,
    SourceChanged,
    TransactionInProgress,
)
from dpone.contracts.publication import RECEIPT_BYTES_MAX, Change, Publication, receipt_bytes
from dpone.ports.files import FilesError
from dpone.ports.probe import Probe, quiet
from dpone.wiring import authoring_desk
from faultinject.writing import NEW, OLD, _refused, tree_of
from tests.authoring.confined.studio import At

ROOT = Change(path="root.yaml", before=OLD, after=NEW)
A = Change(path="new/a.yaml", after=b"a\n")
B = Change(path="new/deep/b.yaml", after=b"b\n")
EDIT = Change(path="edit.yaml", before=OLD, after=NEW)
PLAN = Publication(root=ROOT, fragments=(A, B), edits=(EDIT,))
RECEIPT = ".root.yaml.dpone-publish.json"


@pytest.fixture
def tree(place: Path) -> Path:
    for path in ("root.yaml", "edit.yaml"):
        (place / path).write_bytes(OLD)
    return place


def publisher(tree: Path, probe: Probe = quiet) -> Publisher:
    return Publisher(authoring_desk(tree, probe=probe).confined)


def stopped(tree: Path, probe: Probe, kind: type[DponeError]) -> Unpublished:
    with pytest.raises(Unpublished) as caught:
        publisher(tree, probe).publish(PLAN)
    assert isinstance(caught.value.error, kind)
    return caught.value


def test_all_of_it(tree: Path) -> None:
    outcome = publisher(tree).publish(PLAN)
    assert outcome.status is Status.COMMITTED
    assert [file.action for file in outcome.files] == ["create", "create", "update", "update"]
    assert tree_of(tree) == {change.path: change.after for change in PLAN.changes}
    assert publisher(tree).publish(PLAN).status is Status.NONE


def deep(count: int) -> Publication:
    """Many new files with long names, of letters that take six bytes in a record."""
    letters = ("\N{CYRILLIC SMALL LETTER A}", "\N{CYRILLIC SMALL LETTER BE}")
    folder = "/".join(letter * 120 for letter in letters)
    names = (f"{folder}/{number:04d}.yaml" for number in range(count))
    return Publication(root=ROOT, fragments=tuple(Change(path=n, after=b"a") for n in names))


@pytest.mark.parametrize("by_name", [False, True])
def test_a_receipt_is_never_longer_than_it_may_be_read(
    place: Path, monkeypatch: pytest.MonkeyPatch, by_name: bool
) -> None:
    if by_name:
        monkeypatch.setattr(PosixFolder, "_nameless", _refused)
    (place / "root.yaml").write_bytes(OLD)
    sizes: list[int] = []

    def weigh() -> None:
        sizes.append((place / RECEIPT).stat().st_size)

    fits = max(n for n in range(1, 256) if receipt_bytes(deep(n)) <= RECEIPT_BYTES_MAX)
    assert fits < 255
    with pytest.raises(PlanTooLarge) as caught:
        publisher(place).publish(deep(fits + 1))
    assert str(RECEIPT_BYTES_MAX) in caught.value.report()["happened"]
    assert tree_of(place) == {"root.yaml": OLD}
    probe = At("authoring.publish:before", weigh)
    assert publisher(place, probe).publish(deep(fits)).status is Status.COMMITTED
    # The device's number alone was counted with more digits than it has.
    assert 0 <= receipt_bytes(deep(fits)) - sizes[0] < 20 * fits


@pytest.mark.parametrize("apply", [False, True])
@pytest.mark.parametrize("count", [255, 256])
def test_a_plan_that_no_receipt_may_hold_is_refused_as_a_plan(
    place: Path, apply: bool, count: int
) -> None:
    (place / "root.yaml").write_bytes(OLD)
    desk = authoring_desk(place)
    draft = Draft(desk.tree, "root.yaml")
    plan = deep(count)
    for change in plan.fragments:
        draft.changes[change.path] = change
    draft.edit("root.yaml", NEW)
    with pytest.raises(PlanTooLarge):
        desk.run("init", draft, apply=apply)
    assert tree_of(place) == {"root.yaml": OLD}


def save(path: Path, data: bytes) -> Callable[[], None]:
    """Somebody else's save by rename."""

    def act() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name("swp")
        beside.write_bytes(data)
        beside.rename(path)

    return act


def test_a_late_winner_of_a_new_name_keeps_it(tree: Path) -> None:
    probe = At("authoring.publish:before", save(tree / "new/deep/b.yaml", b"theirs\n"), 2)
    found = stopped(tree, probe, FileConflict)
    assert found.outcome.status is Status.ROLLED_BACK
    assert tree_of(tree) == {
        "root.yaml": OLD,
        "edit.yaml": OLD,
        "new/deep/b.yaml": b"theirs\n",
    }


def test_a_fragment_that_was_replaced_after_it_was_created_blocks_the_root(tree: Path) -> None:
    probe = At("authoring.publish:after", save(tree / "new/a.yaml", b"theirs\n"))
    found = stopped(tree, probe, SourceChanged)
    actions = {file.path: file.action for file in found.outcome.files}
    assert actions["new/a.yaml"] == "preserved"
    assert actions["new/deep/b.yaml"] == "rolled_back"
    assert actions["edit.yaml"] == "rolled_back"
    assert tree_of(tree) == {"root.yaml": OLD, "edit.yaml": OLD, "new/a.yaml": b"theirs\n"}


def test_a_replacement_with_the_same_bytes_is_theirs_too(tree: Path) -> None:
    probe = At("authoring.publish:after", save(tree / "new/a.yaml", A.after))
    stopped(tree, probe, SourceChanged)
    assert (tree / "new/a.yaml").read_bytes() == A.after


def test_a_fragment_that_was_there_is_never_removed(tree: Path) -> None:
    save(tree / "new/a.yaml", A.after)()
    inode = (tree / "new/a.yaml").stat().st_ino
    probe = At("authoring.exchange:before", save(tree / "root.yaml", b"theirs\n"), 2)
    stopped(tree, probe, SourceChanged)
    assert (tree / "new/a.yaml").stat().st_ino == inode
    assert tree_of(tree) == {"root.yaml": b"theirs\n", "edit.yaml": OLD, "new/a.yaml": A.after}


def test_a_later_conflict_rolls_back_the_earlier_edit_and_the_fragments(tree: Path) -> None:
    probe = At("authoring.exchange:before", save(tree / "root.yaml", b"theirs\n"), 2)
    found = stopped(tree, probe, SourceChanged)
    assert found.outcome.counters["rolled_back"] == 1
    assert tree_of(tree) == {"root.yaml": b"theirs\n", "edit.yaml": OLD}
    assert not (tree / "new").exists()


def test_an_edit_that_somebody_changed_since_is_not_put_back(tree: Path) -> None:
    probe = At("authoring.exchange:after", save(tree / "edit.yaml", b"theirs\n"))
    found = stopped(tree, probe, SourceChanged)
    assert (tree / "edit.yaml").read_bytes() == b"theirs\n"
    assert (tree / "root.yaml").read_bytes() == OLD
    assert found.outcome.status is Status.ROLLED_BACK


def test_a_failing_compensation_stops_none_of_the_others(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = PosixFolder.move

    def move(self: PosixFolder, leaf: str, free: str) -> None:
        if leaf == "b.yaml":
            raise FilesError(leaf, errno.errorcode[errno.EIO])
        real(self, leaf, free)

    monkeypatch.setattr(PosixFolder, "move", move)
    probe = At("authoring.exchange:before", save(tree / "root.yaml", b"theirs\n"), 2)
    found = stopped(tree, probe, SourceChanged)
    assert found.outcome.status is Status.RECOVERY_REQUIRED
    assert {issue.path for issue in found.outcome.issues} >= {"new/deep/b.yaml"}
    assert not (tree / "new/a.yaml").exists()
    assert (tree / "edit.yaml").read_bytes() == OLD
    # The receipt stays, and the next run knows whose file it is.
    assert (tree / RECEIPT).exists()
    monkeypatch.undo()
    save(tree / "root.yaml", OLD)()
    assert publisher(tree).publish(PLAN).status is Status.COMMITTED
    assert tree_of(tree) == {change.path: change.after for change in PLAN.changes}


class Died(BaseException):
    """As a kill, within this process."""


@contextmanager
def dying(tree: Path, point: str, number: int = 1) -> Iterator[None]:
    def die() -> None:
        raise Died

    with pytest.raises(Died):
        publisher(tree, At(point, die, number)).publish(PLAN)
    yield


@pytest.mark.parametrize("number", [1, 2])
def test_another_plan_removes_exactly_what_the_dead_run_had_created(
    tree: Path, number: int
) -> None:
    with dying(tree, "authoring.publish:after", number):
        assert (tree / RECEIPT).exists()
    save(tree / "new/mine.yaml", b"mine\n")()
    other = Publication(
        root=Change(path="root.yaml", before=OLD, after=b"# another\n"),
        fragments=(Change(path="c.yaml", after=b"c\n"),),
    )
    assert publisher(tree).publish(other).status is Status.COMMITTED
    assert tree_of(tree) == {
        "root.yaml": b"# another\n",
        "edit.yaml": OLD,
        "c.yaml": b"c\n",
        "new/mine.yaml": b"mine\n",
    }


def test_a_root_that_was_edited_after_the_kill_leaves_the_new_files_and_says_so(
    tree: Path,
) -> None:
    with dying(tree, "authoring.publish:after", 2):
        save(tree / "root.yaml", b"theirs\n")()
    plan = Publication(root=Change(path="root.yaml", before=b"theirs\n", after=NEW))
    outcome = publisher(tree).publish(plan)
    assert outcome.status is Status.COMMITTED
    assert {(issue.path, issue.action) for issue in outcome.issues} == {
        ("new/a.yaml", "preserved"),
        ("new/deep/b.yaml", "preserved"),
    }
    assert (tree / "new/a.yaml").read_bytes() == A.after


def test_two_at_once_on_one_root(tree: Path) -> None:
    refused: list[DponeError] = []

    def second() -> None:
        try:
            publisher(tree).publish(PLAN)
        except TransactionInProgress as error:
            refused.append(error)

    outcome = publisher(tree, At("authoring.receipt:after", second)).publish(PLAN)
    assert outcome.status is Status.COMMITTED
    assert [error.exit_code for error in refused] == [3]


MALFORMED: dict[str, dict[str, object]] = {
    "unknown field": {"more": 1},
    "another root": {"root_name": "other.yaml"},
    "unknown phase": {"phase": 7},
    "unknown schema": {"schema": "dpone.authoring-publish.v9"},
    "senseless identity": {"identity": "x"},
    "path that climbs": {"path": "../a"},
    "absolute path": {"path": "/etc/hosts"},
    "side that climbs": {"side": "../../a"},
    "side of somebody": {"side": "mine.yaml"},
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_receipt_is_kept_and_acts_on_nothing(tree: Path, name: str) -> None:
    with dying(tree, "authoring.publish:after", 2):
        value = json.loads((tree / RECEIPT).read_bytes())
    fields = MALFORMED[name]
    entry = {**value["entries"][0], **fields}
    if set(fields) <= set(value["entries"][0]):
        fields = {"entries": [entry]}
    (tree / RECEIPT).write_text(json.dumps({**value, **fields}))
    outside = tree.parent / "a"
    for path in (outside, tree / "new/mine.yaml"):
        path.write_bytes(b"")
    try:
        with pytest.raises(RecoveryRequired) as caught:
            publisher(tree).publish(PLAN)
        assert caught.value.fields["reason"] == "receipt_invalid"
        assert (tree / str(caught.value.fields["recovery_name"])).exists()
        assert outside.exists()
        assert (tree / "new/mine.yaml").exists()
        assert (tree / "new/a.yaml").read_bytes() == A.after
        assert (tree / "root.yaml").read_bytes() == OLD
        # The next run finds the fragments as files of people, with the right bytes.
        assert publisher(tree).publish(PLAN).status is Status.COMMITTED
    finally:
        outside.unlink()


@pytest.mark.parametrize("step", ["unlink", "sync"])
def test_what_fails_after_the_root_is_in_force_takes_nothing_back(
    tree: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    real = getattr(PosixFolder, step)
    # Counted from the root's exchange on.
    is_over: list[bool] = []

    def failing(self: PosixFolder, *arguments: str) -> None:
        if is_over:
            raise FilesError(*arguments[:1])
        real(self, *arguments)

    monkeypatch.setattr(PosixFolder, step, failing)
    probe = At("authoring.exchange:after", lambda: is_over.append(True), 2)
    outcome = publisher(tree, probe).publish(PLAN)
    assert (outcome.status, outcome.cleanup_required) == (Status.COMMITTED, True)
    assert outcome.counters["committed_cleanup_required"] == 1
    wanted = {change.path: change.after for change in PLAN.changes}
    shown = {path: data for path, data in tree_of(tree).items() if ".dpone-" not in path}
    assert shown == wanted
    monkeypatch.undo()
    assert not publisher(tree).publish(PLAN).cleanup_required
    assert tree_of(tree) == wanted


def test_the_effects_of_a_publication_are_in_order(tree: Path) -> None:
    order: list[str] = []

    @contextmanager
    def probe(effect: Effect, /) -> Iterator[None]:
        order.append(effect.value.removeprefix("authoring."))
        yield

    publisher(tree, probe).publish(PLAN)
    assert order.index("receipt") < order.index("publish") < order.index("exchange")
    assert order.index("settle") > order.index("commit")
    assert os.listdir(tree) is not None  # noqa: PTH208 - it is readable after all of it


def test_an_unforeseen_failure_ends_with_a_receipt_and_the_next_run_finishes(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = publisher(tree)

    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(stopped, "_revalidate", broken)
    with pytest.raises(Unpublished) as caught:
        stopped.publish(PLAN)
    assert caught.value.error.exit_code == 5
    assert "create" in [file.action for file in caught.value.outcome.files]
    assert caught.value.outcome.status is Status.RECOVERY_REQUIRED
    assert publisher(tree).publish(PLAN).status is Status.COMMITTED
    assert tree_of(tree) == {change.path: change.after for change in PLAN.changes}
