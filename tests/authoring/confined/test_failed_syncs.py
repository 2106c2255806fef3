"""A descriptor whose sync failed is never synced again, and what is said afterwards is true."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpone.adapters.posix import held
from dpone.adapters.posix.files import PosixFiles, PosixFolder
from dpone.authoring.publish import Publisher, Unpublished
from dpone.contracts.authoring import Status
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_authoring import RecoveryRequired
from dpone.contracts.publication import Change, Publication
from dpone.contracts.transaction import Phase
from dpone.ports.files import SyncFailed
from faultinject.writing import NEW, OLD, _refused
from tests.authoring.confined.studio import JOURNAL, At, Single
from tests.authoring.confined.test_journals import OTHER, SIDE, exchanged
from tests.loading.project import Project

MINE = b"# mine\n"
SYNCS_MAX = 40


class Losing:
    """The module `os` whose n-th sync fails; `again` holds the descriptors that were asked later.

    A descriptor that was closed is another one when its number comes back.
    """

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0
        self.failed: set[int] = set()
        self.again: list[int] = []

    def fsync(self, descriptor: int) -> None:
        self.again += [descriptor] * (descriptor in self.failed)
        self.count += 1
        if self.count == self.at:
            self.failed.add(descriptor)
            raise OSError(errno.EIO, "lost")
        os.fsync(descriptor)

    fdatasync = fsync

    def close(self, descriptor: int) -> None:
        self.failed.discard(descriptor)
        os.close(descriptor)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def replaced(single: Single) -> None:
    single.replace()


def replaced_while_somebody_saves(single: Single) -> None:
    single.replace(probe=At("authoring.exchange:before", lambda: saved(single)))


def saved(single: Single) -> None:
    """Somebody's save by rename."""
    beside = single.root / "swp"
    beside.write_bytes(MINE)
    beside.rename(single.path)


def removed(single: Single) -> None:
    single.confined().remove_file_if_owned(single.owned())


def recovered(single: Single) -> None:
    single.confined().recover_file_transaction("f.yaml")


def published(single: Single) -> None:
    single.root.joinpath("f.yaml").write_bytes(OLD)
    new = (Change(path="parts/a.yaml", after=b"a\n"), Change(path="b.yaml", after=b"b\n"))
    plan = Publication(root=Change(path="f.yaml", before=OLD, after=NEW), fragments=new)
    Publisher(single.confined()).publish(plan)


def as_it_is(single: Single) -> None:
    """Nothing waits."""


def with_another_s_bytes(single: Single) -> None:
    exchanged(single, Phase.PREPARED)
    (single.root / SIDE).write_bytes(OTHER)


RUNS: dict[str, tuple[Callable[[Single], None], Callable[[Single], None]]] = {
    "replace": (as_it_is, replaced),
    "replace what somebody saves": (as_it_is, replaced_while_somebody_saves),
    "recover and replace": (with_another_s_bytes, replaced),
    "remove": (as_it_is, removed),
    "recover a changed source": (with_another_s_bytes, recovered),
    "recover an exchange": (lambda single: exchanged(single, Phase.PREPARED), recovered),
    "publish": (as_it_is, published),
}


@pytest.mark.parametrize("nameless", [True, False])
@pytest.mark.parametrize("name", RUNS)
def test_no_descriptor_is_synced_again(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, nameless: bool
) -> None:
    begin, run = RUNS[name]
    if not nameless:
        monkeypatch.setattr(PosixFolder, "_nameless", _refused)
    for at in range(1, SYNCS_MAX):
        (place / f"{at}").mkdir()
        single = Single(place / f"{at}")
        begin(single)
        losing = Losing(at)
        with monkeypatch.context() as patch:
            patch.setattr(held, "os", losing)
            with contextlib.suppress(DponeError, Unpublished):
                run(single)
        assert (at, losing.again) == (at, [])
        if losing.count < at:
            break
    assert at > 3


