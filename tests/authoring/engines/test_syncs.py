"""Every sync of the authoring code is needed: their number is the least that the model accepts.

Each is left out in turn, and under weak persistence a violation follows within few steps.
"""

from __future__ import annotations

import pytest

from faultinject.authoring_matrix import MODULES, lost_sync
from faultinject.authoring_syncs import left_out, sites
from faultinject.authoring_worlds import workloads
from faultinject.persistence import Bounds, first_violation

# An ordered file system forgives everything but these.
NEEDED_WHEN_ORDERED = {
    "record.close#2",
    "bytes of the staged file",
    "bytes of the new record",
    "byte of a patch",
}
SITES = sites(MODULES)


@pytest.mark.parametrize("site", sorted(SITES))
def test_a_lost_sync_is_noticed(site: str) -> None:
    row = lost_sync(site, weak=True)
    assert row.due > 0, "never due"
    assert row.rule, f"nobody notices the loss of {site}"
    assert 0 < row.steps < 40


@pytest.mark.parametrize("site", sorted(NEEDED_WHEN_ORDERED))
def test_an_ordered_file_system_does_not_forgive_everything(site: str) -> None:
    assert lost_sync(site, weak=False).rule


def test_the_sites_are_found_in_the_source() -> None:
    assert len(SITES) > 15
    assert len(set(SITES)) == len(SITES)
    assert set(SITES) >= NEEDED_WHEN_ORDERED


def test_nothing_is_left_out_afterwards() -> None:
    with left_out(SITES[0]):
        pass
    assert first_violation(workloads(rivals=False)[0], Bounds()) is None
