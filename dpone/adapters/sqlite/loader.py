"""Loads a relation into a SQLite table inside the fenced transaction.

Promise: rows go from the reader to the driver without a loop in Python, pass a temporary STRICT
table that refuses values of another type, and reach the table in one statement. Not promised:
that a column with NUMERIC affinity (dates, decimals) refuses anything.
"""

from __future__ import annotations

import csv
import sqlite3
from typing import Any

from dpone.adapters.sqlite.connection import cause_of
from dpone.adapters.sqlite.transaction import SqliteTransaction
from dpone.contracts.columns import create_table, literal, quoted, spelled
from dpone.contracts.errors import ExtraMissing
from dpone.contracts.errors_loading import (
    LoadConstraint,
    LoadDuplicateKey,
    LoadNullKey,
    LoadRefused,
    LoadTableInvalid,
    LoadTableMissing,
    SourceColumnMissing,
    SourceRagged,
    SourceValue,
)
from dpone.contracts.matching import chosen, paired
from dpone.ports.loader import Load
from dpone.ports.source import Relation

_STAGE = "temp.dpone_stage"
_CONSTRAINTS = {
    "SQLITE_CONSTRAINT_NOTNULL": "NOT NULL",
    "SQLITE_CONSTRAINT_UNIQUE": "UNIQUE",
    "SQLITE_CONSTRAINT_PRIMARYKEY": "UNIQUE",
    "SQLITE_CONSTRAINT_CHECK": "CHECK",
    "SQLITE_CONSTRAINT_FOREIGNKEY": "FOREIGN KEY",
}


class SqliteLoader:
    """The port `Loader` for SQLite."""

    def load(
        self, transaction: SqliteTransaction, load: Load, relation: Relation
    ) -> dict[str, int]:
        """Write the rows. Raises a `SourceError` or `LoadError`."""
        try:
            return _Writing(transaction, load, relation).run()
        except (sqlite3.Error, csv.Error, UnicodeDecodeError) as error:
            raise _refusal(error, load, relation) from error


