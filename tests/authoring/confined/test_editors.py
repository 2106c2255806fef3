"""One editor action before, at and after the exchange: every byte stays, all said is true."""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from dpone.contracts.authoring import Status
from dpone.contracts.effects import Effect
from dpone.ports.probe import quiet
from faultinject.editing_process import (
    ACTIONS,
    LATE,
    MARK,
    MOMENTS,
    OPAQUE,
    Injected,
    _side_of,
    reachable,
)
from faultinject.writing import NEW, OLD
from tests.authoring.confined.studio import CATALOG, At, Single, Watching
from tests.loading.project import Project

ONCE = [name for name in ACTIONS if name != "knocking"]
SILENT = ("same_bytes", "unlink", "chmod", "held", "pipe")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("action", ONCE)
def test_an_editor_loses_nothing_and_the_outcome_is_true(
    single: Single, action: str, moment: str
) -> None:
    injected = Injected(quiet, single.root, "f.yaml", action, moment)
    probe = Watching(injected, single.path)
    outcome = single.replace(probe=probe)
    assert injected.actions == (
        [] if moment != "committing" or outcome.committed else injected.actions
    )
    kept = {outcome.recovery_name} - {None}
    ours = {name for name in single.names if name.startswith((".dpone", ".f.yaml"))}
    assert ours == kept
    is_before = moment == "before"
    if action == "held":
        injected.finish()
        assert reachable(single.root, LATE)
        assert outcome.committed
    else:
        assert outcome.committed is not is_before
    if action not in ("unlink", "folder"):
        # Only these two editors take the name away themselves.
        assert probe.absent == []
    check_shown(single, action, is_before=is_before)
    check_again(single, action)


def check_shown(single: Single, action: str, *, is_before: bool) -> None:
    """The name shows what the editor made of it; nothing else of his is gone."""
    if action == "unlink":
        assert not single.path.exists()
    elif action == "pipe":
        assert stat.S_ISFIFO(single.path.lstat().st_mode)
    elif action == "symlink":
        assert single.path.readlink().name == "elsewhere.txt"
    elif action == "chmod":
        assert stat.S_IMODE(single.path.stat().st_mode) == 0o640
        assert single.shown == (OLD if is_before else NEW)
    elif action == "same_bytes":
        assert single.shown == (OLD if is_before else NEW)
    elif action == "held":
        assert single.shown in (NEW, NEW + LATE)
    elif action == "folder":
        assert (single.path / "inside.txt").read_bytes() == MARK
    else:
        assert MARK in single.shown
    if action not in SILENT:
        assert reachable(single.root, MARK)
    if action == "away_then_create":
        assert (single.root / "f.yaml~").read_bytes() == (OLD if is_before else NEW)


def check_again(single: Single, action: str) -> None:
    """The leaf is not blocked: the next change works, on what is there now."""
    if action in (*OPAQUE, "unlink"):
        return
    before = single.shown
    outcome = single.replace(b"later\n", expected=before)
    assert (outcome.status, outcome.recovery_name) == (Status.COMMITTED, None)
    assert single.shown == b"later\n"


def test_the_same_bytes_saved_again_are_the_editors_file(single: Single) -> None:
    inodes: list[int] = []

    def save() -> None:
        ACTIONS["same_bytes"](single.path)
        inodes.append(single.path.stat().st_ino)

    outcome = single.replace(probe=At("authoring.exchange:before", save))
    assert outcome.reason == "source_changed"
    assert single.path.stat().st_ino == inodes[0]


@pytest.mark.parametrize("moment", ["authoring.discard:before", "authoring.close:before", "end"])
def test_a_descriptor_held_across_the_exchange_writes_late(single: Single, moment: str) -> None:
    late = ACTIONS["held"](single.path)
    assert late is not None
    if moment == "end":
        outcome = single.replace()
        late()
    else:
        # The rehearsal discards two scratch files of its own before.
        outcome = single.replace(probe=At(moment.replace("discard", "set_aside"), late))
    assert outcome.committed
    assert outcome.recovery_name is not None
    assert (single.root / outcome.recovery_name).read_bytes() == OLD + LATE
    assert single.shown == NEW


def test_somebody_who_opens_it_as_its_name_goes_is_let_in_and_kept(single: Single) -> None:
    injected = Injected(quiet, single.root, "f.yaml", "knocking", "after")
    outcome = single.replace(probe=injected)
    injected.finish()
    assert outcome.reason == "committed_earlier_bytes_kept"
    assert outcome.recovery_name is not None
    assert (single.root / outcome.recovery_name).read_bytes() == OLD + LATE


