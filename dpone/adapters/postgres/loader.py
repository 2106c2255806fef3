"""Loads a relation into a PostgreSQL table inside the fenced transaction, by COPY.

Promise: blocks of CSV go from the source to COPY as they are; nothing loops over rows. A load that
deletes nothing, or everything, copies straight into the table; the others copy into a temporary
table first and move its rows in one statement. A text without an offset means UTC. Not promised:
that quotes inside an unquoted field are refused; COPY takes them as the server does.
"""

from __future__ import annotations

from typing import Any

import psycopg

from dpone.adapters.postgres.refusals import Stream, of_load
from dpone.adapters.postgres.transaction import PostgresTransaction
from dpone.contracts.columns import create_table, literal, quoted
from dpone.contracts.errors import ExtraMissing
from dpone.contracts.errors_loading import (
    LoadDuplicateKey,
    LoadNullKey,
    LoadTableInvalid,
    LoadTableMissing,
    SourceColumnMissing,
)
from dpone.contracts.matching import chosen, paired
from dpone.ports.loader import Load
from dpone.ports.source import CsvStream, Relation

STAGE = "dpone_stage"
_STAGE = f"pg_temp.{STAGE}"
_KINDS = {
    "v": "it is a view",
    "m": "it is a materialized view",
    "f": "it is a foreign table",
    "S": "it is a sequence",
}
_TABLES = ("r", "p")
_TEXTS = ("text", "character varying", "character", "citext", "name")
_DATES = ("date", "timestamp without time zone")
_INSTANT = "timestamp with time zone"


class PostgresLoader:
    """The port `Loader` for PostgreSQL."""

    def load(
        self, transaction: PostgresTransaction, load: Load, relation: Relation
    ) -> dict[str, int]:
        """Write the rows. Raises a `SourceError` or `LoadError`."""
        writing = _Writing(transaction, load, relation)
        try:
            return writing.run()
        except psycopg.Error as error:
            if error.sqlstate is None or error.sqlstate[:2] in ("40", "57", "53", "08", "58"):
                # The server or the link, not the data: the fence decides what follows.
                raise
            raise of_load(error, load, relation, writing.stream, writing.types) from error


