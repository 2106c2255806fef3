"""What a server's refusal of a load means, and what must not reach COPY at all.

Promise: values of rows are left out of every message, and places are told without relying on the
language in which the server speaks. Not promised: a place in rows that an engine writes, which
come in an order of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import psycopg

from dpone.contracts.errors_loading import (
    LoadConstraint,
    LoadRefused,
    LoadTableInvalid,
    SourceEncoding,
    SourceFormat,
    SourceNul,
    SourceRagged,
    SourceValue,
)
from dpone.ports.loader import Load
from dpone.ports.source import CsvStream, Relation

_CONSTRAINTS = {
    "23502": "NOT NULL",
    "23503": "FOREIGN KEY",
    "23505": "UNIQUE",
    "23514": "CHECK",
    "23P01": "EXCLUDE",
}
_VALUE = re.compile(r'"[^"]*"')
_HIDDEN = '"…"'
_END_MARK = re.compile(rb"[\r\n]\\\.(?=[\r\n])")
_END_MARK_IS_DATA = 180000
"""From this version on a line of backslash and dot in CSV is data like any other."""
_MARK_BYTES = 4


class Stream:
    """A stream of CSV on its way to COPY into `relation`, the name that the server speaks of."""

    def __init__(
        self, stream: CsvStream, relation: str, files: Sequence[str], version: int
    ) -> None:
        self.relation = relation
        self._stream = stream
        self._version = version
        # The files' own bytes are passed on, or an engine writes its rows.
        self.is_raw = stream.quoted_nulls
        self.name = files[0] if len(files) == 1 else "of the route"
        self._single = len(files) == 1

    def place(self, line: int) -> str:
        """Where the server stands, as the end of a sentence; empty where that says nothing."""
        if not line or not self.is_raw or not self._single:
            return ""
        return f" at line {line} after the header of {self.name}"

    def checked(self) -> Iterator[bytes]:
        """The blocks; raises for a NUL, and for a line that an older server takes as the end."""
        blocks = self._without_nul(self._stream.blocks)
        if self._version < _END_MARK_IS_DATA:
            blocks = self._without_end_mark(blocks)
        return blocks

    def _without_nul(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        passed = 0
        for block in blocks:
            if (at := block.find(b"\0")) >= 0:
                if self.is_raw:
                    raise SourceNul(name=self.name, offset=f"{passed + at} after the header")
                raise SourceValue(column="of the source", place="", type="text without NUL")
            passed += len(block)
            yield block

    def _without_end_mark(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        r"""Such a server drops what follows a line of `\.`, unless a quote is open there.

        As the server does it, an odd number of quotes before a place means an open one.
        """
        quote = self._stream.quote.encode()
        window, quotes = b"\n", 0
        for block in blocks:
            window += block
            for mark in _END_MARK.finditer(window):
                if (quotes + window.count(quote, 0, mark.start())) % 2 == 0:
                    raise SourceRagged(place=f', a line of "\\.", of {self.name}')
            # The end of the window is looked at again, with what follows it.
            quotes += window.count(quote, 0, max(len(window) - _MARK_BYTES, 0))
            window = window[-_MARK_BYTES:]
            yield block


def of_load(
    error: psycopg.Error,
    load: Load,
    relation: Relation,
    stream: Stream | None,
    types: Mapping[str, str],
) -> Exception:
    """The typed error for what the server raised during a load."""
    table = ".".join(load.table)
    state = error.sqlstate or ""
    primary = error.diag.message_primary or ""
    if state.startswith("23"):
        kind = _CONSTRAINTS.get(state, state)
        if state == "23514" and not error.diag.constraint_name:
            kind = "PARTITION"
        return LoadConstraint(table=table, constraint=kind)
    if state == "3F000":
        return LoadTableInvalid(table=table, reason="its schema does not exist")
    if state.startswith("22") and state != "22023":
        return _of_data(error, state, stream, types)
    return LoadRefused(target="postgres", reason=f"{state}: {primary}")


def _of_data(
    error: psycopg.Error, state: str, stream: Stream | None, types: Mapping[str, str]
) -> Exception:
    """The errors of class 22: a value, or the shape of a row."""
    line, column = where(error.diag.context or "", stream.relation if stream else "", types)
    place = stream.place(line) if stream else ""
    if state == "22021":
        name = stream.name if stream else "of the route"
        return SourceEncoding(name=name, place=place.partition(" of ")[0])
    if state == "22P04":
        if (error.diag.source_function or "").startswith("CopyRead"):
            reason = "a quote is not closed, or its line endings are mixed"
            return SourceFormat(place=place, kind="CSV", reason=reason)
        return SourceRagged(place=place)
    column = error.diag.column_name or column
    if column not in types:
        reason = f"{state}: {_VALUE.sub(_HIDDEN, error.diag.message_primary or '')}"
        return LoadRefused(target="postgres", reason=reason)
    return SourceValue(column=column, place=place, type=types[column])


def where(context: str, relation: str, columns: Iterable[str]) -> tuple[int, str]:
    """The line and the column that the context of an error of COPY names, or 0 and ''.

    It reads `COPY <relation>, line <n>, column <name>: "<value>"`, in any language; the name may
    hold what looks like the rest, so the longest one that is known wins.
    """
    start = f"COPY {relation}, "
    for text in context.splitlines():
        found = re.match(r"\D*(\d+)(?:, \w+ (.*))?", text.removeprefix(start), re.DOTALL)
        if text.startswith(start) and found:
            rest = found[2] or ""
            names = [name for name in columns if rest.startswith(f"{name}:")]
            return int(found[1]), max(names, key=len, default="")
    return 0, ""
