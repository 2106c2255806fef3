"""Errors of a task of Airflow: what its author must mend before anything is read or written."""

from __future__ import annotations

from dpone.contracts.errors import EXIT_CONFLICT, EXIT_USAGE, DponeError


class AirflowError(DponeError):
    """Base of the errors of the Airflow operators."""


class AirflowConnectionInvalid(AirflowError):
    """A connection of Airflow does not say where a journal or a target is."""

    code = "DPONE_AIRFLOW_CONNECTION_INVALID"
    exit_code = EXIT_USAGE
    happened = "The Airflow connection {name} cannot be used: {reason}."
    known = "Nothing was read or written."
    advice = (
        "Make it of type dpone with an extra named spec, such as postgres:<connection string>, or "
        "of type postgres, sqlite or duckdb."
    )


class AirflowMapKeyMissing(AirflowError):
    """A mapped task does not say what tells its instances apart."""

    code = "DPONE_AIRFLOW_MAP_KEY_MISSING"
    exit_code = EXIT_USAGE
    happened = (
        "Task {task} is mapped, and its map index is no identity: it changes when the list does."
    )
    known = "Nothing was read or written."
    advice = "Name the argument that tells the instances apart: @task.dpone(map_key='region')."


class AirflowArgumentInvalid(AirflowError):
    """An argument of a task cannot stand for what is to be written."""

    code = "DPONE_AIRFLOW_ARGUMENT_INVALID"
    exit_code = EXIT_USAGE
    happened = "The argument {argument} of task {task} cannot be used: {reason}."
    known = "Nothing was read or written."
    advice = (
        "Mend the argument in the DAG. Give a function JSON values (text, whole numbers, lists, "
        "objects), such as the key or the place of what is to be written: a retry is compared "
        "with them."
    )


class AirflowIntervalUnfit(AirflowError):
    """The interval of a DAG run is shorter than a part of the route."""

    code = "DPONE_AIRFLOW_INTERVAL_UNFIT"
    exit_code = EXIT_CONFLICT
    happened = (
        "The data interval from {since} to {until} is shorter than a {every}, and the route is "
        "cut by {every}."
    )
    known = "Nothing was read or written."
    advice = (
        "Schedule the DAG by {every} or longer, or load every part in each run: "
        "DponeRunOperator(data_interval=False)."
    )


class AirflowPartUnnamed(AirflowError):
    """A run has a partition key and no interval, and nobody says which part of the route it is."""

    code = "DPONE_AIRFLOW_PART_UNNAMED"
    exit_code = EXIT_USAGE
    happened = (
        "The DAG run stands for the partition {key}, and the route is cut by {every}; which part "
        "of it that is, the task does not say."
    )
    known = "Nothing was read or written."
    advice = (
        "Name the part as the route's labels do: partition={example}, for a key that is written "
        "like {written}. Or load every part in each run: DponeRunOperator(data_interval=False)."
    )


class AirflowManifestMissing(AirflowError):
    """The operator's manifest is not there."""

    code = "DPONE_AIRFLOW_MANIFEST_MISSING"
    exit_code = EXIT_USAGE
    happened = "There is no manifest {name}."
    known = "Nothing was read or written."
    advice = (
        "Check the argument manifest: a relative path is taken from the folder of the DAG file. "
        "The file must be where the task runs."
    )
