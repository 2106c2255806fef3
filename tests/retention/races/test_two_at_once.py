"""Two operators at once, a loader that holds its share, and a promoter, each in its own process."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dpone.contracts.retention_receipt import Receipt
from faultinject.deletion_files import WatchedCache, acting_at
from faultinject.deletion_worlds import OTHER_REVIEW, REVIEW, Ended, World, fill, world

ROUNDS = 20
RECONCILE_BUSY = "DPONE_CACHE_RECONCILE_LOCK_BUSY"
PROMOTION_BUSY = "DPONE_CACHE_PROMOTION_LOCK_BUSY"


def _at_once(works: list[Callable[[], Ended]]) -> list[Ended]:
    """Run each in a thread, all beginning at the same moment."""
    barrier = threading.Barrier(len(works))
    found: dict[int, Ended] = {}

    def run(number: int) -> None:
        barrier.wait()
        found[number] = works[number]()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[number] for number in range(len(works))]


def test_two_operators_with_one_review_get_the_same_receipt(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        made = world(tmp_path / str(number))
        plan = made.plan().sha256
        ended = _at_once([lambda: made.apply(plan), lambda: made.apply(plan)])  # noqa: B023
        assert {it.code for it in ended} == {"committed"}
        first, second = (it.receipt for it in ended)
        assert isinstance(first, Receipt)
        assert first == second
        assert sorted(it.replayed for it in ended) == [False, True]


def test_two_operators_with_two_reviews_delete_once(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        made = world(tmp_path / str(number))
        plan = made.plan().sha256
        works = [
            lambda: made.apply(plan, REVIEW),  # noqa: B023
            lambda: made.apply(plan, OTHER_REVIEW),  # noqa: B023
        ]
        codes = sorted(it.code for it in _at_once(works))
        assert codes == ["DPONE_DEPLOYMENT_CACHE_GC_PLAN_CHANGED", "committed"]
        assert len(list(made.receipts.iterdir())) == 1
        assert (made.there(), made.trashed()) == ([], [])


def test_two_processes_with_one_review_both_commit(tmp_path: Path) -> None:
    made = world(tmp_path)
    for deployment_id in made.candidates:
        fill(made.deployment(deployment_id), 200)
    plan = made.plan().sha256
    pids = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if made.apply(plan).code == "committed" else 1)
        pids.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0, 0, 0]


def test_an_apply_that_waits_too_long_for_another_is_busy_and_changes_nothing(
    tmp_path: Path,
) -> None:
    made = world(tmp_path)
    plan = made.plan().sha256
    with (made.root / ".reconcile.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        ended = made.apply(plan, desk=made.desk(reconcile_wait_s=0.05))
    assert (ended.exit_code, ended.code) == (3, RECONCILE_BUSY)
    assert not made.receipts.exists()


@pytest.mark.parametrize("leaf", [".promotion.lock", "."])
def test_a_loader_that_holds_its_share_is_never_passed_by(tmp_path: Path, leaf: str) -> None:
    made = world(tmp_path)
    plan = made.plan().sha256
    descriptor = os.open(made.root / leaf, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    ended = made.apply(plan, desk=made.desk(promotion_wait_s=0.05))
    assert (ended.exit_code, ended.code) == (3, PROMOTION_BUSY)
    assert made.there() == list(made.candidates)
    os.close(descriptor)
    assert made.apply(plan).code == "committed"


def test_a_loader_that_comes_in_the_middle_ends_the_run_which_is_resumed(tmp_path: Path) -> None:
    made = world(tmp_path)
    plan = made.plan().sha256
    held: list[int] = []

    def load() -> None:
        held.append(os.open(made.root / ".promotion.lock", os.O_RDONLY))
        fcntl.flock(held[0], fcntl.LOCK_SH)

    watched = WatchedCache(made.root, acting_at("unlink", load, "deployment.json"))
    ended = made.apply(plan, desk=made.desk(watched, promotion_wait_s=0.05))
    assert (ended.exit_code, ended.code) == (3, PROMOTION_BUSY)
    assert len(made.there()) == 2
    os.close(held[0])
    assert made.apply(plan).code == "committed"


def test_a_promotion_that_races_with_the_detaches_never_loses_what_it_promoted(
    tmp_path: Path,
) -> None:
    outcomes = set()
    for number in range(ROUNDS):
        made = world(tmp_path / str(number))
        plan = made.plan().sha256
        last = made.candidates[-1]
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if made.activate(made.fixture(last)) == last else 1
            finally:
                os._exit(code)
        ended = made.apply(plan)
        os.waitpid(pid, 0)
        outcomes.add(ended.code)
        current = (made.root / "current").resolve().name.replace("-", ":", 1)
        assert made.activation(current).is_dir()
        if current == last and ended.code != "committed":
            assert made.deployment(last).is_dir()
    assert outcomes


def test_what_is_swapped_between_the_look_and_the_rename_is_put_back(tmp_path: Path) -> None:
    made: World = world(tmp_path)
    plan = made.plan().sha256
    first = made.candidates[0]
    inodes: list[int] = []
    act = acting_at("carry", lambda: inodes.append(made.rebuild(first)), "deployments/")
    ended = made.apply(plan, files=WatchedCache(made.root, act))
    assert ended.code == "DPONE_DEPLOYMENT_CACHE_GC_OPERATION_ABORTED"
    assert made.deployment(first).stat().st_ino == inodes[0]
    assert (made.there(), made.trashed()) == (list(made.candidates), [])
