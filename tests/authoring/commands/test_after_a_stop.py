"""After a stopped command: recovery and the next command say what is in force and what stays."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.authoring.confined.studio import CATALOG, At, codes
from tests.cli.ordinary import ordinary, ordinary_folder
from tests.loading.project import Project

ITEMS = "workloads/sales/items.yaml"
NEW = ("init", "workload", "sales/items")
RECOVER = ("authoring", "recover", CATALOG)
KEPT = ".dpone-recovery-" + "a" * 32
SIDE = ".dpone-side-" + "b" * 32
WAITS = "DPONE_AUTHORING_EARLIER_CHANGE_WAITS"


def stopped(project: Project, point: str, *command: str, number: int = 1) -> None:
    """A command that ends at a point and clears nothing up."""

    def end() -> None:
        raise KeyboardInterrupt

    said = project.call(*command, "--apply", probe=At(point, end, number))
    assert said.code == 130


def call(project: Project, *arguments: str) -> Any:
    return json.loads(project.call(*arguments, "--format", "json").out)


def append(project: Project, name: str, text: str = "# mine\n") -> None:
    with (project.root / name).open("a", encoding="utf-8") as file:
        file.write(text)


# -- recovery says what was decided


def test_a_publication_in_force_is_committed(authored: Project) -> None:
    stopped(authored, "authoring.settle:before", *NEW)
    report = call(authored, *RECOVER, "--apply")
    assert (report["status"], report["counters"]["rolled_back"]) == ("committed", 0)
    assert "items:" in (authored.root / CATALOG).read_text()


@pytest.mark.parametrize("point", ["authoring.receipt:after", "authoring.publish:after"])
def test_a_withdrawn_publication_is_rolled_back(authored: Project, point: str) -> None:
    stopped(authored, point, *NEW)
    report = call(authored, *RECOVER, "--apply")
    assert (report["status"], report["counters"]["rolled_back"]) == ("rolled_back", 1)
    assert report["stays"] == []
    assert not (authored.root / ITEMS).exists()


def test_a_root_that_somebody_changed_leaves_the_files_and_names_them(authored: Project) -> None:
    stopped(authored, "authoring.publish:after", *NEW)
    append(authored, CATALOG)
    report = call(authored, *RECOVER, "--apply")
    assert (report["status"], report["stays"]) == ("left", [ITEMS])
    assert (authored.root / ITEMS).exists()


@pytest.mark.parametrize("form", ["text", "json"])
def test_files_that_stay_are_named_also_when_the_root_was_at_work(
    authored: Project, form: str
) -> None:
    stopped(authored, "authoring.exchange:before", *NEW)
    append(authored, CATALOG)
    said = authored.call(*RECOVER, "--apply", "--format", form)
    assert said.code == 0
    assert ITEMS in said.out
    assert form == "text" or said.report["status"] == "rolled_back"


# -- what an earlier change left


@pytest.mark.parametrize("more", [(), ("--apply",)])
def test_recover_lists_what_lies_there_and_changes_nothing(
    authored: Project, more: tuple[str, ...]
) -> None:
    folder = CATALOG.rpartition("/")[0]
    names = [f"{folder}/{KEPT}", f"{folder}/{SIDE}"]
    for name in names:
        authored.write(name, "bytes of somebody")
    before = authored.snapshot()
    report = call(authored, *RECOVER, *more)
    assert (report["status"], report["leftovers"], report["kept"]) == ("none", names, [])
    said = authored.call(*RECOVER, *more)
    assert all(name in said.out for name in names)
    assert authored.snapshot() == before


@pytest.mark.parametrize("form", ["text", "json"])
def test_bytes_that_an_earlier_run_left_are_named(authored: Project, form: str) -> None:
    """An editor has the earlier file open, so recovery keeps it; nothing failed."""
    folder = authored.root / CATALOG.rpartition("/")[0]
    with (authored.root / CATALOG).open("r+b"):
        stopped(authored, "authoring.commit:before", *NEW)
        said = authored.call("init", "dag", "sales/daily", "--apply", "--format", form)
    assert said.code == 0
    (name,) = (path.name for path in folder.glob(".dpone-recovery-*"))
    kept = f"{CATALOG.rpartition('/')[0]}/{name}"
    if form == "text":
        assert said.out.count(f"earlier bytes kept: {kept}\n") == 1
        assert "not undone" not in said.out
    else:
        unit = said.report["unit_of_work"]
        assert (unit["recovery_artifacts"], unit["issues"]) == ([kept], [])
    # It is told again to whoever asks later.
    assert call(authored, *RECOVER)["leftovers"] == [kept]


@pytest.mark.parametrize("form", ["text", "json"])
def test_files_of_an_earlier_change_that_stay_are_named(authored: Project, form: str) -> None:
    stopped(authored, "authoring.publish:after", *NEW)
    append(authored, ITEMS)
    said = authored.call("init", "dag", "sales/daily", "--apply", "--format", form)
    assert said.code == 0
    assert (authored.root / ITEMS).exists()
    if form == "text":
        assert f"stays from an interrupted change: {ITEMS}\n" in said.out
        assert "not undone" not in said.out
    else:
        unit = said.report["unit_of_work"]
        assert (unit["stays"], unit["issues"]) == ([ITEMS], [])


def test_what_concluding_an_earlier_change_kept_is_in_the_report(authored: Project) -> None:
    """Other options: the earlier change is concluded before the plan, and what it kept is said."""
    stopped(authored, "authoring.publish:after", *NEW)
    with (authored.root / ITEMS).open("r+b"):
        said = authored.call(*NEW, "--strategy", "append", "--apply", "--format", "json")
    names = [path.name for path in (authored.root / ITEMS).parent.glob(".dpone-recovery-*")]
    told = said.report.get("unit_of_work", {}).get("recovery_artifacts", [])
    assert said.code == 0, said.err
    assert names
    assert [name.rpartition("/")[2] for name in told] == names


# -- another command in the way of a dead one's files


def test_other_options_after_a_stop_are_planned_anew(authored: Project) -> None:
    stopped(authored, "authoring.exchange:before", *NEW)
    before = authored.snapshot()
    said = authored.call(*NEW, "--strategy", "append", "--format", "json")
    assert (said.code, codes(said)) == (1, [WAITS])
    assert f"dpone authoring recover {CATALOG} --apply" in said.report["next"]
    assert authored.snapshot() == before
    done = authored.call(*NEW, "--strategy", "append", "--apply", "--format", "json")
    assert (done.code, done.report["status"]) == (0, "applied"), done.err
    assert "strategy: append" in (authored.root / ITEMS).read_text()


def test_other_options_keep_what_the_root_needs_a_look_at(authored: Project) -> None:
    """The root's own journal is torn, or its earlier bytes are still being written to."""
    stopped(authored, "authoring.exchange:before", *NEW)
    folder, _, leaf = CATALOG.rpartition("/")
    (authored.root / folder / f".{leaf}.dpone-transaction.json").write_bytes(b"{")
    said = authored.call(*NEW, "--strategy", "append", "--apply", "--format", "json")
    assert (said.code, codes(said)) == (4, ["DPONE_AUTHORING_RECOVERY_REQUIRED"])
    kept = [path.name for path in (authored.root / folder).glob(".dpone-recovery-*")]
    assert kept
    assert all(name in said.report["known"] for name in kept)


