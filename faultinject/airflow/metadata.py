"""What Airflow's own database says about runs, attempts and XComs, on 2.x and on 3.x."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

RUNNING = "running"
SUCCESS = "success"
FAILED = "failed"
ENDED = (SUCCESS, FAILED)
_TASK = "SELECT state, try_number, map_index, run_id, end_date FROM task_instance"
_WRITTEN = 'SELECT task_id, run_id, map_index, key, "timestamp" FROM xcom WHERE dag_id = %s'
_WHERE = " WHERE dag_id = %s AND task_id = 'load' ORDER BY run_id, map_index"


@dataclass(frozen=True, slots=True)
class Task:
    """One task instance as it stands."""

    run_id: str
    map_index: int
    state: str
    attempt: int
    ended: str


class Metadata:
    """Reads over one connection that threads share; a context manager."""

    def __init__(self, dsn: str) -> None:
        self._lock = threading.Lock()
        self._connection = psycopg.connect(dsn, autocommit=True, row_factory=dict_row)

    def __enter__(self) -> Metadata:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def rows(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """The rows of a query."""
        with self._lock:
            found = self._connection.execute(statement.encode(), values)
            return list(found.fetchall()) if found.description else []

    def runs(self, dag_id: str) -> dict[str, str]:
        """The state of each run of a DAG."""
        found = self.rows("SELECT run_id, state FROM dag_run WHERE dag_id = %s", dag_id)
        return {row["run_id"]: str(row["state"]) for row in found}

    def intervals(self, dag_id: str) -> set[tuple[str, str]]:
        """The data intervals of the runs of a DAG."""
        statement = "SELECT data_interval_start, data_interval_end FROM dag_run WHERE dag_id = %s"
        return {(str(a), str(b)) for a, b in map(dict.values, self.rows(statement, dag_id))}

    def tasks(self, dag_id: str) -> list[Task]:
        """The instances of the task `load`."""
        return [
            Task(
                run_id=row["run_id"],
                map_index=int(row["map_index"]),
                state=str(row["state"]),
                attempt=int(row["try_number"]),
                ended=str(row["end_date"]),
            )
            for row in self.rows(_TASK + _WHERE, dag_id)
        ]

    def history(self, dag_id: str) -> list[tuple[str, int, int, str]]:
        """The attempts that were replaced: run, map index, number, state."""
        found = self.rows(
            "SELECT run_id, map_index, try_number, state FROM task_instance_history" + _WHERE,
            dag_id,
        )
        rows = [(r["run_id"], int(r["map_index"]), int(r["try_number"]), r["state"]) for r in found]
        return sorted(rows)

    def xcoms(self, dag_id: str) -> dict[tuple[str, int], Any]:
        """What the task returned, by run and map index."""
        found = self.rows(
            "SELECT run_id, map_index, value FROM xcom WHERE dag_id = %s AND task_id = 'load'"
            " AND key = 'return_value'",
            dag_id,
        )
        return {(row["run_id"], int(row["map_index"])): _value(row["value"]) for row in found}

    def pictured(self, dag_id: str) -> tuple[Any, ...]:
        """Everything that a report of the task would change."""
        return (
            tuple(self.tasks(dag_id)),
            tuple(self.history(dag_id)),
            tuple(sorted((key, json.dumps(v)) for key, v in self.xcoms(dag_id).items())),
            tuple(sorted(map(repr, self.rows(_WRITTEN, dag_id)))),
            tuple(sorted(self.runs(dag_id).items())),
        )

    def unpause(self, dag_ids: Sequence[str]) -> None:
        """Let DAGs run that wait, as the command does, for the price of a statement."""
        self.rows("UPDATE dag SET is_paused = false WHERE dag_id = ANY(%s)", list(dag_ids))

    def known(self) -> set[str]:
        """The DAGs that Airflow has read."""
        return {row["dag_id"] for row in self.rows("SELECT dag_id FROM dag")}

    def import_errors(self) -> list[str]:
        """Why a DAG file could not be read."""
        return [str(row["stacktrace"]) for row in self.rows("SELECT stacktrace FROM import_error")]


def _value(stored: Any) -> Any:
    """2.x keeps the JSON text as bytes; 3.x keeps JSON, and a mapping in an envelope."""
    if isinstance(stored, memoryview | bytes):
        return _value(json.loads(bytes(stored)))
    if isinstance(stored, str):
        try:
            return _value(json.loads(stored))
        except ValueError:
            return stored
    if isinstance(stored, Mapping) and set(stored) == {"__type", "__var"}:
        return _value(stored["__var"]) if stored["__type"] == "dict" else stored["__var"]
    if isinstance(stored, Mapping):
        return {str(key): _plain(value) for key, value in stored.items()}
    return stored


def _plain(value: Any) -> Any:
    return _value(value) if isinstance(value, Mapping) else value
