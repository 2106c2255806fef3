"""CSV files read by the standard library: headers, rows and raw blocks.

Promise: a byte order mark is dropped, fields are bounded, and errors name the file and the line,
never the bytes. Rows pass from the reader to the driver without a loop in Python.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any

from dpone.adapters.sources.digests import BLOCK_BYTES, LINE_BYTES_MAX
from dpone.adapters.sources.opening import Found, opened
from dpone.contracts.errors_loading import (
    SourceColumnDuplicate,
    SourceEncoding,
    SourceError,
    SourceFieldTooLarge,
    SourceFormat,
    SourceHeader,
    SourceNul,
)
from dpone.contracts.route import SourceSpec

FIELD_BYTES_MAX = LINE_BYTES_MAX


class Header:
    """The header line of one file: names in order, and where the first row begins."""

    def __init__(self, names: tuple[str, ...], bytes_long: int) -> None:
        self.names = names
        self.bytes_long = bytes_long


def header_of(file: Found, spec: SourceSpec) -> Header:
    """Read the header, which may span lines inside quotes. Raises a `SourceError`."""
    lines: list[bytes] = []

    def read_lines(stream: io.BufferedReader) -> Iterator[str]:
        while line := stream.readline(FIELD_BYTES_MAX):
            lines.append(line)
            if 0 in line:
                raise SourceNul(name=file.name, offset=sum(map(len, lines[:-1])) + line.index(0))
            bare = line.removeprefix(codecs.BOM_UTF8) if len(lines) == 1 else line
            yield bare.decode("utf-8")

    with open(opened(file), "rb") as stream:
        try:
            names = next(_reader(read_lines(stream), spec), None)
        except (csv.Error, UnicodeDecodeError) as error:
            raise refusal_of(error, file.name, len(lines)) from None
    if not names:
        raise SourceHeader(name=file.name, reason="its first line is empty")
    if not all(name.strip() for name in names):
        raise SourceHeader(name=file.name, reason="a column has no name")
    folded: set[str] = set()
    for name in names:
        if name.casefold() in folded:
            raise SourceColumnDuplicate(column=name)
        folded.add(name.casefold())
    return Header(tuple(names), sum(map(len, lines)))


class TextRows:
    """All rows of some CSV files with one header, as lists of texts."""

    def __init__(self, files: tuple[Found, ...], spec: SourceSpec) -> None:
        self._files = files
        self._spec = spec
        self._current: tuple[str, Any] | None = None
        self._open = ExitStack()

    def rows(self) -> Iterator[list[str]]:
        """The rows, empty lines left out; everything but the files is C."""
        return filter(None, chain.from_iterable(map(self._of, self._files)))

    def _of(self, file: Found) -> Iterator[list[str]]:
        self.close()
        raw = io.BufferedReader(io.FileIO(opened(file)), BLOCK_BYTES)
        stream = self._open.enter_context(io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""))
        reader = _reader(stream, self._spec)
        self._current = (file.name, reader)
        next(reader, None)
        return reader

    def refusal(self, error: Exception) -> Exception:
        """The typed error for what the reader raised, with the place where it stood."""
        name, reader = self._current or ("", None)
        return refusal_of(error, name, reader.line_num + 1 if reader is not None else 0)

    @property
    def place(self) -> str:
        """Where the reader stands, as the end of a sentence."""
        return (
            f" at line {self._current[1].line_num} of {self._current[0]}" if self._current else ""
        )

    def close(self) -> None:
        """Close the file that is open."""
        self._open.close()


def raw_blocks(files: tuple[Found, ...], headers: tuple[Header, ...]) -> Iterator[bytes]:
    """The files' own bytes after their headers; a missing last line break is added."""
    for file, header in zip(files, headers, strict=True):
        last = b"\n"
        with open(opened(file), "rb", buffering=0) as stream:
            stream.seek(header.bytes_long)
            while block := stream.read(BLOCK_BYTES):
                last = block[-1:]
                yield block
        if last not in b"\r\n":
            yield b"\n"


def refusal_of(error: Exception, name: str, line: int) -> Exception:
    """Translate an error of the standard library's reader."""
    place = f" at line {line} of {name}" if line else f" in {name}"
    if isinstance(error, UnicodeDecodeError):
        return SourceEncoding(name=name, place="")
    if not isinstance(error, csv.Error):
        return error
    text = str(error)
    if "field larger" in text:
        return SourceFieldTooLarge(place=place, bytes_max=FIELD_BYTES_MAX)
    reason = "a quote is not closed or not followed by a delimiter"
    result: SourceError = SourceFormat(place=place, kind="CSV", reason=reason)
    return result


def _reader(lines: Any, spec: SourceSpec) -> Iterator[list[str]]:
    csv.field_size_limit(FIELD_BYTES_MAX)
    return csv.reader(lines, delimiter=spec.delimiter, quotechar=spec.quote, strict=True)
