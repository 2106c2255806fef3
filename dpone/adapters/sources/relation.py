"""The rows of one operation, as an engine's SELECT, as rows or as a stream of CSV.

Promise: the same files give the same rows, each of them at most once. CSV that needs no filter is
read by the standard library or passed on as it is; everything else is read by DuckDB.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from dpone.adapters.sources import scan
from dpone.adapters.sources.csvtext import Header, TextRows, header_of, raw_blocks
from dpone.adapters.sources.engine import Engine
from dpone.adapters.sources.files import Files
from dpone.adapters.sources.refusals import refusal_of
from dpone.contracts.columns import literal, neutral, quoted, spelled
from dpone.contracts.errors_loading import SourceColumnDuplicate, SourceColumnMissing
from dpone.contracts.route import SourceSpec
from dpone.ports.source import CsvStream, Partition, Rows

T = TypeVar("T")


class FileRelation:
    """The port `Relation` over files of one kind."""

    def __init__(
        self,
        spec: SourceSpec,
        files: Files,
        partition: Partition,
        engine: Engine,
    ) -> None:
        self._spec = spec
        self.kind = spec.kind
        self._files = files
        self._found = tuple(file for file in files.found if file.name in partition.files)
        self._partition = partition
        self._engine = engine
        self._text: TextRows | None = None
        self._headers: tuple[Header, ...] = ()
        if self.kind == "csv":
            self._headers = tuple(header_of(file, spec) for file in self._found)
            self.columns = self._headers[0].names
            self._check_headers()
        else:
            self.columns = tuple(self._described())

    def _check_headers(self) -> None:
        for header in self._headers:
            if lacking := set(self.columns) ^ set(header.names):
                raise SourceColumnMissing(column=sorted(lacking)[0])

    def _described(self) -> dict[str, str]:
        table = scan.other_table(self._paths(), {}, self.kind)
        try:
            types = self._engine.described(f"SELECT * FROM {table}")
        except Exception as error:
            raise self.refusal(error) from error
        folded = [name.casefold() for name in types]
        for name in types:
            if folded.count(name.casefold()) > 1:
                raise SourceColumnDuplicate(column=name)
        return types

    def inferred(self) -> dict[str, str]:
        """Neutral types, guessed for CSV and JSON, read for Parquet."""
        if self.kind != "csv":
            types = self._described()
        else:
            table = scan.csv_guess(self._paths(), self._spec)
            try:
                types = self._engine.described(f"SELECT * FROM {table}")
            except Exception as error:
                raise self.refusal(error) from error
        return {name: neutral(word, name) for name, word in types.items()}

    def scan(self, columns: Sequence[str], types: Mapping[str, str]) -> str:
        """The SELECT for DuckDB."""
        where = self._where()
        if self.kind != "csv":
            wanted = dict.fromkeys(columns)
            given = {name: types.get(name, "VARCHAR") for name in (*wanted, *self._cut())}
            table = scan.other_table(self._paths(), given, self.kind)
            return scan.selected(columns, table, where)
        pairs = sorted(zip(self._headers, self._found, strict=True), key=lambda pair: pair[0].names)
        parts = []
        for names, group in groupby(pairs, key=lambda pair: pair[0].names):
            paths = [file.path for _, file in group]
            parts.append(
                scan.selected(columns, scan.csv_table(paths, names, types, self._spec), where)
            )
        return " UNION ALL ".join(parts)

    @contextmanager
    def rows(self, columns: Sequence[str], types: Mapping[str, str]) -> Iterator[Rows]:
        """By the standard library for plain CSV, else by DuckDB."""
        if self._plain() and "boolean" not in types.values():
            self._text = TextRows(self._found, self._spec)
            try:
                yield Rows(self.columns, self._text.rows(), self._spec.null, converted=False)
            finally:
                self._text.close()
            return
        sql = self._portable(columns, types, binary_as_hex=False)
        found = self._guarded(self._engine.rows(sql))
        yield Rows(tuple(columns), found, (), converted=True)

    @contextmanager
    def csv_stream(self, columns: Sequence[str], types: Mapping[str, str]) -> Iterator[CsvStream]:
        """The file's own bytes where they can be copied as they are, else written by DuckDB."""
        if self._plain() and len(self._spec.null) == 1 and set(columns) == set(self.columns):
            spec = self._spec
            blocks = raw_blocks(self._found, self._headers)
            yield CsvStream(
                self.columns, blocks, spec.delimiter, spec.quote, spec.null[0], quoted_nulls=True
            )
            return
        sql = self._portable(columns, types, binary_as_hex=True)
        # Some readers take an unquoted \. on a line of its own for the end of the data.
        with self._engine.csv(sql, quote_all=len(columns) == 1) as blocks:
            guarded = self._guarded(blocks)
            yield CsvStream(tuple(columns), guarded, ",", '"', "", quoted_nulls=False)

    def _portable(
        self, columns: Sequence[str], types: Mapping[str, str], *, binary_as_hex: bool
    ) -> str:
        sql = self.scan(columns, _duckdb_types(types))
        try:
            return scan.portable(sql, self._engine.described(sql), binary_as_hex=binary_as_hex)
        except Exception as error:
            raise self.refusal(error) from error

    def _guarded(self, items: Iterator[T]) -> Iterator[T]:
        """The items of an engine; its errors become typed before a driver sees them."""
        try:
            yield from items
        except Exception as error:
            raise self.refusal(error) from error

    def refusal(self, error: Exception) -> Exception:
        """The typed error for what an engine or reader raised."""
        if self._text is not None:
            error = self._text.refusal(error)
        return refusal_of(error, self.kind)

    @property
    def place(self) -> str:
        """Where the reader of plain CSV stands; empty for engines, which say it themselves."""
        return self._text.place if self._text is not None else ""

    def check_unchanged(self) -> None:
        """Compare the files with what was digested."""
        self._files.check_unchanged(self._partition.files)

    # -- parts ---------------------------------------------------------------------------------

    def _paths(self) -> list[Path]:
        return [file.path for file in self._found]

    def _plain(self) -> bool:
        """Whether the file's own rows are what is wanted.

        In a file of one column an empty line is a missing value, which only the engine knows.
        """
        same = {header.names for header in self._headers}
        whole = self._partition.kind in ("none", "file")
        return self.kind == "csv" and whole and len(same) == 1 and len(self.columns) > 1

    def _cut(self) -> tuple[str, ...]:
        return (self._partition.column,) if self._partition.column else ()

    def _where(self) -> str:
        part = self._partition
        if part.kind not in ("column", "interval"):
            return ""
        word = spelled(part.type, "duckdb")
        column = f"CAST({quoted(part.column)} AS {word})"
        if part.kind == "interval" and part.start:
            start, stop = (f"{word} {literal(day + ' 00:00:00+00')}" for day in part[-2:])
            return f"{column} >= {start} AND {column} < {stop}"
        if part.value is None:
            return f"{column} IS NULL"
        return f"{column} = CAST({literal(part.value)} AS {word})"


def _duckdb_types(types: Mapping[str, str]) -> dict[str, str]:
    return {name: spelled(kind, "duckdb") for name, kind in types.items()}
