"""`dpone journal` where the target is gone, and where an earlier answer or floor stands."""

from __future__ import annotations

from typing import Any

from tests.loading.project import ITEM_ROWS, ITEMS, TARGETS, Project

FILES = {"duckdb": "warehouse.duckdb", "sqlite": "warehouse.sqlite"}
WHO = ("--operator", "ann", "--why", "the target is gone")
ORDERED = {
    "strategy": "{replace_partition: [grp]}",
    "partition": "{column: grp}",
    "ordered": "true",
}


def lose(project: Project, kind: str) -> None:
    """Delete the target file; of a server the fence."""
    if kind in FILES:
        (project.root / FILES[kind]).unlink()
    else:
        project.postgres("DROP TABLE dpone_fence, dpone_fence_meta")
        project.postgres("DROP TABLE IF EXISTS items")


def present(project: Project, kind: str) -> bool:
    return kind not in FILES or (project.root / FILES[kind]).exists()


def rows(project: Project) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = project.call("journal", "list", "--format", "json").report[
        "operations"
    ]
    return listed


def test_a_failed_load_outlives_the_loss_of_its_target(project: Project, kind: str) -> None:
    """The input is mended, the target is deleted: adopting brings both to an end."""
    project.route(target=TARGETS[kind])
    project.write("items.csv", ITEMS + "5,b,2024-03-09,oops\n")
    assert project.run().code == 1
    (failed,) = rows(project)
    assert failed["state"] == "FAILED_PRE_COMMIT"
    lose(project, kind)
    project.write("items.csv", ITEMS)
    planned = project.call("run", "route.yaml", "--plan")
    assert "incarnation_changed" in planned.out
    for _ in range(2):
        said = project.run()
        assert (said.code, said.codes) == (4, ["DPONE_TARGET_COMMIT_INCARNATION"])
        assert "dpone journal adopt" in said.err
        assert rows(project) == [failed]
    assert project.call("journal", "check").code == 4
    explained = project.call("journal", "explain", failed["operation_id"])
    assert "dpone journal adopt --target" in explained.out
    assert present(project, kind) is (kind not in FILES)
    adopted = project.call("journal", "adopt", "--target", "--apply", *WHO)
    assert (adopted.code, "1 adopted" in adopted.out) == (0, True)
    assert project.run().hows == ["committed"]
    assert project.run().hows == ["replayed"]
    assert project.items(kind) == ITEM_ROWS
    assert project.call("journal", "check").code == 0


def test_pruning_a_target_that_is_gone_neither_makes_nor_loses_anything(
    project: Project, kind: str
) -> None:
    project.route(target=TARGETS[kind], **ORDERED)
    project.write("items.csv", "id,grp,day,amount\n1,1,2024-01-05,1.5\n2,2,2024-01-05,1.5\n")
    assert project.run().code == 0
    lose(project, kind)
    before = rows(project)
    for _ in range(2):
        pruned = project.call("journal", "prune", "--older-than", "0", "--apply")
        assert (pruned.code, "0 pruned" in pruned.out) == (0, True)
        floor = ("--route", "items", "--floor", "2")
        raised = project.call("journal", "prune", "--older-than", "0", *floor, "--apply")
        assert (raised.code, "DPONE_TARGET_INVALID" in raised.err) == (4, True)
        assert rows(project) == before
    assert present(project, kind) is (kind not in FILES)


def test_a_floor_rises_over_a_loss_that_was_accepted(project: Project, kind: str) -> None:
    project.route(target=TARGETS[kind], **ORDERED)
    project.write("items.csv", "id,grp,day,amount\n1,1,2024-01-05,1.5\n")
    assert project.run().code == 0
    project.sql(kind, "DELETE FROM dpone_fence")
    assert project.run().code == 4
    floor = ("journal", "prune", "--older-than", "0", "--route", "items", "--floor", "2", "--apply")
    blocked = project.call(*floor)
    assert (blocked.code, "marked as diverged (absent)" in blocked.err) == (1, True)
    (row,) = rows(project)
    answer = ("--as", "accept-loss", "--expect-version", str(row["version"]))
    assert project.call("journal", "resolve", row["operation_id"], *answer, *WHO).code == 0
    assert project.call(*floor).code == 0
    assert project.run().codes == ["DPONE_TARGET_COMMIT_EXPIRED"]


def test_a_replay_says_when_it_was_loaded(project: Project) -> None:
    project.route(target=TARGETS["sqlite"])
    assert "loaded by" not in project.run().out
    (row,) = rows(project)
    (replayed,) = project.run().report["operations"]
    assert replayed["notes"] == [f"loaded by {row['updated_at']}"]
    assert f"loaded by {row['updated_at']}" in project.call("run", "route.yaml").out


def test_a_guarded_replay_says_when_it_was_loaded(project: Project) -> None:
    project.route(target="{csvdir: out, table: items}")
    assert project.run().code == 0
    (replayed,) = project.run().report["operations"]
    assert [note for note in replayed["notes"] if note.startswith("loaded by 20")] != []