class _Writing:
    """One load."""

    def __init__(self, transaction: SqliteTransaction, load: Load, relation: Relation) -> None:
        self.tx = transaction
        self.load = load
        self.relation = relation
        if len(load.table) > 1 and load.table[0] != "main":
            raise LoadTableInvalid(table=".".join(load.table), reason="SQLite has no schemas")
        self.name = load.table[-1]
        self.table = f"main.{quoted(self.name)}"
        self.names = chosen(load.columns, relation.columns)

    def run(self) -> dict[str, int]:
        existing = self._existing() or self._create()
        pairs = paired(self.names, existing, bool(self.load.columns), folded=True)
        affinities = {source: existing[column] for source, column in pairs}
        for key in self.load.keys:
            if key not in self.names:
                raise SourceColumnMissing(column=key)
        self._stage(affinities)
        deleted = self._delete()
        columns = ", ".join(quoted(column) for _, column in pairs)
        names = ", ".join(map(quoted, self.names))
        written = self.tx.execute(
            f"INSERT INTO {self.table} ({columns}) SELECT {names} FROM {_STAGE}"
        ).rowcount
        self.tx.execute(f"DROP TABLE {_STAGE}")
        return {"rows_written": written, "rows_deleted": deleted}

    def _existing(self) -> dict[str, str]:
        """Declared types by column; empty when there is no such table."""
        kind = self.tx.execute(
            "SELECT type FROM main.sqlite_schema WHERE name = ? COLLATE NOCASE"
            " AND type IN ('table', 'view')",
            (self.name,),
        ).fetchone()
        if kind is None:
            return {}
        if kind[0] == "view":
            raise LoadTableInvalid(table=self.name, reason="it is a view")
        # Generated columns are hidden from table_info, and nobody can load them.
        rows = self.tx.execute(
            "SELECT name, type FROM pragma_table_info(?, 'main')", (self.name,)
        ).fetchall()
        return dict(rows)

    def _create(self) -> dict[str, str]:
        types = dict(self.load.types)
        if not types:
            try:
                inferred = self.relation.inferred()
            except ExtraMissing:
                guess = dict.fromkeys(self.names, "text")
                statement = create_table((self.name,), guess, "sqlite")
                raise LoadTableMissing(table=self.name, statement=statement) from None
            types = {name: inferred[name] for name in self.names}
        self.tx.execute(create_table(("main", self.name), types, "sqlite"))
        return {name: spelled(kind, "sqlite") for name, kind in types.items()}

    # -- staging -------------------------------------------------------------------------------

    def _stage(self, declared: dict[str, str]) -> None:
        kinds = {name: neutral_of(word) for name, word in declared.items()}
        with self.relation.rows(self.names, kinds) as rows:
            columns = ", ".join(
                f"{quoted(name)} {strict_of(declared[name]) if name in declared else 'ANY'}"
                for name in rows.columns
            )
            self.tx.execute(f"DROP TABLE IF EXISTS {_STAGE}")
            self.tx.execute(f"CREATE TEMP TABLE dpone_stage ({columns}) STRICT")
            value = "?"
            for token in rows.nulls:
                value = f"nullif({value}, {literal(token)})"
            values = ", ".join([value] * len(rows.columns))
            self.tx.executemany(f"INSERT INTO {_STAGE} VALUES ({values})", rows.rows)

    # -- strategies ----------------------------------------------------------------------------

    def _delete(self) -> int:
        strategy, keys = self.load.strategy, self.load.keys
        if strategy == "append":
            return 0
        if strategy == "full_refresh":
            return self.tx.execute(f"DELETE FROM {self.table}").rowcount
        if strategy == "merge":
            self._check_keys()
        part = self.load.partition
        if strategy == "replace_partition" and part.start and keys == (part.column,):
            return self._delete_interval(quoted(part.column), part.start, part.stop)
        names = ", ".join(map(quoted, keys))
        same = " AND ".join(f"new.{quoted(key)} IS {self.table}.{quoted(key)}" for key in keys)
        self.tx.execute(f"CREATE TEMP TABLE dpone_keys AS SELECT DISTINCT {names} FROM {_STAGE}")
        self.tx.execute(f"CREATE INDEX temp.dpone_keys_index ON dpone_keys ({names})")
        count = self.tx.execute(
            f"DELETE FROM {self.table} WHERE EXISTS"
            f" (SELECT 1 FROM temp.dpone_keys AS new WHERE {same})"
        ).rowcount
        self.tx.execute("DROP TABLE temp.dpone_keys")
        return count

    def _delete_interval(self, column: str, start: str, stop: str) -> int:
        """SQLite has no dates: texts are compared as instants in UTC, which must be readable."""
        unreadable = f"{column} IS NOT NULL AND datetime({column}) IS NULL"
        if self._count(f"SELECT count(*) FROM {_STAGE} WHERE {unreadable}"):
            raise SourceValue(
                column=self.load.partition.column, place="", type="an ISO date or time"
            )
        return self.tx.execute(
            f"DELETE FROM {self.table} WHERE datetime({column}) >= datetime(?)"
            f" AND datetime({column}) < datetime(?)",
            (start, stop),
        ).rowcount

    def _check_keys(self) -> None:
        keys = ", ".join(self.load.keys)
        names = ", ".join(map(quoted, self.load.keys))
        missing = " OR ".join(f"{quoted(key)} IS NULL" for key in self.load.keys)
        if count := self._count(f"SELECT count(*) FROM {_STAGE} WHERE {missing}"):
            raise LoadNullKey(rows=count, keys=keys)
        grouped = f"SELECT 1 FROM {_STAGE} GROUP BY {names} HAVING count(*) > 1"
        if count := self._count(f"SELECT count(*) FROM ({grouped})"):
            raise LoadDuplicateKey(rows=count, keys=keys)

    def _count(self, sql: str) -> int:
        row: Any = self.tx.execute(sql).fetchone()
        return int(row[0])


def strict_of(declared: str) -> str:
    """The type of a STRICT table that has a declared type's affinity and refuses the rest.

    SQLite's own rules of affinity, in its own order. NUMERIC has no STRICT counterpart.
    """
    text = declared.upper()
    if "INT" in text:
        return "INTEGER"
    if any(word in text for word in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if not text or "BLOB" in text:
        return "ANY"
    if any(word in text for word in ("REAL", "FLOA", "DOUB")):
        return "REAL"
    return "ANY"


def neutral_of(declared: str) -> str:
    """The neutral type in which an engine is to read a column for SQLite."""
    if "BOOL" in declared.upper():
        return "boolean"
    strict = strict_of(declared)
    return {"INTEGER": "bigint", "REAL": "double"}.get(strict, "text")


def _refusal(error: Exception, load: Load, relation: Relation) -> Exception:
    """The typed error for what driver or reader raised; values of rows are left out."""
    table = load.table[-1]
    text = str(error)
    if isinstance(error, sqlite3.ProgrammingError) and "number of bindings" in text:
        return SourceRagged(place=relation.place)
    if isinstance(error, sqlite3.Error):
        name = getattr(error, "sqlite_errorname", "")
        if text.startswith("cannot store "):
            # "cannot store TEXT value in INTEGER column dpone_stage.month"
            kind, _, column = text.partition(" column ")
            return SourceValue(
                column=column.removeprefix("dpone_stage."),
                place=relation.place,
                type=kind.rpartition(" ")[2],
            )
        if name in _CONSTRAINTS:
            return LoadConstraint(table=table, constraint=_CONSTRAINTS[name])
        return LoadRefused(target="sqlite", reason=cause_of(error))
    return relation.refusal(error)