def test_the_advice_of_a_plan_helps(authored: Project) -> None:
    stopped(authored, "authoring.exchange:before", *NEW)
    words = authored.call(*NEW, "--strategy", "append", "--format", "json").report["next"]
    arguments = words.partition(": dpone ")[2].split()
    assert authored.call(*arguments).code == 0
    assert authored.call(*NEW, "--strategy", "append").code == 0


def test_a_domain_of_another_team_after_a_stop(authored: Project) -> None:
    command = ("init", "domain", "shop")
    stopped(authored, "authoring.publish:after", *command)
    other = (*command, "--owner-team", "others")
    assert codes(authored.call(*other, "--format", "json")) == [WAITS]
    assert call(authored, *other, "--apply")["status"] == "applied"
    assert "others" in (authored.root / "workloads/shop/ownership.yaml").read_text()


def test_another_form_after_a_stopped_migration(authored: Project) -> None:
    command = ("authoring", "migrate", "workloads/sales/orders", "--to")
    stopped(authored, "authoring.exchange:before", *command, "flow")
    assert codes(authored.call(*command, "folder", "--format", "json")) == [WAITS]
    assert call(authored, *command, "folder", "--apply")["status"] == "applied"


def test_a_file_of_somebody_else_is_still_a_conflict(authored: Project) -> None:
    authored.write(ITEMS, "route: x\n")
    stopped(authored, "authoring.publish:after", "init", "workload", "sales/others")
    before = authored.snapshot()
    said = authored.call(*NEW, "--apply", "--format", "json")
    assert codes(said) == ["DPONE_WORKLOAD_INIT_SCAFFOLD_CONFLICT"]
    assert authored.snapshot() == before


# -- which file is meant


def test_a_name_that_nothing_bears_is_refused(authored: Project) -> None:
    folder = CATALOG.rpartition("/")[0]
    authored.write(f"{folder}/{KEPT}", "bytes of somebody")
    for more in ((), ("--apply",), ("--keep", "--apply")):
        for name in ("sales.yml", f"{folder}/sales.yml", "absent/x.yaml"):
            said = authored.call("authoring", "recover", name, *more, "--format", "json")
            assert (said.code, codes(said)) == (2, ["DPONE_AUTHORING_NOTHING_NAMED"])
    said = authored.call("authoring", "recover", f"{folder}/sales.yml", "--format", "json")
    assert KEPT in said.report["known"]


