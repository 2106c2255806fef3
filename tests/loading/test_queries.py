"""SQL queries as sources: what a retry can tell, and what it cannot."""

from __future__ import annotations

import pytest

from tests.loading.project import TARGETS, WAREHOUSE, Project

ROWS = [(1, "a", None), (2, "", 1.5), (3, None, 2.0), (4, 'say "x", twice\n', 3.0)]
VALUES = "(1, 'a', NULL), (2, '', 1.5), (3, NULL, 2.0), (4, 'say \"x\", twice\n', 3.0)"
COLUMNS = "{id: integer, name: text, amount: double}"


@pytest.fixture(params=["duckdb", "sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, project: Project) -> str:
    """A database of each kind, declared as the connection `shop`."""
    kind = str(request.param)
    place = 'dsn = "shop.db"'
    if kind == "postgres":
        request.getfixturevalue("warehouse")
        place = f'env = "{WAREHOUSE}_DSN"'
        request.getfixturevalue("monkeypatch").setenv(f"{WAREHOUSE}_DSN", project.warehouse)
    project.write("dpone.toml", f'[connections.shop]\nkind = "{kind}"\n{place}\n')
    for sql in (
        "CREATE TABLE orders (id INTEGER, name VARCHAR, amount DOUBLE PRECISION)",
        f"INSERT INTO orders VALUES {VALUES}",
    ):
        _sql(project, kind, sql)
    return kind


def _sql(project: Project, kind: str, sql: str) -> None:
    if kind == "duckdb":
        project.duckdb(sql, "shop.db")
    elif kind == "postgres":
        project.postgres(sql)
    else:
        project.sqlite(sql, "shop.db")


def route(project: Project, kind: str, watermark: str = "4", **fields: str) -> None:
    """A route that reads the orders."""
    query = f"{{connection: shop, sql: SELECT * FROM orders, watermark: '{watermark}'}}"
    project.route(
        source=f"{{query: {query}}}",
        target=TARGETS[kind],
        columns=COLUMNS,
        route="orders",
        **fields,
    )


def test_every_value_arrives_as_it_is(project: Project, shop: str, kind: str) -> None:
    route(project, kind)
    said = project.run()
    assert said.hows == ["committed"], said.err
    assert project.sql(kind, "SELECT * FROM items ORDER BY id") == ROWS


def test_a_query_may_be_cut_by_a_column(project: Project, shop: str, kind: str) -> None:
    route(project, kind, partition="{column: id}")
    assert project.run().hows == ["committed"] * 4
    assert project.sql(kind, "SELECT * FROM items ORDER BY id") == ROWS


def test_the_declared_watermark_is_what_a_retry_can_tell(project: Project, shop: str) -> None:
    route(project, "sqlite")
    assert project.run().hows == ["committed"]
    _sql(project, shop, "INSERT INTO orders VALUES (5, 'new', 1)")
    # The same text and watermark: the new row is not seen, as the documentation says.
    assert project.run().hows == ["replayed"]
    route(project, "sqlite", watermark="5")
    assert project.run().codes == ["DPONE_TARGET_COMMIT_INTENT_MISMATCH"]
    again = project.run("--revision", "2", "--again")
    assert again.report["operations"][0]["result"]["rows_written"] == 5


def test_binary_values_of_sqlite_are_refused(project: Project) -> None:
    project.write("dpone.toml", '[connections.shop]\nkind = "sqlite"\ndsn = "shop.db"\n')
    project.sqlite("CREATE TABLE orders (id INTEGER, name BLOB, amount DOUBLE)", "shop.db")
    project.sqlite("INSERT INTO orders VALUES (1, x'00ff', 1)", "shop.db")
    route(project, "sqlite")
    assert project.run().codes == ["DPONE_SOURCE_QUERY"]


def test_nothing_is_left_behind(
    project: Project, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spools = project.root / "spools"
    spools.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spools))
    route(project, "sqlite")
    assert project.run().hows == ["committed"]
    assert list(spools.iterdir()) == []
