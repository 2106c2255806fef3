"""The link from a task to its operation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from dpone.airflow import compat

VARIABLE = "DPONE_OPERATION_URL"


class DponeOperationLink(compat.BaseOperatorLink):
    """To the page of the operation, or to the receipt in Airflow's own pages.

    The environment variable DPONE_OPERATION_URL names the page, with a place for the id:
    `https://runbooks.example/dpone/{operation_id}`. Without it the link opens the task's XCom.
    """

    name = "dpone operation"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The address, or an empty one for a task that has no receipt yet."""
        value = compat.XCom.get_value(ti_key=ti_key, key="return_value")
        operation_id = first_id(value)
        if not operation_id:
            return ""
        if page := os.environ.get(VARIABLE):
            return page.replace("{operation_id}", operation_id)
        place = compat.xcom_page(ti_key.dag_id, ti_key.run_id, ti_key.task_id, ti_key.map_index)
        return compat.base_url() + place


def first_id(value: Any) -> str:
    """The operation of a receipt, or the first one of a route's."""
    if not isinstance(value, Mapping):
        return ""
    operations = value.get("operations")
    if operations:
        value = operations[0]["receipt"]
    return str(value.get("operation_id", ""))
