"""Operations: what a route falls into, who they are, and what a retry does with them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dpone.adapters.sources.filesource import _position
from dpone.contracts.effects import Effect
from tests.loading.project import ITEM_ROWS, ITEMS, TARGETS, Project, ids

HEADER = ITEMS.splitlines()[0]


def explained(project: Project) -> list[dict[str, Any]]:
    """The operations that `dpone route explain` lists."""
    said = project.call("route", "explain", "route.yaml", "--format", "json")
    assert said.code == 0, said.err
    operations: list[dict[str, Any]] = said.report["operations"]
    return operations


def test_each_value_of_a_column_is_one_operation(project: Project, kind: str) -> None:
    project.route(target=TARGETS[kind], partition="{column: grp}")
    said = project.run()
    assert [item["partition"] for item in said.report["operations"]] == [
        "grp=a",
        "grp=b",
        "grp is missing",
    ]
    assert project.items(kind) == ITEM_ROWS
    assert [item["identity"]["partition"] for item in explained(project)] == [
        {"column": "grp", "value": "a"},
        {"column": "grp", "value": "b"},
        {"column": "grp", "value": None},
    ]


def test_each_interval_is_one_operation(project: Project, kind: str) -> None:
    project.write("items.csv", ITEMS + "5,c,,1\n")
    project.route(target=TARGETS[kind], partition="{interval: {column: day, every: month}}")
    assert project.run().hows == ["committed"] * 4
    assert len(project.items(kind)) == 5
    assert [item["identity"]["partition"] for item in explained(project)] == [
        {"interval": "month", "column": "day", "from": "2024-01-01", "to": "2024-02-01"},
        {"interval": "month", "column": "day", "from": "2024-02-01", "to": "2024-03-01"},
        {"interval": "month", "column": "day", "from": "2024-03-01", "to": "2024-04-01"},
        {"interval": "month", "column": "day", "from": None, "to": None},
    ]


def test_replacing_an_interval_removes_the_rows_of_the_whole_interval(
    project: Project, kind: str
) -> None:
    fields = {
        "target": TARGETS[kind],
        "partition": "{interval: {column: day, every: month}}",
        "strategy": "{replace_partition: [day]}",
    }
    project.route(**fields)
    assert project.run().code == 0
    project.write("items.csv", f"{HEADER}\n9,z,2024-01-31,9\n")
    project.route(**fields)
    assert project.run("--revision", "2").code == 0
    assert ids(project.items(kind)) == [3, 4, 9]


def test_each_file_is_one_operation_and_a_new_file_is_one_more(project: Project, kind: str) -> None:
    lines = ITEMS.splitlines(keepends=True)
    project.write("data/b.csv", "".join([lines[0], *lines[3:]]))
    project.write("data/a.csv", "".join(lines[:3]))
    project.route(target=TARGETS[kind], source='{csv: "data/*.csv"}', partition="file")
    first = project.run()
    assert [item["partition"] for item in first.report["operations"]] == [
        "data/a.csv",
        "data/b.csv",
    ]
    project.write("data/c.csv", f"{HEADER}\n5,e,2024-01-01,1\n")
    assert project.run().hows == ["replayed", "replayed", "committed"]
    assert ids(project.items(kind)) == [1, 2, 3, 4, 5]


def test_a_file_that_arrives_changes_only_the_partitions_in_it(project: Project) -> None:
    project.write("data/a.csv", ITEMS)
    project.route(source='{csv: "data/*.csv"}', partition="{column: grp}")
    assert project.run().hows == ["committed"] * 3
    project.write("data/b.csv", f"{HEADER}\n5,b,2024-01-01,1\n6,new,2024-01-01,1\n")
    said = project.run()
    assert dict(zip(("a", "b", "new", "missing"), said.hows, strict=True)) == {
        "a": "replayed",
        "b": "failed",
        "new": "committed",
        "missing": "replayed",
    }
    assert (said.code, said.codes) == (1, ["DPONE_TARGET_COMMIT_INTENT_MISMATCH"])


def test_files_with_columns_in_another_order_are_one_source(project: Project, kind: str) -> None:
    project.write("data/a.csv", f"{HEADER}\n1,a,2024-01-05,1.5\n2,a,2024-01-20,\n")
    project.write("data/b.csv", "amount,day,id,grp\n3.0,2024-02-01,3,b\n4.25,2024-03-09,4,\n")
    project.route(target=TARGETS[kind], source='{csv: "data/*.csv"}')
    assert project.run().hows == ["committed"]
    assert project.items(kind) == ITEM_ROWS


def test_a_file_name_is_never_a_pattern(project: Project) -> None:
    project.write("a[1].csv", ITEMS)
    project.write("a1.csv", f"{HEADER}\n9,z,2024-01-01,1\n")
    project.route(source='{csv: "a[1].csv"}')
    assert project.run().hows == ["committed"]
    assert ids(project.items("duckdb")) == [1, 2, 3, 4]


def test_only_the_named_partitions_are_loaded(project: Project, kind: str) -> None:
    project.route(target=TARGETS[kind], partition="{column: grp}")
    said = project.run("--partition", "grp=b", "--partition", "grp is missing")
    assert said.hows == ["committed", "committed"]
    assert ids(project.items(kind)) == [3, 4]
    unknown = project.run("--partition", "grp=zz")
    assert (unknown.code, unknown.codes) == (2, ["DPONE_PARTITION_UNKNOWN"])


def test_changed_bytes_under_the_same_identity_are_refused(project: Project, kind: str) -> None:
    project.route(target=TARGETS[kind])
    assert project.run().code == 0
    project.write("items.csv", ITEMS + "5,e,2024-01-01,1\n")
    said = project.run()
    assert (said.code, said.codes) == (1, ["DPONE_TARGET_COMMIT_INTENT_MISMATCH"])
    assert "--revision 2" in said.report["operations"][0]["error"]["next"]
    assert project.items(kind) == ITEM_ROWS
    assert project.run("--revision", "2", "--again").hows == ["committed"]
    assert len(project.items(kind)) == 9


def test_a_mended_input_is_loaded_after_a_failure(project: Project, kind: str) -> None:
    project.write("items.csv", ITEMS + "x,e,2024-01-01,1\n")
    project.route(target=TARGETS[kind])
    said = project.run()
    assert (said.code, said.codes) == (1, ["DPONE_SOURCE_VALUE"])
    project.write("items.csv", ITEMS)
    assert project.run().hows == ["committed"]
    assert project.items(kind) == ITEM_ROWS


def test_a_failed_partition_does_not_keep_the_others_from_loading(project: Project) -> None:
    project.write("data/a.csv", ITEMS + "x,e,2024-01-01,1\n")
    project.write("data/b.csv", ITEMS)
    project.route(source='{csv: "data/*.csv"}', partition="file")
    said = project.run()
    assert (said.code, said.hows) == (1, ["failed", "committed"])


class Meddler:
    """A probe that changes the source when the load begins."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def __call__(self, effect: Effect, /) -> Any:
        if effect is Effect.FENCING_CHANGE:
            self.project.write("items.csv", ITEMS.replace("3.0", "9.0"))
        return pytest.MonkeyPatch.context()


