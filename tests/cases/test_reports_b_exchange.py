"""Public reports of exchanges and syncs that a file system refuses, fakes or leaves undone."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from dpone.adapters.posix import files, held, swap
from dpone.contracts.authoring import Status
from dpone.contracts.errors_authoring import (
    AtomicExchangeUnsupported,
    AuthoringError,
    StorageExhausted,
    SyncRefused,
    TargetMountPoint,
)
from faultinject.failing_calls import SPACE, Calls, failing, uncertified
from faultinject.writing import NEW, OLD
from tests.authoring.confined.studio import CATALOG, Single, codes
from tests.authoring.confined.test_editors import leftovers
from tests.loading.project import Project

pytest_plugins = ("tests.authoring.confined.fixtures",)

INIT = ("init", "workload", "sales/items", "--format", "json")


def rename_over(folder: int, left: str, right: str) -> None:
    """A layer that drops the flag: the first name is renamed over the second."""
    os.rename(left, right, src_dir_fd=folder, dst_dir_fd=folder)


def rename_back(folder: int, left: str, right: str) -> None:
    """The same the other way round."""
    os.rename(right, left, src_dir_fd=folder, dst_dir_fd=folder)


# -- B01: the exchange loses one of the two files --------------------------------------------------


def test_b01_an_exchange_that_dropped_a_file_is_found_at_once(
    single: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.PosixFolder, "certified", lambda _: True)
    verdicts: list[bool] = []
    monkeypatch.setattr(files.PosixFolder, "certify", lambda _, verdict: verdicts.append(verdict))
    monkeypatch.setattr(swap, "exchange", rename_back)
    outcome = single.replace()
    assert outcome.status is Status.RECOVERY_REQUIRED
    assert (outcome.reason, outcome.cleanup_required) == ("exchange_lied", True)
    # From now on nothing is changed in this directory.
    assert verdicts == [False]
    assert single.shown == NEW


def test_b01_the_earlier_bytes_stay_when_their_name_is_what_was_dropped(
    single: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.PosixFolder, "certified", lambda _: True)
    monkeypatch.setattr(swap, "exchange", rename_over)
    outcome = single.replace()
    assert outcome.recovery_name is not None
    assert (single.root / outcome.recovery_name).read_bytes() == OLD


# -- B02: success is returned and one file destroyed -----------------------------------------------


@pytest.mark.parametrize("lie", [rename_over, rename_back, lambda *_: None])
def test_b02_the_lie_is_found_with_scratch_files(
    single: Single, monkeypatch: pytest.MonkeyPatch, lie: Callable[..., None]
) -> None:
    monkeypatch.setattr(swap, "exchange", lie)
    with uncertified():
        for _ in range(2):
            with pytest.raises(AtomicExchangeUnsupported):
                single.replace()
            assert (single.shown, single.names) == (OLD, {"f.yaml"})


# -- B03: the exchange is refused ------------------------------------------------------------------


@pytest.mark.parametrize("number", ["EINVAL", "ENOSYS", "ENOTSUP", "EPERM", "EXDEV"])
def test_b03_a_refused_exchange_is_one_typed_reason(
    authored: Project, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    monkeypatch.setattr(swap, "exchange", raising(getattr(errno, number)))
    before = authored.snapshot()
    with uncertified():
        said = authored.call(*INIT, "--apply")
        assert (said.code, codes(said)) == (4, [UNSUPPORTED])
        assert authored.snapshot() == before
        assert authored.call(*INIT).code == 0
        assert authored.call("authoring", "recover", CATALOG).code == 0
    assert authored.snapshot() == before


UNSUPPORTED = "DPONE_AUTHORING_ATOMIC_EXCHANGE_UNSUPPORTED"


def raising(number: int) -> Callable[..., None]:
    def call(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return call


# -- B04, B05: a directory that cannot be synced ---------------------------------------------------


class Syncs:
    """Lets the n-th sync of a directory fail, or all from it on; files sync as they do."""

    def __init__(self, at: int, number: int, *, ever: bool = False) -> None:
        self.at, self.number, self.ever, self.count = at, number, ever, 0

    def __call__(self, descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            self.count += 1
            if self.count == self.at or (self.ever and self.count > self.at):
                raise OSError(self.number, os.strerror(self.number))
        os.fsync(descriptor)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.parametrize("ever", [False, True])
def test_b04_a_failed_directory_sync_refuses_before_and_is_told_after_the_exchange(
    place: Path, monkeypatch: pytest.MonkeyPatch, number: int, ever: bool
) -> None:
    answers = []
    for at in range(1, 20):
        (place / f"{at}").mkdir()
        single = Single(place / f"{at}")
        syncs = Syncs(at, number, ever=ever)
        with monkeypatch.context() as patch:
            patch.setattr(held, "os", Other(syncs))
            try:
                outcome = single.replace()
            except SyncRefused:
                assert single.shown == OLD
                answers.append("refused")
                continue
        assert outcome.committed
        assert single.shown == NEW
        if syncs.count < at:
            assert (outcome.durable, outcome.cleanup_required) == (True, False)
            break
        assert outcome.cleanup_required
        answers.append("unproven" if not outcome.durable else "cleanup")
        # A run on a healthy disk finishes.
        assert not single.replace().cleanup_required
        assert single.names == {"f.yaml"}
    # Until the exchange it is refused; the sync after it is the one that proves it.
    refused = answers.count("refused")
    assert refused >= 1
    assert answers[: refused + 1] == ["refused"] * refused + ["unproven"]
    assert set(answers[refused + 1 :]) == {"cleanup"}


class Other:
    """The module `os` with another fsync."""

    def __init__(self, fsync: Callable[[int], None]) -> None:
        self.fsync = fsync

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


def test_b05_a_directory_that_never_syncs_is_refused_the_same_way_each_time(
    single: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "os", Other(Syncs(1, errno.EINVAL, ever=True)))
    for _ in range(3):
        with pytest.raises(SyncRefused) as caught:
            single.replace()
        assert caught.value.exit_code == 4
        assert (single.shown, single.names) == (OLD, {"f.yaml"})


# -- B06: a failed sync is repeated and then believed ----------------------------------------------


def test_b06_a_descriptor_whose_sync_failed_is_never_trusted_again(
    single: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 1:
            raise OSError(errno.EIO, "lost")

    monkeypatch.setattr(held, "os", Other(fsync))
    with pytest.raises(SyncRefused):
        single.replace()
    # The file was given up with its descriptor; nothing else was done.
    assert len(synced) == 1
    assert (single.shown, single.names) == (OLD, {"f.yaml"})


# -- B07: a rename that a power loss undoes --------------------------------------------------------


def test_b07_the_order_of_syncs_and_names(single: Single, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def fsync(descriptor: int) -> None:
        found = os.fstat(descriptor)
        is_side = found.st_size == len(NEW) and found.st_nlink == 0
        kind = "side" if is_side else "journal"
        order.append("sync folder" if stat.S_ISDIR(found.st_mode) else f"sync {kind}")
        os.fsync(descriptor)

    def fdatasync(descriptor: int) -> None:
        order.append("sync phase")
        os.fdatasync(descriptor)

    def exchange(folder: int, left: str, right: str) -> None:
        order.append("exchange")
        real(folder, left, right)

    def unlink(leaf: str, *, dir_fd: int) -> None:
        order.append("unlink side" if "side" in leaf else "unlink journal")
        os.unlink(leaf, dir_fd=dir_fd)

    def link(source: str, leaf: str, **more: int) -> None:
        order.append("name side" if "side" in leaf else "name journal")
        os.link(source, leaf, **more)  # type: ignore[arg-type]

    real = swap.exchange
    monkeypatch.setattr(files.PosixFolder, "certified", lambda _: True)
    system = Other(fsync)
    vars(system).update(unlink=unlink, link=link, fdatasync=fdatasync)
    monkeypatch.setattr(held, "os", system)
    monkeypatch.setattr(files, "os", system)
    monkeypatch.setattr(swap, "exchange", exchange)
    assert single.replace().committed
    exchanged = order.index("exchange")
    before, after = order[:exchanged], order[exchanged + 1 :]
    # The new bytes and the journal are durable, the journal by its name too, before the exchange.
    assert before.index("sync side") < before.index("name side")
    assert before.index("sync journal") < before.index("name journal")
    assert "sync folder" in before[before.index("name journal") :]
    assert before.index("name journal") < before.index("name side")
    # The exchange, then the phase, are durable before the earlier bytes lose their name.
    assert after[:3] == ["sync folder", "sync phase", "unlink side"]
    assert after[3:] == ["sync folder", "unlink journal", "sync folder"]


# -- B16: a name that is busy ----------------------------------------------------------------------


def test_b16_a_busy_name_is_refused_and_nothing_is_left(
    single: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.PosixFolder, "certified", lambda _: True)
    monkeypatch.setattr(swap, "exchange", raising(errno.EBUSY))
    with pytest.raises(TargetMountPoint):
        single.replace()
    assert (single.shown, single.names) == (OLD, {"f.yaml"})


# -- B31: no space ---------------------------------------------------------------------------------

WRITES = frozenset({"open", "write", "pwrite", "fsync", "fdatasync", "link"})


@pytest.mark.parametrize("number", SPACE, ids=errno.errorcode.get)
def test_b31_no_space_leaves_the_target_whole_and_nothing_beside_it(
    place: Path, number: int
) -> None:
    refused = 0
    for at in range(1, 60):
        (place / f"{at}").mkdir()
        single = Single(place / f"{at}")
        calls = Calls(at, number, only=WRITES)
        with uncertified():
            try:
                with failing(calls):
                    outcome = single.replace()
            except StorageExhausted:
                refused += 1
                assert (single.shown, single.names) == (OLD, {"f.yaml"})
                continue
        # What could not even be opened after the exchange is exchanged back.
        assert single.shown == (NEW if outcome.committed else OLD)
        if len(calls.names) < at:
            break
    assert refused >= 12


def test_b31_a_close_that_fails_is_no_failure_of_what_was_synced(
    single: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(descriptor: int) -> None:
        os.close(descriptor)
        raise OSError(errno.EDQUOT, "late")

    system = Other(os.fsync)
    vars(system)["close"] = close
    monkeypatch.setattr(held, "os", system)
    monkeypatch.setattr(files, "os", system)
    assert single.replace().committed
    assert (single.shown, single.names) == (NEW, {"f.yaml"})


# -- B35: every failed attempt leaves one more file ------------------------------------------------


def test_b35_twenty_failed_changes_leave_nothing(
    authored: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = authored.snapshot()
    with uncertified():
        assert authored.call(*INIT).code == 0
        monkeypatch.setattr(files.PosixFolder, "certified", lambda _: True)
        monkeypatch.setattr(swap, "exchange", raising(errno.EIO))
        for _ in range(20):
            assert authored.call(*INIT, "--apply").code == 4
            assert authored.snapshot() == before
    assert leftovers(authored) == set()


def test_b32_without_an_adapter_plans_work_and_nothing_is_written(
    authored: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swap, "SUPPORTED", False)
    monkeypatch.setattr(swap, "_NATIVE", None)
    before = authored.snapshot()
    new = ("init", "domain", "shop", "--format", "json")
    for command in (INIT, new):
        assert authored.call(*command).code == 0
        said = authored.call(*command, "--apply")
        assert (said.code, codes(said)) == (4, [UNSUPPORTED])
        assert authored.snapshot() == before
    assert authored.call("route", "validate", "workloads/sales/orders.yaml").code == 0


def test_the_refusals_are_all_of_one_family() -> None:
    assert StorageExhausted.exit_code == 4
    for kind in (AtomicExchangeUnsupported, StorageExhausted, SyncRefused, TargetMountPoint):
        assert issubclass(kind, AuthoringError)