def test_a_changed_source_whose_sync_failed_keeps_its_journal(
    single: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sync that follows the exchange fails: the save is back, and the journal still knows."""
    losing = Losing(0)

    def save_and_lose() -> None:
        saved(single)
        losing.at = losing.count + 1

    with monkeypatch.context() as patch:
        patch.setattr(held, "os", losing)
        outcome = single.replace(probe=At("authoring.exchange:before", save_and_lose))
    assert (len(losing.failed), losing.again) == (0, [])
    assert (outcome.status, outcome.cleanup_required) == (Status.RECOVERY_REQUIRED, True)
    assert not outcome.durable
    assert single.shown == MINE
    assert JOURNAL in single.names
    found = single.confined().recover_file_transaction("f.yaml")
    assert (found.status, found.reason) == (Status.ROLLED_BACK, "source_changed")
    assert (single.shown, single.names) == (MINE, {"f.yaml"})


@pytest.mark.parametrize("which", ["folder", "record"])
def test_the_adapter_refuses_without_asking(single: Single, which: str) -> None:
    losing = Losing(1)
    with pytest.MonkeyPatch.context() as patch, PosixFiles(single.root).folder("") as folder:
        record = folder.create_record("r", b"0\n")
        patch.setattr(held, "os", losing)
        act = folder.sync if which == "folder" else lambda: record.patch(0, b"1")
        for _ in range(3):
            with pytest.raises(SyncFailed):
                act()
        with pytest.raises(SyncFailed) if which == "record" else contextlib.nullcontext():
            record.patch(0, b"2")
        record.close()
    # What could not be made durable is not even written.
    assert (single.root / "r").read_bytes() == (b"1\n" if which == "record" else b"2\n")
    assert losing.again == []


# -- what a recovery that fails says ---------------------------------------------------------------

STATES: dict[str, Callable[[Single], None]] = {
    "changed source": with_another_s_bytes,
    "exchanged": lambda single: exchanged(single, Phase.PREPARED),
    "committed": lambda single: exchanged(single, Phase.COMMITTED),
    "not exchanged": lambda single: void(single.journal(Phase.PREPARED, side=NEW)),
    "to be kept": lambda single: void(single.journal(Phase.KEPT, side=OTHER)),
    "no journal": lambda single: void((single.root / JOURNAL).write_bytes(b"{")),
}


def void(_: object) -> None:
    """For its effect only."""


@pytest.mark.parametrize("by", ["recover", "replace", "remove"])
@pytest.mark.parametrize("state", STATES)
def test_a_recovery_that_fails_says_what_is_there(
    place: Path, monkeypatch: pytest.MonkeyPatch, state: str, by: str
) -> None:
    runs = {"recover": recovered, "replace": replaced, "remove": removed}
    real = PosixFolder.sync
    failures = 0
    for at in range(1, SYNCS_MAX):
        (place / f"{at}").mkdir()
        single = Single(place / f"{at}")
        STATES[state](single)
        shown, count = single.shown, [0]

        def sync(self: PosixFolder, at: int = at, count: list[int] = count) -> None:
            count[0] += 1
            if count[0] == at:
                raise SyncFailed("f.yaml", "EIO")
            real(self)

        with monkeypatch.context() as patch:
            patch.setattr(PosixFolder, "sync", sync)
            try:
                runs[by](single)
            except DponeError as error:
                failures += 1
                check_true(single, error, is_changed=single.shown != shown)
        if count[0] < at:
            break
    assert failures
    assert at >= 2


def check_true(single: Single, error: DponeError, *, is_changed: bool) -> None:
    """It claims that nothing happened only where that is so, and names what is kept."""
    known = error.report()["known"]
    kept = {name for name in single.names if name.startswith(".dpone-recovery-")}
    assert all(name in known for name in kept), known
    if is_changed:
        assert isinstance(error, RecoveryRequired) or error.is_after
    if not isinstance(error, RecoveryRequired):
        return
    assert "as it was" not in known
    assert "exchanged nothing" not in known
    assert "No file" not in known
    told = {*str(error.fields["recovery_name"]).split(", "), *error.kept} - {"none"}
    assert told <= single.names


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_command_advises_what_helps_after_a_failed_recovery(
    authored: Project, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    single = Single(authored.root)
    with_another_s_bytes(single)
    real, count = PosixFolder.sync, [0]

    def sync(self: PosixFolder) -> None:
        count[0] += 1
        if count[0] == 2:
            raise SyncFailed("f.yaml", "EIO")
        real(self)

    command = ("authoring", "recover", "f.yaml", "--apply")
    with monkeypatch.context() as patch:
        patch.setattr(PosixFolder, "sync", sync)
        said = authored.call(*command, "--format", form)
    assert said.code == 4
    assert "dpone authoring recover f.yaml --apply" in said.out + said.err
    assert "exchanged nothing" not in said.out + said.err
    assert single.shown == OTHER
    again = authored.call(*command, "--format", "json")
    assert (again.code, again.report["reason"]) == (0, "source_changed")


def test_the_refusal_before_the_first_act_keeps_its_words(
    single: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchanged(single, Phase.PREPARED)

    def sync(self: PosixFolder) -> None:
        raise SyncFailed("f.yaml", "EIO")

    monkeypatch.setattr(PosixFolder, "sync", sync)
    with pytest.raises(DponeError) as caught:
        recovered(single)
    assert caught.value.code == "DPONE_AUTHORING_SYNC_FAILED"
    assert "shows what it showed before" in caught.value.report()["known"]
    assert single.names == {"f.yaml", JOURNAL, SIDE}