def test_a_file_that_changes_during_the_load_is_not_loaded(project: Project, kind: str) -> None:
    project.route(target=TARGETS[kind])
    said = project.run(probe=Meddler(project))
    assert (said.code, said.codes) == (3, ["DPONE_SOURCE_CHANGED"])
    assert project.run().hows == ["committed"]
    assert project.items(kind)[2] == (3, "b", "2024-02-01", 9.0)


def test_the_identity_depends_on_nothing_of_this_machine(project: Project) -> None:
    project.route(partition="{column: grp}")
    first = explained(project)
    moved = Project(project.root / "elsewhere", project._capture)
    for name in ("items.csv", "route.yaml", "dpone.toml"):
        moved.write(name, (project.root / name).read_bytes())
    assert explained(moved) == first
    project.write("dpone.toml", 'environment = "production"\n')
    other = {item["operation_id"] for item in explained(project)}
    assert other.isdisjoint(item["operation_id"] for item in first)


def test_typed_values_name_the_partitions(project: Project) -> None:
    project.write("items.csv", "id,grp\n1,01\n2,1\n3,2\n")
    project.route(columns="{id: integer, grp: integer}", partition="{column: grp}")
    assert [item["partition"] for item in explained(project)] == ["grp=1", "grp=2"]
    assert project.run().code == 0
    assert ids(project.duckdb("SELECT id FROM items ORDER BY 1")) == [1, 2, 3]