def test_whoever_opens_it_and_never_lets_go_is_waited_for_a_bounded_time(single: Single) -> None:
    """What he has written by then is kept; the change does not wait for the rest."""
    is_over = threading.Event()

    def work() -> None:
        with _side_of(single.path).open("ab") as file:
            file.write(LATE)
            file.flush()
            is_over.wait()

    thread = threading.Thread(target=work)

    def knock() -> None:
        thread.start()
        # Until the kernel has noted the attempt.
        threading.Event().wait(0.05)

    started = time.monotonic()
    try:
        # Whatever was rehearsed here before, the first removal after the commit is the file's.
        outcome = single.replace(probe=After("authoring.commit", "authoring.discard", knock))
        took = time.monotonic() - started
    finally:
        is_over.set()
        thread.join()
    assert outcome.reason == "committed_earlier_bytes_kept"
    assert outcome.recovery_name is not None
    assert (single.root / outcome.recovery_name).read_bytes() == OLD + LATE
    assert 1 <= took < 10


class After:
    """Calls something once, before the first time of an effect that follows another one."""

    def __init__(self, first: str, then: str, act: Callable[[], None]) -> None:
        self.first, self.then, self.act = first, then, act
        self.is_due, self.is_armed = True, False

    @contextmanager
    def __call__(self, effect: Effect, /) -> Iterator[None]:
        if self.is_due and self.is_armed and effect.value == self.then:
            self.is_due = False
            self.act()
        yield
        self.is_armed = self.is_armed or effect.value == self.first


def test_a_third_version_before_the_exchange_back_is_kept_too(single: Single) -> None:
    """One save just before the exchange, another just after it: both are somebody's."""
    injected = Injected(quiet, single.root, "f.yaml", "in_place+rename_save", "twice")
    outcome = single.replace(probe=injected)
    assert outcome.status is Status.RECOVERY_REQUIRED
    assert outcome.recovery_name is not None
    assert (single.root / outcome.recovery_name).read_bytes() == OLD + MARK
    assert single.shown == NEW + MARK
    # It is told once, and blocks nobody.
    assert single.replace(b"later\n", expected=NEW + MARK).committed
    assert single.names == {"f.yaml", outcome.recovery_name}


# -- several files ---------------------------------------------------------------------------------

INIT = ("init", "workload", "sales/items", "--dag", "daily")
MIGRATE = ("authoring", "migrate", "workloads/sales/orders", "--to", "folder")
COMMANDS = {"init workload": INIT, "migrate": MIGRATE}
MANIFESTS = {
    "init workload": "workloads/sales/items.yaml",
    "migrate": "workloads/sales/orders/pipeline.yaml",
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("moment", [*MOMENTS, "authoring.publish:after"])
@pytest.mark.parametrize("action", ONCE)
def test_several_files_and_an_editor_of_the_catalog(
    authored: Project, action: str, moment: str, command: str
) -> None:
    catalog = authored.root / CATALOG
    probe = Injected(quiet, authored.root, CATALOG, action, moment)
    said = authored.call(*COMMANDS[command], "--apply", "--format", "json", probe=probe)
    probe.finish()
    report = said.report
    manifest = MANIFESTS[command]
    is_there = (authored.root / manifest).exists()
    lists = catalog.is_file() and manifest.encode() in catalog.read_bytes()
    # Never a catalog that names a manifest which was taken back.
    assert is_there or not lists
    if action not in SILENT:
        assert reachable(authored.root, MARK)
    if report.get("unit_of_work", {}).get("status") == "committed":
        assert is_there
        assert said.code == 0
    else:
        assert said.code in (1, 4)
        assert not lists
        assert not is_there
        assert report["unit_of_work"]["status"] == "rolled_back"
        assert report["counters"]["rolled_back"] == 1
    if action not in (*OPAQUE, "unlink"):
        told = set(report["unit_of_work"]["recovery_artifacts"])
        assert leftovers(authored) <= told
        again = authored.call(*COMMANDS[command], "--apply", "--format", "json")
        assert again.code == 0, again.err
        assert manifest.encode() in catalog.read_bytes()
        assert leftovers(authored) <= told


def leftovers(project: Project) -> set[str]:
    """Everything of ours that is not the project's."""
    return {
        path.relative_to(project.root).as_posix()
        for path in project.root.rglob("*")
        if path.name.startswith(".dpone-") or ".dpone-" in path.name
    }


@pytest.mark.parametrize("action", OPAQUE)
@pytest.mark.parametrize("moment", ["authoring.publish:after", "before"])
def test_a_catalog_that_cannot_be_read_is_moved_by_hand_and_all_goes_on(
    authored: Project, action: str, moment: str
) -> None:
    catalog = authored.root / CATALOG
    before = catalog.read_bytes()
    probe = Injected(quiet, authored.root, CATALOG, action, moment)
    said = authored.call(*INIT, "--apply", "--format", "json", probe=probe)
    assert said.code in (1, 4)
    recovered = authored.call(
        "authoring", "recover", CATALOG, "--keep", "--apply", "--format", "json"
    )
    assert recovered.code in (0, 4)
    catalog.rename(authored.root / "mine")
    catalog.write_bytes(before)
    again = authored.call(*INIT, "--apply", "--format", "json")
    assert (again.code, again.report["status"]) == (0, "applied")
    assert leftovers(authored) == set()
