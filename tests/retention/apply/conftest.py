"""A small cache to delete from."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultinject.deletion_worlds import World, world


@pytest.fixture
def made(tmp_path: Path) -> World:
    return world(tmp_path)
