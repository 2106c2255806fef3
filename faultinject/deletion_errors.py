"""The operating system under the cache's files, with the n-th call failing, once or from then on.

Promise: every call that the adapter makes is counted, in order; the chosen one fails with an error
number before it does anything.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from dpone.adapters.posix import cachefiles, files, held
from faultinject.failing_calls import Calls, counted

_CHANGING = (
    *("link", "unlink", "mkdir", "rmdir", "write", "pwrite", "fsync", "fdatasync"),
    *("fchmod", "ftruncate", "replace", "rename", "symlink"),
)
_READING = ("open", "pread", "fstat", "scandir", "readlink")
CHANGING = frozenset({*_CHANGING, "move", "carry"})


def failing(calls: Calls) -> AbstractContextManager[Calls]:
    """Let the adapter's calls be counted, and fail, until the block ends."""
    names = (*_CHANGING, *_READING)
    return counted(calls, (cachefiles, files, held), names, ("move", "carry"))
