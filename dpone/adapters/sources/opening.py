"""Finds the files that a path or glob means, and opens them as regular files only."""

from __future__ import annotations

import glob
import os
import stat
from pathlib import Path
from typing import NamedTuple

from dpone.contracts.errors_loading import SourceNotFound, SourceUnreadable


class Found(NamedTuple):
    """A file: its name relative to the declared root, and where it lies."""

    name: str
    path: Path


def resolve(root: Path, pattern: str) -> list[Found]:
    """Return the regular files that a path or glob means, sorted by name.

    Raises `SourceNotFound` when there is none, `SourceUnreadable` for a folder.
    """
    exact = root / pattern
    if exact.is_dir():
        raise SourceUnreadable(name=pattern, reason="it is a folder")
    if os.path.lexists(exact):
        names = [pattern]
    else:
        # Path.glob would take hidden files too.
        found = glob.glob(pattern, root_dir=root, recursive=True)  # noqa: PTH207
        names = sorted({Path(name).as_posix() for name in found if (root / name).is_file()})
    if not names:
        raise SourceNotFound(pattern=pattern)
    return [Found(name, root / name) for name in names]


def opened(file: Found) -> int:
    """Return a descriptor of a regular file. Raises `SourceUnreadable`."""
    try:
        descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise SourceUnreadable(name=file.name, reason=error.strerror or "error") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SourceUnreadable(name=file.name, reason="it is not a regular file")
    return descriptor


def size_of(file: Found) -> int:
    """The size of a file in bytes. Raises `SourceUnreadable`."""
    descriptor = opened(file)
    try:
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
