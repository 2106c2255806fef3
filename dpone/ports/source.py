"""The source port: where rows come from, described so that engines can read them in bulk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

Spool = Callable[[str, Path, str], None]
"""Runs a query and writes its rows to a file as CSV with a header.

Its arguments are the query, the file, and the text that stands for a missing value. Raises
`SourceQuery`.
"""


class SourceFile(NamedTuple):
    """One file: its name relative to the declared root (POSIX), size and digest.

    `sha256` is the SHA-256 of the file when `pieces` is 1, and otherwise that of the SHA-256
    digests (32 bytes each) of its pieces of 64 MiB.
    """

    name: str
    bytes: int
    sha256: str
    pieces: int = 1


class Partition(NamedTuple):
    """One part of a source.

    `identity` is what enters the operation's identity; `label` is for people and for
    `--partition`; `position` sorts in an ordered route and is empty where there is no order;
    `files` names the files whose bytes can reach this part (empty for a query). `kind` is
    `none`, `file`, `column` or `interval`.
    `value` is the column's value as text, or None for missing, and `type` the neutral type in
    which values of `column` are compared; `start` and `stop` bound an interval as ISO dates,
    `stop` excluded.
    """

    kind: str
    identity: Any
    label: str
    position: str
    files: tuple[str, ...]
    column: str = ""
    value: str | None = None
    type: str = ""
    start: str = ""
    stop: str = ""


class Rows(NamedTuple):
    """Rows as sequences in the order of `columns`.

    Texts equal to one of `nulls` still stand for a missing value. `converted` is False when
    every value is text as the file has it.
    """

    columns: tuple[str, ...]
    rows: Iterable[Sequence[Any]]
    nulls: tuple[str, ...]
    converted: bool


class CsvStream(NamedTuple):
    """Header-less CSV in UTF-8 (RFC 4180), as blocks of bytes.

    An unquoted `null` stands for a missing value; when `quoted_nulls` is set a quoted one does
    too. `columns` is the order of the fields.
    """

    columns: tuple[str, ...]
    blocks: Iterator[bytes]
    delimiter: str
    quote: str
    null: str
    quoted_nulls: bool


class Relation(Protocol):
    """The rows of one operation. Every method may be called again while the files stay the same.

    Errors are typed (`SourceError`); they never repeat the source's bytes.
    """

    @property
    def kind(self) -> str:
        """`csv`, `parquet` or `jsonl`; a query's rows come as `parquet`."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the source's columns, in order."""

    @property
    def place(self) -> str:
        """Where a reader of rows stands, as the end of a sentence; may be empty."""

    def inferred(self) -> dict[str, str]:
        """Neutral types by column, as far as they can be told. Raises `ExtraMissing`."""

    def scan(self, columns: Sequence[str], types: Mapping[str, str]) -> str:
        """A SELECT in DuckDB's SQL that yields `columns`, in that order.

        `types` are DuckDB types by column; columns without one are read as the file has them.
        """

    def rows(
        self, columns: Sequence[str], types: Mapping[str, str]
    ) -> AbstractContextManager[Rows]:
        """The rows, read lazily; at least `columns` are among them.

        `types` are neutral types by column, used where the file itself has none.
        """

    def csv_stream(
        self, columns: Sequence[str], types: Mapping[str, str]
    ) -> AbstractContextManager[CsvStream]:
        """The rows as CSV for an engine that copies CSV; exactly `columns`, in any order."""

    def refusal(self, error: Exception) -> Exception:
        """What an engine's error while reading this relation means, as a typed error."""

    def check_unchanged(self) -> None:
        """Raise `SourceChanged` when a file is not the one that was digested."""


class Source(Protocol):
    """A declared source, with its files' digests."""

    def start(self) -> None:
        """Begin in the background what `partitions` and `fingerprint` will need."""

    def partitions(self) -> list[Partition]:
        """The parts of the source, in order. Raises typed errors for what cannot be read."""

    def fingerprint(self, partition: Partition) -> Any:
        """What is to be loaded, for the intent: file digests, or a query's text and watermark."""

    def relation(self, partition: Partition) -> Relation:
        """The rows of one part."""

    def close(self) -> None:
        """Release what is open; idempotent."""
