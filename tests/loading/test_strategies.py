"""The four strategies, on every target and from every kind of source."""

from __future__ import annotations

import duckdb
import pytest

from tests.loading.project import ITEM_ROWS, ITEMS, TARGETS, Project, ids

SOURCES = ("csv", "parquet", "jsonl", "query")
HEADER = ITEMS.splitlines()[0]


def write_source(project: Project, source: str, csv: str = ITEMS) -> str:
    """Write the rows in one format; return the manifest's `source`."""
    path = project.write("items.csv", csv)
    if source == "csv":
        return "{csv: items.csv}"
    typed = (
        f"SELECT * FROM read_csv('{path}', header=true, auto_detect=false, columns={{'id': 'INT',"
        " 'grp': 'VARCHAR', 'day': 'DATE', 'amount': 'DOUBLE'})"
    )
    if source == "query":
        project.write(
            "dpone.toml",
            'environment = "test"\n[connections.shop]\nkind = "duckdb"\ndsn = "shop.duckdb"\n',
        )
        project.duckdb(f"CREATE OR REPLACE TABLE items AS {typed}", "shop.duckdb")
        return f"{{query: {{connection: shop, sql: SELECT * FROM items, watermark: '{len(csv)}'}}}}"
    format_ = "parquet" if source == "parquet" else "json"
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY ({typed}) TO '{path.with_suffix('.' + source)}' (FORMAT {format_})"
        )
    return f"{{{source}: items.{source}}}"


@pytest.mark.parametrize("source", SOURCES)
def test_append_adds_the_rows_once(project: Project, kind: str, source: str) -> None:
    project.route(source=write_source(project, source), target=TARGETS[kind])
    first = project.run()
    assert first.hows == ["committed"], first.err
    assert project.items(kind) == ITEM_ROWS
    second = project.run()
    assert (second.code, second.hows) == (0, ["replayed"])
    assert project.items(kind) == ITEM_ROWS
    result = second.report["operations"][0]["result"]
    assert result == {"rows_written": 4, "rows_deleted": 0}


@pytest.mark.parametrize("source", SOURCES)
def test_full_refresh_leaves_only_the_new_rows(project: Project, kind: str, source: str) -> None:
    given = write_source(project, source)
    project.route(source=given, target=TARGETS[kind], strategy="full_refresh")
    assert project.run().code == 0
    given = write_source(project, source, f"{HEADER}\n9,z,2025-01-01,9\n")
    project.route(source=given, target=TARGETS[kind], strategy="full_refresh")
    again = project.run("--revision", "2")
    assert again.report["operations"][0]["result"] == {"rows_written": 1, "rows_deleted": 4}
    assert ids(project.items(kind)) == [9]


@pytest.mark.parametrize("source", SOURCES)
def test_merge_replaces_rows_with_the_same_key(project: Project, kind: str, source: str) -> None:
    given = write_source(project, source)
    project.route(source=given, target=TARGETS[kind], strategy="{merge: [id]}")
    assert project.run().code == 0
    given = write_source(project, source, f"{HEADER}\n3,new,2025-01-01,9\n5,e,2025-01-02,1\n")
    project.route(source=given, target=TARGETS[kind], strategy="{merge: [id]}")
    again = project.run("--revision", "2")
    assert again.report["operations"][0]["result"] == {"rows_written": 2, "rows_deleted": 1}
    assert project.items(kind) == [
        ITEM_ROWS[0],
        ITEM_ROWS[1],
        (3, "new", "2025-01-01", 9.0),
        ITEM_ROWS[3],
        (5, "e", "2025-01-02", 1.0),
    ]


@pytest.mark.parametrize(
    ("source", "partition"),
    [
        *((source, "none") for source in SOURCES),
        ("csv", "{column: grp}"),
        ("query", "{column: grp}"),
    ],
)
def test_replace_partition_replaces_what_the_source_brings(
    project: Project, kind: str, source: str, partition: str
) -> None:
    fields = {
        "target": TARGETS[kind],
        "strategy": "{replace_partition: [grp]}",
        "partition": partition,
    }
    project.route(source=write_source(project, source), **fields)
    first = project.run()
    assert first.code == 0, first.err
    assert project.items(kind) == ITEM_ROWS
    given = write_source(project, source, f"{HEADER}\n7,a,2025-01-01,9\n8,,2025-01-02,1\n")
    project.route(source=given, **fields)
    again = project.run("--revision", "2")
    assert again.code == 0, again.err
    assert ids(project.items(kind)) == [3, 7, 8]


