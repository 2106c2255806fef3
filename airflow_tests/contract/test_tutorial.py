"""The tutorial, as a reader would follow it: its files, its connections, its DAG."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from . import lab

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "airflow.md"


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)


@pytest.fixture
def dags(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of DAGs with what the page says to put there."""
    folder = lab.dags_folder()
    (folder / "orders").mkdir(parents=True)
    for name, language in (
        ("orders/orders.csv", "csv"),
        ("orders/route.yaml", "yaml"),
        ("orders_dag.py", "python"),
    ):
        (text,) = _blocks(language)
        assert f"`{name}`" in PAGE.read_text("utf-8")
        (folder / name).write_text(text)
    for variable, value in re.findall(r"^export (\w+)='(.*)'$", "".join(_blocks("sh")), re.M):
        monkeypatch.setenv(variable, value.replace("DAGS", str(folder)))
    yield folder
    shutil.rmtree(folder / "orders")
    (folder / "orders_dag.py").unlink()


def _rows(dags: Path, statement: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(dags / "orders" / "warehouse.duckdb"), read_only=True) as connection:
        return connection.execute(statement).fetchall()


def test_the_dag_of_the_page_loads_and_clearing_it_writes_nothing(dags: Path) -> None:
    first = lab.run_file(dags / "orders_dag.py", "orders")
    assert (first.state, set(first.states.values())) == ("success", {"success"})
    # A manual run of 2.x has the day before as its interval, one of 3.x has none.
    loaded = [5, 7, 11] if lab.SDK else [5, 7]
    assert _rows(dags, "SELECT amount FROM orders ORDER BY amount") == [(n,) for n in loaded]
    assert _rows(dags, "FROM totals") == [(len(loaded), sum(loaded))]

    again = lab.run_file(dags / "orders_dag.py", "orders")
    assert again.state == "success"
    for task_id in ("load", "totals"):
        assert again.receipt(task_id) == first.receipt(task_id)
    assert _rows(dags, "SELECT count(*) FROM orders") == [(len(loaded),)]
    assert _rows(dags, "SELECT count(*) FROM totals") == [(1,)]


def test_the_first_run_that_is_scheduled_is_that_of_the_first_day(dags: Path) -> None:
    # On 2.x a run of today's interval would find nothing in the file, and no table for the totals.
    dag = lab.dag_of(dags / "orders_dag.py", "orders")
    assert dag.catchup
    assert dag.max_active_runs == 1
    if not lab.SDK:
        first = dag.next_dagrun_info(None).data_interval
        second = dag.next_dagrun_info(first).data_interval
        assert [day.start.date().isoformat() for day in (first, second)] == [
            "2024-01-01",
            "2024-01-02",
        ]
        assert dag.next_dagrun_info(second) is None


def test_the_lines_of_the_log_are_those_that_are_written() -> None:
    from dpone.airflow.attempt import SAYS

    told = dict(
        re.findall(r"^dpone: operation \S+ (\w+) \(.*?\): (.*)$", "".join(_blocks("text")), re.M)
    )
    assert {how: SAYS[how] for how in told} == told
    assert set(told) == {"committed", "replayed", "settled"}
