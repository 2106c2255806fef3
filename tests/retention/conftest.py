"""Caches to read and to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.retention.caches import Cache, earlier


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """The cache of the earlier release."""
    return earlier(tmp_path)
