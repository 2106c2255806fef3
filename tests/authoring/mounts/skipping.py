"""Real file systems in tests, or a skip that says what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from faultinject import filesystems


@contextmanager
def on(kind: str, options: str = "") -> Iterator[Path]:
    """A folder on a fresh file system."""
    with ExitStack() as held:
        try:
            place = held.enter_context(filesystems.mounted(kind, options))
        except filesystems.Unavailable as reason:
            pytest.skip(f"UNVERIFIED on {kind}: {reason}")
        yield place


@contextmanager
def bound(source: Path, place: Path, options: str = "") -> Iterator[None]:
    """A bind mount."""
    with ExitStack() as held:
        try:
            held.enter_context(filesystems.bound(source, place, options))
        except filesystems.Unavailable as reason:
            pytest.skip(f"UNVERIFIED with a bind mount: {reason}")
        yield
