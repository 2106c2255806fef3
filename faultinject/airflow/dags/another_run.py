"""Make another run of the interval of the first one, under an id of its own: what an API call does.

Run by the environment's Python; Airflow reads no DAG from it.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunType

DAY = datetime(2024, 1, 1, tzinfo=UTC)


def main(dag_id: str, run_id: str) -> None:
    """Queue the run; the scheduler starts it."""
    given: dict[str, Any] = {
        "run_id": run_id,
        "data_interval": (DAY, DAY + timedelta(days=1)),
        "run_type": DagRunType.MANUAL,
        "state": DagRunState.QUEUED,
    }
    moment = DAY + timedelta(minutes=30)
    try:
        from airflow.utils.types import DagRunTriggeredByType
    except ImportError:
        given |= {"execution_date": moment, "external_trigger": True}
    else:
        api = DagRunTriggeredByType.REST_API
        given |= {"logical_date": moment, "run_after": moment, "triggered_by": api}
    found: Any = SerializedDagModel.get(dag_id)
    found.dag.create_dagrun(**given)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
