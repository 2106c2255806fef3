"""The one place that knows how Airflow 2.10, 2.11, 3.2 and 3.3 differ.

On 2.x a task writes its own state into Airflow's database. So an attempt that was given up, was
paused, and wakes when its replacement is done would overwrite what the replacement reported;
`leave_if_superseded` ends such a process before it says anything. On 3.x the server refuses the
state that such an attempt reports, but would take its XCom.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import Any

try:
    from airflow.sdk import BaseHook, BaseOperator, BaseOperatorLink
    from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
    )
    from airflow.sdk.execution_time.xcom import XCom

    SDK = True
except ImportError:
    from airflow.decorators.base import DecoratedOperator, task_decorator_factory
    from airflow.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
    )
    from airflow.hooks.base import BaseHook
    from airflow.models.baseoperator import BaseOperator
    from airflow.models.baseoperatorlink import BaseOperatorLink
    from airflow.models.xcom import XCom

    SDK = False

__all__ = [
    "SDK",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "BaseHook",
    "BaseOperator",
    "BaseOperatorLink",
    "DecoratedOperator",
    "XCom",
    "base_url",
    "connection_is_missing",
    "is_mapped",
    "leave_if_superseded",
    "task_decorator_factory",
    "xcom_page",
]

SUPERSEDED_EXIT = 1
_RUNNING = "running"


def leave_if_superseded(context: Mapping[str, Any], log: logging.Logger) -> None:
    """End this process when Airflow has given this attempt up; it then reports nothing.

    Only for a task that a worker runs: elsewhere Airflow says that it runs.
    """
    instance = context["ti"]
    try:
        superseded = _replaced(instance) if SDK else _superseded(instance)
    except Exception as error:  # noqa: BLE001 - of a server, a database, a client
        log.warning(
            "dpone: Airflow does not say whether attempt %s still speaks for the task: %s",
            instance.try_number,
            type(error).__name__,
        )
        return
    if not superseded:
        return
    log.warning(
        "dpone: Airflow has given up attempt %s, which it no longer lists as running; it ends "
        "here without reporting a state",
        instance.try_number,
    )
    for handler in (*log.handlers, *logging.getLogger().handlers):
        handler.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(SUPERSEDED_EXIT)


def _replaced(instance: Any) -> bool:
    """Whether the server says that no attempt of the task runs any more.

    It refuses the state that such an attempt reports, but takes its XCom.
    """
    found = instance.get_task_states(
        dag_id=instance.dag_id,
        map_index=instance.map_index,
        task_ids=[instance.task_id],
        run_ids=[instance.run_id],
    )
    states = [getattr(s, "value", s) for tasks in found.values() for s in tasks.values()]
    return bool(states) and _RUNNING not in states


def _superseded(instance: Any) -> bool:
    """Whether Airflow's database names another attempt, or none, as the running one."""
    if getattr(instance, "job_id", None) is None:
        return False
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    with create_session() as session:
        row = (
            session.query(TaskInstance.state, TaskInstance.job_id)
            .filter(
                TaskInstance.dag_id == instance.dag_id,
                TaskInstance.run_id == instance.run_id,
                TaskInstance.task_id == instance.task_id,
                TaskInstance.map_index == instance.map_index,
            )
            .one_or_none()
        )
    # The command that runs the task hands its job's id on as text.
    return row is not None and (row[0] != _RUNNING or str(row[1]) != str(instance.job_id))


def is_mapped(operator: Any) -> bool:
    """Whether Airflow has made this operator for one instance of a mapped task."""
    return bool(getattr(operator, "_BaseOperator__from_mapped", False))


def connection_is_missing(name: str) -> bool:
    """Whether every place that keeps connections answers that it has none of this name.

    Airflow says "not found" as well when such a place does not answer, which may pass.
    """
    try:
        return not any(_held(place, name) for place in _places())
    except Exception:  # noqa: BLE001 - of a server, a database, a client
        return False


def _places() -> list[Any]:
    if SDK:
        from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

        return list(ensure_secrets_backend_loaded())
    from airflow.configuration import ensure_secrets_loaded

    return list(ensure_secrets_loaded())


def _held(place: Any, name: str) -> bool:
    """Whether a place has the connection. Raises what keeps it from answering."""
    if type(place).__name__ != "ExecutionAPISecretsBackend":
        return place.get_connection(conn_id=name) is not None
    # It turns every failure into "none": ask the server itself.
    from airflow.sdk.exceptions import ErrorType
    from airflow.sdk.execution_time.comms import ErrorResponse, GetConnection
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    told = SUPERVISOR_COMMS.send(GetConnection(conn_id=name))
    if not isinstance(told, ErrorResponse):
        return True
    if told.error is not ErrorType.CONNECTION_NOT_FOUND:
        raise ConnectionError(str(told.error))
    return False


def base_url() -> str:
    """Where people open Airflow; empty when nobody configured it."""
    from airflow.configuration import conf

    section = "api" if SDK else "webserver"
    return str(conf.get(section, "base_url", fallback="") or "").rstrip("/")


def xcom_page(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    """The path of the page with a task's XComs."""
    from urllib.parse import quote, urlencode

    if SDK:
        mapped = f"/mapped/{map_index}" if map_index >= 0 else ""
        return f"/dags/{quote(dag_id)}/runs/{quote(run_id)}/tasks/{quote(task_id)}{mapped}/xcom"
    asked: dict[str, Any] = {"dag_run_id": run_id, "task_id": task_id, "tab": "xcom"}
    if map_index >= 0:
        asked["map_index"] = map_index
    return f"/dags/{quote(dag_id)}/grid?{urlencode(asked)}"
