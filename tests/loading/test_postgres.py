"""What a PostgreSQL table may be, and what is said when rows cannot go into it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.loading.project import ITEM_ROWS, ITEMS, TARGETS, WAREHOUSE, Project, Said, ids

pytestmark = pytest.mark.usefixtures("warehouse")
TARGET = TARGETS["postgres"]
HEADER = ITEMS.splitlines()[0]
STRATEGIES = ("append", "full_refresh", "{merge: [id]}", "{replace_partition: [grp]}")
TABLE = "CREATE TABLE items (id integer, grp text, day date, amount double precision)"


def loaded(project: Project, revision: int = 1, /, **fields: str) -> Said:
    """Load `items.csv` into the table as it is."""
    project.route(target=TARGET, **{"columns": "", **fields})
    return project.run("--revision", str(revision), "--again")


def refused(project: Project, **fields: str) -> dict[str, Any]:
    """The error of a load that must fail with exit code 1."""
    said = loaded(project, **fields)
    assert said.code == 1, said.out
    error: dict[str, Any] = said.report["operations"][0]["error"]
    return error


# -- kinds of tables -------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_partitioned_table_is_a_table(project: Project, strategy: str) -> None:
    project.postgres(f"{TABLE} PARTITION BY LIST (grp)")
    project.postgres("CREATE TABLE items_a PARTITION OF items FOR VALUES IN ('a')")
    project.postgres("CREATE TABLE items_rest PARTITION OF items DEFAULT")
    columns = "[id, grp, day, amount]"
    for revision in (1, 2):
        assert loaded(project, revision, strategy=strategy, columns=columns).hows == ["committed"]
    if strategy == "append":
        assert len(project.items("postgres")) == 8
    else:
        assert project.items("postgres") == ITEM_ROWS
    assert project.postgres("SELECT count(*) > 1 FROM items_a") == [(True,)]


def test_a_row_without_a_partition_is_refused(project: Project) -> None:
    project.postgres(f"{TABLE} PARTITION BY LIST (grp)")
    project.postgres("CREATE TABLE items_a PARTITION OF items FOR VALUES IN ('a')")
    error = refused(project)
    assert (error["code"], error["fields"]["constraint"]) == ("DPONE_LOAD_CONSTRAINT", "PARTITION")
    assert project.items("postgres") == []


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("CREATE VIEW items AS SELECT 1 AS id", "it is a view"),
        ("CREATE MATERIALIZED VIEW items AS SELECT 1 AS id", "it is a materialized view"),
        ("CREATE SEQUENCE items", "it is a sequence"),
        ("CREATE TYPE items AS (id integer)", "it is no table"),
    ],
)
def test_what_is_no_table_is_refused(project: Project, statement: str, reason: str) -> None:
    project.postgres(statement)
    error = refused(project)
    assert (error["code"], error["fields"]["reason"]) == ("DPONE_LOAD_TABLE_INVALID", reason)


def test_a_schema_that_does_not_exist_is_told(project: Project) -> None:
    project.route(target="{postgres: warehouse, table: nowhere.items}")
    said = project.run()
    assert (said.code, said.codes) == (1, ["DPONE_LOAD_TABLE_INVALID"])
    assert "its schema does not exist" in said.err


def test_names_of_schema_table_and_columns_may_be_anything(project: Project, schema: str) -> None:
    other = f"{schema} größe"
    project.postgres(f'CREATE SCHEMA "{other}"')
    project.write("items.csv", 'order,"a ""b""","Ö x"\n1,x,2\n3,y,4\n')
    target = f'{{postgres: warehouse, table: \'"{other}"."select; --"\'}}'
    for revision in ("1", "2"):
        project.route(target=target, columns="", strategy="{merge: [order]}")
        assert project.run("--revision", revision).hows == ["committed"]
    rows = project.postgres(f'SELECT "order", "a ""b""", "Ö x" FROM "{other}"."select; --"')
    assert sorted(rows) == [(1, "x", 2), (3, "y", 4)]


def test_the_fence_may_lie_in_a_schema_of_its_own(project: Project, schema: str) -> None:
    project.postgres(f"CREATE SCHEMA {schema}_fence")
    project.route(target=f"{{postgres: warehouse, table: items, fence_schema: {schema}_fence}}")
    assert project.run().hows == ["committed"]
    assert project.postgres(f"SELECT kind FROM {schema}_fence.dpone_fence") == [("committed",)]
    assert project.postgres("SELECT to_regclass('dpone_fence')") == [(None,)]


