"""Writes the rows of a query on a SQLite file as CSV.

Promise: the file is opened for reading only, and rows pass from the driver to the writer without
a loop in Python. Not promised: BLOB values, which have no text; they are refused.
"""

from __future__ import annotations

import csv
import sqlite3
from pathlib import Path

from dpone.adapters.sqlite.connection import cause_of
from dpone.contracts.columns import literal, quoted
from dpone.contracts.errors_loading import SourceQuery


def spool(place: Path, sql: str, path: Path, null: str, *, connection_name: str) -> None:
    """Write a header and all rows to `path`; `null` stands for a missing value.

    Raises `SourceQuery` for whatever the database refuses.
    """
    text = sql.strip().rstrip(";")
    try:
        uri = place.absolute().as_uri() + "?mode=ro"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        try:
            head = connection.execute(f"SELECT * FROM ({text}\n) LIMIT 0").description
            names = [column[0] for column in head]
            values = ", ".join(_value(name, null) for name in names)
            cursor = connection.execute(f"SELECT {values} FROM ({text}\n)")
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(names)
                writer.writerows(cursor)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise SourceQuery(connection=connection_name, reason=cause_of(error)) from error


def _value(name: str, null: str) -> str:
    """A column in which missing values are a text, and a BLOB fails the statement."""
    column = quoted(name)
    refused = "json('a value is binary')"
    return (
        f"CASE typeof({column}) WHEN 'null' THEN {literal(null)} WHEN 'blob' THEN {refused}"
        f" ELSE {column} END"
    )
