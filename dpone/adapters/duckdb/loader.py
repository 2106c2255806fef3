"""Loads a relation into a DuckDB table inside the fenced transaction.

Promise: DuckDB itself reads the source, with the table's own types, and one bad value fails the
whole statement. The source is read once, except that a merge or a replacement of unknown
partitions passes through a temporary table. Not promised: that rows keep the source's order.
"""

from __future__ import annotations

import re
from typing import Any

import duckdb

from dpone.adapters.duckdb.refusals import cause_of
from dpone.adapters.duckdb.transaction import DuckdbTransaction
from dpone.contracts.columns import create_table, literal, quoted, spelled
from dpone.contracts.errors_loading import (
    LoadConstraint,
    LoadDuplicateKey,
    LoadNullKey,
    LoadRefused,
    LoadTableInvalid,
    SourceColumnMissing,
)
from dpone.contracts.matching import chosen, paired
from dpone.ports.loader import Load
from dpone.ports.source import Relation

_VALUE = re.compile(r"'[^']*'")
_STAGE = 'temp."dpone_stage"'

# Measured: a plain load needs about this much, and with more its memory grows with the number of
# rows until the limit is reached. Where it is too little, the next attempt is given more.
_THREAD_MB, _CSV_BUFFER_MB, _COLUMN_MB, _FLOOR_MB = 17, 13, 1, 58
_ROOMY_MB = 512
_NO_ARENA = "0 bytes"


class DuckdbLoader:
    """The port `Loader` for DuckDB.

    A plain load begins with little memory. When that is not enough DuckDB's own error is let
    through, which the target reports as passing, and the next attempt of this loader has more.
    """

    def __init__(self) -> None:
        self._roomy = False

    def load(
        self, transaction: DuckdbTransaction, load: Load, relation: Relation
    ) -> dict[str, int]:
        """Write the rows. Raises a `SourceError` or `LoadError`."""
        # A text without an offset means UTC, whatever the machine's zone is.
        transaction.execute("SET TimeZone = 'UTC'")
        # The engine would draw on stdout, which may be meant for a program.
        transaction.execute("SET enable_progress_bar = false")
        try:
            return _Writing(transaction, load, relation, self._roomy).run()
        except duckdb.OutOfMemoryException as error:
            if self._roomy:
                raise _refusal(error, load, relation) from error
            self._roomy = True
            raise
        except duckdb.Error as error:
            raise _refusal(error, load, relation) from error


