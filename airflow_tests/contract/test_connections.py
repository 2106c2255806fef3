"""Connections: what a DAG may name, which failures pass, and what is said of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpone.airflow import DponeRunOperator

from . import lab
from .lab import run, sql, task
from .test_load import _route
from .test_slips import Define, _fails_at_once, _manifest, said
from .test_write import insert

__all__ = ["said"]


def _writes_to(target: str) -> Define:
    def define() -> None:
        @task.dpone(target=target)
        def write(transaction: Any) -> None:
            insert(transaction, "x", 1)

        write()

    return define


def test_a_connection_that_nobody_has_is_not_retried(place: Path, said: Callable[[], str]) -> None:
    _fails_at_once(_writes_to("nobody_has_it"), place)
    assert "there is none of this name" in said()


def test_a_connection_that_cannot_be_asked_for_is_retried(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object, **__: object) -> Any:
        raise ConnectionError("nobody answers")

    if lab.SDK:
        from airflow.sdk.api.client import ConnectionOperations as Asked

        monkeypatch.setattr(Asked, "get", silent)
    else:
        from airflow.secrets.metastore import MetastoreBackend

        monkeypatch.setattr(MetastoreBackend, "get_connection", silent)
    done = run(_writes_to("nobody_has_it"), retries=1)
    assert (done.states["write", -1], done.tries["write", -1]) == ("failed", 2)


def test_an_extra_that_is_a_list_is_not_retried(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"conn_type": "postgres", "host": "127.0.0.1", "port": 1, "extra": "[1]"}
    monkeypatch.setenv("AIRFLOW_CONN_LISTED", json.dumps(told))
    _fails_at_once(_writes_to("listed"), place)


def test_a_server_is_called_by_the_id_of_its_connection(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpone.airflow import DponeHook

    told = {"conn_type": "postgres", "host": "127.0.0.1", "port": 1, "schema": "w"}
    monkeypatch.setenv("AIRFLOW_CONN_PGX", json.dumps(told))
    hook = DponeHook("pgx")
    opened: list[Any] = [hook.get_conn(), hook.open_journal()]
    assert [each.declared for each in opened] == ["pgx", "pgx"]
    opened = []
    from dpone.adapters.postgres import journal, target

    for kind in (journal.PostgresJournal, target.PostgresTarget):
        began = kind.__init__
        monkeypatch.setattr(kind, "__init__", _noting(began, opened))

    def define() -> None:
        @task.dpone(target="pgx", journal="pgx")
        def write(transaction: Any) -> None:
            insert(transaction, "x", 1)

        write()

    run(define)
    assert opened == ["pgx", "pgx"]


def _noting(began: Any, opened: list[Any]) -> Any:
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        began(self, *args, **kwargs)
        opened.append(self.declared)

    return begin


@pytest.mark.parametrize(
    "address",
    [
        "postgres:postgresql://u:s3cret@127.0.0.1:1/w",
        "postgresql://u:s3cret@127.0.0.1:1/w",
        "host=127.0.0.1 password=s3cret",
    ],
)
def test_an_address_in_place_of_an_id_is_refused_and_not_said(
    place: Path, said: Callable[[], str], address: str
) -> None:
    manifest = _manifest(place, "none")

    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest, connections={"warehouse": address})

    for each in (define, _writes_to(address)):
        _fails_at_once(each, place)
        text = said()
        assert "not by its address" in text
        assert "s3cret" not in text


def test_a_connection_of_a_route_may_be_the_spec_of_a_file(place: Path) -> None:
    manifest = _manifest(place, "none")
    other = {"target.db": f"sqlite:{place}/other.db"}

    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest, connections=other)

    assert run(define).state == "success"
    assert sql(place / "other.db", "SELECT id FROM orders") == [(1,), (2,)]


def test_a_connection_that_the_route_does_not_name_is_told(
    place: Path, said: Callable[[], str]
) -> None:
    (place / "orders.csv").write_text("id,day,region\n")
    manifest = _route(place, "none", "postgres: warehouse")

    def define() -> None:
        given = {"warehosue": "warehouse"}
        DponeRunOperator(task_id="load", manifest=manifest, connections=given)

    _fails_at_once(define, place)
    text = said()
    assert "the route names no connection warehosue" in text
    assert "connections={'warehouse': '...'}" in text


def test_a_server_is_not_loaded_into_where_the_project_declares_a_file(
    place: Path, said: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "orders.csv").write_text("id,day,region\n1,2024-01-01,eu\n")
    (place / "dpone.toml").write_text('[connections.warehouse]\nkind = "sqlite"\ndsn = "w.db"\n')
    manifest = _route(place, "none", "sqlite: warehouse")
    told = {"conn_type": "postgres", "host": "127.0.0.1", "port": 1, "password": "s3cret"}
    monkeypatch.setenv("AIRFLOW_CONN_PG", json.dumps(told))

    def define() -> None:
        DponeRunOperator(task_id="load", manifest=manifest, connections={"warehouse": "pg"})

    _fails_at_once(define, place)
    assert "declared of kind sqlite, and given as postgres" in said()
    assert not [path for path in place.rglob("*") if "s3cret" in path.name]