def test_merge_refuses_keys_that_are_twice_in_the_source(project: Project, kind: str) -> None:
    project.write("items.csv", ITEMS + "1,x,2024-01-01,1\n")
    project.route(target=TARGETS[kind], strategy="{merge: [id]}")
    said = project.run()
    assert (said.code, said.codes) == (1, ["DPONE_LOAD_DUPLICATE_KEY"])


def test_merge_refuses_keys_that_are_missing(project: Project, kind: str) -> None:
    project.route(target=TARGETS[kind], strategy="{merge: [grp]}")
    said = project.run()
    assert (said.code, said.codes) == (1, ["DPONE_LOAD_NULL_KEY"])


def test_names_may_be_anything(project: Project, kind: str) -> None:
    project.write("items.csv", '"select","a ""b""","größe, cm"\n1,x,2\n')
    target = TARGETS[kind].replace("items", "'\"my.table; --\"'")
    project.route(target=target, columns="", strategy='{merge: ["a \\"b\\""]}')
    assert project.run().hows == ["committed"]
    assert project.run("--revision", "2").report["operations"][0]["result"] == {
        "rows_written": 1,
        "rows_deleted": 1,
    }
    assert project.sql(kind, 'SELECT "select", "a ""b""", "größe, cm" FROM "my.table; --"') == [
        (1, "x", 2)
    ]


def test_an_existing_table_gives_the_types(project: Project, kind: str) -> None:
    project.sql(
        kind, "CREATE TABLE items (amount DOUBLE PRECISION, id BIGINT, day VARCHAR, grp VARCHAR)"
    )
    project.route(target=TARGETS[kind], columns="")
    assert project.run().hows == ["committed"]
    assert project.items(kind) == ITEM_ROWS


def test_a_list_of_columns_loads_only_those(project: Project, kind: str) -> None:
    project.sql(kind, "CREATE TABLE items (id BIGINT, amount DOUBLE PRECISION, note VARCHAR)")
    project.route(target=TARGETS[kind], columns="[id, amount]")
    assert project.run().hows == ["committed"]
    assert project.sql(kind, "SELECT * FROM items ORDER BY id") == [
        (1, 1.5, None), (2, None, None), (3, 3.0, None), (4, 4.25, None),
    ]  # fmt: skip


def test_types_are_found_when_nobody_declares_them(project: Project, kind: str) -> None:
    project.route(target=TARGETS[kind], columns="")
    assert project.run().hows == ["committed"]
    assert project.items(kind) == ITEM_ROWS


def test_texts_that_mean_missing_and_a_delimiter_of_ones_own(project: Project, kind: str) -> None:
    text = ITEMS.replace(",", ";").replace(";\n", ";NA\n").replace("4;;", "4;-;")
    project.write("items.csv", text)
    project.route(
        target=TARGETS[kind], source="{csv: items.csv, delimiter: ;, null: ['', NA, '-']}"
    )
    assert project.run().hows == ["committed"]
    assert project.items(kind) == ITEM_ROWS


@pytest.mark.parametrize("strategy", ["append", "full_refresh", "{replace_partition: [grp]}"])
def test_an_empty_file_is_a_load_of_no_rows(project: Project, kind: str, strategy: str) -> None:
    project.write("items.csv", HEADER + "\n")
    project.route(target=TARGETS[kind], strategy=strategy)
    said = project.run()
    assert said.hows == ["committed"]
    assert said.report["operations"][0]["result"] == {"rows_written": 0, "rows_deleted": 0}
    assert project.run().hows == ["replayed"]


def test_flags_are_flags_in_every_table(project: Project, kind: str) -> None:
    project.write("items.csv", "id,flag\n1,true\n2,false\n3,\n")
    project.route(target=TARGETS[kind], columns="{id: integer, flag: boolean}")
    assert project.run().hows == ["committed"]
    assert project.sql(kind, "SELECT * FROM items ORDER BY id") == [(1, 1), (2, 0), (3, None)]


def test_a_file_of_one_column_keeps_its_empty_lines(project: Project, kind: str) -> None:
    project.write("items.csv", "id\n1\n\n2\n")
    project.route(target=TARGETS[kind], columns="{id: integer}")
    assert project.run().hows == ["committed"]
    rows = project.sql(kind, "SELECT id FROM items ORDER BY id NULLS FIRST")
    assert rows == [(None,), (1,), (2,)]
