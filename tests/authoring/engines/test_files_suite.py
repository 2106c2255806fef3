"""Both adapters pass the suite of project files, and each seeded defect is caught by a check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from certification import files
from certification.checks import ERROR, FAILED, PASSED, run
from certification.files import FilesPlace
from faultinject.authoring_places import MemoryPlace, PosixPlace
from tests.authoring.engines import broken_files

Make = Callable[[], AbstractContextManager[FilesPlace]]


@contextmanager
def memory() -> Iterator[FilesPlace]:
    yield MemoryPlace()


@contextmanager
def memory_with_names_only() -> Iterator[FilesPlace]:
    yield MemoryPlace(nameless=False, proves=False)


@contextmanager
def posix() -> Iterator[FilesPlace]:
    with TemporaryDirectory() as folder:
        yield PosixPlace(Path(folder))


ADAPTERS: dict[str, Make] = {
    "memory": memory,
    "memory with names only": memory_with_names_only,
    "posix": posix,
}


@pytest.mark.parametrize("check", sorted(files.complete().functions))
@pytest.mark.parametrize("adapter", sorted(ADAPTERS))
def test_files(adapter: str, check: str) -> None:
    chosen = [found for found in files.suite(ADAPTERS[adapter]) if found.name == check]
    assert [(result.outcome, result.detail) for result in run(chosen)] == [(PASSED, "")]


def test_there_are_checks_and_defects_enough() -> None:
    assert len(files.complete().functions) >= 20
    assert len(broken_files.DEFECTS) >= 8


@pytest.mark.parametrize("defect", sorted(broken_files.DEFECTS))
def test_the_suite_catches(monkeypatch: pytest.MonkeyPatch, defect: str) -> None:
    name, patch = broken_files.DEFECTS[defect]
    checks = [found for found in files.suite(posix) if found.name == name]
    assert [result.outcome for result in run(checks)] == [PASSED]
    patch(monkeypatch)
    assert [result.outcome for result in run(checks)] in ([FAILED], [ERROR])
