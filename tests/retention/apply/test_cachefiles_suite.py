"""The POSIX adapter for a cache's files passes the suite of its port."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from certification.checks import Check
from certification.retention import suite
from dpone.adapters.posix.cachefiles import PosixCache
from dpone.ports.cachefiles import CacheFiles
from faultinject.deletion_files import WatchedCache

ADAPTERS: dict[str, Callable[[Path], PosixCache]] = {"posix": PosixCache, "watched": WatchedCache}


class _Place(NamedTuple):
    files: CacheFiles
    root: Path


def _checks(name: str) -> list[Check]:
    @contextmanager
    def make() -> Iterator[_Place]:
        with tempfile.TemporaryDirectory() as folder:
            yield _Place(ADAPTERS[name](Path(folder)), Path(folder))

    return suite(make)


@pytest.mark.parametrize(
    "check", [pytest.param(it, id=f"{name}-{it.name}") for name in ADAPTERS for it in _checks(name)]
)
def test_the_adapter_passes(check: Check) -> None:
    check.run()
