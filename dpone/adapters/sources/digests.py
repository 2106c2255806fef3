"""Digests of files, in pieces that several threads read at once.

Promise: a digest is of bytes that lay still while they were read, in bounded memory, and does not
depend on the number of threads. A text file holds no NUL and no line over the bound, or a typed
error says so: DuckDB leaves a file's last line out without a word when it is longer than its
buffer, so such a line must be found before it reads.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import NamedTuple

from dpone.adapters.sources.opening import Found, opened
from dpone.contracts.errors_loading import (
    SourceChanged,
    SourceFieldTooLarge,
    SourceNul,
    SourceUnreadable,
)
from dpone.ports.source import SourceFile

BLOCK_BYTES = 1024 * 1024
PIECE_BYTES = 64 * 1024 * 1024
LINE_BYTES_MAX = 16 * 1024 * 1024


class Seen(NamedTuple):
    """What identifies a file's content without reading it."""

    size: int
    mtime_ns: int
    inode: int


class Piece(NamedTuple):
    """What reading one piece of a file gave.

    `head` and `tail` are the bytes before the first and after the last line break; both are the
    whole piece when it has none.
    """

    digest: bytes
    size: int
    seen: Seen
    head: int
    tail: int


def seen(status: os.stat_result) -> Seen:
    """What a file's status says of its content."""
    return Seen(status.st_size, status.st_mtime_ns, status.st_ino)


def pieces_of(size: int) -> range:
    """The offsets at which the pieces of a file begin; an empty file has one."""
    return range(0, max(size, 1), PIECE_BYTES)


def read_piece(file: Found, offset: int, text: bool) -> Piece:
    """Read and digest one piece. Raises a `SourceError`."""
    with open(opened(file), "rb", buffering=0) as reader:
        before = seen(os.fstat(reader.fileno()))
        lines = _Lines(file.name, offset)
        state = hashlib.sha256()
        block = bytearray(BLOCK_BYTES)
        view = memoryview(block)
        left = PIECE_BYTES
        try:
            reader.seek(offset)
            while left and (count := reader.readinto(view[: min(left, BLOCK_BYTES)])):
                if text:
                    lines.pass_on(block, count)
                state.update(view[:count])
                left -= count
        except OSError as error:
            raise SourceUnreadable(name=file.name, reason=error.strerror or "error") from None
        if seen(os.fstat(reader.fileno())) != before:
            raise SourceChanged(name=file.name)
    size = PIECE_BYTES - left
    head = size if lines.head is None else lines.head
    return Piece(state.digest(), size, before, head, lines.tail)


class _Lines:
    """Watches a text's bytes as they pass."""

    def __init__(self, name: str, offset: int) -> None:
        self.name = name
        self.head: int | None = None
        self.tail = 0
        self._offset = offset
        self._passed = 0

    def pass_on(self, block: bytearray, count: int) -> None:
        if (at := block.find(0, 0, count)) >= 0:
            raise SourceNul(name=self.name, offset=self._offset + self._passed + at)
        mark = b"\n" if block.find(b"\n", 0, count) >= 0 else b"\r"
        last = block.rfind(mark, 0, count)
        if last >= 0 and self.head is None:
            self.head = self._passed + block.find(mark, 0, count)
        self.tail = count - last - 1 if last >= 0 else self.tail + count
        self._passed += count
        if self.tail > LINE_BYTES_MAX:
            raise too_long(self.name)


def whole(file: Found, pieces: Sequence[Piece], text: bool) -> tuple[SourceFile, Seen]:
    """Join the pieces of one file. Raises `SourceChanged` when they are not of one content."""
    first = pieces[0].seen
    size = sum(piece.size for piece in pieces)
    if any(piece.seen != first for piece in pieces) or size != first.size:
        raise SourceChanged(name=file.name)
    if text:
        _check_lines(file, pieces)
    if len(pieces) == 1:
        digest = pieces[0].digest.hex()
    else:
        digest = hashlib.sha256(b"".join(piece.digest for piece in pieces)).hexdigest()
    return SourceFile(file.name, size, digest, pieces=len(pieces)), first


def _check_lines(file: Found, pieces: Sequence[Piece]) -> None:
    """Find a line that is too long and lies across pieces."""
    line = 0
    for piece in pieces:
        if line + piece.head > LINE_BYTES_MAX and piece.head:
            raise too_long(file.name)
        line = piece.tail if piece.head < piece.size else line + piece.size


def too_long(name: str) -> SourceFieldTooLarge:
    """The error for a line over the bound."""
    return SourceFieldTooLarge(place=f" in {name}", bytes_max=LINE_BYTES_MAX)