class _Writing:
    """One load."""

    def __init__(
        self, transaction: DuckdbTransaction, load: Load, relation: Relation, roomy: bool
    ) -> None:
        self.roomy = roomy
        self.tx = transaction
        self.load = load
        self.relation = relation
        self.table = ".".join(map(quoted, load.table))
        self.names = chosen(load.columns, relation.columns)
        self.types: dict[str, str] = {}

    def run(self) -> dict[str, int]:
        existing = self._existing()
        if not existing:
            existing = self._create()
        pairs = paired(self.names, existing, bool(self.load.columns), folded=True)
        self.types = {source: existing[column] for source, column in pairs}
        self.columns = ", ".join(quoted(column) for _, column in pairs)
        for key in self.load.keys:
            if key not in self.names:
                raise SourceColumnMissing(column=key)
        self._limit_memory()
        return self._strategy()

    def _limit_memory(self) -> None:
        """Memory for the threads' buffers of a plain load; more where rows are kept or sorted."""
        threads = self._count("SELECT current_setting('threads')")
        reading = _CSV_BUFFER_MB if self.relation.kind == "csv" else 0
        each = _THREAD_MB + reading + _COLUMN_MB * len(self.names)
        needed = max(_FLOOR_MB, threads * each)
        plain = self.load.strategy in ("append", "full_refresh") and not self.roomy
        limit = needed if plain else max(_ROOMY_MB, 2 * needed)
        self.tx.execute(f"SET memory_limit = '{limit}MB'")
        if plain and not reading:
            self._keep_blocks(limit)

    def _keep_blocks(self, size_mb: int) -> None:
        """Let the engine use its blocks again, as part of its limit, until the file is closed.

        Under a low limit it would give each block back to the system and take it anew, which
        costs a tenth of the whole load. An arena that is there stays: it cannot be made smaller.
        """
        row = self.tx.execute("SELECT current_setting('block_allocator_memory')").fetchone()
        if row is not None and row[0] == _NO_ARENA:
            self.tx.execute(f"SET block_allocator_memory = '{size_mb}MB'")

    def _existing(self) -> dict[str, str]:
        """DuckDB types by column of the table; empty when there is none."""
        schema = self.load.table[0] if len(self.load.table) == 2 else "main"
        place = (
            f"lower(schema_name) = lower({literal(schema)}) AND database_name = current_database()"
        )
        name = literal(self.load.table[-1])
        views = self.tx.execute(
            f"SELECT 1 FROM duckdb_views() WHERE lower(view_name) = lower({name}) AND {place}"
        ).fetchall()
        if views:
            raise LoadTableInvalid(table=".".join(self.load.table), reason="it is a view")
        rows = self.tx.execute(
            "SELECT column_name, data_type FROM duckdb_columns()"
            f" WHERE lower(table_name) = lower({name}) AND {place} ORDER BY column_index"
        ).fetchall()
        return dict(rows)

    def _create(self) -> dict[str, str]:
        types = dict(self.load.types)
        if not types:
            inferred = self.relation.inferred()
            types = {name: inferred[name] for name in self.names}
        self.tx.execute(create_table(self.load.table, types, "duckdb"))
        return {name: spelled(kind, "duckdb") for name, kind in types.items()}

    # -- strategies ----------------------------------------------------------------------------

    def _strategy(self) -> dict[str, int]:
        strategy = self.load.strategy
        if strategy == "append":
            return self._insert(self._select(), 0)
        if strategy == "full_refresh":
            return self._insert(self._select(), self._count(f"DELETE FROM {self.table}"))
        if strategy == "replace_partition" and (known := self._known_partition()):
            deleted = self._count(f"DELETE FROM {self.table} WHERE {known}")
            return self._insert(self._select(), deleted)
        self.tx.execute(f"CREATE TEMP TABLE dpone_stage AS {self._select()}")
        if strategy == "merge":
            self._check_keys()
        same = " AND ".join(
            f"old.{quoted(key)} IS NOT DISTINCT FROM new.{quoted(key)}" for key in self.load.keys
        )
        deleted = self._count(
            f"DELETE FROM {self.table} AS old"
            f" USING (SELECT DISTINCT {self._keys()} FROM {_STAGE}) AS new WHERE {same}"
        )
        names = ", ".join(map(quoted, self.names))
        result = self._insert(f"SELECT {names} FROM {_STAGE}", deleted)
        self.tx.execute(f"DROP TABLE {_STAGE}")
        return result

    def _select(self) -> str:
        return self.relation.scan(self.names, self.types)

    def _insert(self, select: str, deleted: int) -> dict[str, int]:
        written = self._count(f"INSERT INTO {self.table} ({self.columns}) {select}")
        return {"rows_written": written, "rows_deleted": deleted}

    def _count(self, sql: str) -> int:
        row: Any = self.tx.execute(sql).fetchone()
        return int(row[0]) if row else 0

    def _keys(self) -> str:
        return ", ".join(map(quoted, self.load.keys))

    def _known_partition(self) -> str:
        """The condition of the operation's own partition, when it is what is replaced."""
        part = self.load.partition
        if self.load.keys != (part.column,):
            return ""
        if part.kind == "column" and spelled(part.type, "duckdb") != self.types[part.column]:
            # Another type may spell one value in several ways: go by the rows themselves.
            return ""
        column = quoted(part.column)
        if part.kind == "interval" and part.start:
            instant = f"CAST({column} AS TIMESTAMPTZ)"
            start, stop = (f"TIMESTAMPTZ {literal(day + ' 00:00:00+00')}" for day in part[-2:])
            return f"{instant} >= {start} AND {instant} < {stop}"
        if part.value is None:
            return f"{column} IS NULL"
        return f"{column} = CAST({literal(part.value)} AS {self.types[part.column]})"

    def _check_keys(self) -> None:
        missing = " OR ".join(f"{quoted(key)} IS NULL" for key in self.load.keys)
        if count := self._count(f"SELECT count(*) FROM {_STAGE} WHERE {missing}"):
            raise LoadNullKey(rows=count, keys=", ".join(self.load.keys))
        count = self._count(
            f"SELECT count(*) FROM (SELECT 1 FROM {_STAGE} GROUP BY {self._keys()}"
            " HAVING count(*) > 1)"
        )
        if count:
            raise LoadDuplicateKey(rows=count, keys=", ".join(self.load.keys))


def _refusal(error: duckdb.Error, load: Load, relation: Relation) -> Exception:
    """The typed error for what the engine refused; values of rows are left out."""
    table = ".".join(load.table)
    if isinstance(error, duckdb.ConstraintException):
        lowered = str(error).lower()
        kinds = {"not null": "NOT NULL", "duplicate key": "UNIQUE", "check": "CHECK"}
        kind = next((word for text, word in kinds.items() if text in lowered), "table")
        return LoadConstraint(table=table, constraint=kind)
    translated = relation.refusal(error)
    if translated is not error:
        return translated
    return LoadRefused(target="duckdb", reason=_VALUE.sub("'…'", cause_of(error)))
