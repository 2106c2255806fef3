"""Work done as an ordinary user, also when root runs the tests."""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from faultinject.deletion_worlds import world
from faultinject.filesystems import as_user


@contextmanager
def owned_folder() -> Iterator[Path]:
    """A folder that the ordinary user owns, below folders that anybody may pass."""
    with tempfile.TemporaryDirectory(prefix="dpone-owned-", dir="/tmp") as folder:
        if os.geteuid() == 0:
            os.chown(folder, owner(), owner())
        yield Path(folder)


def owner() -> int:
    """Our own user, or nobody when we are root."""
    return os.geteuid() or pwd.getpwnam("nobody").pw_uid


def as_owner(work: Callable[[], str]) -> str:
    """What `work` answers when that user does it. Imports are made before, for it may not read."""
    if os.geteuid() != 0:
        return work()
    with tempfile.TemporaryDirectory() as folder:
        made = world(Path(folder), 1, active=1)
        made.apply(made.plan().sha256)
    return as_user(owner(), owner(), work)
