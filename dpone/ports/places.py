"""Whether a path names something, told apart from a path that we may not look at."""

from __future__ import annotations

from pathlib import Path


def present(path: Path) -> bool:
    """Whether something has this name.

    Raises `OSError` when that cannot be told, such as below a folder that we may not enter.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
