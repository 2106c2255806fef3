"""A reload of an append route adds rows only when somebody asked for exactly that."""

from __future__ import annotations

import shlex
import shutil

import pytest

from tests.loading.project import ITEMS, TARGETS, Project, ids

NEEDS = "DPONE_RELOAD_NEEDS_PARTITION"
ADDS = "DPONE_RELOAD_ADDS_ROWS"
WHO = ("--operator", "me", "--why", "restored from the night")


def cut(project: Project, kind: str, **fields: str) -> None:
    """A route of three partitions, one of them of the missing value."""
    project.route(**{"target": TARGETS[kind], "partition": "{column: grp}", **fields})


def test_a_reload_of_a_route_in_parts_names_its_parts(project: Project, kind: str) -> None:
    cut(project, kind)
    assert project.run().code == 0
    before = project.snapshot()
    for more in ((), ("--again",), ("--plan",)):
        said = project.run("--revision", "2", *more)
        assert (said.code, said.codes) == (1, [NEEDS])
        assert "--partition P --revision 2" in said.report["next"]
    assert project.snapshot() == before


def test_a_restored_target_gets_back_the_one_part_that_it_lost(project: Project, kind: str) -> None:
    cut(project, kind)
    done = project.run().report["operations"]
    # As if it came from a copy that was taken before this part was loaded.
    gone = next(item["operation_id"] for item in done if item["partition"] == "grp=b")
    project.sql(kind, f"DELETE FROM dpone_fence WHERE operation_id = '{gone}'")
    project.sql(kind, "DELETE FROM items WHERE grp = 'b'")
    assert project.run().code == 4
    rows = project.call("journal", "list", "--format", "json").report["operations"]
    lost = next(row for row in rows if row["diverged"])
    version = str(lost["version"])
    answer = ("--as", "reload", "--expect-version", version, *WHO)
    assert project.call("journal", "resolve", lost["operation_id"], *answer).code == 0
    # Without naming the part nothing is loaded; and a part that is there takes one word more.
    assert project.run("--revision", "2").codes == [NEEDS]
    assert project.run("--partition", "grp=a", "--revision", "2").codes == [ADDS]
    said = project.run("--partition", "grp=b", "--revision", "2")
    assert (said.code, said.hows) == (0, ["committed"])
    assert ids(project.items(kind)) == [1, 2, 3, 4]


def test_a_loaded_part_is_added_again_only_with_again(project: Project, kind: str) -> None:
    cut(project, kind)
    assert project.run().code == 0
    named = ("--partition", "grp=a", "--revision", "2")
    plan = project.run(*named, "--plan").report["operations"][0]
    assert (plan["would"], "--again" in plan["why"]) == ("refuse", True)
    said = project.run(*named)
    assert (said.code, said.codes) == (1, [ADDS])
    error = said.report["operations"][0]["error"]
    assert "would add every row again" in error["happened"]
    assert ids(project.items(kind)) == [1, 2, 3, 4]
    plan = project.run(*named, "--again", "--plan").report["operations"][0]
    assert (plan["would"], "adds every row" in plan["why"]) == ("load", True)
    # The command that the error names is the one that does it.
    command = error["next"].rpartition("dpone ")[2]
    again = project.call(*shlex.split(command), "--format", "json")
    assert again.hows == ["committed"]
    assert again.report["operations"][0]["notes"] == ["added to the rows of revision 1, which stay"]
    assert sorted(ids(project.items(kind))) == [1, 1, 2, 2, 3, 4]
    # A retry of what was approved needs no word.
    assert project.run(*named).hows == ["replayed"]
    assert project.run("--partition", "grp=a", "--revision", "3").codes == [ADDS]


def test_a_revision_in_the_manifest_is_no_approval(project: Project, kind: str) -> None:
    cut(project, kind)
    assert project.run("--partition", "grp=a").code == 0
    cut(project, kind, revision="2")
    said = project.run()
    assert (said.code, said.hows) == (1, ["failed", "committed", "committed"])
    assert said.codes == [ADDS]
    assert project.run("--again").codes == [NEEDS]
    assert ids(project.items(kind)) == [1, 2, 3, 4]


def test_a_route_without_parts_needs_the_word_too(project: Project, kind: str) -> None:
    project.route(target=TARGETS[kind])
    assert project.run().code == 0
    assert project.run("--revision", "2").codes == [ADDS]
    project.route(target=TARGETS[kind], revision="2")
    assert project.run().codes == [ADDS]
    assert ids(project.items(kind)) == [1, 2, 3, 4]
    assert project.run("--again").hows == ["committed"]
    assert project.run().hows == ["replayed"]
    assert len(project.items(kind)) == 8


def test_the_fence_of_an_earlier_revision_is_asked_when_the_journal_is_lost(
    project: Project, kind: str
) -> None:
    project.route(target=TARGETS[kind])
    assert project.run().code == 0
    shutil.rmtree(project.root / ".dpone")
    assert project.run("--revision", "2").codes == [ADDS]
    assert project.run("--revision", "20240501").codes == [ADDS]
    assert ids(project.items(kind)) == [1, 2, 3, 4]


def test_an_earlier_revision_that_loaded_nothing_asks_for_no_word(
    project: Project, kind: str
) -> None:
    project.route(target=TARGETS[kind])
    project.write("items.csv", ITEMS + "x,b,2024-04-01,9.0\n")
    assert project.run().code == 1
    project.write("items.csv", ITEMS)
    assert project.run("--revision", "2").hows == ["committed"]
    assert ids(project.items(kind)) == [1, 2, 3, 4]


@pytest.mark.parametrize("strategy", ["full_refresh", "{merge: [id]}", "{replace_partition: [id]}"])
def test_what_replaces_rows_is_reloaded_without_a_word(
    project: Project, kind: str, strategy: str
) -> None:
    project.route(target=TARGETS[kind], strategy=strategy)
    assert project.run().code == 0
    assert project.run("--revision", "2").hows == ["committed"]
    assert ids(project.items(kind)) == [1, 2, 3, 4]


def test_a_folder_of_csv_files_is_protected_by_its_checkpoints(project: Project) -> None:
    project.route(target="{csvdir: out, table: t}")
    assert project.run().code == 0
    before = (project.root / "out/t.csv").read_bytes()
    plan = project.run("--revision", "2", "--plan").report["operations"][0]
    assert plan["would"] == "refuse"
    assert project.run("--revision", "2").codes == [ADDS]
    assert (project.root / "out/t.csv").read_bytes() == before
    assert project.run("--revision", "2", "--again").hows == ["committed"]
    assert project.run("--revision", "2").hows == ["replayed"]
    assert len((project.root / "out/t.csv").read_bytes().splitlines()) == 9


def test_a_changed_file_for_a_folder_of_csv_files_is_refused_and_not_skipped(
    project: Project,
) -> None:
    project.route(target="{csvdir: out, table: t}")
    assert project.run().code == 0
    before = (project.root / "out/t.csv").read_bytes()
    project.write("items.csv", ITEMS + "5,b,2024-04-01,9.0\n")
    said = project.run()
    assert (said.code, said.codes) == (1, ["DPONE_TARGET_COMMIT_INTENT_MISMATCH"])
    assert said.report["operations"][0]["error"]["fields"]["next_revision"] == "2"
    assert (project.root / "out/t.csv").read_bytes() == before
