"""`DponeRunOperator`: which parts it loads, what it hands on, and how it ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from airflow.timetables.interval import CronDataIntervalTimetable

from dpone.airflow import DponeRunOperator

from . import lab
from .lab import run, sql

ROWS = "SELECT id FROM orders ORDER BY id"
CSV = """\
id,day,region
1,2024-01-01,eu
2,2024-01-02,eu
3,2024-01-02,us
4,2024-01-03,us
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """A route by day into SQLite."""
    (tmp_path / "orders.csv").write_text(CSV)
    return _route(tmp_path, "{interval: {column: day, every: day}}")


def _route(folder: Path, partition: str, target: str = "sqlite: w.db") -> Path:
    path = folder / "route.yaml"
    path.write_text(
        "schema: dpone.route.v1\nroute: orders\nsource: {csv: orders.csv}\n"
        f"target: {{{target}, table: orders}}\nstrategy: append\npartition: {partition}\n"
        "columns: {id: integer, day: date, region: text}\n"
    )
    return path


def test_the_xcom_holds_the_receipts_of_the_fence(manifest: Path) -> None:
    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest, data_interval=False)

    done = run(define)
    assert done.state == "success"
    assert sql(manifest.parent / "w.db", ROWS) == [(1,), (2,), (3,), (4,)]
    told = done.receipt("load")
    assert {name: told[name] for name in ("schema", "route", "environment")} == {
        "schema": "dpone.airflow-run.v1",
        "route": "orders",
        "environment": "default",
    }
    assert [item["partition"] for item in told["operations"]] == [
        f"day=2024-01-0{day}" for day in (1, 2, 3)
    ]
    receipts = [item["receipt"] for item in told["operations"]]
    held = lab.fence(manifest.parent / "w.db")
    assert sorted(receipts, key=lambda item: item["operation_id"]) == held


def test_a_second_run_replays_the_same_receipts(manifest: Path) -> None:
    def define() -> None:
        first = DponeRunOperator(task_id="first", manifest=manifest, data_interval=False)
        first >> DponeRunOperator(task_id="second", manifest=manifest, data_interval=False)

    done = run(define)
    assert done.receipt("first") == done.receipt("second")
    assert sql(manifest.parent / "w.db", "SELECT count(*) FROM orders") == [(4,)]


def test_only_the_days_of_the_interval_are_loaded(manifest: Path) -> None:
    # A run of a schedule; a manual run of 3.x spans no time.
    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest)

    done = run(define, day=lab.DAY)
    loaded = [item["partition"] for item in done.receipt("load")["operations"]]
    expected = ["day=2024-01-01", "day=2024-01-02", "day=2024-01-03"] if lab.SDK else None
    assert loaded == (expected or ["day=2024-01-01"])


def test_a_partition_is_a_template(manifest: Path) -> None:
    def define() -> None:
        DponeRunOperator(task_id="load", manifest=str(manifest), partition="day={{ ds }}")

    assert run(define).state == "success"
    assert sql(manifest.parent / "w.db", ROWS) == [(2,), (3,)]


def test_another_task_may_name_manifest_and_partition(manifest: Path) -> None:
    def define() -> None:
        @lab.task
        def where() -> str:
            return str(manifest)

        @lab.task
        def which() -> list[str]:
            return ["day=2024-01-02"]

        DponeRunOperator(task_id="load", manifest=where(), partition=which())

    assert run(define).state == "success"
    assert sql(manifest.parent / "w.db", ROWS) == [(2,), (3,)]


def test_partitions_are_the_keys_of_a_mapped_load(manifest: Path) -> None:
    _route(manifest.parent, "{column: region}")

    def define() -> None:
        DponeRunOperator.partial(task_id="load", manifest=str(manifest)).expand(
            partition=["region=us", "region=eu"]
        )

    done = run(define)
    assert done.state == "success"
    assert sql(manifest.parent / "w.db", "SELECT count(*) FROM orders") == [(4,)]
    names = [done.receipt("load", at)["operations"][0]["partition"] for at in (0, 1)]
    assert names == ["region=us", "region=eu"]


def test_a_manifest_with_a_mistake_is_not_retried(manifest: Path) -> None:
    manifest.write_text("schema: dpone.route.v1\n")

    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest)

    done = run(define, retries=2)
    assert (done.states["load", -1], done.tries["load", -1]) == ("failed", 1)


def test_an_unknown_partition_is_not_retried(manifest: Path) -> None:
    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest, partition="day=1999-01-01")

    done = run(define, retries=2)
    assert (done.states["load", -1], done.tries["load", -1]) == ("failed", 1)
    assert not (manifest.parent / "w.db").exists()


def test_a_changed_source_is_refused_and_the_rest_is_loaded(manifest: Path) -> None:
    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest, data_interval=False)

    _route(manifest.parent, "file")
    run(define, dag_id="before")
    (manifest.parent / "orders.csv").write_text(CSV + "5,2024-01-04,eu\n")
    done = run(define, dag_id="after", retries=2)
    assert (done.states["load", -1], done.tries["load", -1]) == ("failed", 1)
    assert sql(manifest.parent / "w.db", "SELECT count(*) FROM orders") == [(4,)]


