"""Composes what DuckDB is asked to read; text in, text out.

Promise: names and values are quoted, file names are never globs, types are given rather than
guessed, and one bad row fails the statement. Not promised: that the files fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dpone.adapters.sources.csvtext import FIELD_BYTES_MAX
from dpone.contracts.columns import literal, quoted
from dpone.contracts.route import SourceSpec

# Room for the longest row that is allowed, and no more: every thread holds such buffers.
BUFFER_BYTES = FIELD_BYTES_MAX + 1024 * 1024
FILE_COLUMN = "file of the row"
_GLOB = str.maketrans({"*": "[*]", "?": "[?]", "[": "[[]"})


def file_list(paths: Sequence[Path]) -> str:
    """Paths as a list literal in which nothing is a wildcard."""
    return "[" + ", ".join(literal(str(path).translate(_GLOB)) for path in paths) + "]"


def csv_table(
    paths: Sequence[Path],
    header: Sequence[str],
    types: Mapping[str, str],
    spec: SourceSpec,
    *,
    named: bool = False,
) -> str:
    """`read_csv(...)` over files with one header; columns without a type stay text."""
    columns = ", ".join(
        f"{literal(name)}: {literal(types.get(name, 'VARCHAR'))}" for name in header
    )
    return (
        f"read_csv({file_list(paths)}, auto_detect=false, header=true, columns={{{columns}}}, "
        f"{_csv_options(spec)}, {_place_options(named)})"
    )


def csv_guess(paths: Sequence[Path], spec: SourceSpec) -> str:
    """`read_csv(...)` that guesses the types, and nothing else."""
    return (
        f"read_csv({file_list(paths)}, auto_detect=true, header=true, normalize_names=false, "
        f"{_csv_options(spec)}, {_place_options(named=False)})"
    )


def _csv_options(spec: SourceSpec) -> str:
    nulls = ", ".join(literal(token) for token in spec.null)
    return (
        f"delim={literal(spec.delimiter)}, quote={literal(spec.quote)}, "
        f"escape={literal(spec.quote)}, nullstr=[{nulls}], strict_mode=true, "
        "null_padding=false, compression='none', "
        f"max_line_size={FIELD_BYTES_MAX}, buffer_size={BUFFER_BYTES}"
    )


def _place_options(named: bool) -> str:
    """Nothing of a file's path enters its rows, but its name where it is asked for."""
    return f"hive_partitioning=false, filename={literal(FILE_COLUMN) if named else 'false'}"


def other_table(
    paths: Sequence[Path], types: Mapping[str, str], kind: str, *, named: bool = False
) -> str:
    """`read_parquet(...)` or `read_json(...)`; without `types` JSON is guessed."""
    place = _place_options(named)
    if kind == "parquet":
        return f"read_parquet({file_list(paths)}, {place})"
    columns = ", ".join(f"{literal(name)}: {literal(word)}" for name, word in types.items())
    given = f", columns={{{columns}}}" if columns else ""
    return (
        f"read_json({file_list(paths)}, format='newline_delimited', "
        f"compression='none', maximum_object_size={FIELD_BYTES_MAX}, {place}{given})"
    )


def selected(columns: Sequence[str], table: str, where: str = "") -> str:
    """A SELECT of quoted columns."""
    clause = f" WHERE {where}" if where else ""
    return f"SELECT {', '.join(map(quoted, columns))} FROM {table}{clause}"


_PLAIN = frozenset(
    {"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
    | {"FLOAT", "DOUBLE", "VARCHAR", "BLOB"}
)


def portable(sql: str, types: Mapping[str, str], *, binary_as_hex: bool) -> str:
    """The same rows in types that every database understands.

    `types` are DuckDB's types of the columns of `sql`. What is not plain becomes text: dates as
    ISO texts, decimals with all their digits, nested values as JSON; and, if wanted, binary
    values as PostgreSQL writes them. Nothing is changed when nothing has to be.
    """
    values = {name: _portable(name, word, binary_as_hex) for name, word in types.items()}
    if all(value == quoted(name) for name, value in values.items()):
        return sql
    columns = ", ".join(f"{value} AS {quoted(name)}" for name, value in values.items())
    return f"SELECT {columns} FROM ({sql})"


def _portable(name: str, word: str, binary_as_hex: bool) -> str:
    column = quoted(name)
    if word == "BLOB" and binary_as_hex:
        return f"'\\x' || lower(hex({column}))"
    if word in _PLAIN:
        return column
    if word == "TIMESTAMP WITH TIME ZONE":
        # The session's zone is UTC; SQLite reads an offset only with its minutes.
        return f"CAST({column} AS VARCHAR) || CASE WHEN isfinite({column}) THEN ':00' ELSE '' END"
    if word.endswith("]") or word.startswith(("STRUCT(", "MAP(", "UNION(")):
        return f"CAST(to_json({column}) AS VARCHAR)"
    return f"CAST({column} AS VARCHAR)"