class _Writing:
    """One load."""

    def __init__(self, transaction: PostgresTransaction, load: Load, relation: Relation) -> None:
        self.tx = transaction
        self.load = load
        self.relation = relation
        self.table = ".".join(map(quoted, load.table))
        self.names = chosen(load.columns, relation.columns)
        self.stream: Stream | None = None
        self.types: dict[str, str] = {}

    def run(self) -> dict[str, int]:
        self.tx.execute("SET LOCAL TimeZone = 'UTC'")
        self.types = self._existing() or self._create()
        pairs = dict(paired(self.names, self.types, bool(self.load.columns), folded=False))
        for key in self.load.keys:
            if key not in self.names:
                raise SourceColumnMissing(column=key)
        with self.relation.csv_stream(self.names, self._read_as(pairs)) as stream:
            if self.load.strategy in ("append", "full_refresh"):
                deleted = self._delete_all() if self.load.strategy == "full_refresh" else 0
                written = self._copy(self.table, stream, pairs)
            else:
                deleted, written = self._staged(stream, pairs)
        return {"rows_written": written, "rows_deleted": deleted}

    def _read_as(self, pairs: dict[str, str]) -> dict[str, str]:
        """The types for a reader: a column of texts keeps the spelling of the source."""
        declared = {name: kind for name, kind in self.load.types.items() if name in pairs}
        texts = (name for name, column in pairs.items() if _plain(self.types[column]) in _TEXTS)
        return {**declared, **dict.fromkeys(texts, "text")}

    # -- the table -----------------------------------------------------------------------------

    def _existing(self) -> dict[str, str]:
        """Types by column; empty when there is no such table.

        Generated columns are left out, and identities too unless the source brings them.
        """
        found: Any = self.tx.execute(
            "SELECT oid, relkind::text, row_security_active(oid) FROM pg_class"
            " WHERE oid = to_regclass(%s)",
            (self.table,),
        ).fetchone()
        if found is None:
            return {}
        oid, kind, secured = found
        if kind not in _TABLES:
            raise self._invalid(_KINDS.get(kind, "it is no table"))
        if secured:
            raise self._invalid("row-level security hides rows of it from this user")
        rows = self.tx.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = ''"
            " AND (attidentity = '' OR attname = ANY(%s)) ORDER BY attnum",
            (oid, list(self.names)),
        ).fetchall()
        return dict(rows)

    def _invalid(self, reason: str) -> LoadTableInvalid:
        return LoadTableInvalid(table=".".join(self.load.table), reason=reason)

    def _create(self) -> dict[str, str]:
        types = dict(self.load.types)
        if not types:
            try:
                inferred = self.relation.inferred()
            except ExtraMissing:
                guess = dict.fromkeys(self.names, "text")
                statement = create_table(self.load.table, guess, "postgres")
                table = ".".join(self.load.table)
                raise LoadTableMissing(table=table, statement=statement) from None
            types = {name: inferred[name] for name in self.names}
        self.tx.execute(create_table(self.load.table, types, "postgres"))
        return self._existing()

    # -- moving rows ---------------------------------------------------------------------------

    def _copy(self, table: str, stream: CsvStream, pairs: dict[str, str]) -> int:
        columns = ", ".join(quoted(pairs[name]) for name in stream.columns)
        options = [
            "FORMAT csv",
            f"DELIMITER {literal(stream.delimiter)}",
            f"QUOTE {literal(stream.quote)}",
            f"NULL {literal(stream.null)}",
            "ENCODING 'UTF8'",
        ]
        if stream.quoted_nulls:
            options.append(f"FORCE_NULL ({columns})")
        relation = self.load.table[-1] if table == self.table else STAGE
        version = self._count("SELECT current_setting('server_version_num')")
        self.stream = Stream(stream, relation, self.load.partition.files, version)
        with self.tx.copy(f"COPY {table} ({columns}) FROM STDIN ({', '.join(options)})") as copy:
            for block in self.stream.checked():
                copy.write(block)
        return int(copy.cursor.rowcount)

    def _staged(self, stream: CsvStream, pairs: dict[str, str]) -> tuple[int, int]:
        columns = ", ".join(quoted(pairs[name]) for name in stream.columns)
        self.tx.execute(f"DROP TABLE IF EXISTS {_STAGE}")
        self.tx.execute(
            f"CREATE TEMPORARY TABLE {STAGE} ON COMMIT DROP AS"
            f" SELECT {columns} FROM {self.table} WITH NO DATA"
        )
        self._copy(_STAGE, stream, pairs)
        deleted = self._delete([pairs[key] for key in self.load.keys])
        # Identities take the values given, as COPY does.
        written = self.tx.execute(
            f"INSERT INTO {self.table} ({columns}) OVERRIDING SYSTEM VALUE"
            f" SELECT {columns} FROM {_STAGE}"
        ).rowcount
        return deleted, written

    def _delete_all(self) -> int:
        return self.tx.execute(f"DELETE FROM {self.table}").rowcount

    def _delete(self, keys: list[str]) -> int:
        part = self.load.partition
        if self.load.strategy == "merge":
            self._check_keys(keys)
        elif part.start and self.load.keys == (part.column,):
            return self._delete_interval(keys[0], part.start, part.stop)
        names = ", ".join(map(quoted, keys))
        # A plain comparison can use an index or a hash; it is enough where no key is missing.
        same = "IS NOT DISTINCT FROM" if self._missing(keys) else "="
        pairs = " AND ".join(f"new.{quoted(key)} {same} old.{quoted(key)}" for key in keys)
        return self.tx.execute(
            f"DELETE FROM {self.table} AS old USING (SELECT DISTINCT {names} FROM {_STAGE}) AS new"
            f" WHERE {pairs}"
        ).rowcount

    def _delete_interval(self, key: str, start: str, stop: str) -> int:
        """Intervals are cut in UTC; dates and times without a zone are compared as they are."""
        column, kind = quoted(key), _plain(self.types[key])
        word, zone = ("date", "") if kind in _DATES else ("timestamptz", " 00:00:00+00")
        if kind not in (*_DATES, _INSTANT):
            column = f"CAST({column} AS timestamptz)"
        bounds = [f"{word} {literal(day + zone)}" for day in (start, stop)]
        return self.tx.execute(
            f"DELETE FROM {self.table} WHERE {column} >= {bounds[0]} AND {column} < {bounds[1]}"
        ).rowcount

    def _check_keys(self, keys: list[str]) -> None:
        spoken = ", ".join(keys)
        names = ", ".join(map(quoted, keys))
        if count := self._missing(keys):
            raise LoadNullKey(rows=count, keys=spoken)
        grouped = f"SELECT 1 FROM {_STAGE} GROUP BY {names} HAVING count(*) > 1"
        if count := self._count(f"SELECT count(*) FROM ({grouped}) AS doubled"):
            raise LoadDuplicateKey(rows=count, keys=spoken)

    def _missing(self, keys: list[str]) -> int:
        missing = " OR ".join(f"{quoted(key)} IS NULL" for key in keys)
        return self._count(f"SELECT count(*) FROM {_STAGE} WHERE {missing}")

    def _count(self, sql: str) -> int:
        row: Any = self.tx.execute(sql).fetchone()
        return int(row[0])


def _plain(kind: str) -> str:
    """A type's name without its length or precision."""
    before, bracket, after = kind.partition("(")
    return before + after.partition(")")[2] if bracket else kind
