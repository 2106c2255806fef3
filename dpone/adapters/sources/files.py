"""The files of a source: digested once, and compared again before the commit.

Promise: a file that changes after its digest is noticed by size, time or inode. Not promised:
that a change which restores all three is seen.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from dpone.adapters.sources.digests import Piece, Seen, pieces_of, read_piece, seen, whole
from dpone.adapters.sources.opening import Found, size_of
from dpone.contracts.errors_loading import SourceChanged
from dpone.ports.source import SourceFile

THREADS_MAX = 4


class Files:
    """The files of one source; their digests are computed in the background, once.

    `text`: the files are texts, which hold no NUL and no line over the bound.
    """

    def __init__(self, found: Sequence[Found], *, text: bool) -> None:
        self.found = tuple(found)
        self._text = text
        self._pool: ThreadPoolExecutor | None = None
        self._pieces: dict[str, list[Future[Piece]]] = {}
        self._digests: dict[str, tuple[SourceFile, Seen]] = {}

    def start(self) -> None:
        """Begin to digest every file. Raises `SourceUnreadable`."""
        if self._pool is not None:
            return
        threads = min(THREADS_MAX, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="dpone-digest")
        for file in self.found:
            self._pieces[file.name] = [
                self._pool.submit(read_piece, file, offset, self._text)
                for offset in pieces_of(size_of(file))
            ]

    def digests(self, names: Sequence[str]) -> list[SourceFile]:
        """Return the digests of some files. Raises a `SourceError` for one that is unusable."""
        self.start()
        return [self._digest(file)[0] for file in self.found if file.name in names]

    def digesting(self) -> bool:
        """Whether somebody who asks for a digest may have to wait."""
        return not all(piece.done() for pieces in self._pieces.values() for piece in pieces)

    def _digest(self, file: Found) -> tuple[SourceFile, Seen]:
        known = self._digests.get(file.name)
        if known is None:
            known = whole(file, [piece.result() for piece in self._pieces[file.name]], self._text)
            self._digests[file.name] = known
        return known

    def check_text(self) -> None:
        """Raise the typed error of the first file that is unusable, if there is one."""
        self.digests([file.name for file in self.found])

    def check_unchanged(self, names: Sequence[str]) -> None:
        """Raise `SourceChanged` when a file is not the one that was digested."""
        for file in self.found:
            if file.name in names and _look(file) != self._digest(file)[1]:
                raise SourceChanged(name=file.name)

    def close(self) -> None:
        """Let the digests go that nobody asked for."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _look(file: Found) -> Seen | None:
    try:
        return seen(file.path.stat())
    except OSError:
        return None
