"""Where a connection of Airflow leads, and what of it may be said."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from psycopg.conninfo import conninfo_to_dict

from dpone.airflow import places
from dpone.contracts.errors_airflow import AirflowConnectionInvalid


class Connection(NamedTuple):
    """The attributes of a connection that are read."""

    conn_type: str
    host: str | None = None
    schema: str | None = None
    login: str | None = None
    password: str | None = None
    port: int | None = None
    extra_dejson: Mapping[str, Any] = MappingProxyType({})


@pytest.mark.parametrize(
    "spec", ["sqlite:/data/journal.db", "duckdb:warehouse.duckdb", "postgres:postgresql://h/db"]
)
def test_a_connection_of_our_type_has_the_spec(spec: str) -> None:
    assert places.spec_of(Connection("dpone", extra_dejson={"spec": spec}), "w") == spec


@pytest.mark.parametrize(
    ("connection", "spec"),
    [
        (Connection("sqlite", host="/data/w.db"), "sqlite:/data/w.db"),
        (Connection("duckdb", schema="w.duckdb"), "duckdb:w.duckdb"),
    ],
)
def test_a_file(connection: Connection, spec: str) -> None:
    assert places.spec_of(connection, "w") == spec


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        (
            Connection("postgres", "db.example", "sales", "ann", "s3cret", 5433),
            {
                "host": "db.example",
                "dbname": "sales",
                "user": "ann",
                "password": "s3cret",
                "port": "5433",
            },
        ),
        (
            Connection("postgres", "db", "my db/1", "a@b:c", "p:/?#[]@ %é", None),
            {"host": "db", "dbname": "my db/1", "user": "a@b:c", "password": "p:/?#[]@ %é"},
        ),
        (
            Connection("postgresql", "/var/run/pg", "x", extra_dejson={"sslmode": "require"}),
            {"host": "/var/run/pg", "dbname": "x", "sslmode": "require"},
        ),
        (
            Connection("postgres", "/var/run/my pg:5", "x", "u", port=5433),
            {"host": "/var/run/my pg:5", "dbname": "x", "user": "u", "port": "5433"},
        ),
        (
            Connection(
                "postgres",
                "one,two",
                "x",
                extra_dejson={
                    "target_session_attrs": "read-write",
                    "channel_binding": "require",
                    "keepalives": 0,
                    "cursor": "dictcursor",
                },
            ),
            {
                "host": "one,two",
                "dbname": "x",
                "target_session_attrs": "read-write",
                "channel_binding": "require",
                "keepalives": "0",
            },
        ),
        (
            Connection("postgres", "::1", "x", "u", extra_dejson={"options": "-c search_path=a"}),
            {"host": "::1", "dbname": "x", "user": "u", "options": "-c search_path=a"},
        ),
    ],
)
def test_a_server_is_named_as_its_client_reads_it(
    connection: Connection, expected: dict[str, str]
) -> None:
    spec = places.spec_of(connection, "w")
    kind, _, dsn = spec.partition(":")
    assert (kind, conninfo_to_dict(dsn)) == ("postgres", expected)


@pytest.mark.parametrize(
    "connection",
    [
        Connection("dpone"),
        Connection("dpone", extra_dejson={"spec": "mysql:h"}),
        Connection("dpone", extra_dejson={"spec": "sqlite:"}),
        Connection("dpone", extra_dejson={"spec": 7}),
        Connection("dpone", extra_dejson="sqlite:/w.db"),  # type: ignore[arg-type]
        Connection("sqlite"),
        Connection("postgres", "h", extra_dejson=["sslmode"]),  # type: ignore[arg-type]
        Connection("postgres", "h", extra_dejson="require"),  # type: ignore[arg-type]
        Connection("http", "h", password="s3cret"),
    ],
)
def test_a_connection_that_names_no_place_is_refused(connection: Connection) -> None:
    with pytest.raises(AirflowConnectionInvalid) as caught:
        places.spec_of(connection, "warehouse")
    told = caught.value.report()
    assert (told["exit_code"], told["fields"]["name"]) == (2, "warehouse")
    assert "s3cret" not in str(told)


@pytest.mark.parametrize(
    ("named", "spec", "file"),
    [
        ("duckdb:/w.duckdb", True, True),
        ("sqlite:w.db", True, True),
        ("postgres:postgresql://u:s3cret@h/db", True, False),
        ("warehouse", False, False),
        ("my:warehouse", False, False),
        ("sqlite:", False, True),
    ],
)
def test_specs_and_ids_are_told_apart(named: str, spec: bool, file: bool) -> None:
    assert (places.is_spec(named), places.is_file(named)) == (spec, file)


@pytest.mark.parametrize(
    ("named", "shown"),
    [
        ("warehouse", ""),
        ("my:warehouse/eu", ""),
        ("sqlite:", ""),
        ("sqlite:/w.db", "sqlite:…"),
        ("postgres:postgresql://u:s3cret@h/db", "postgres:…"),
        ("postgresql://u:s3cret@h/db", "postgresql:…"),
        ("u:s3cret@h", "…"),
        ("host=h password=s3cret", "…"),
    ],
)
def test_an_address_is_told_from_an_id_and_shows_no_secret(named: str, shown: str) -> None:
    assert places.address_of(named) == shown