def test_an_ordered_route_gives_its_operations_a_place(project: Project) -> None:
    from dpone.loading.operations import operations_of
    from dpone.routes import read_route, route_source

    path = project.route(partition="{interval: {column: day, every: day}}", ordered="true")
    route = read_route(path, {})
    source = route_source(route)
    planned = operations_of(route.manifest, source, environment="test", name="route.yaml")
    source.close()
    positions = [item.operation.position for item in planned]
    assert positions == ["2024-01-05", "2024-01-20", "2024-02-01", "2024-03-09"]
    assert all(item.operation.floor is not None for item in planned)


def test_each_operation_leaves_a_checkpoint(project: Project, kind: str) -> None:
    project.route(target=TARGETS[kind], partition="{column: grp}")
    assert project.run().code == 0
    rows = project.sqlite("SELECT body FROM dpone_checkpoint", ".dpone/journal.db")
    bodies = [json.loads(row[0]) for row in rows]
    assert sorted(body["transfer_partition_id"] for body in bodies) == sorted(
        item["operation_id"] for item in explained(project)
    )
    assert {body["status"] for body in bodies} == {"committed"}
    assert sorted(body["rows_exported"] for body in bodies) == [1, 1, 2]


def test_values_keep_their_spelling_in_a_table_of_texts(project: Project, kind: str) -> None:
    project.sql(kind, "CREATE TABLE items (id BIGINT, grp VARCHAR)")
    project.write("items.csv", "id,grp\n1,01\n2,1\n3,2\n")
    fields = {
        "columns": "{id: integer, grp: integer}",
        "partition": "{column: grp}",
        "strategy": "{replace_partition: [grp]}",
    }
    project.route(target=TARGETS[kind], **fields)
    for revision in ("1", "2"):
        said = project.run("--revision", revision)
        assert [item["partition"] for item in said.report["operations"]] == ["grp=1", "grp=2"]
        assert project.sql(kind, "SELECT * FROM items ORDER BY id") == [
            (1, "01"), (2, "1"), (3, "2"),
        ]  # fmt: skip


def test_dates_stay_dates_when_a_route_is_cut_by_interval(project: Project, kind: str) -> None:
    project.route(target=TARGETS[kind], partition="{interval: {column: day, every: month}}")
    assert project.run().code == 0
    assert project.items(kind) == ITEM_ROWS


def test_instants_with_an_offset_are_cut_in_utc(project: Project, kind: str) -> None:
    project.write("items.csv", "id,at\n1,2024-01-31T23:30:00-02:00\n2,2024-01-31T23:30:00Z\n")
    project.route(
        target=TARGETS[kind], columns="{id: integer, at: timestamptz}",
        partition="{interval: {column: at, every: month}}", strategy="{replace_partition: [at]}",
    )  # fmt: skip
    assert [item["partition"] for item in explained(project)] == ["at=2024-01-01", "at=2024-02-01"]
    for revision in ("1", "2"):
        assert project.run("--revision", revision).hows == ["committed", "committed"]
        assert ids(project.sql(kind, "SELECT id FROM items ORDER BY id")) == [1, 2]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_nothing_of_a_path_becomes_data(project: Project, suffix: str) -> None:
    folder = project.root / "month=7"
    folder.mkdir()
    project.duckdb(
        f"COPY (SELECT 1 AS id, 'x' AS filename) TO '{folder / 'a'}.{suffix}'", "tmp.duckdb"
    )
    project.route(
        source=f'{{{suffix}: "month=*/*.{suffix}"}}', columns="", partition="{column: filename}"
    )
    said = project.run()
    assert said.hows == ["committed"], said.err
    assert project.duckdb("SELECT * FROM items") == [(1, "x")]


def test_numbers_sort_as_numbers_in_an_ordered_route() -> None:
    texts = [_position(str(number), "bigint") for number in (0, 7, 10, 100, 10**18)]
    assert texts == sorted(texts)
    days = [_position(day, "date") for day in ("2023-12-31", "2024-01-02", "2024-01-10")]
    assert days == sorted(days)


def test_what_does_not_sort_as_text_has_no_place() -> None:
    assert {_position("-3", "bigint"), _position("1.5", "double"), _position(None, "date")} == {""}
