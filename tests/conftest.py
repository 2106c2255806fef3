"""Settings that every test shares."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# One profile everywhere: a verdict must not depend on how fast the machine is, so there is
# no deadline; and a run must repeat bit for bit, so examples follow from the test itself.
settings.register_profile(
    "dpone",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# `deep` searches with fresh seeds; a find is replayed with the blob that it prints.
settings.register_profile("deep", parent=settings.get_profile("dpone"), derandomize=False)
settings.load_profile(os.environ.get("DPONE_HYPOTHESIS_PROFILE", "dpone"))

# A file goes to one worker as a whole. The longest come first, so that at the end no worker has one
# left while the other has nothing to do.
LONG = (
    "tests/stateful/",
    "tests/kill/",
    "tests/authoring/",
    "tests/retention/kill/",
    "tests/models/",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
