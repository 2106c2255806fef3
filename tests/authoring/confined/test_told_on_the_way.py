"""What single changes keep on the way of a publication, or before a failing call, is named too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dpone.adapters.posix import held
from dpone.authoring.publish import Publisher, Unpublished
from dpone.contracts.authoring import ConfinedReplaceOutcome, ConfinedRollbackOutcome, Status
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_authoring import RecoveryRequired, SourceChanged, SyncRefused
from dpone.contracts.publication import Change, Publication
from dpone.contracts.transaction import Phase
from faultinject.writing import NEW, OLD
from tests.authoring.confined.studio import JOURNAL, At, Single
from tests.authoring.confined.test_failed_syncs import SYNCS_MAX, Losing
from tests.authoring.confined.test_journals import KEPT, OTHER, SIDE, exchanged
from tests.authoring.confined.test_told import kept_in, written_late

PLAN = Publication(
    root=Change(path="f.yaml", before=OLD, after=NEW),
    fragments=(Change(path="new.yaml", after=b"new\n"),),
)
EDITING = Publication(
    root=Change(path="root.yaml", before=OLD, after=NEW),
    edits=(Change(path="f.yaml", before=OLD, after=NEW),),
)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what an editor has open."""
    with ExitStack() as made:
        yield made


def waiting(single: Single, leaf: str = "f.yaml") -> None:
    """A committed change of a leaf, whose earlier file somebody wrote to since."""
    path = single.journal(Phase.COMMITTED, side=OTHER, target_name=leaf)
    path.rename(single.root / f".{leaf}.dpone-transaction.json")


def editing(single: Single, stack: ExitStack, leaf: str = "f.yaml") -> None:
    """An editor has a file open for writing, so that a change has to keep it."""
    stack.enter_context((single.root / leaf).open("r+b"))


def dead(single: Single) -> None:
    """A publication that ended when its new file had its name."""

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Publisher(single.confined(At("authoring.publish:after", die))).publish(PLAN)


def test_a_removal_names_both_that_it_met_and_that_it_kept(
    single: Single, stack: ExitStack
) -> None:
    written_late(single)
    owned = single.owned()
    editing(single, stack)
    outcome = single.confined().remove_file_if_owned(owned)
    assert outcome.also_kept == (KEPT,)
    assert {outcome.recovery_name, KEPT} == kept_in(single.root)
    assert len(kept_in(single.root)) == 2


def test_a_conclusion_names_both_of_each_file(single: Single, stack: ExitStack) -> None:
    dead(single)
    waiting(single, "new.yaml")
    editing(single, stack, "new.yaml")
    concluded = Publisher(single.confined()).conclude("f.yaml")
    assert concluded is not None
    assert {file.recovery_name for file in concluded} - {None} == kept_in(single.root)
    assert len(kept_in(single.root)) == 2


@pytest.mark.parametrize("by", ["conclude", "publish"])
def test_a_conclusion_that_fails_names_what_it_kept_and_its_root(single: Single, by: str) -> None:
    """The new file's own journal is none: it is kept, and the root's receipt still waits."""
    dead(single)
    (single.root / ".new.yaml.dpone-transaction.json").write_bytes(b"{")
    publisher = Publisher(single.confined())
    error: DponeError
    if by == "conclude":
        with pytest.raises(RecoveryRequired) as caught:
            publisher.conclude("f.yaml")
        error = caught.value
        assert error.report()["next"].startswith("Run: dpone authoring recover f.yaml --apply")
        assert error.kept
    else:
        with pytest.raises((RecoveryRequired, Unpublished)) as stopped:
            publisher.publish(PLAN)
        raised = stopped.value
        assert isinstance(raised, (RecoveryRequired, Unpublished))
        error = raised.error if isinstance(raised, Unpublished) else raised
    assert all(name in error.report()["known"] for name in kept_in(single.root))
    assert len(kept_in(single.root)) == 1
    assert publisher.publish(PLAN).status is Status.COMMITTED


