"""Every sync of the deletion is needed: each is left out in turn, and somebody notices."""

from __future__ import annotations

from collections import Counter

import pytest

from faultinject.deletion_matrix import BY_CONTRACT, every_scene, lost_sync
from faultinject.deletion_memory import MemoryCache
from faultinject.deletion_persistence import Bounds, first_violation
from faultinject.deletion_syncs import left_out, sites
from tests.depth import FULL

SITES = tuple(site for site in sites() if site != BY_CONTRACT)
# An ordered file system forgives everything but these.
NEEDED_WHEN_ORDERED = (
    *("append prepared", "append deletion_started", "bytes of a control file", "bytes of a cut"),
    *("store.put#1 retention.commit", "transact.delete#1"),
)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("site", SITES)
def test_a_lost_sync_is_noticed(site: str) -> None:
    row = lost_sync(site, weak=True)
    assert row.due > 0, "never due"
    assert row.rule, f"nobody notices the loss of {site}"
    assert 0 < row.steps < 80


@pytest.mark.timeout(300)
@pytest.mark.parametrize("site", NEEDED_WHEN_ORDERED)
def test_an_ordered_file_system_does_not_forgive_everything(site: str) -> None:
    assert lost_sync(site, weak=False, depth=1).rule


@pytest.mark.timeout(1800)
def test_the_receipt_may_lag() -> None:
    chosen = every_scene() if FULL else [it for it in every_scene() if it.name == "torn"]
    with left_out(BY_CONTRACT) as due:
        found = [first_violation(scene, Bounds(2 if FULL else 1)) for scene in chosen]
    assert due
    assert set(found) == {None}, "it is needed: move it to the others"


def test_the_sites_are_found_in_the_source() -> None:
    assert len(set(SITES)) == len(SITES) >= 40


def test_nothing_is_left_out_afterwards() -> None:
    with left_out(SITES[0]):
        pass
    assert first_violation(every_scene()[0], Bounds(1)) is None


def test_a_candidate_costs_a_constant_number_of_syncs() -> None:
    """Five; seven with an activation; of them two, or four, under the promotion lock."""
    scene = next(it for it in every_scene() if it.name == "apply")
    case = scene.begin()
    counts: list[Counter[str]] = []

    def watch(label: str) -> None:
        if label.startswith("carry deployments"):
            counts.append(Counter())
        if counts:
            counts[-1][label.partition(" ")[0]] += 1

    scene.call(MemoryCache(case.disk, watch, case.book.base))
    # Between two candidates lies one receipt, with a sync for its bytes and one for its name.
    found = [seen["sync-folder"] + seen["sync-append"] - 1 for seen in counts[:2]]
    assert found == [5, 7]
