"""A throw-away project in which tests write files, run the command line and look at tables."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import psycopg
import pytest

from dpone.cli.main import main
from dpone.ports.probe import Probe
from faultinject.postgres import PostgresServer

TARGETS = {
    "duckdb": "{duckdb: warehouse.duckdb, table: items}",
    "sqlite": "{sqlite: warehouse.sqlite, table: items}",
    "postgres": "{postgres: warehouse, table: items}",
}
WAREHOUSE = "DPONE_CONNECTION_WAREHOUSE"
COLUMNS = "{id: integer, grp: text, day: date, amount: double}"
ITEMS = """\
id,grp,day,amount
1,a,2024-01-05,1.5
2,a,2024-01-20,
3,b,2024-02-01,3.0
4,,2024-03-09,4.25
"""
Row = tuple[Any, ...]
ITEM_ROWS: list[Row] = [
    (1, "a", "2024-01-05", 1.5),
    (2, "a", "2024-01-20", None),
    (3, "b", "2024-02-01", 3.0),
    (4, None, "2024-03-09", 4.25),
]


class Said(NamedTuple):
    """How a command ended: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> Any:
        """The object on stdout."""
        return json.loads(self.out)

    @property
    def hows(self) -> list[str]:
        """What became of each operation of a run."""
        return [operation["how"] for operation in self.report["operations"]]

    @property
    def codes(self) -> list[str]:
        """The codes of all errors in the report."""
        report = self.report
        if "code" in report:
            return [report["code"]]
        return [item["error"]["code"] for item in report["operations"] if item.get("error")]


class Project:
    """One folder with a manifest, and the command line run in this process."""

    def __init__(self, root: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self.warehouse = ""
        self.schema = ""
        self.server: PostgresServer | None = None
        self.held = ExitStack()
        self._capture = capture

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file and return its path."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def route(self, **fields: str) -> Path:
        """Write `route.yaml`; fields are YAML texts and override the defaults."""
        given = {
            "schema": "dpone.route.v1",
            "route": "items",
            "source": "{csv: items.csv}",
            "target": TARGETS["duckdb"],
            "strategy": "append",
            "columns": COLUMNS,
            **fields,
        }
        lines = [f"{name}: {value}" for name, value in given.items() if value]
        return self.write("route.yaml", "\n".join(lines) + "\n")

    def call(self, *arguments: str, probe: Probe | None = None) -> Said:
        """Run the command line as a user in this folder would."""
        before = Path.cwd()
        os.chdir(self.root)
        try:
            self._capture.readouterr()
            with pytest.raises(SystemExit) as ended:
                main(arguments, probe=probe)
        finally:
            os.chdir(before)
        out, err = self._capture.readouterr()
        code = ended.value.code
        return Said(code if isinstance(code, int) else 0, out, err)

    def run(self, *arguments: str, probe: Probe | None = None) -> Said:
        """`dpone run route.yaml --format json`."""
        return self.call("run", "route.yaml", "--format", "json", *arguments, probe=probe)

    def duckdb(self, sql: str, name: str = "warehouse.duckdb") -> list[Row]:
        """Run SQL on a DuckDB file."""
        with duckdb.connect(str(self.root / name)) as connection:
            return connection.execute(sql).fetchall()

    def sqlite(self, sql: str, name: str = "warehouse.sqlite") -> list[Row]:
        """Run SQL on a SQLite file."""
        connection = sqlite3.connect(self.root / name, isolation_level=None)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def postgres(self, sql: str) -> list[Row]:
        """Run SQL in the schema of this test, as its owner."""
        with psycopg.connect(self.warehouse, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def sql(self, kind: str, sql: str) -> list[Row]:
        """Run SQL on the target of a kind."""
        if kind == "postgres":
            return self.postgres(sql)
        return self.duckdb(sql) if kind == "duckdb" else self.sqlite(sql)

    def items(self, kind: str) -> list[Row]:
        """The loaded rows in order, dates as text."""
        cast = "day" if kind == "sqlite" else "CAST(day AS VARCHAR)"
        return self.sql(kind, f"SELECT id, grp, {cast}, amount FROM items ORDER BY id")

    def snapshot(self) -> dict[str, str]:
        """Digest of every file below the folder."""
        return {
            path.relative_to(self.root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }


def ids(rows: Sequence[Row]) -> list[Any]:
    """The first column."""
    return [row[0] for row in rows]
