"""One DAG for each scenario of the plan that the environment names; runs inside Airflow."""

from __future__ import annotations

import importlib
import json
import os
import sqlite3
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

try:
    from airflow.providers.standard.operators.python import PythonOperator
    from airflow.sdk import DAG
    from airflow.sdk import task as tasks
except ImportError:
    from airflow.decorators import task as tasks
    from airflow.models.dag import DAG
    from airflow.operators.python import PythonOperator
from airflow.timetables.interval import CronDataIntervalTimetable

sys.path.insert(0, str(Path(__file__).parent))
deeds: Any = importlib.import_module("deeds")

PLAN = json.loads(Path(os.environ["DPONE_LAB_PLAN"]).read_text())
FOLDER = PLAN["proofs"]
DAY = datetime(2024, 1, 1, tzinfo=UTC)


def row(scenario: dict[str, Any], attempt: int, amount: int) -> str:
    """The statement that writes the one row of an attempt."""
    name = scenario["name"]
    return f"INSERT INTO orders VALUES ('{name}', {attempt}, {os.getpid()}, {amount})"


# -- the control: a task that writes and commits, as most do ---------------------------------------


def connect(kind: str, place: str) -> Any:
    """A connection of the target's own driver, in which nothing commits by itself."""
    if kind == "postgres":
        import psycopg

        return psycopg.connect(place)
    if kind == "duckdb":
        import duckdb

        connection = duckdb.connect(place)
        connection.execute("BEGIN")
        return connection
    return sqlite3.connect(place, timeout=30)


def naive(scenario: dict[str, Any]) -> Any:
    """What a task does that trusts the retry."""

    def load(ti: Any = None) -> None:
        where = {"folder": FOLDER, "name": scenario["name"]}
        if scenario["mode"] == "pause":
            deeds.strike(deed="pause", **where)
        connection = connect(scenario["kind"], scenario["place"])
        connection.execute(row(scenario, ti.try_number, 100))
        connection.commit()
        connection.close()
        if scenario["mode"] in ("child", "supervisor"):
            deeds.strike(deed=scenario["mode"], **where)

    return PythonOperator(task_id="load", python_callable=load)


# -- the fenced write ------------------------------------------------------------------------------


def prepared(scenario: dict[str, Any]) -> Any:
    """What the operator calls before it executes: it arms the target's commit."""
    hurt = {
        "child": {"after": "child"},
        "supervisor": {"after": "supervisor"},
        "stall": {"before": "pause"},
        "cut": {"before": "wait"},
        "wait": {"after": "wait"},
    }.get(scenario["mode"])

    def prepare(_context: Any) -> None:
        deeds.sow(scenario["defect"])
        where = {"folder": FOLDER, "name": scenario["name"]}
        if scenario["mode"] == "early":
            deeds.strike(deed="pause", **where)
        if hurt:
            deeds.around_commit(scenario["kind"], **hurt, **where)

    return prepare


def fenced(scenario: dict[str, Any]) -> Any:
    """The same write inside the target's transaction; of several amounts one task each."""

    def load(transaction: Any, amount: int = 100, ti: Any = None) -> dict[str, Any]:
        if scenario["mode"] == "pause":
            deeds.strike(FOLDER, scenario["name"], "pause")
        transaction.execute(row(scenario, ti.try_number, amount))
        return {"rows": 1}

    given = {"target": scenario["target"], "journal": scenario["journal"]}
    if not scenario["amounts"]:
        return tasks.dpone(pre_execute=prepared(scenario), **given)(load)()

    def amounts(run_id: Any = None) -> list[int]:
        # Another run of the same interval finds them in another order.
        found = list(scenario["amounts"])
        return found[::-1] if str(run_id) == "another" else found

    operator = tasks.dpone(map_key="amount", pre_execute=prepared(scenario), **given)(load)
    return operator.expand(amount=tasks.python(amounts)())


def route(scenario: dict[str, Any]) -> Any:
    """A whole route, loaded by the operator."""
    from dpone.airflow import DponeRunOperator

    return DponeRunOperator(
        task_id="load",
        manifest=scenario["manifest"],
        connections=scenario["connections"],
        pre_execute=prepared(scenario),
    )


FLAVOURS = {"naive": naive, "fenced": fenced, "route": route}

for planned in PLAN["scenarios"]:
    daily = planned["schedule"] == "daily"
    timetable = CronDataIntervalTimetable("0 0 * * *", "UTC") if daily else planned["schedule"]
    with DAG(
        dag_id=planned["name"],
        schedule=timetable,
        start_date=DAY,
        end_date=DAY + timedelta(hours=1) if daily else None,
        catchup=daily,
        is_paused_upon_creation=True,
        default_args={
            "retries": planned["retries"],
            "retry_delay": timedelta(seconds=planned["delay_s"]),
        },
    ) as made:
        FLAVOURS[planned["flavour"]](planned)
    globals()[planned["name"]] = made
