"""DAGs that are run in this process, and what is found afterwards."""

from __future__ import annotations

import datetime
import itertools
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import airflow

try:
    from airflow.sdk import DAG, Asset, TaskGroup, task
except ImportError:
    from airflow import DAG
    from airflow.datasets import Dataset as Asset
    from airflow.decorators import task
    from airflow.utils.task_group import TaskGroup

__all__ = ["DAG", "SDK", "Asset", "Ran", "TaskGroup", "fence", "run", "sql", "task"]

VERSION = tuple(int(part) for part in airflow.__version__.split(".")[:2])
SDK = VERSION >= (3, 0)
DAY = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)
_NUMBERS = itertools.count(1)


class Ran(NamedTuple):
    """A finished run: its state, and state and tries of each task instance by (task, index)."""

    dag_id: str
    run_id: str
    state: str
    states: dict[tuple[str, int], str]
    tries: dict[tuple[str, int], int]
    xcoms: dict[tuple[str, int, str], Any]

    def receipt(self, task_id: str, index: int = -1) -> Any:
        """What the task returned."""
        return self.xcoms[task_id, index, "return_value"]


def run(
    define: Callable[[], object],
    *,
    dag_id: str = "",
    day: datetime.datetime = DAY,
    retries: int = 0,
    schedule: str | None = "@daily",
) -> Ran:
    """Make a DAG of what `define` declares, run it once, and look at Airflow's database."""
    name = dag_id or f"dag_{next(_NUMBERS)}"
    given = {"retries": retries, "retry_delay": datetime.timedelta(0)}
    with DAG(
        name,
        schedule=schedule,
        start_date=datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
        catchup=False,
        default_args=given,
    ) as dag:
        define()
    if SDK:
        _known(dag)
    else:
        DAG.bulk_write_to_db([dag])
    done = dag.test(**{"logical_date" if SDK else "execution_date": day})
    return _looked(name, str(getattr(done.state, "value", done.state)), done.run_id)


def run_file(path: Path, dag_id: str) -> Ran:
    """Run the DAG of a file in the folder of DAGs, as often as one likes for the same day."""
    dag = dag_of(path, dag_id)
    if not SDK:
        _forget(dag_id)
        DAG.bulk_write_to_db([dag])
    done = dag.test(**{"logical_date" if SDK else "execution_date": DAY})
    return _looked(dag_id, str(getattr(done.state, "value", done.state)), done.run_id)


def dag_of(path: Path, dag_id: str) -> Any:
    """The DAG of a file in the folder of DAGs."""
    if SDK:
        return _known().dags[dag_id]
    from airflow.models import DagBag

    return DagBag(str(path), include_examples=False).dags[dag_id]


def dags_folder() -> Path:
    """The folder of DAGs of this Airflow."""
    return Path(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])


def _known(dag: Any = None) -> Any:
    """Make the DAGs of the folder known, and one that lies in no file; return what was found."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db

    manager = DagBundlesManager()
    manager.sync_bundles_to_db()
    (bundle,) = manager.get_all_dag_bundles()
    bundle.path.mkdir(exist_ok=True)
    bundle.initialize()
    bag = BundleDagBag(bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
    if dag is not None:
        bag.bag_dag(dag)
    sync_bag_to_db(bag, bundle.name, bundle.version)
    return bag


def _looked(dag_id: str, state: str, run_id: str) -> Ran:
    keys = "task_id, map_index"
    where = "WHERE dag_id = ? AND run_id = ?"
    instances = sql(
        _database(),
        f"SELECT {keys}, state, try_number FROM task_instance {where}",
        (dag_id, run_id),
    )
    values = sql(_database(), f"SELECT {keys}, key, value FROM xcom {where}", (dag_id, run_id))
    return Ran(
        dag_id,
        run_id,
        state,
        {(row[0], row[1]): row[2] for row in instances},
        {(row[0], row[1]): row[3] for row in instances},
        {(row[0], row[1], row[2]): _value(row[3]) for row in values},
    )


def asset_extras(dag_id: str) -> list[Any]:
    """The extra of every asset event that a DAG's tasks produced."""
    table = "asset_event" if SDK else "dataset_event"
    rows = sql(_database(), f"SELECT extra FROM {table} WHERE source_dag_id = ?", (dag_id,))
    return [_value(row[0]) for row in rows]


def _forget(dag_id: str) -> None:
    """Remove the runs of a DAG: 2.x has one for a date, and cannot remove it by itself here."""
    with closing(sqlite3.connect(_database())) as connection, connection:
        for table in ("xcom", "task_instance", "dag_run"):
            connection.execute(f"DELETE FROM {table} WHERE dag_id = ?", (dag_id,))


def _database() -> Path:
    return Path(os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].removeprefix("sqlite:///"))


def _value(stored: Any) -> Any:
    """An XCom as the database of its version keeps it: JSON in a column of that type or of text."""
    return json.loads(stored) if isinstance(stored, str | bytes) else stored


def sql(path: Path, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
    """Rows of a SQLite file, on a connection that knows nothing of this library."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement, values).fetchall()


def fence(path: Path) -> list[dict[str, Any]]:
    """What the fence in a SQLite target holds, as receipts."""
    rows = sql(
        path,
        "SELECT operation_id, epoch, attempt_id, intent_digest, result FROM dpone_fence"
        " WHERE kind = 'committed' ORDER BY operation_id",
    )
    names = ("operation_id", "epoch", "attempt_id", "intent_digest")
    return [
        {**dict(zip(names, row[:4], strict=True)), "result": json.loads(row[4]), "shortened": False}
        for row in rows
    ]
