"""dpone in Airflow: an operator that loads a route, and a decorator for a task's own write.

Promise: importing this package opens no connection and imports no driver, so that a DAG file is
parsed quickly. One code base for Airflow 2.10, 2.11, 3.2 and 3.3; `compat` alone knows their
differences.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpone.airflow.decorators import dpone_task
    from dpone.airflow.hooks import DponeHook
    from dpone.airflow.operators import DponeRunOperator

__all__ = ["DponeHook", "DponeRunOperator", "dpone_task"]

_HOMES = {
    "DponeHook": "dpone.airflow.hooks",
    "DponeRunOperator": "dpone.airflow.operators",
    "dpone_task": "dpone.airflow.decorators",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used. Raises `ExtraMissing` without Airflow."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(home), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "airflow":
            raise
        from dpone.contracts.errors import ExtraMissing

        raise ExtraMissing(extra="airflow") from None