# -- kinds of columns ------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_generated_columns_and_identities_are_left_to_the_table(
    project: Project, strategy: str
) -> None:
    project.postgres(
        "CREATE TABLE items (row_id bigint GENERATED ALWAYS AS IDENTITY, id integer, grp text,"
        " day date, amount double precision, twice integer GENERATED ALWAYS AS (id * 2) STORED)"
    )
    assert loaded(project, strategy=strategy).hows == ["committed"]
    assert project.postgres("SELECT id, twice FROM items ORDER BY id") == [
        (number, number * 2) for number in (1, 2, 3, 4)
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_identity_that_the_source_brings_is_kept(project: Project, strategy: str) -> None:
    project.postgres(
        "CREATE TABLE items (id integer GENERATED ALWAYS AS IDENTITY, grp text, day date,"
        " amount double precision)"
    )
    assert loaded(project, strategy=strategy).hows == ["committed"]
    assert project.items("postgres") == ITEM_ROWS


def test_every_type_keeps_its_values(project: Project) -> None:
    project.postgres("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    project.postgres("CREATE DOMAIN positive AS integer CHECK (VALUE > 0)")
    project.postgres(
        "CREATE TABLE items (m mood, a integer[], n numeric(30, 10), j jsonb, u uuid, b bytea,"
        " i interval, p positive, c char(3), r int4range)"
    )
    project.write(
        "items.csv",
        "m,a,n,j,u,b,i,p,c,r\n"
        'glad,"{1,NULL,3}",12345678901234567890.0123456789,"{""k"": [1]}",'
        '00000000-0000-0000-0000-000000000001,\\x00ff,1 day,7,ab,"[1,5)"\n',
    )
    said = loaded(project)
    assert said.hows == ["committed"], said.err
    sql = "SELECT m::text, a, n::text, j, u::text, b, i::text, p, c, r::text FROM items"
    assert project.postgres(sql) == [
        ("glad", [1, None, 3], "12345678901234567890.0123456789", {"k": [1]},
         "00000000-0000-0000-0000-000000000001", b"\x00\xff", "1 day", 7, "ab ", "[1,5)"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "value", "word"),
    [
        ("integer", "x", "integer"),
        ("smallint", "99999", "smallint"),
        ("numeric(4,2)", "12345.6", "numeric(4,2)"),
        ("char(2)", "abc", "character(2)"),
        ("date", "2024-02-31", "date"),
        ("jsonb", "{", "jsonb"),
        ("integer[]", "1;2", "integer[]"),
    ],
)
def test_a_value_of_another_type_is_told_with_its_place(
    project: Project, type_: str, value: str, word: str
) -> None:
    project.postgres(f'CREATE TABLE items (id integer, "a: b" {type_})')
    project.write("items.csv", f"id,a: b\n1,\n2,{value}\n")
    error = refused(project)
    assert error["code"] == "DPONE_SOURCE_VALUE"
    assert error["fields"] == {
        "column": "a: b",
        "place": " at line 2 after the header of items.csv",
        "type": word,
    }
    assert value not in error["happened"].replace(word, "")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_enum_refuses_what_it_does_not_know(project: Project, strategy: str) -> None:
    project.postgres("CREATE TYPE grade AS ENUM ('a')")
    project.postgres(TABLE.replace("grp text", "grp grade"))
    error = refused(project, strategy=strategy)
    assert (error["code"], error["fields"]["type"]) == ("DPONE_SOURCE_VALUE", "grade")


def test_a_text_without_an_offset_means_utc(project: Project, warehouse: str) -> None:
    project.postgres("CREATE TABLE items (id integer, at timestamptz)")
    project.postgres("ALTER ROLE CURRENT_USER SET TimeZone = 'Asia/Tokyo'")
    project.write("items.csv", "id,at\n1,2024-01-31 23:30:00\n2,2024-01-31T23:30:00-02:00\n")
    try:
        assert loaded(project).hows == ["committed"]
        utc = project.postgres("SELECT (at AT TIME ZONE 'UTC')::text FROM items ORDER BY id")
    finally:
        project.postgres("ALTER ROLE CURRENT_USER RESET TimeZone")
    assert utc == [("2024-01-31 23:30:00",), ("2024-02-01 01:30:00",)]


@pytest.mark.parametrize("type_", ["date", "timestamp", "timestamptz", "text"])
def test_an_interval_is_replaced_in_utc_whatever_zone_the_session_has(
    project: Project, type_: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoned = make_conninfo(
        project.warehouse, options=f"-csearch_path={schema} -cTimeZone=Pacific/Auckland"
    )
    monkeypatch.setenv(WAREHOUSE, f"postgres:{zoned}")
    project.postgres(f"CREATE TABLE items (id integer, at {type_})")
    project.write("items.csv", "id,at\n1,2024-01-01\n2,2024-01-31\n3,2024-02-01\n")
    fields = {
        "columns": "{id: integer, at: text}",
        "partition": "{interval: {column: at, every: month}}",
        "strategy": "{replace_partition: [at]}",
    }
    assert loaded(project, **fields).hows == ["committed"] * 2
    project.write("items.csv", "id,at\n9,2024-01-15\n")
    said = loaded(project, 2, **fields)
    assert said.report["operations"][0]["result"] == {"rows_written": 1, "rows_deleted": 2}
    assert ids(project.postgres("SELECT id FROM items ORDER BY id")) == [3, 9]


# -- what a table refuses --------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("constraint", "word"),
    [
        ("ALTER TABLE items ALTER amount SET NOT NULL", "NOT NULL"),
        ("ALTER TABLE items ADD CHECK (id < 4)", "CHECK"),
        ("ALTER TABLE items ADD FOREIGN KEY (id) REFERENCES known", "FOREIGN KEY"),
        ("ALTER TABLE items ADD EXCLUDE USING btree (grp WITH =)", "EXCLUDE"),
        ("CREATE UNIQUE INDEX ON items (grp)", "UNIQUE"),
    ],
)
def test_a_constraint_refuses_the_rows(
    project: Project, strategy: str, constraint: str, word: str
) -> None:
    project.postgres(TABLE)
    project.postgres("CREATE TABLE known (id integer PRIMARY KEY)")
    project.postgres(constraint)
    error = refused(project, strategy=strategy)
    assert (error["code"], error["fields"]["constraint"]) == ("DPONE_LOAD_CONSTRAINT", word)
    assert project.items("postgres") == []


def test_a_constraint_that_fails_at_the_commit_is_a_rejection(project: Project) -> None:
    project.postgres(TABLE)
    project.postgres("ALTER TABLE items ADD UNIQUE (grp) DEFERRABLE INITIALLY DEFERRED")
    error = refused(project)
    assert error["code"] == "DPONE_TARGET_COMMIT_REJECTED"
    assert "23505" in error["happened"]
    assert project.items("postgres") == []
    project.postgres("ALTER TABLE items DROP CONSTRAINT items_grp_key")
    assert loaded(project).hows == ["committed"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_trigger_that_raises_is_a_typed_refusal(project: Project, strategy: str) -> None:
    project.postgres(TABLE)
    project.postgres(
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RAISE EXCEPTION 'the month is closed'; END$$"
    )
    project.postgres("CREATE TRIGGER no BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION no()")
    error = refused(project, strategy=strategy)
    assert (error["code"], error["fields"]["reason"]) == (
        "DPONE_LOAD_REFUSED",
        "P0001: the month is closed",
    )
    assert project.items("postgres") == []


@pytest.fixture
def clerk(project: Project, schema: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The connection is a role that owns nothing and may use the schema and the fence."""
    role = f"clerk_{schema}"
    project.postgres(TABLE)
    project.route(target=TARGET, route="first")
    assert project.run().code == 0
    project.postgres(f"CREATE ROLE {role} LOGIN")
    project.postgres(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    project.postgres(f"GRANT ALL ON dpone_fence, dpone_fence_meta TO {role}")
    dsn = make_conninfo(project.warehouse, user=role)
    monkeypatch.setenv(WAREHOUSE, f"postgres:{dsn}")
    yield role
    project.postgres(f"DROP OWNED BY {role}")
    project.postgres(f"DROP ROLE {role}")


def test_a_table_that_may_not_be_written_is_a_typed_refusal(project: Project, clerk: str) -> None:
    error = refused(project)
    assert (error["code"], error["fields"]["reason"]) == (
        "DPONE_LOAD_REFUSED",
        "42501: permission denied for table items",
    )
    project.postgres(f"GRANT SELECT, INSERT, DELETE ON items TO {clerk}")
    assert loaded(project, strategy="{merge: [id]}").hows == ["committed"]
    assert project.items("postgres") == ITEM_ROWS


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_row_level_security_is_refused_for_whom_it_hides_rows(
    project: Project, clerk: str, strategy: str
) -> None:
    project.postgres(f"GRANT SELECT, INSERT, DELETE ON items TO {clerk}")
    project.postgres("ALTER TABLE items ENABLE ROW LEVEL SECURITY")
    project.postgres("CREATE POLICY own ON items USING (grp = 'a')")
    error = refused(project, strategy=strategy)
    assert error["code"] == "DPONE_LOAD_TABLE_INVALID"
    assert project.items("postgres") == ITEM_ROWS


# -- the stream ------------------------------------------------------------------------------------


def test_a_backslash_and_a_dot_are_data(project: Project) -> None:
    project.write("items.csv", 'id,grp\n1,\\.\n2,"x\n\\.\ny"\n3,"\\."\n')
    assert loaded(project, columns="{id: integer, grp: text}").hows == ["committed"]
    rows = project.postgres("SELECT id, grp FROM items ORDER BY id")
    assert rows == [(1, "\\."), (2, "x\n\\.\ny"), (3, "\\.")]


def test_a_backslash_and_a_dot_alone_in_their_column_are_data(project: Project) -> None:
    project.write("items.csv", "grp\na\n\\.\nb\n")
    assert loaded(project, columns="{grp: text}").hows == ["committed"]
    rows = project.postgres('SELECT grp FROM items ORDER BY grp COLLATE "C"')
    assert rows == [("\\.",), ("a",), ("b",)]


def test_a_line_of_a_backslash_and_a_dot_never_ends_the_data(project: Project) -> None:
    project.write("items.csv", "id,grp\n1,a\n\\.\n2,b\n")
    project.postgres("CREATE TABLE items (id text, grp text)")
    assert refused(project)["code"] == "DPONE_SOURCE_RAGGED"
    assert project.postgres("SELECT count(*) FROM items") == [(0,)]


@pytest.mark.parametrize("source", ["jsonl", "parquet"])
def test_a_nul_inside_a_value_is_refused(project: Project, source: str) -> None:
    project.duckdb(
        f"COPY (SELECT 1 AS id, 'a' || chr(0) || 'b' AS grp) TO"
        f" '{project.root / 'items'}.{source}'", "tmp.duckdb",
    )  # fmt: skip
    fields = {"source": f"{{{source}: items.{source}}}", "columns": "{id: integer, grp: text}"}
    assert refused(project, **fields)["code"] == "DPONE_SOURCE_VALUE"


def test_bytes_that_are_not_text_are_told_with_file_and_line(project: Project) -> None:
    project.write("items.csv", ITEMS.encode() + b"7,\xe4,2024-01-01,1\n")
    project.postgres(TABLE)
    assert refused(project)["happened"] == (
        "The source file items.csv is not UTF-8 at line 5 after the header."
    )


def test_a_database_that_lacks_a_letter_refuses_it(
    project: Project, postgres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "latin_" + project.root.name.replace("-", "_")[:40]
    project.postgres(f'CREATE DATABASE "{name}" TEMPLATE template0 ENCODING LATIN1 LOCALE "C"')
    try:
        dsn = postgres.dsn(name)
        monkeypatch.setenv(WAREHOUSE, f"postgres:{dsn}")
        project.write("items.csv", "id,grp\n1,Ωmega\n")
        assert refused(project, columns="{id: integer, grp: text}")["code"] in (
            "DPONE_LOAD_REFUSED",
            "DPONE_SOURCE_VALUE",
        )
        project.write("items.csv", "id,grp\n1,größe\n")
        assert loaded(project, columns="{id: integer, grp: text}").hows == ["committed"]
        with psycopg.connect(dsn, client_encoding="utf8") as connection:
            assert connection.execute("SELECT grp FROM items").fetchall() == [("größe",)]
    finally:
        project.postgres(f'DROP DATABASE "{name}" WITH (FORCE)')
