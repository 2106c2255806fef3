"""Queries on a PostgreSQL server as sources: value for value, and only what is read."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from dpone.adapters.postgres.spool import spool
from dpone.contracts.errors_loading import SourceError, SourceQuery, SourceUnreachable
from tests.loading.project import TARGETS, Project

NULL = "null-of-this-test"
pytestmark = pytest.mark.usefixtures("warehouse")


def test_values_have_one_spelling_whatever_the_session_says(
    project: Project, warehouse: str, tmp_path: Path
) -> None:
    dsn = f"{warehouse} application_name=x"
    project.postgres("ALTER ROLE CURRENT_USER SET DateStyle = 'German'")
    project.postgres("ALTER ROLE CURRENT_USER SET TimeZone = 'Asia/Tokyo'")
    sql = (
        "SELECT true AS b, timestamptz '2024-01-31 23:30-02' AS at, timestamptz 'infinity' AS ever,"
        " date '2024-02-01' AS day, timestamp '2024-01-01 10:00' AS local, 0.1::float8 AS f,"
        " 12345678901234567890.10 AS n, interval '1 day 2 hours' AS i, '' AS empty, NULL AS none,"
        " E'a \"b\",\\nc' AS text, ARRAY[1, NULL] AS a, '{\"k\": 1}'::jsonb AS j, false AS c;"
    )
    path = tmp_path / "rows.csv"
    try:
        spool(dsn, sql, path, NULL, connection_name="shop")
    finally:
        project.postgres("ALTER ROLE CURRENT_USER RESET ALL")
    with path.open(newline="") as file:
        header, row = csv.reader(file, strict=True)
    assert header == [
        "b",
        "at",
        "ever",
        "day",
        "local",
        "f",
        "n",
        "i",
        "empty",
        "none",
        "text",
        "a",
        "j",
        "c",
    ]
    assert row == [
        "true", "2024-02-01 01:30:00+00:00", "infinity", "2024-02-01", "2024-01-01 10:00:00", "0.1",
        "12345678901234567890.10", "1 day 02:00:00", "", NULL, 'a "b",\nc', "{1,NULL}", '{"k": 1}',
        "false",
    ]  # fmt: skip
    assert f",{NULL}," in path.read_text()


def test_a_large_result_passes_in_bounded_memory(warehouse: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    sql = "SELECT n, repeat('x', 90) AS text FROM generate_series(1, 300000) AS n -- all of them"
    spool(warehouse, sql, path, NULL, connection_name="shop")
    with path.open() as file:
        assert next(file) == "n,text\n"
        assert sum(1 for _ in file) == 300_000
    assert path.stat().st_size > 28_000_000


@pytest.mark.parametrize(
    "sql",
    [
        "SELEC 1",
        "DROP TABLE items",
        "INSERT INTO items VALUES (1) RETURNING 1",
        "SELECT 1; SELECT 2",
        "SELECT 1) AS rows LIMIT 0; DROP TABLE items; SELECT * FROM (SELECT 1",
        "SELECT nextval('counter')",
        "SELECT set_config('transaction_read_only', 'off', true), nextval('counter')",
        "SELECT $1",
        "COPY items TO STDOUT",
        "",
        "SELECT 1 FROM pg_terminate_backend(0) -- \n) AS rows; DELETE FROM items; (",
    ],
)
def test_what_is_not_one_select_that_reads_is_refused(
    project: Project, warehouse: str, tmp_path: Path, sql: str
) -> None:
    project.postgres("CREATE TABLE items AS SELECT 1 AS id")
    project.postgres("CREATE SEQUENCE counter")
    with pytest.raises(SourceQuery) as caught:
        spool(warehouse, sql, tmp_path / "rows.csv", NULL, connection_name="shop")
    assert caught.value.fields["connection"] == "shop"
    assert project.postgres("SELECT id FROM items") == [(1,)]
    assert project.postgres("SELECT is_called FROM counter") == [(False,)]


def test_a_session_that_is_ended_is_a_server_that_does_not_answer(
    warehouse: str, tmp_path: Path
) -> None:
    sql = "SELECT n, pg_terminate_backend(pg_backend_pid()) FROM generate_series(1, 9) AS n"
    with pytest.raises(SourceUnreachable) as caught:
        spool(warehouse, sql, tmp_path / "rows.csv", NULL, connection_name="shop")
    assert caught.value.exit_code == 3


def test_the_words_of_the_server_never_repeat_a_value(warehouse: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        spool(
            warehouse, "SELECT ('secret' || random())::integer", tmp_path / "rows.csv", NULL,
            connection_name="shop",
        )  # fmt: skip
    assert caught.value.fields["reason"] == '22P02: invalid input syntax for type integer: "…"'


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_flags_and_instants_reach_every_target(project: Project, kind: str) -> None:
    sql = (
        "SELECT 1 AS id, true AS flag, timestamptz '2024-01-31 23:30-02' AS moment UNION ALL"
        " SELECT 2, false, NULL ORDER BY 1"
    )
    project.route(
        source=f'{{query: {{connection: warehouse, sql: "{sql}"}}}}', target=TARGETS[kind],
        columns="{id: integer, flag: boolean, moment: timestamptz}",
    )  # fmt: skip
    said = project.run()
    assert said.hows == ["committed"], said.err
    word = {
        "duckdb": "CAST(epoch(moment) AS BIGINT)",
        "sqlite": "CAST(strftime('%s', moment) AS INTEGER)",
    }
    instant = word.get(kind, "CAST(extract(epoch FROM moment) AS bigint)")
    assert project.sql(kind, f"SELECT id, flag, {instant} FROM items ORDER BY id") == [
        (1, True, 1_706_751_000), (2, False, None),
    ]  # fmt: skip


def test_a_failing_server_stops_the_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPONE_CONNECTION_SHOP", "postgres:host=127.0.0.1 port=1")
    project.route(
        source="{query: {connection: shop, sql: SELECT 1 AS id}}", target=TARGETS["sqlite"]
    )
    said = project.run()
    assert (said.code, said.codes) == (3, ["DPONE_SOURCE_UNREACHABLE"])
