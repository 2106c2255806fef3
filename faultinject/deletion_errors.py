"""The operating system under the cache's files, with the n-th call failing, once or from then on.

Promise: every call that the adapter makes is counted, in order; the chosen one fails with an error
number before it does anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from dpone.adapters.posix import cachefiles, files, glance, held, swap
from faultinject.failing_calls import Calls

_CHANGING = (
    *("link", "unlink", "mkdir", "rmdir", "write", "pwrite", "fsync", "fdatasync"),
    *("fchmod", "ftruncate", "replace", "rename", "symlink"),
)
_READING = ("open", "pread", "fstat", "scandir", "readlink")
CHANGING = frozenset({*_CHANGING, "move", "carry"})


class _System:
    """The module `os` with some functions counted."""

    def __init__(self, calls: Calls) -> None:
        for name in (*_CHANGING, *_READING):
            setattr(self, name, calls.wrapped(name, getattr(os, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@contextmanager
def failing(calls: Calls) -> Iterator[Calls]:
    """Let the adapter's calls be counted, and fail, until the block ends."""
    system = _System(calls)
    patches: list[Any] = [mock.patch.object(it, "os", system) for it in (cachefiles, files, held)]
    patches += [
        mock.patch.object(swap, "move", calls.wrapped("move", swap.move)),
        mock.patch.object(swap, "carry", calls.wrapped("carry", swap.carry)),
        mock.patch.object(glance, "at_name", calls.wrapped("look", glance.at_name)),
        mock.patch.object(glance, "at_descriptor", calls.wrapped("look", glance.at_descriptor)),
    ]
    for patch in patches:
        patch.start()
    try:
        yield calls
    finally:
        for patch in reversed(patches):
            patch.stop()
