"""Each call to the operating system fails, once or from then on: what is said stays true."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dpone.adapters.posix.files import PosixFolder
from dpone.contracts.authoring import ConfinedReplaceOutcome, OwnedFile, Status
from dpone.contracts.errors_authoring import AuthoringError
from dpone.ports.files import NamelessUnsupported
from faultinject.failing_calls import CHANGING, Calls, failing, short_writes, uncertified
from faultinject.writing import NEW, OLD, Tree, tree_of
from tests.authoring.confined.studio import CATALOG, Single
from tests.authoring.confined.test_editors import leftovers
from tests.depth import FULL
from tests.loading.project import Project

STRIDE = 1 if FULL else 2
MORE = (errno.EDQUOT, errno.EROFS, errno.EINTR)
NUMBERS = (errno.EIO, errno.ENOSPC, errno.EPERM, *(MORE if FULL else ()))
CALLS_MAX = 2000


def sweep(play: Callable[[Calls], list[str]], number: int, *, ever: bool, stride: int = 1) -> int:
    """Fail call 1, 2, … until the run makes no more; the count of calls."""
    faults: list[str] = []
    for at in range(1, CALLS_MAX, stride):
        calls = Calls(at, number, ever=ever)
        found = play(calls)
        if len(calls.names) < at:
            assert faults[:12] == []
            return len(calls.names)
        faults += [f"{at} {calls.names[at - 1]}: {fault}" for fault in found]
    raise AssertionError("the run never came to its end")


def play_replace(root: Path, calls: Calls) -> list[str]:
    """Replace under a failure, then without: what is said is true, and nothing is left."""
    single = fresh(root)
    said: ConfinedReplaceOutcome | None = None
    faults: list[str] = []
    with uncertified():
        try:
            with failing(calls):
                said = single.replace()
        except AuthoringError as error:
            if single.shown != OLD:
                faults.append(f"{error.code} was said, and the file is changed")
        except BaseException as error:  # noqa: BLE001 - it is the fault that is looked for
            faults.append(f"{error!r} came through")
    if said is not None:
        faults += untrue(said, single)
    return faults + finish(single)


def untrue(said: ConfinedReplaceOutcome, single: Single) -> list[str]:
    shown = single.shown
    if said.committed and shown != NEW:
        return [f"{said} although the file shows {shown!r}"]
    if said.status is Status.ROLLED_BACK and shown != OLD:
        return [f"{said} although the file shows {shown!r}"]
    return []


def fresh(root: Path) -> Single:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    return Single(root)


def finish(single: Single) -> list[str]:
    """Run again without failures."""
    told: set[str] = set()
    with uncertified():
        for _ in range(3):
            try:
                outcome = single.replace()
            except AuthoringError as error:
                told.add(str(error.fields.get("recovery_name")))
                continue
            told |= {outcome.recovery_name or ""}
            if not outcome.cleanup_required:
                break
        else:
            return ["it never finished"]
    left = single.names - {"f.yaml"} - told
    return [f"left {left}"] * bool(left) + ["not replaced"] * (single.shown != NEW)


@pytest.mark.parametrize("nameless", [True, False])
@pytest.mark.parametrize("ever", [False, True])
@pytest.mark.parametrize("number", NUMBERS, ids=errno.errorcode.get)
def test_a_replacement_whose_calls_fail(
    place: Path, monkeypatch: pytest.MonkeyPatch, number: int, ever: bool, nameless: bool
) -> None:
    if not nameless:
        monkeypatch.setattr(PosixFolder, "_nameless", refused)
    count = sweep(lambda calls: play_replace(place / "f", calls), number, ever=ever)
    assert count >= 60


def refused(self: PosixFolder, mode: int) -> int:
    raise NamelessUnsupported


def play_remove(root: Path, calls: Calls) -> list[str]:
    single = fresh(root)
    owned: OwnedFile = single.owned()
    faults: list[str] = []
    try:
        with failing(calls):
            said = single.confined().remove_file_if_owned(owned)
        is_gone = not single.path.exists()
        # What is under way when it stops is neither: recovery finishes it.
        if said.removed is not is_gone and not (is_gone and said.cleanup_required):
            faults.append(f"{said} is not true")
    except AuthoringError as error:
        if not single.path.exists():
            faults.append(f"{error.code} was said, and the file is gone")
    except BaseException as error:  # noqa: BLE001 - it is the fault that is looked for
        faults.append(f"{error!r} came through")
    again = single.confined().remove_file_if_owned(owned)
    told = {again.recovery_name or ""}
    left = single.names - told
    return faults + [f"left {left} after {again}"] * bool(left)


@pytest.mark.parametrize("ever", [False, True])
@pytest.mark.parametrize("number", [errno.EIO, errno.EPERM], ids=errno.errorcode.get)
def test_a_removal_whose_calls_fail(place: Path, number: int, ever: bool) -> None:
    assert sweep(lambda calls: play_remove(place / "f", calls), number, ever=ever) >= 30


def test_short_writes_are_written_on(single: Single, monkeypatch: pytest.MonkeyPatch) -> None:
    with short_writes(), uncertified():
        assert single.replace().committed
    assert (single.shown, single.names) == (NEW, {"f.yaml"})
    monkeypatch.setattr(PosixFolder, "_nameless", refused)
    with short_writes(), uncertified():
        assert single.replace(OLD, expected=NEW).committed
    assert (single.shown, single.names) == (OLD, {"f.yaml"})


# -- the command line ------------------------------------------------------------------------------

INIT = ("init", "workload", "sales/items", "--layout", "folder", "--dag", "daily", "--apply")
MIGRATE = ("authoring", "migrate", "workloads/sales/orders", "--to", "flow", "--apply")
COMMANDS = {"init workload": INIT, "migrate": MIGRATE}


class Played:
    """One command under failures, in a project that is made anew each time."""

    def __init__(self, project: Project, argv: tuple[str, ...]) -> None:
        self.project = project
        self.argv = (*argv, "--format", "json")
        self.saved = project.root.parent / "saved"
        shutil.copytree(project.root, self.saved)
        self.old = tree_of(project.root)
        assert project.call(*self.argv).code == 0
        self.new = tree_of(project.root)

    def __call__(self, calls: Calls) -> list[str]:
        """Run under a failure, judge, run again without."""
        shutil.rmtree(self.project.root)
        shutil.copytree(self.saved, self.project.root)
        with uncertified():
            with failing(calls):
                said = self.project.call(*self.argv)
            faults = self.judged(said.code, said.report)
            last = self.project.call(*self.argv)
            told = set(last.report.get("unit_of_work", {}).get("recovery_artifacts", []))
            told |= set(said.report.get("unit_of_work", {}).get("recovery_artifacts", []))
            if last.code == 4:
                last = self.project.call(*self.argv)
        if last.code != 0:
            faults.append(f"the next run ended {last.code}: {last.out[:300]}")
        now = {path: data for path, data in self.now().items() if path not in told}
        if now != self.new:
            differing = {path for path in {*now, *self.new} if now.get(path) != self.new.get(path)}
            faults.append(f"after the next run {sorted(differing)} differ")
        return faults

    def now(self) -> Tree:
        """The bytes of the project's files."""
        return tree_of(self.project.root)

    def judged(self, code: int, report: dict[str, object]) -> list[str]:
        """Whether code and report are true."""
        now = self.now()
        authoritative = {path: data for path, data in now.items() if ".dpone-" not in path}
        status = report.get("status", report.get("code"))
        if code not in (0, 1, 2, 3, 4):
            return [f"it ended {code}: {report}"]
        if status in ("applied", "no_op") and authoritative != self.new:
            return [f"{status} was said, which is not so"]
        is_undone = "code" in report or status == "rolled_back"
        if is_undone and authoritative != self.old:
            differing = sorted(set(authoritative) ^ set(self.old))
            if authoritative.get(CATALOG) != self.old[CATALOG] or not report.get("unit_of_work"):
                return [f"{status} was said, and {differing or CATALOG} differ"]
        manifest = next(path for path in self.new if path not in self.old and "pipeline" in path)
        lists = manifest.encode() in authoritative[CATALOG]
        return ["the catalog names what is not there"] * (lists and manifest not in authoritative)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("ever", [False, True])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_a_command_whose_calls_fail(
    authored: Project, number: int, ever: bool, command: str
) -> None:
    played = Played(authored, COMMANDS[command])
    # Every call with an error of its own belongs to a certification run.
    stride = STRIDE if number == errno.EIO else STRIDE * 3 - 2
    assert sweep(played, number, ever=ever, stride=stride) >= 150


@pytest.mark.parametrize("ever", [False, True])
def test_a_command_whose_changing_calls_fail(authored: Project, ever: bool) -> None:
    played = Played(authored, INIT)
    for at in range(1, CALLS_MAX):
        calls = Calls(at, errno.EIO, ever=ever, only=CHANGING)
        found = played(calls)
        assert (at, found) == (at, [])
        if len(calls.names) < at:
            break
    assert leftovers(authored) == set()


def test_the_adapter_is_whole_again(single: Single) -> None:
    with failing(Calls(1, errno.EIO)), pytest.raises(AuthoringError):
        single.replace()
    assert single.replace().committed