@pytest.mark.parametrize("then", ["open", "changed"])
def test_a_compensation_names_what_it_kept(single: Single, stack: ExitStack, then: str) -> None:
    """Somebody wins the root; beside the edit that is put back another run has left a change."""
    root = single.root / "root.yaml"
    root.write_bytes(OLD)

    def win() -> None:
        root.write_bytes(b"# mine\n")
        waiting(single)
        if then == "open":
            editing(single, stack)
        else:
            single.path.write_bytes(b"# theirs\n")

    probe = At("authoring.exchange:before", win, 2)
    with pytest.raises(Unpublished) as caught:
        Publisher(single.confined(probe)).publish(EDITING)
    assert isinstance(caught.value.error, SourceChanged)
    assert {*caught.value.outcome.recovery_names} == kept_in(single.root)
    assert len(kept_in(single.root)) == (2 if then == "open" else 1)


@pytest.mark.parametrize("then", ["open", "changed"])
def test_a_root_whose_earlier_change_is_met_names_what_it_kept(
    single: Single, stack: ExitStack, then: str
) -> None:
    """Another run of ours has died beside the root since this one looked."""

    def meet() -> None:
        waiting(single)
        if then == "open":
            editing(single, stack)
        else:
            single.path.write_bytes(b"# theirs\n")

    publisher = Publisher(single.confined(At("authoring.publish:after", meet)))
    try:
        outcome = publisher.publish(PLAN)
    except Unpublished as stopped:
        outcome = stopped.outcome
    assert outcome.status is (Status.COMMITTED if then == "open" else Status.ROLLED_BACK)
    assert {*outcome.recovery_names} == kept_in(single.root)
    assert len(kept_in(single.root)) == (2 if then == "open" else 1)


def removed(single: Single) -> ConfinedRollbackOutcome:
    return single.confined().remove_file_if_owned(single.owned())


@pytest.mark.parametrize("run", [Single.replace, removed], ids=["replace", "remove"])
def test_whichever_sync_fails_what_was_kept_is_named(
    place: Path,
    stack: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[[Single], ConfinedReplaceOutcome | ConfinedRollbackOutcome],
) -> None:
    seen = 0
    for at in range(1, SYNCS_MAX):
        (place / f"{at}").mkdir()
        single = Single(place / f"{at}")
        editing(single, stack)
        losing = Losing(at)
        with monkeypatch.context() as patch:
            patch.setattr(held, "os", losing)
            try:
                told = {run(single).recovery_name}
            except DponeError as error:
                told = {*error.kept}
        assert kept_in(single.root) <= told, at
        seen += bool(kept_in(single.root))
        if losing.count < at:
            break
    assert seen > 1


def test_a_receipt_that_was_never_durable_leaves_nothing_to_clear(
    single: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own sync failed on the descriptor that its removal would have to sync."""
    losing = Losing(0)

    def lose() -> None:
        losing.at = losing.count + 1

    probe = At("authoring.receipt:after", lose)
    with monkeypatch.context() as patch:
        patch.setattr(held, "os", losing)
        with pytest.raises(Unpublished) as caught:
            Publisher(single.confined(probe)).publish(PLAN)
    assert isinstance(caught.value.error, SyncRefused)
    outcome = caught.value.outcome
    assert (outcome.status, outcome.cleanup_required) == (Status.ROLLED_BACK, False)
    assert (single.names, single.shown, losing.again) == ({"f.yaml"}, OLD, [])


def test_a_torn_receipt_is_named_when_its_move_is_not_durable(
    single: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    (single.root / ".f.yaml.dpone-publish.json").write_bytes(b"{")
    with monkeypatch.context() as patch:
        patch.setattr(held, "os", Losing(1))
        with pytest.raises(RecoveryRequired) as caught:
            Publisher(single.confined()).conclude("f.yaml")
    assert {caught.value.fields["recovery_name"]} == kept_in(single.root)


def test_kept_bytes_of_a_name_that_is_gone_are_told_with_their_folder(place: Path) -> None:
    (place / "deep").mkdir()
    single = Single(place / "deep")
    exchanged(single, Phase.COMMITTED)
    (single.root / SIDE).write_bytes(OTHER)
    assert (single.root / JOURNAL).exists()
    single.path.unlink()
    with pytest.raises(RecoveryRequired) as caught:
        Single(place).confined().replace_file_if_digest(
            "deep/f.yaml", expected_sha256="0" * 64, desired=NEW
        )
    assert caught.value.fields["recovery_name"] == f"deep/{KEPT}"
