"""Runs that stand for a partition, as Airflow has them from 3.2 on: the key is the identity."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpone.airflow import DponeRunOperator

from . import lab
from .lab import run, sql, task
from .test_slips import Define, _manifest, said
from .test_write import ROWS, insert

__all__ = ["said"]


@pytest.fixture
def partitioned(monkeypatch: pytest.MonkeyPatch) -> Callable[[Define], lab.Ran]:
    """Run a DAG as a run of the partition 2024-01-02; each run has an id of its own."""
    from airflow.models.dagrun import DagRun
    from airflow.sdk import CronPartitionTimetable

    began = DagRun.__init__

    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        began(self, *args, **{**kwargs, "partition_key": "2024-01-02"})

    monkeypatch.setattr(DagRun, "__init__", begin)
    schedule: Any = CronPartitionTimetable("@daily", timezone="UTC", key_format="%Y-%m-%d")
    day: Any = None
    return lambda define: run(define, dag_id="parted", day=day, schedule=schedule)


def test_two_runs_of_one_partition_are_one_write(
    place: Path, partitioned: Callable[[Define], lab.Ran]
) -> None:
    def define() -> None:
        @task.dpone(target="warehouse")
        def write(transaction: Any, dag_run: Any = None) -> None:
            insert(transaction, dag_run.partition_key, 1)

        write()

    first, second = partitioned(define), partitioned(define)
    assert first.run_id != second.run_id
    assert (first.state, second.state) == ("success", "success")
    assert first.receipt("write") == second.receipt("write")
    assert sql(place / "target.db", ROWS) == [("2024-01-02", 1)]


def test_a_load_of_a_partition_names_its_part(
    place: Path, partitioned: Callable[[Define], lab.Ran], said: Callable[[], str]
) -> None:
    manifest = str(_manifest(place, "{interval: {column: day, every: day}}"))

    def unnamed() -> None:
        DponeRunOperator(task_id="load", manifest=manifest)

    def named() -> None:
        part = "day={{ dag_run.partition_key }}"
        DponeRunOperator(task_id="load", manifest=manifest, partition=part)

    assert partitioned(unnamed).state == "failed"
    assert "DPONE_AIRFLOW_PART_UNNAMED" in said()
    assert partitioned(named).state == "success"
    assert sql(place / "target.db", "SELECT id FROM orders") == [(2,)]


def test_every_part_may_be_loaded_in_each_run(
    place: Path, partitioned: Callable[[Define], lab.Ran]
) -> None:
    manifest = str(_manifest(place, "{interval: {column: day, every: day}}"))

    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest, data_interval=False)

    assert partitioned(define).state == "success"
    assert sql(place / "target.db", "SELECT count(*) FROM orders") == [(2,)]
