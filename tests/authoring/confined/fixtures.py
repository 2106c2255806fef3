"""A folder in memory with one file, and a project with a domain and a workload."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultinject.matrix import memory_folder
from tests.authoring.confined.studio import Single
from tests.loading.project import Project


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty folder, in memory where there is any."""
    with tempfile.TemporaryDirectory(prefix="dpone-confined-", dir=memory_folder()) as folder:
        yield Path(folder)


@pytest.fixture
def single(place: Path) -> Single:
    """One file `f.yaml` in a folder of its own."""
    return Single(place)


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """Where the first project fixture of a session leaves its files for the others."""
    with tempfile.TemporaryDirectory(prefix="dpone-template-", dir=memory_folder()) as folder:
        yield Path(folder)


@pytest.fixture
def authored(
    place: Path,
    template: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Project:
    """A project with the domain `sales` and the workload `orders`."""
    monkeypatch.delenv("DPONE_ENVIRONMENT", raising=False)
    monkeypatch.delenv("DPONE_DEBUG", raising=False)
    made = Project(place / "project", capsys)
    saved = template / "project"
    if not saved.exists():
        made.root.mkdir()
        for argv in (("init",), ("init", "domain", "sales"), ("init", "workload", "sales/orders")):
            assert made.call(*argv, "--apply").code == 0
        shutil.copytree(made.root, saved)
    else:
        shutil.copytree(saved, made.root)
    return made
