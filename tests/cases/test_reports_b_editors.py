"""Public reports of editors, watchers, repositories, and runs that meet or die."""

from __future__ import annotations

import fnmatch
import os
import random
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpone.authoring import replace
from dpone.contracts.authoring import OwnedFile
from dpone.contracts.effects import Effect
from dpone.contracts.errors_authoring import SourceChanged
from dpone.contracts.transaction import Phase, Transaction
from faultinject.editing_process import LATE, held
from faultinject.matrix import memory_folder
from faultinject.writing import (
    COMMAND,
    DOMAIN,
    JSON,
    MIGRATIONS,
    NEW,
    OLD,
    PROJECT,
    SECOND,
    Bench,
    Task,
    owned,
)
from faultinject.zygote import Zygote, wake
from tests.authoring.confined.loops import FILE, against_an_editor, leftovers, tokens
from tests.authoring.confined.studio import CATALOG, JOURNAL, At, Single, codes
from tests.authoring.confined.test_editors import leftovers as left_in
from tests.depth import FULL
from tests.loading.project import Project

pytest_plugins = ("tests.authoring.confined.fixtures",)

ITEMS = ("init", "workload", "sales/items", "--apply", *JSON)


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    with Zygote(tmp_path_factory.mktemp("zygote"), ("faultinject.writing",)) as made:
        yield made


# -- B09: no canonical file for a moment -----------------------------------------------------------


@pytest.mark.kill
@pytest.mark.timeout(900)
def test_b09_a_reader_always_finds_whole_bytes_while_changes_are_killed(writer: Zygote) -> None:
    bench = Bench(writer, Task("toggle", does="toggle", files={"f.yaml": OLD}))
    seen: Counter[bytes] = Counter()
    stop = threading.Event()

    def read(path: Path) -> None:
        while not stop.is_set():
            try:
                seen[path.read_bytes()] += 1
            except OSError as error:
                seen[repr(error).encode()] += 1

    chooser = random.Random(9)
    with bench.fresh() as project:
        points = bench.traced(project, project.args)[0]
        reader = threading.Thread(target=read, args=(project.root / "f.yaml",))
        reader.start()
        try:
            for _ in range(2000 if FULL else 150):
                writer.run(COMMAND, project.args, point=chooser.choice(points))
        finally:
            stop.set()
            reader.join()
    bench.close()
    assert set(seen) == {OLD, NEW}
    assert min(seen.values()) > 50


# -- B17: a writer with an older descriptor --------------------------------------------------------


@pytest.mark.parametrize("moment", ["authoring.set_aside:before", "authoring.close:before", ""])
def test_b17_what_is_written_through_an_old_descriptor_stays_reachable(
    single: Single, moment: str
) -> None:
    late = held(single.path)
    assert late is not None
    outcome = single.replace(probe=At(moment, late)) if moment else single.replace()
    if not moment:
        late()
    assert outcome.committed
    assert outcome.recovery_name is not None
    assert (single.root / outcome.recovery_name).read_bytes() == OLD + LATE


def test_b17_the_limit_is_stated() -> None:
    assert "an `open` for writing that is still\nin flight" in (replace.__doc__ or "")


# -- B18: an editor with a stale buffer ------------------------------------------------------------


def test_b18_a_stale_save_is_shown_and_never_blocks(authored: Project) -> None:
    catalog = authored.root / CATALOG
    buffer = catalog.read_bytes()
    assert authored.call(*ITEMS).code == 0
    beside = catalog.with_name("swp")
    beside.write_bytes(buffer + b"# mine\n")
    beside.rename(catalog)
    plan = authored.call("init", "workload", "sales/items", *JSON).report
    assert plan["status"] == "ready"
    shown = {change["path"]: change for change in plan["changes"]}
    assert shown[CATALOG]["action"] == "modify"
    assert "+  items:" in shown[CATALOG]["unified_diff"]
    assert catalog.read_bytes() == buffer + b"# mine\n"
    assert authored.call(*ITEMS).report["status"] == "applied"
    assert b"# mine\n" in catalog.read_bytes()
    assert left_in(authored) == set()


# -- B19: the editor moves the file away first -----------------------------------------------------


@pytest.mark.timeout(600)
def test_b19_a_save_that_moves_away_first_loses_nothing(place: Path) -> None:
    rounds = 1000 if FULL else 150
    seen = against_an_editor(place, "away_then_create", rounds)
    assert tokens(place) == set(range(rounds))
    assert leftovers(place, seen) == set()
    fine = ("absent", "committed", "rolled_back", "DPONE_AUTHORING_SOURCE_", "recovery_required")
    assert [answer for answer in seen.answers if not answer.startswith(fine)] == []
    assert (place / FILE).is_file()


# -- B20: watchers see the temporary sibling -------------------------------------------------------


