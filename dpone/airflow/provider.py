"""What Airflow's entry point `apache_airflow_provider` asks for."""

from __future__ import annotations

from typing import Any

import dpone


def get_provider_info() -> dict[str, Any]:
    """Name, connection type and task decorator of this provider; imports no Airflow."""
    return {
        "package-name": "dpone",
        "name": "dpone",
        "description": "Loads that are safe to retry, and can prove it.",
        "versions": [dpone.__version__],
        "connection-types": [
            {"connection-type": "dpone", "hook-class-name": "dpone.airflow.hooks.DponeHook"}
        ],
        "task-decorators": [{"name": "dpone", "class-name": "dpone.airflow.decorators.dpone_task"}],
        "extra-links": ["dpone.airflow.links.DponeOperationLink"],
    }
