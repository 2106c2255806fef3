"""The mistakes that people, files and places make, each with the code that it must get."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.loading.project import ITEMS, TARGETS, Project

SECRET = "hunter2-secret"
HEADER = ITEMS.splitlines()[0]
BOM = b"\xef\xbb\xbf"
FILES = ("duckdb", "sqlite")
KINDS = (*FILES, "postgres")


class Case(NamedTuple):
    """One mistake: how it is made, and what must be said."""

    name: str
    code: str
    exit_code: int
    make: Callable[[Project, str], object]
    kinds: tuple[str, ...] = KINDS
    arguments: tuple[str, ...] = ("run", "route.yaml", "--format", "json")


def manifest(text: str | bytes) -> Callable[[Project, str], object]:
    """The manifest as a whole."""
    return lambda project, kind: project.write("route.yaml", text)


def field(**fields: str) -> Callable[[Project, str], object]:
    """One field of an otherwise good manifest."""
    return lambda project, kind: project.route(**{"target": TARGETS[kind], **fields})


def data(content: str | bytes, **fields: str) -> Callable[[Project, str], object]:
    """The bytes of the source; the route is another one, so that it must load them."""

    def make(project: Project, kind: str) -> None:
        project.write("items.csv", content)
        project.route(**{"target": TARGETS[kind], "route": "other", **fields})

    return make


def other_source(name: str, content: bytes, source: str) -> Callable[[Project, str], object]:
    """Another file as the source."""

    def make(project: Project, kind: str) -> None:
        project.write(name, content)
        project.route(target=TARGETS[kind], route="other", source=source)

    return make


def project_file(text: str, **fields: str) -> Callable[[Project, str], object]:
    """The project file, and what the route takes from it."""

    def make(project: Project, kind: str) -> None:
        project.write("dpone.toml", text)
        project.route(**{"target": TARGETS[kind], **fields})

    return make


def folder_as_source(project: Project, kind: str) -> None:
    (project.root / "folder.csv").mkdir()
    project.route(target=TARGETS[kind], route="other", source="{csv: folder.csv}")


def dangling_link(project: Project, kind: str) -> None:
    (project.root / "link.csv").symlink_to("nowhere.csv")
    project.route(target=TARGETS[kind], route="other", source="{csv: link.csv}")


def pipe_as_source(project: Project, kind: str) -> None:
    os.mkfifo(project.root / "pipe.csv")
    project.route(target=TARGETS[kind], route="other", source="{csv: pipe.csv}")


def torn_target(project: Project, kind: str) -> None:
    project.write("torn.db", b"this is not a database, but a text of some length\n" * 90)
    project.route(target=f"{{{kind}: torn.db, table: items}}", route="other")


def target_is_a_folder(project: Project, kind: str) -> None:
    (project.root / "folder.db").mkdir()
    project.route(target=f"{{{kind}: folder.db, table: items}}", route="other")


def target_below_a_file(project: Project, kind: str) -> None:
    project.route(target=f"{{{kind}: items.csv/w.db, table: items}}", route="other")


def corrupt_journal(project: Project, kind: str) -> None:
    project.write(".dpone/journal.db", b"not a journal" * 100)
    project.route(target=TARGETS[kind])


def journal_below_a_file(project: Project, kind: str) -> None:
    project.route(target=TARGETS[kind], journal="{sqlite: items.csv/journal.db}", route="other")


def newer_journal(project: Project, kind: str) -> None:
    connection = sqlite3.connect(project.root / ".dpone/journal.db")
    connection.execute("UPDATE dpone_journal_meta SET value = '99'")
    connection.commit()
    connection.close()
    project.route(target=TARGETS[kind], route="other")


def set_write_version(path: Path, version: int) -> None:
    """SQLite opens a file whose write version it does not know for reading only."""
    with path.open("r+b") as file:
        file.seek(18)
        file.write(bytes([version]))


def read_only_target(project: Project, kind: str) -> None:
    project.sqlite("CREATE TABLE t (i INTEGER)", "frozen.sqlite")
    set_write_version(project.root / "frozen.sqlite", 9)
    project.route(target="{sqlite: frozen.sqlite, table: t}", route="other")


def read_only_journal(project: Project, kind: str) -> None:
    set_write_version(project.root / ".dpone/journal.db", 9)
    project.route(target=TARGETS[kind], route="other")


def dpone_folder_is_a_file(project: Project, kind: str) -> None:
    (project.root / ".dpone").rename(project.root / "was.dpone")
    project.write(".dpone", "")
    project.route(target=TARGETS[kind], route="other")


def not_null_table(project: Project, kind: str) -> None:
    project.sql(kind, "CREATE TABLE strictly (id INTEGER, grp VARCHAR NOT NULL)")
    project.route(
        target=TARGETS[kind].replace("items", "strictly"), columns="[id, grp]", route="other"
    )


def unique_table(project: Project, kind: str) -> None:
    project.sql(kind, "CREATE TABLE uniquely (id INTEGER PRIMARY KEY, grp VARCHAR)")
    project.write("items.csv", ITEMS + "1,a,2024-01-05,1\n")
    project.route(
        target=TARGETS[kind].replace("items", "uniquely"), columns="[id, grp]", route="other"
    )


def a_view(project: Project, kind: str) -> None:
    project.sql(kind, "CREATE VIEW seen AS SELECT 1 AS id")
    project.route(target=TARGETS[kind].replace("items", "seen"), route="other")


def failing_query(project: Project, kind: str) -> None:
    project.write("dpone.toml", '[connections.shop]\nkind = "duckdb"\ndsn = "shop.duckdb"\n')
    project.duckdb("CREATE TABLE t (i INTEGER)", "shop.duckdb")
    project.route(
        target=TARGETS[kind], route="other",
        source="{query: {connection: shop, sql: SELECT nothing FROM t}}",
    )  # fmt: skip


def writing_query(project: Project, kind: str) -> None:
    failing_query(project, kind)
    project.route(
        target=TARGETS[kind], route="other",
        source="{query: {connection: shop, sql: DROP TABLE t}}",
    )  # fmt: skip


GOOD = "schema: dpone.route.v1\nroute: x\nsource: {csv: items.csv}\n"
MANIFESTS = [
    Case("empty", "DPONE_MANIFEST_INVALID", 2, manifest("")),
    Case("a list", "DPONE_MANIFEST_INVALID", 2, manifest("- a\n")),
    Case("a text", "DPONE_MANIFEST_INVALID", 2, manifest("hello\n")),
    Case("no target", "DPONE_MANIFEST_INVALID", 2, manifest(GOOD + "strategy: append\n")),
    Case("not YAML", "DPONE_MANIFEST_SYNTAX", 2, manifest("a: [1\nb: }\n")),
    Case("a tab", "DPONE_MANIFEST_SYNTAX", 2, manifest("a:\n\t- b\n")),
    Case("a control character", "DPONE_MANIFEST_SYNTAX", 2, manifest("a: \x01\n")),
    Case("not UTF-8", "DPONE_MANIFEST_UNREADABLE", 2, manifest(b"route: \xff\n")),
    Case("too long", "DPONE_MANIFEST_UNREADABLE", 2, manifest(b"# " + b"x" * 1024 * 1024)),
    Case("key twice", "DPONE_MANIFEST_DUPLICATE_KEY", 2, manifest(GOOD + "route: y\n")),
    Case("alias", "DPONE_MANIFEST_YAML_FEATURE", 2, manifest("a: &x 1\nb: *x\n")),
    Case("merge key", "DPONE_MANIFEST_YAML_FEATURE", 2, manifest("a:\n  <<: {b: c}\n")),
    Case("tag", "DPONE_MANIFEST_YAML_FEATURE", 2, manifest("a: !!python/name:os.system x\n")),
    Case("two documents", "DPONE_MANIFEST_YAML_FEATURE", 2, manifest("a: b\n---\nc: d\n")),
    Case("a list as key", "DPONE_MANIFEST_YAML_FEATURE", 2, manifest("? [a]\n: b\n")),
    Case("nested deeply", "DPONE_MANIFEST_YAML_FEATURE", 2, manifest("[" * 99 + "]" * 99)),
    Case("newer schema", "DPONE_MANIFEST_VERSION", 2, field(schema="dpone.route.v9")),
    Case("unknown field", "DPONE_MANIFEST_INVALID", 2, field(retries="3")),
    Case("unknown strategy", "DPONE_MANIFEST_INVALID", 2, field(strategy="upsert")),
    Case("strategy of two", "DPONE_MANIFEST_INVALID", 2,
         field(strategy="{merge: [id], replace_partition: [grp]}")),
    Case("no keys", "DPONE_MANIFEST_INVALID", 2, field(strategy="{merge: []}")),
    Case("refresh in parts", "DPONE_MANIFEST_INVALID", 2,
         field(strategy="full_refresh", partition="file")),
    Case("parts erase each other", "DPONE_MANIFEST_INVALID", 2,
         field(strategy="{replace_partition: [day]}", partition="{column: grp}")),
    Case("ordered without parts", "DPONE_MANIFEST_INVALID", 2, field(ordered="true")),
    Case("revision zero", "DPONE_MANIFEST_INVALID", 2, field(revision="0")),
    Case("revision of words", "DPONE_MANIFEST_INVALID", 2, field(revision="second")),
    Case("two sources", "DPONE_MANIFEST_INVALID", 2, field(source="{csv: a, parquet: b}")),
    Case("long delimiter", "DPONE_MANIFEST_INVALID", 2,
         field(source='{csv: items.csv, delimiter: "||"}')),
    Case("latin1", "DPONE_MANIFEST_INVALID", 2,
         field(source="{csv: items.csv, encoding: latin-1}")),
    Case("headless", "DPONE_MANIFEST_INVALID", 2, field(source="{csv: items.csv, header: no}")),
    Case("unknown type", "DPONE_COLUMN_TYPE_UNKNOWN", 2, field(columns="{id: number}")),
    Case("SQL as type", "DPONE_COLUMN_TYPE_UNKNOWN", 2,
         field(columns="{id: 'integer); DROP TABLE items; --'}")),
    Case("three-part table", "DPONE_TABLE_NAME_INVALID", 2,
         field(target="{duckdb: warehouse.duckdb, table: a.b.c}")),
    Case("the fence's own table", "DPONE_TABLE_NAME_INVALID", 2,
         field(target="{duckdb: warehouse.duckdb, table: dpone_fence}")),
    Case("source climbs out", "DPONE_PATH_OUTSIDE_PROJECT", 2, field(source="{csv: ../x.csv}")),
    Case("source climbs out later", "DPONE_PATH_OUTSIDE_PROJECT", 2,
         field(source="{csv: a/../../x.csv}")),
    Case("absolute source", "DPONE_PATH_OUTSIDE_PROJECT", 2, field(source="{csv: /etc/passwd}")),
    Case("absolute target", "DPONE_PATH_OUTSIDE_PROJECT", 2,
         field(target="{sqlite: /dev/null, table: t}")),
    Case("journal climbs out", "DPONE_PATH_OUTSIDE_PROJECT", 2,
         field(journal="{sqlite: ../journal.db}")),
    Case("unknown connection", "DPONE_CONNECTION_UNKNOWN", 2,
         field(target="{postgres: nowhere, table: public.t}"), ("duckdb",)),
    Case("connection of another kind", "DPONE_CONNECTION_INVALID", 2, project_file(
        f'[connections.pg]\nkind = "postgres"\ndsn = "host=db password={SECRET}"\n',
        source="{csv: x.csv, connection: pg}")),
    Case("connection without its variable", "DPONE_CONNECTION_INVALID", 2, project_file(
        '[connections.in]\nkind = "folder"\nenv = "DPONE_TEST_ABSENT"\n',
        source="{csv: x.csv, connection: in}")),
    Case("project file is not TOML", "DPONE_PROJECT_INVALID", 2, project_file("environment = \n")),
    Case("project file has a stranger", "DPONE_PROJECT_INVALID", 2, project_file("retry = 1\n")),
    Case("connection with a stranger", "DPONE_PROJECT_INVALID", 2, project_file(
        f'[connections.pg]\nkind = "postgres"\npassword = "{SECRET}"\n')),
    Case("directory of CSV files", "DPONE_CONNECTOR_UNSUPPORTED", 4,
         field(target="{csvdir: out, table: t}", strategy="{merge: [id]}"), ("duckdb",)),
]  # fmt: skip

DATA = [
    Case("value of another type", "DPONE_SOURCE_VALUE", 1, data(ITEMS + "x,a,2024-01-01,1\n")),
    Case("number too large", "DPONE_SOURCE_VALUE", 1,
         data(f"{HEADER}\n{'9' * 30},a,2024-01-01,1\n")),
    Case("no such day", "DPONE_SOURCE_VALUE", 1, data(ITEMS + "7,a,2024-02-31,1\n"),
         ("duckdb", "postgres")),
    Case("column missing", "DPONE_SOURCE_COLUMN_MISSING", 1, data("id,grp,day\n1,a,2024-01-01\n")),
    Case("column missing in the table's eyes", "DPONE_SOURCE_COLUMN_MISSING", 1,
         data("id,grp,day\n1,a,2024-01-01\n", columns="")),
    Case("column unknown", "DPONE_SOURCE_COLUMN_UNKNOWN", 1,
         data(f"{HEADER},extra\n1,a,2024-01-01,1,x\n", columns="")),
    Case("column twice", "DPONE_SOURCE_COLUMN_DUPLICATE", 1,
         data("id,grp,ID,amount\n1,a,2,1\n")),
    Case("column without a name", "DPONE_SOURCE_HEADER", 1, data("id,,day,amount\n1,a,b,1\n")),
    Case("no bytes at all", "DPONE_SOURCE_HEADER", 1, data(b"")),
    Case("only a byte order mark", "DPONE_SOURCE_HEADER", 1, data(BOM)),
    Case("short row", "DPONE_SOURCE_RAGGED", 1, data(ITEMS + "7,a\n")),
    Case("long row", "DPONE_SOURCE_RAGGED", 1, data(ITEMS + "7,a,2024-01-01,1,1\n")),
    Case("open quote", "DPONE_SOURCE_FORMAT", 1, data(ITEMS + '7,"a,2024-01-01,1\n')),
    Case("text after a quote", "DPONE_SOURCE_FORMAT", 1, data(ITEMS + '7,"a"b,2024-01-01,1\n'),
         FILES),
    Case("not UTF-8 in a row", "DPONE_SOURCE_ENCODING", 1,
         data(ITEMS.encode() + b"7,\xe4,2024-01-01,1\n")),
    Case("not UTF-8 in the header", "DPONE_SOURCE_ENCODING", 1, data(b"id,gr\xfc\n1,a\n")),
    Case("UTF-16", "DPONE_SOURCE_NUL", 1, data(ITEMS.encode("utf-16-be"))),
    Case("NUL in a row", "DPONE_SOURCE_NUL", 1, data(ITEMS.encode() + b"7,a\0b,2024-01-01,1\n")),
    Case("huge field", "DPONE_SOURCE_FIELD_TOO_LARGE", 1,
         data(HEADER.encode() + b"\n7," + b"x" * (17 << 20) + b",2024-01-01,1\n")),
    Case("huge last line", "DPONE_SOURCE_FIELD_TOO_LARGE", 1,
         data(HEADER.encode() + b"\n7," + b"x" * (40 << 20))),
    Case("huge quoted field", "DPONE_SOURCE_FIELD_TOO_LARGE", 1,
         data(HEADER.encode() + b'\n7,"' + b"xxxxxxx\n" * (17 << 17) + b'",2024-01-01,1\n'),
         ("sqlite",)),
    Case("quote open for too long", "DPONE_SOURCE_FORMAT", 1,
         data(HEADER.encode() + b'\n7,"' + b"xxxxxxx\n" * (17 << 17) + b'",2024-01-01,1\n'),
         ("duckdb",)),
    Case("no such file", "DPONE_SOURCE_NOT_FOUND", 1, field(source="{csv: absent.csv}", route="o")),
    Case("glob without a file", "DPONE_SOURCE_NOT_FOUND", 1,
         field(source='{csv: "data/*.csv"}', route="o")),
    Case("folder", "DPONE_SOURCE_UNREADABLE", 1, folder_as_source),
    Case("dangling link", "DPONE_SOURCE_UNREADABLE", 1, dangling_link),
    Case("named pipe", "DPONE_SOURCE_UNREADABLE", 1, pipe_as_source),
    Case("not Parquet", "DPONE_SOURCE_FORMAT", 1,
         other_source("x.parquet", b"id,grp\n1,a\n" * 9, "{parquet: x.parquet}")),
    Case("torn Parquet", "DPONE_SOURCE_FORMAT", 1,
         other_source("x.parquet", b"PAR1" + b"\0" * 99 + b"PAR1", "{parquet: x.parquet}")),
    Case("not JSON", "DPONE_SOURCE_FORMAT", 1,
         other_source("x.jsonl", b'{"id": 1\n', "{jsonl: x.jsonl}")),
    Case("JSON value of another type", "DPONE_SOURCE_VALUE", 1, other_source(
        "x.jsonl", b'{"id": "x", "grp": "a", "day": "2024-01-01", "amount": 1}\n',
        "{jsonl: x.jsonl}")),
    Case("unknown partition column", "DPONE_SOURCE_COLUMN_MISSING", 1,
         field(partition="{column: absent}", route="o")),
    Case("unknown key column", "DPONE_SOURCE_COLUMN_MISSING", 1,
         field(strategy="{merge: [absent]}", route="o")),
    Case("merge key twice", "DPONE_LOAD_DUPLICATE_KEY", 1,
         data(ITEMS + "1,a,2024-01-01,1\n", strategy="{merge: [id]}")),
    Case("key missing", "DPONE_LOAD_NULL_KEY", 1, data(ITEMS, strategy="{merge: [grp]}")),
    Case("NOT NULL", "DPONE_LOAD_CONSTRAINT", 1, not_null_table),
    Case("UNIQUE", "DPONE_LOAD_CONSTRAINT", 1, unique_table),
    Case("a view", "DPONE_LOAD_TABLE_INVALID", 1, a_view),
    Case("failing query", "DPONE_SOURCE_QUERY", 1, failing_query),
    Case("query that writes", "DPONE_SOURCE_QUERY", 1, writing_query),
    Case("changed file, same identity", "DPONE_TARGET_COMMIT_INTENT_MISMATCH", 1,
         lambda project, kind: project.write("items.csv", ITEMS + "7,a,2024-01-01,1\n")),
]  # fmt: skip

RUN = ("run", "route.yaml", "--format", "json")
PLACES = [
    Case("no manifest", "DPONE_MANIFEST_NOT_FOUND", 2, lambda *_: None,
         arguments=("run", "absent.yaml", "--format", "json")),
    Case("manifest is this folder", "DPONE_MANIFEST_UNREADABLE", 2, lambda *_: None,
         arguments=("run", ".", "--format", "json")),
    Case("csvdir is a file", "DPONE_TARGET_INVALID", 4,
         field(target="{csvdir: items.csv, table: t}", route="other"), ("duckdb",)),
    Case("manifest is a folder", "DPONE_MANIFEST_UNREADABLE", 2, lambda *_: None,
         arguments=("run", ".dpone", "--format", "json")),
    Case("no argument", "DPONE_USAGE", 2, lambda *_: None, arguments=("run", "--format", "json")),
    Case("revision zero by option", "DPONE_USAGE", 2, lambda *_: None,
         arguments=(*RUN, "--revision", "0")),
    Case("unknown command", "DPONE_USAGE", 2, lambda *_: None,
         arguments=("load", "--format", "json")),
    Case("unknown contract", "DPONE_SCHEMA_UNKNOWN", 2, lambda *_: None,
         arguments=("schema", "dpone.nothing.v1", "--format", "json")),
    Case("unknown partition", "DPONE_PARTITION_UNKNOWN", 2, lambda *_: None,
         arguments=(*RUN, "--partition", "grp=zz")),
    Case("target is a folder", "DPONE_TARGET_INVALID", 4, target_is_a_folder, FILES),
    Case("target is no database", "DPONE_TARGET_INVALID", 4, torn_target, FILES),
    Case("target below a file", "DPONE_TARGET_INVALID", 4, target_below_a_file, FILES),
    Case("target is read-only", "DPONE_TARGET_READ_ONLY", 4, read_only_target, ("sqlite",)),
    Case("journal is read-only", "DPONE_JOURNAL_UNAVAILABLE", 3, read_only_journal),
    Case("journal folder is a file", "DPONE_JOURNAL_UNAVAILABLE", 3, dpone_folder_is_a_file),
    Case("journal is no database", "DPONE_JOURNAL_INVALID", 4, corrupt_journal),
    Case("journal below a file", "DPONE_JOURNAL_UNAVAILABLE", 3, journal_below_a_file),
    Case("journal of a newer version", "DPONE_PROTOCOL_TOO_OLD", 4, newer_journal),
]  # fmt: skip