class Listing:
    """Lists every name of a project at every effect."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.names: set[str] = set()

    @contextmanager
    def __call__(self, effect: Effect, /) -> Iterator[None]:
        self._list()
        yield
        self._list()

    def _list(self) -> None:
        for _, folders, files in os.walk(self.root):
            self.names.update(folders, files)


COMMANDS = (
    ("init", "domain", "shop", "--apply"),
    ("init", "workload", "sales/items", "--dag", "daily", "--layout", "folder", "--apply"),
    ("catalog", "apply", "sales", "--dag", "daily", "--workload", "orders", "--apply"),
    ("authoring", "migrate", "workloads/sales/orders", "--to", "folder", "--apply"),
)


@pytest.mark.parametrize("nameless", [True, False])
def test_b20_no_sibling_looks_like_a_source(
    authored: Project, monkeypatch: pytest.MonkeyPatch, nameless: bool
) -> None:
    from dpone.adapters.posix.files import PosixFolder
    from faultinject.failing_calls import uncertified
    from tests.authoring.confined.test_failing_calls import refused

    if not nameless:
        monkeypatch.setattr(PosixFolder, "_nameless", refused)
    probe = Listing(authored.root)
    with uncertified():
        for command in COMMANDS:
            assert authored.call(*command, probe=probe).code == 0
    ours = {name for name in probe.names if ".dpone-" in name}
    assert len(ours) >= 8
    for pattern in ("*.yaml", "*.yml", "*.py", "*.toml"):
        assert fnmatch.filter(ours, pattern) == []
    assert all(name.startswith(".") for name in ours)


# -- B21: a temporary file is committed ------------------------------------------------------------

GIT = shutil.which("git")


@pytest.mark.kill
@pytest.mark.skipif(GIT is None, reason="there is no git")
@pytest.mark.parametrize("point", ["authoring.exchange:after#1", "authoring.side:after#1"])
def test_b21_a_repository_takes_no_sibling_and_may_clean_them(writer: Zygote, point: str) -> None:
    before = (PROJECT, DOMAIN, SECOND)
    bench = Bench(
        writer, Task("git", ("init", "workload", "sales/extra", "--apply", *JSON), before)
    )

    with bench.fresh() as project:

        def git(*arguments: str) -> str:
            given = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
            return subprocess.run(
                given, cwd=project.root, check=True, capture_output=True, text=True
            ).stdout

        git("init", "-q")
        git("add", "-A")
        git("commit", "-qm", "before")
        assert bench.zygote.run(COMMAND, project.args, point=point).killed
        assert left_in_tree(project.root)
        git("add", "-A")
        assert ".dpone-" not in git("ls-files")
        git("clean", "-qfdx")
        assert left_in_tree(project.root) == []
        text = (project.root / CATALOG).read_bytes()
        assert text.startswith(bench.old[CATALOG][:20])
        assert bench.zygote.run(COMMAND, project.args).exit_code == 0
        assert b"  extra:\n" in (project.root / CATALOG).read_bytes()
    bench.close()


def left_in_tree(root: Path) -> list[str]:
    return [path.name for path in root.rglob(".*dpone-*")]


# -- B27: process numbers --------------------------------------------------------------------------


def test_b27_recovery_knows_no_process_number(single: Single) -> None:
    assert not any("pid" in name or "host" in name for name in Transaction.__struct_fields__)
    single.journal(Phase.PREPARED, side=NEW)
    assert str(os.getpid()).encode() not in (single.root / JOURNAL).read_bytes()
    assert single.replace().committed
    assert (single.shown, single.names) == (NEW, {"f.yaml"})


@pytest.mark.kill
def test_b27_whoever_was_killed_blocks_nobody(writer: Zygote) -> None:
    bench = Bench(writer, Task("replace", does="replace", files={"f.yaml": OLD}))
    with bench.fresh() as project:
        killed = writer.run(COMMAND, project.args, point="authoring.exchange:before#1")
        assert killed.killed
        single = Single.__new__(Single)
        single.root, single.path = project.root, project.root / "f.yaml"
        # Another process of another number, at once and without waiting.
        assert single.replace().committed
        assert single.names == {"f.yaml"}
    bench.close()


# -- B29: two scaffolds at once --------------------------------------------------------------------


@pytest.mark.kill
@pytest.mark.timeout(300)
def test_b29_two_inits_from_a_barrier(writer: Zygote) -> None:
    bench = Bench(writer, Task("init", (*PROJECT, *JSON)))
    bench.points()
    answers: Counter[tuple[int, ...]] = Counter()
    for _ in range(200):
        with bench.fresh() as project:
            meet = project.folder / "meet"
            meet.mkdir()
            args = {**project.args, "meet": str(meet), "meet_count": 2}
            pids = [
                writer.start(COMMAND, {**args, "out": f"{project.folder}/out{number}"})
                for number in range(2)
            ]
            ended = [writer.wait(pid) for pid in pids]
            answers[tuple(sorted(run.exit_code for run in ended))] += 1
            assert bench.torn(project) == []
            last = writer.run(COMMAND, project.args)
            assert bench.ended(project, last) == []
    bench.close()
    assert {code for pair in answers for code in pair} <= {0, 1, 3}
    assert sum(count for pair, count in answers.items() if 0 in pair) >= 190


@pytest.mark.kill
@pytest.mark.timeout(300)
def test_b29_one_stands_still_at_every_point_while_the_other_runs(writer: Zygote) -> None:
    bench = Bench(writer, Task("init", (*PROJECT, *JSON)))
    for point in bench.points():
        with bench.fresh() as project:
            first = writer.start(COMMAND, project.args, point=point, action="stop")
            assert writer.wait(first).stopped
            other = {**project.args, "out": f"{project.folder}/other"}
            second = writer.run(COMMAND, other).exit_code
            wake(first)
            codes_seen = (writer.wait(first).exit_code, second)
            assert bench.torn(project) == []
            last = writer.run(COMMAND, project.args)
            assert (point, codes_seen, bench.ended(project, last)) == (point, codes_seen, [])
            assert set(codes_seen) <= {0, 1, 3}, point
            assert 0 in codes_seen, point
    bench.close()


@pytest.mark.kill
def test_b29_two_workloads_of_one_name_and_two_meanings(writer: Zygote) -> None:
    argv = ("init", "workload", "sales/orders", "--apply", *JSON)
    bench = Bench(writer, Task("two", argv, (PROJECT, DOMAIN)))
    for _ in range(100 if FULL else 25):
        with bench.fresh() as project:
            meet = project.folder / "meet"
            meet.mkdir()
            args = {**project.args, "meet": str(meet), "meet_count": 2}
            pids = [
                writer.start(
                    COMMAND,
                    {**args, "out": f"{project.folder}/{kind}", "argv": [*argv, "--target", kind]},
                )
                for kind in ("sqlite", "duckdb")
            ]
            ended = [writer.wait(pid).exit_code for pid in pids]
            assert set(ended) <= {0, 1, 3}
            assert ended.count(0) <= 1
            shown = project.root / "workloads/sales/orders.yaml"
            for kind, code in zip(("sqlite", "duckdb"), ended, strict=True):
                if code == 0:
                    assert kind.encode() in shown.read_bytes()
    bench.close()


@pytest.mark.parametrize("leaf", ["dpone.toml", ".gitignore", "dpone_workloads"])
def test_b29_a_dangling_link_is_not_followed(
    place: Path, capsys: pytest.CaptureFixture[str], leaf: str
) -> None:
    project = Project(place / "project", capsys)
    project.root.mkdir()
    (project.root / leaf).symlink_to(place / "absent")
    said = project.call("init", "--apply", *JSON)
    assert (said.code, codes(said)) == (4, ["DPONE_AUTHORING_PATH_UNSAFE"])
    assert not (place / "absent").exists()
    assert [path.name for path in project.root.iterdir()] == [leaf]


# -- B30: a reused inode ---------------------------------------------------------------------------


def test_b30_a_file_that_got_the_same_inode_is_not_ours(tmp_path: Path) -> None:
    single = Single(tmp_path)
    ours = single.owned()
    for _ in range(50):
        before = single.path.stat().st_ino
        single.path.unlink()
        single.path.write_bytes(OLD)
        if single.path.stat().st_ino == before:
            break
    else:
        pytest.skip("UNVERIFIED: this file system does not reuse an inode number at once")
    fields = owned(tmp_path, "f.yaml")
    ours = OwnedFile(**{**fields, "identity": f"{fields['identity'][:17]}{ours.identity[17:]}"})
    outcome = single.confined().remove_file_if_owned(ours)
    assert (outcome.removed, outcome.reason) == (False, "not_owned")
    assert (single.shown, single.names) == (OLD, {"f.yaml"})


# -- B37: a change within one clock tick -----------------------------------------------------------


def test_b37_an_edit_of_the_same_length_and_time_is_found(single: Single) -> None:
    found = single.path.stat()
    single.path.write_bytes(OLD[:-2] + b"9\n")
    os.utime(single.path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert single.path.stat().st_mtime_ns == found.st_mtime_ns
    assert single.path.stat().st_size == found.st_size
    with pytest.raises(SourceChanged) as caught:
        single.replace()
    assert caught.value.exit_code == 1
    assert (single.shown, single.names) == (OLD[:-2] + b"9\n", {"f.yaml"})


def test_the_memory_folder_is_what_the_rounds_use() -> None:
    assert MIGRATIONS
    assert memory_folder() is None or Path(str(memory_folder())).is_dir()
