"""What Airflow sees of the provider: the hook, the link, and how a DAG file is parsed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpone.airflow.hooks import DponeHook, resolved
from dpone.airflow.links import VARIABLE, DponeOperationLink
from dpone.contracts.errors_airflow import AirflowConnectionInvalid

from . import lab
from .lab import run, task

DAG_FILE = """
import json, sys

reached = []

def hook(event, arguments):
    if event in ("socket.connect", "sqlite3.connect", "socket.getaddrinfo"):
        reached.append([event, str(arguments[-1])])

import airflow
try:
    from airflow.sdk import DAG, task
except ImportError:
    from airflow import DAG
    from airflow.decorators import task
import pendulum
sys.addaudithook(hook)
before = set(sys.modules)
from dpone.airflow import DponeRunOperator

with DAG("parsed", schedule="@daily", start_date=pendulum.datetime(2024, 1, 1, tz="UTC")) as dag:
    load = DponeRunOperator(
        task_id="load", manifest="nowhere/route.yaml", connections={"warehouse": "pg"}
    )

    @task.dpone(target="warehouse", map_key="region")
    def write(transaction, region):
        pass

    load >> write.expand(region=["eu", "us"])
drivers = ("duckdb.", "psycopg.", "sqlite3.", "yaml.", "dpone.fencing.", "dpone.adapters.")
new = [name for name in sys.modules if name not in before and (name + ".").startswith(drivers)]
print(json.dumps({"reached": reached, "new": new, "tasks": sorted(dag.task_ids)}))
"""


def test_parsing_a_file_opens_no_connection_and_imports_no_driver(tmp_path: Path) -> None:
    path = tmp_path / "dag.py"
    path.write_text(DAG_FILE)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout.splitlines()[-1])
    assert told == {"reached": [], "new": [], "tasks": ["load", "write"]}


def test_the_provider_is_known(place: Path) -> None:
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()
    assert "dpone" in manager.providers
    assert manager.providers["dpone"].data["package-name"] == "dpone"
    found = manager.hooks["dpone"]
    assert found is not None
    assert (found.connection_type, found.hook_class_name) == (
        "dpone",
        "dpone.airflow.hooks.DponeHook",
    )
    assert "dpone.airflow.links.DponeOperationLink" in manager.extra_links_class_names


def test_a_connection_is_tried_without_writing(place: Path) -> None:
    assert DponeHook("warehouse").test_connection() == (True, "sqlite answers")
    assert not (place / "target.db").exists()


def test_a_connection_that_leads_nowhere_says_so(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = "postgres:postgresql://u:s3cret@127.0.0.1:1/w?connect_timeout=1"
    told = json.dumps({"conn_type": "dpone", "extra": {"spec": spec}})
    monkeypatch.setenv("AIRFLOW_CONN_NOBODY", told)
    worked, said = DponeHook("nobody").test_connection()
    assert not worked
    assert "refused" in said.lower()
    assert "s3cret" not in said


def test_the_address_of_a_server_is_no_name_of_a_target() -> None:
    with pytest.raises(AirflowConnectionInvalid) as caught:
        resolved("postgres:postgresql://u:s3cret@127.0.0.1/w")
    assert "s3cret" not in str(caught.value.report())
    assert resolved("sqlite:/data/w.db") == ("sqlite:/data/w.db", "sqlite:/data/w.db")


def test_the_hook_opens_journal_and_target(place: Path) -> None:
    target = DponeHook("warehouse").get_conn()
    journal = DponeHook("dpone_journal").open_journal()
    try:
        assert target.name == "sqlite"
        assert list(journal.family("sha256:" + "0" * 64)) == []
    finally:
        target.close()
        journal.close()


def _written(place: Path) -> lab.Ran:
    def define() -> None:
        @task.dpone(target="warehouse")
        def write(transaction: Any) -> None:
            transaction.execute("CREATE TABLE t (x)")

        write()

    return run(define)


@pytest.mark.parametrize("page", ["https://runbooks.example/dpone/{operation_id}", ""])
def test_the_link_leads_to_the_operation(
    place: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.setenv(VARIABLE, page)
    done = _written(place)
    operation_id = done.receipt("write")["operation_id"]
    link = _link(done)
    if page:
        assert link == f"https://runbooks.example/dpone/{operation_id}"
    else:
        assert done.dag_id in link
        assert "xcom" in link


def _link(done: lab.Ran) -> str:
    """The link as the version computes it: the task itself in 3.x, the web server before."""
    if lab.SDK:
        return str(done.xcoms["write", -1, "_link_DponeOperationLink"])
    from airflow.models.taskinstancekey import TaskInstanceKey

    key = TaskInstanceKey(done.dag_id, "write", done.run_id, 1, -1)
    return DponeOperationLink().get_link(None, ti_key=key)


def test_a_task_without_a_receipt_has_no_link() -> None:
    from dpone.airflow.links import first_id

    nothing: list[Any] = [None, "x", {}, {"operations": []}]
    assert [first_id(value) for value in nothing] == [""] * 4