def test_a_target_that_does_not_answer_is_retried(
    manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _route(manifest.parent, "none", "postgres: warehouse")
    told = '{"conn_type": "postgres", "host": "127.0.0.1", "port": 1, "schema": "w"}'
    monkeypatch.setenv("AIRFLOW_CONN_PG", told)

    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest, connections={"warehouse": "pg"})

    done = run(define, retries=1)
    assert (done.states["load", -1], done.tries["load", -1]) == ("failed", 2)


def test_a_connection_of_another_kind_is_not_retried(
    manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _route(manifest.parent, "none", "postgres: warehouse")
    monkeypatch.setenv("AIRFLOW_CONN_WEB", '{"conn_type": "http", "host": "127.0.0.1"}')

    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest, connections={"warehouse": "web"})

    done = run(define, retries=2)
    assert (done.states["load", -1], done.tries["load", -1]) == ("failed", 1)


def test_a_relative_manifest_lies_beside_the_dag(manifest: Path) -> None:
    here = Path(__file__).parent

    def define() -> None:
        # The DAG is made in a module of this folder.
        place = os.path.relpath(manifest, here)
        DponeRunOperator(task_id="load", manifest=place, data_interval=False)

    assert run(define).state == "success"
    assert sql(manifest.parent / "w.db", "SELECT count(*) FROM orders") == [(4,)]


@pytest.mark.parametrize("given", ["0", "x", "-1", "1.5"])
def test_a_revision_that_is_none_is_refused(manifest: Path, given: str) -> None:
    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest, revision=given)

    done = run(define, retries=1)
    assert (done.states["load", -1], done.tries["load", -1]) == ("failed", 1)


def test_the_receipt_is_in_the_extra_of_the_asset(manifest: Path) -> None:
    asset = lab.Asset(f"file://{manifest.parent}/orders")

    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest, data_interval=False, outlets=[asset])

    done = run(define)
    (extra,) = lab.asset_extras(done.dag_id)
    ids = [item["receipt"]["operation_id"] for item in done.receipt("load")["operations"]]
    assert extra["dpone_operations"] == ids
    assert extra["dpone_receipt"].startswith("sha256:")


@pytest.mark.parametrize("partition", ["", [], "{{ none }}", "{{ params.get('day', '') }}"])
def test_a_partition_that_names_nothing_is_not_the_whole_source(
    manifest: Path, partition: str | list[str]
) -> None:
    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest, partition=partition)

    done = run(define, retries=2)
    assert (done.states["load", -1], done.tries["load", -1]) == ("failed", 1)
    assert not (manifest.parent / "w.db").exists()


@pytest.mark.parametrize("mapped", ["expand", "expand_kwargs"])
def test_a_partition_of_a_mapped_load_that_names_nothing_is_not_the_whole_source(
    manifest: Path, mapped: str
) -> None:
    def define() -> None:
        @lab.task
        def which() -> list[Any]:
            found: list[Any] = ["day=2024-01-02", None]
            return found if mapped == "expand" else [{"partition": part} for part in found]

        load = DponeRunOperator.partial(task_id="load", manifest=str(manifest), data_interval=False)
        load.expand(partition=which()) if mapped == "expand" else load.expand_kwargs(which())

    done = run(define, retries=2)
    assert [done.states["load", at] for at in (0, 1)] == ["success", "failed"]
    assert done.tries["load", 1] == 1
    assert sql(manifest.parent / "w.db", ROWS) == [(2,), (3,)]


def test_connections_of_a_mapped_load_that_name_nothing_are_not_the_project_s(
    manifest: Path,
) -> None:
    def define() -> None:
        @lab.task
        def which() -> list[Any]:
            return [{}, None]

        load = DponeRunOperator.partial(task_id="load", manifest=str(manifest), data_interval=False)
        load.expand(connections=which())

    done = run(define, retries=2)
    assert [done.states["load", at] for at in (0, 1)] == ["success", "failed"]
    assert done.tries["load", 1] == 1


def test_a_mapped_load_that_names_no_partition_loads_the_whole_source(manifest: Path) -> None:
    def define() -> None:
        load = DponeRunOperator.partial(task_id="load", data_interval=False)
        load.expand(manifest=[str(manifest)])

    assert run(define).state == "success"
    assert sql(manifest.parent / "w.db", "SELECT count(*) FROM orders") == [(4,)]


def test_a_load_that_was_interrupted_is_retried(
    manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpone.loading.run import Run

    commit, calls = Run._commit, []

    def interrupted(self: Run, planned: Any) -> Any:
        calls.append(planned)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return commit(self, planned)

    monkeypatch.setattr(Run, "_commit", interrupted)

    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest, data_interval=False)

    done = run(define, retries=1)
    assert (done.states["load", -1], done.tries["load", -1]) == ("success", 2)
    assert sql(manifest.parent / "w.db", "SELECT count(*) FROM orders") == [(4,)]


def test_a_run_whose_day_has_no_rows_yet_loads_them_when_it_is_cleared(manifest: Path) -> None:
    schedule: Any = CronDataIntervalTimetable("@daily", timezone="UTC")
    source = manifest.parent / "orders.csv"
    source.write_text("id,day,region\n2,2024-01-02,eu\n")

    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest)

    before = run(define, dag_id="early", schedule=schedule)
    assert (before.state, before.receipt("load")["operations"]) == ("success", [])
    source.write_text("id,day,region\n1,2024-01-01,eu\n2,2024-01-02,eu\n")
    after = run(define, dag_id="late", schedule=schedule)
    loaded = [item["partition"] for item in after.receipt("load")["operations"]]
    assert loaded == ["day=2024-01-01"]