def test_a_file_that_is_gone_is_recovered_by_its_name(authored: Project) -> None:
    stopped(authored, "authoring.publish:after", *NEW)
    (authored.root / CATALOG).unlink()
    assert call(authored, *RECOVER)["status"] == "pending"
    assert call(authored, *RECOVER, "--apply")["status"] == "left"


@pytest.mark.parametrize(
    ("where", "given", "root"),
    [
        ("workloads/sales", "../../dpone.toml", None),
        ("workloads/sales", "dpone.toml", None),
        ("workloads/sales", "./../sales/../../dpone.toml", None),
        ("..", "dpone.toml", "project"),
        ("..", "project/dpone.toml", "project"),
        ("workloads", "dpone.toml", ".."),
        ("..", "{link}/dpone.toml", "project"),
        ("workloads", "{link}/dpone.toml", None),
        ("workloads", "{root}/dpone.toml", None),
        ("workloads", "{root}/dpone.toml", "{link}"),
    ],
)
def test_a_path_is_found_from_the_working_folder_or_the_project(
    authored: Project, where: str, given: str, root: str | None
) -> None:
    link = authored.root.parent / "link"
    link.symlink_to(authored.root)
    places = {"link": link, "root": authored.root}
    start = Path.cwd()
    below = Project(authored.root / where, authored._capture)
    options = ("--root", root.format(**places)) if root else ()
    said = below.call("authoring", "recover", given.format(**places), *options, "--format", "json")
    assert (said.code, said.report.get("path")) == (0, "dpone.toml"), said.err
    assert Path.cwd() == start


def test_a_path_that_leaves_the_project_is_refused(authored: Project) -> None:
    (authored.root.parent / "x.yaml").write_text("a: 1\n")
    for name in ("../x.yaml", "workloads/../../x.yaml", os.fspath(authored.root.parent / "x.yaml")):
        said = authored.call("authoring", "recover", name, "--format", "json")
        assert (said.code, codes(said)) == (4, ["DPONE_AUTHORING_PATH_INVALID"])


# -- what is known follows the outcome


def test_known_names_what_was_changed_and_stays(authored: Project) -> None:
    folder = authored.root / "workloads/sales"

    def swap() -> None:
        folder.rename(folder.with_name("moved"))
        folder.symlink_to("moved")

    said = authored.call(
        *NEW, "--apply", "--format", "json", probe=At("authoring.publish:after", swap)
    )
    error = said.report["errors"][0]
    assert error["code"] == "DPONE_AUTHORING_PATH_UNSAFE"
    assert (folder.with_name("moved") / "items.yaml").exists()
    assert ITEMS in error["known"]
    assert "No file was changed" not in said.out + said.err


def test_known_says_that_all_is_undone(authored: Project) -> None:
    def save() -> None:
        (authored.root / CATALOG).unlink()
        (authored.root / CATALOG).mkdir()

    said = authored.call(
        *NEW, "--apply", "--format", "json", probe=At("authoring.publish:after", save)
    )
    assert not (authored.root / ITEMS).exists()
    assert "No file was changed" not in said.out + said.err


# -- folders that nobody may look into


LOOKING: tuple[tuple[str, ...], ...] = (
    NEW,
    ("authoring", "recover", "workloads/sales/ownership.yaml"),
    ("authoring", "migrate", "workloads/sales/orders", "--to", "flow"),
)
ELSEWHERE: tuple[tuple[str, ...], ...] = (
    ("run", "closed/x.yaml"),
    ("route", "validate", "closed/x.yaml"),
    ("airflow", "cache-retention-plan", "--cache-root", "closed/x"),
)


def test_a_closed_folder_is_told_as_one(authored: Project) -> None:
    with ordinary_folder() as folder, ordinary(folder) as user:
        for command in (("init",), ("init", "domain", "sales")):
            assert user.call(*command, "--apply").code == 0
        (folder / "closed/x").mkdir(parents=True)
        for name in ("closed", "workloads/sales"):
            (folder / name).chmod(0)
        for looking in LOOKING:
            for more in ((), ("--apply",)):
                said = user.call(*looking, *more, "--format", "json")
                assert codes(said) == ["DPONE_AUTHORING_FOLDER_UNREADABLE"], said.err
                assert "write" not in said.report["next"]
        said = user.call("init", "--root", "closed/x", "--format", "json")
        assert (said.code, codes(said)) == (2, ["DPONE_INIT_OPTION_INVALID"])
        for elsewhere in ELSEWHERE:
            said = user.call(*elsewhere, "--format", "json")
            assert (said.code, codes(said)) == (4, ["DPONE_PATH_CLOSED"]), said.err
        for name in ("closed", "workloads/sales"):
            (folder / name).chmod(0o755)
