"""The adapters for a cache's files pass the suite of their port, the one in memory too."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from certification.checks import Check
from certification.retention import CachePlace, suite
from faultinject.deletion_files import WatchedCache
from faultinject.deletion_places import MemoryCachePlace, PosixCachePlace

PLACES: dict[str, Callable[[Path], CachePlace]] = {
    "posix": PosixCachePlace,
    "watched": lambda root: PosixCachePlace(root, WatchedCache(root)),
    "memory": lambda root: MemoryCachePlace(),
}


def _checks(name: str) -> list[Check]:
    @contextmanager
    def make() -> Iterator[CachePlace]:
        with tempfile.TemporaryDirectory() as folder:
            yield PLACES[name](Path(folder))

    return suite(make)


@pytest.mark.parametrize(
    "check", [pytest.param(it, id=f"{name}-{it.name}") for name in PLACES for it in _checks(name)]
)
def test_the_adapter_passes(check: Check) -> None:
    check.run()
