"""Column types in words of no particular database, and names quoted for all of them.

Promise: a neutral type has one spelling in every dialect; unknown words are refused, never
passed through into a statement. Not promised: that two databases keep the same precision.
"""

from __future__ import annotations

import re

from dpone.contracts.errors_loading import ColumnTypeUnknown, TableNameInvalid

NEUTRAL = {
    "boolean": ("BOOLEAN", "BOOLEAN", "boolean"),
    "smallint": ("SMALLINT", "INTEGER", "smallint"),
    "integer": ("INTEGER", "INTEGER", "integer"),
    "bigint": ("BIGINT", "INTEGER", "bigint"),
    "hugeint": ("HUGEINT", "TEXT", "numeric(39,0)"),
    "real": ("FLOAT", "REAL", "real"),
    "double": ("DOUBLE", "REAL", "double precision"),
    "text": ("VARCHAR", "TEXT", "text"),
    "date": ("DATE", "DATE", "date"),
    "time": ("TIME", "TIME", "time"),
    "timestamp": ("TIMESTAMP", "TIMESTAMP", "timestamp"),
    "timestamptz": ("TIMESTAMPTZ", "TIMESTAMPTZ", "timestamptz"),
    "interval": ("INTERVAL", "TEXT", "interval"),
    "uuid": ("UUID", "TEXT", "uuid"),
    "json": ("JSON", "TEXT", "jsonb"),
    "binary": ("BLOB", "BLOB", "bytea"),
}
_DIALECTS = {"duckdb": 0, "sqlite": 1, "postgres": 2}
_ALIASES = {
    "bool": "boolean",
    "tinyint": "smallint",
    "utinyint": "smallint",
    "usmallint": "integer",
    "int": "integer",
    "int4": "integer",
    "uinteger": "bigint",
    "int8": "bigint",
    "ubigint": "hugeint",
    "uhugeint": "hugeint",
    "float": "real",
    "float8": "double",
    "double precision": "double",
    "varchar": "text",
    "string": "text",
    "timestamp with time zone": "timestamptz",
    "timestamp_s": "timestamp",
    "timestamp_ms": "timestamp",
    "timestamp_ns": "timestamp",
    "datetime": "timestamp",
    "jsonb": "json",
    "blob": "binary",
    "bytea": "binary",
}
_DECIMAL = re.compile(r"(?:decimal|numeric)\s*\(\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?\)")
_PART = re.compile(r'"(?:[^"]|"")+"|[^".]+')


def neutral(word: str, column: str = "") -> str:
    """Return the neutral type for a type word of a manifest or of DuckDB.

    Raises `ColumnTypeUnknown` when the word stands for nothing that every target can hold.
    """
    text = word.strip().lower()
    text = _ALIASES.get(text, text)
    if text in NEUTRAL:
        return text
    if match := _DECIMAL.fullmatch(text):
        return f"decimal({match[1]},{match[2] or 0})"
    if text.startswith("enum("):
        return "text"
    if text.endswith("]") or text.startswith(("struct(", "map(", "union(")):
        return "json"
    raise ColumnTypeUnknown(column=column, type=word, known=", ".join([*NEUTRAL, "decimal(p,s)"]))


def spelled(kind: str, dialect: str) -> str:
    """Return a neutral type in the words of `duckdb`, `sqlite` or `postgres`."""
    if kind in NEUTRAL:
        return NEUTRAL[kind][_DIALECTS[dialect]]
    return kind.upper() if dialect != "postgres" else kind.replace("decimal", "numeric")


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as a SQL string literal; for engines without backslash escapes."""
    return "'" + text.replace("'", "''") + "'"


def table_parts(table: str) -> tuple[str, ...]:
    """Split `schema.table` at its dots; a part in double quotes may hold anything.

    Raises `TableNameInvalid` for an empty part, a control character, or more than two parts.
    """
    parts = _PART.findall(table)
    whole = ".".join(parts) == table and 1 <= len(parts) <= 2
    if not whole or any(ord(letter) < 32 for letter in table):
        raise TableNameInvalid(table=table, reason="it is not <table> or <schema>.<table>")
    names = tuple(
        part[1:-1].replace('""', '"') if part.startswith('"') else part.strip() for part in parts
    )
    if not all(names):
        raise TableNameInvalid(table=table, reason="a part of it is empty")
    if names[-1].lower().startswith("dpone_"):
        raise TableNameInvalid(table=table, reason="names that begin with dpone_ are reserved")
    return names


def create_table(names: tuple[str, ...], types: dict[str, str], dialect: str) -> str:
    """Return the CREATE TABLE statement for columns with neutral types."""
    columns = ", ".join(f"{quoted(name)} {spelled(kind, dialect)}" for name, kind in types.items())
    return f"CREATE TABLE {'.'.join(map(quoted, names))} ({columns})"
