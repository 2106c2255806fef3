"""Zygotes that have imported the authoring commands; one more set than the loads need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from faultinject.matrix import memory_folder
from faultinject.zygote import Zygote


@pytest.fixture(scope="session")
def writers() -> Iterator[list[Zygote]]:
    """Zygotes for rounds that run side by side."""
    with ExitStack() as held:
        made = [TemporaryDirectory(prefix="dpone-writer-", dir=memory_folder()) for _ in range(2)]
        folders = [Path(held.enter_context(folder)) for folder in made]
        yield [held.enter_context(Zygote(folder, ("faultinject.writing",))) for folder in folders]


@pytest.fixture(scope="session")
def writer(writers: list[Zygote]) -> Zygote:
    """The zygote of tests that run one worker after the other."""
    return writers[0]
