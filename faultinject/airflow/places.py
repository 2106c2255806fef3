"""Where the scenarios write, and what stands there: rows, fences, journals, receipts."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from faultinject.airflow.scenarios import Scenario
from faultinject.postgres import PostgresServer

ORDERS = "CREATE TABLE orders(name VARCHAR(80), attempt INTEGER, pid INTEGER, amount INTEGER)"
FENCE = "SELECT operation_id, epoch, attempt_id, intent_digest, result, kind FROM dpone_fence"
ROUTE = """\
schema: dpone.route.v1
route: {name}
source: {{csv: orders.csv}}
columns: {{name: text, attempt: integer, pid: integer, amount: integer}}
target: {target}
strategy: append
{journal}"""


class Places:
    """The targets and journals of one session."""

    def __init__(self, folder: Path, server: PostgresServer, journals: PostgresServer) -> None:
        self.folder = folder
        self.proofs = folder / "proofs"
        self.proofs.mkdir(parents=True)
        self.orders = server.create_database("orders")
        self.orders_tcp = server.dsn("orders", tcp=True)
        server.create_database("journal")
        self.journal_tcp = server.dsn("journal", tcp=True)
        journals.create_database("journal")
        self.own_journal_tcp = journals.dsn("journal", tcp=True)
        with psycopg.connect(self.orders, autocommit=True) as connection:
            connection.execute(ORDERS)

    def connections(self) -> dict[str, str]:
        """The variables that name the servers to Airflow."""
        specs = {
            "LAB_ORDERS": self.orders_tcp,
            "LAB_JOURNAL": self.journal_tcp,
            "LAB_OWN_JOURNAL": self.own_journal_tcp,
        }
        return {
            f"AIRFLOW_CONN_{name}": json.dumps(
                {"conn_type": "dpone", "extra": {"spec": f"postgres:{dsn}"}}
            )
            for name, dsn in specs.items()
        }

    def place(self, scenario: Scenario) -> dict[str, Any]:
        """Make the place of a scenario; what its DAG is told of it."""
        folder = self.folder / scenario.name
        folder.mkdir()
        server = scenario.kind == "postgres"
        if not server:
            _create(scenario.kind, folder / "target")
        if scenario.flavour == "route":
            return self._route(scenario, folder)
        own = "lab_own_journal" if scenario.own_journal else "lab_journal"
        return {
            "target": "lab_orders" if server else f"{scenario.kind}:{folder / 'target'}",
            "journal": own if server else f"sqlite:{folder / 'journal'}",
            "place": self.orders_tcp if server else str(folder / "target"),
        }

    def _route(self, scenario: Scenario, folder: Path) -> dict[str, Any]:
        server = scenario.kind == "postgres"
        (folder / "orders.csv").write_text(f"name,attempt,pid,amount\n{scenario.name},1,1,100\n")
        place = "warehouse" if server else "target"
        target = f"{{{scenario.kind}: {place}, table: orders}}"
        journal = "journal: {postgres: journal}\n" if server else ""
        text = ROUTE.format(name=scenario.name, target=target, journal=journal)
        (folder / "route.yaml").write_text(text)
        named = {"warehouse": "lab_orders", "journal": "lab_journal"} if server else {}
        return {"manifest": str(folder / "route.yaml"), "connections": named}

    # -- looking -------------------------------------------------------------------------------

    def rows(self, scenario: Scenario) -> list[tuple[int, int]]:
        """Attempt and amount of every row that the scenario's attempts have written."""
        with self._opened(scenario) as ask:
            found = ask(f"SELECT attempt, amount FROM orders WHERE name = '{scenario.name}'")
        return sorted((int(attempt), int(amount)) for attempt, amount in found)

    def fences(self, scenario: Scenario) -> dict[str, dict[str, Any]]:
        """The receipts of all committed operations in the target, by operation."""
        with self._opened(scenario) as ask:
            found = ask(FENCE)
        return {
            row[0]: {
                "operation_id": row[0],
                "epoch": int(row[1]),
                "attempt_id": row[2],
                "intent_digest": row[3],
                "result": json.loads(row[4]),
            }
            for row in found
            if row[5] == "committed"
        }

    def states(self, scenario: Scenario, operations: Sequence[str]) -> list[str]:
        """What the journal says of operations."""
        server = scenario.kind == "postgres"
        dsn = self.own_journal_tcp if scenario.own_journal else self.journal_tcp
        if server:
            with psycopg.connect(dsn) as connection:
                found = connection.execute("SELECT operation_id, state FROM dpone_journal")
                known = dict(found.fetchall())
        else:
            folder = self.folder / scenario.name
            names = [folder / "journal", folder / ".dpone" / "journal.db"]
            path = next((name for name in names if name.exists()), names[0])
            with closing(sqlite3.connect(path)) as files:
                known = dict(files.execute("SELECT operation_id, state FROM dpone_journal"))
        return [str(known.get(operation, "absent")) for operation in operations]

    @contextmanager
    def _opened(self, scenario: Scenario) -> Iterator[Any]:
        """Ask a target; of a file a copy, because whoever stands still may hold its lock."""
        if scenario.kind == "postgres":
            with psycopg.connect(self.orders) as connection:
                yield lambda sql: connection.execute(sql).fetchall()
            return
        with tempfile.TemporaryDirectory(dir=self.folder) as side:
            for path in (self.folder / scenario.name).glob("target*"):
                shutil.copy(path, Path(side) / path.name)
            if scenario.kind == "duckdb":
                with duckdb.connect(str(Path(side) / "target")) as file:
                    yield lambda sql: file.execute(sql).fetchall()
            else:
                with closing(sqlite3.connect(Path(side) / "target")) as plain:
                    yield lambda sql: plain.execute(sql).fetchall()

    def proof(self, scenario: Scenario) -> dict[str, Any] | None:
        """What the attempt that was hurt said just before; None while none was."""
        path = self.proofs / f"{scenario.name}.struck"
        with suppress(FileNotFoundError):
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        return None

    def let_go(self, scenario: Scenario) -> None:
        """Let an attempt that waits go on."""
        (self.proofs / f"{scenario.name}.go").touch()


def _create(kind: str, path: Path) -> None:
    if kind == "duckdb":
        with duckdb.connect(str(path)) as file:
            file.execute(ORDERS)
        return
    with closing(sqlite3.connect(path)) as plain, plain:
        plain.execute(ORDERS)
