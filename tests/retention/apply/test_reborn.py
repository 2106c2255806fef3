"""What comes back under a deployment's name is another occurrence: it stays, and the rest aborts.

The facts' scenarios let a receipt whose deleted deployment came back lose that outcome; here what
the log confirmed stays confirmed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from faultinject.deletion_files import Stop, WatchedCache, acting_at, stop_at
from faultinject.deletion_worlds import OTHER_REVIEW, World, unseal, world
from tests.retention.apply.boundaries import ABORTED, OCCURRENCE, stopped


@pytest.mark.parametrize("at", ["committed", "progress", "second"])
def test_what_was_deleted_and_built_again_stays_and_the_rest_is_closed(
    made: World, at: str
) -> None:
    plan = made.plan().sha256
    stopped(made, plan, at)
    first = made.candidates[0]
    inode = made.rebuild(first)
    ended = made.apply(plan)
    assert (ended.code, (ended.fields or {})["reason"]) == (ABORTED, OCCURRENCE)
    receipt = made.receipt(plan)
    assert receipt is not None
    assert first in receipt.deleted_ids
    assert made.deployment(first).stat().st_ino == inode
    assert made.trashed() == []
    assert made.apply(made.plan().sha256, OTHER_REVIEW).code == "committed"
    assert made.there() == []


@pytest.mark.parametrize("at", ["renamed", "detached", "started", "half", "emptied"])
def test_what_is_built_again_while_its_earlier_tree_is_in_the_trash_stays(
    made: World, at: str
) -> None:
    plan = made.plan().sha256
    stopped(made, plan, at)
    first = made.candidates[0]
    inode = made.rebuild(first)
    ended = made.apply(plan)
    assert (ended.code, (ended.fields or {})["reason"]) == (ABORTED, OCCURRENCE)
    receipt = made.receipt(plan)
    assert receipt is not None
    # The earlier occurrence is gone and confirmed; nothing else was touched.
    assert receipt.deleted_ids == (first,)
    assert made.deployment(first).stat().st_ino == inode
    assert (made.there(), made.trashed()) == (list(made.candidates), [])


@pytest.mark.parametrize("at", ["begun", "history", "committed"])
def test_a_pending_one_that_was_built_again_stays(made: World, at: str) -> None:
    plan = made.plan().sha256
    stopped(made, plan, at)
    last = made.candidates[-1]
    inode = made.rebuild(last)
    ended = made.apply(plan)
    assert (ended.code, (ended.fields or {})["reason"]) == (ABORTED, OCCURRENCE)
    assert made.deployment(last).stat().st_ino == inode


def test_an_activation_that_was_made_meanwhile_is_drift(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "history")
    first = made.candidates[0]
    shutil.copytree(made.deployment(first), made.activation(first))
    ended = made.apply(plan)
    assert (ended.code, (ended.fields or {})["reason"]) == (ABORTED, OCCURRENCE)
    assert made.activation(first).exists()
    assert made.there() == list(made.candidates)


def test_a_broken_link_at_the_old_name_counts_as_something(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "committed")
    made.deployment(made.candidates[0]).symlink_to("nowhere")
    assert made.apply(plan).code == ABORTED
    assert made.deployment(made.candidates[0]).is_symlink()


def test_what_comes_back_while_the_run_goes_on_is_noticed(made: World) -> None:
    plan = made.plan().sha256
    place = made.deployment(made.candidates[0])
    act = acting_at("unlink", place.mkdir, "deployment.json")
    ended = made.apply(plan, files=WatchedCache(made.root, act))
    assert (ended.code, place.is_dir()) == (ABORTED, True)
    receipt = made.receipt(plan)
    assert receipt is not None
    assert receipt.deleted_ids == made.candidates[:1]


def test_when_the_last_one_comes_back_nothing_is_left_to_abort(made: World) -> None:
    plan = made.plan().sha256
    place = made.deployment(made.candidates[-1])
    act = acting_at("unlink", place.mkdir, f"{place.name}.")
    ended = made.apply(plan, files=WatchedCache(made.root, act))
    assert (ended.code, place.is_dir()) == ("committed", True)


def test_what_was_built_again_before_the_beginning_is_deleted(made: World) -> None:
    plan = made.plan().sha256
    made.rebuild(made.candidates[0])
    assert made.apply(plan).code == "committed"
    assert made.there() == []


def test_a_prepared_batch_without_a_receipt_authorises_nothing(made: World) -> None:
    plan = made.plan().sha256
    from faultinject.deletion_files import Stop, stop_at

    with pytest.raises(Stop):
        made.apply(plan, files=WatchedCache(made.root, stop_at("after append")))
    inode = made.rebuild(made.candidates[0])
    before = made.recovery().occurrences
    assert inode not in [it.deployment.inode for it in before.values()]
    # The next run looks at it again, and records what is there now.
    stopped(made, plan, "history")
    after = made.recovery().occurrences
    assert inode in [it.deployment.inode for it in after.values()]
    assert len(after) == 3


@pytest.mark.parametrize("how", ["moved", "rebuilt", "log gone", "log broken"])
def test_a_committed_receipt_is_never_rewritten(made: World, tmp_path: Path, how: str) -> None:
    plan = made.plan().sha256
    first = made.apply(plan)
    raw = made.raw(plan)
    if how == "moved":
        made.root.rename(tmp_path / "elsewhere")
        made.root = tmp_path / "elsewhere"
    elif how == "rebuilt":
        made.rebuild(made.candidates[0])
    elif how == "log gone":
        made.wal.unlink()
        made.log.unlink()
    else:
        made.wal.write_bytes(b"{")
    for _ in range(2):
        ended = made.apply(plan)
        assert (ended.code, ended.receipt, ended.replayed) == ("committed", first.receipt, True)
        assert made.raw(plan) == raw


@pytest.mark.parametrize("at", ["history", "detached", "committed"])
def test_a_cache_that_was_moved_goes_on_where_it_was(made: World, tmp_path: Path, at: str) -> None:
    # The facts' release aborts here; identity does not depend on where the cache lies.
    plan = made.plan().sha256
    stopped(made, plan, at)
    made.root.rename(tmp_path / "elsewhere")
    made.root = tmp_path / "elsewhere"
    assert made.apply(plan).code == "committed"


def _ended_by(made: World, plan: str, how: str) -> None:
    """The same command again, which may only refuse, or a later plan."""
    if how == "the same command":
        assert made.apply(plan).code == ABORTED
    else:
        assert made.apply(made.plan().sha256, OTHER_REVIEW).code == "committed"
    assert made.trashed() == []


def _is_sealed(made: World) -> bool:
    """Whether what is current has its activation, read-only."""
    return (made.root / "current").stat().st_mode & 0o222 == 0


HOW = pytest.mark.parametrize("how", ["the same command", "a later plan"])


@HOW
@pytest.mark.parametrize("at", [("after carry", "deployments/"), ("carry", "activations/")])
def test_what_is_promoted_after_a_death_between_the_renames_keeps_its_activation(
    tmp_path: Path, how: str, at: tuple[str, str]
) -> None:
    made = world(tmp_path, 2, active=1)
    first = made.candidates[0]
    fixture, plan = made.fixture(first), made.plan().sha256
    inode = made.activation(first).stat().st_ino
    with pytest.raises(Stop):
        made.apply(plan, files=WatchedCache(made.root, stop_at(*at)))
    # It is built again, and promoted with the activation that stands there.
    assert made.activate(fixture) == first
    _ended_by(made, plan, how)
    assert made.activation(first).stat().st_ino == inode
    assert made.deployment(first).is_dir()
    assert _is_sealed(made)


@HOW
def test_what_is_current_again_without_being_built_gets_its_name_back(
    tmp_path: Path, how: str
) -> None:
    made = world(tmp_path, 2, active=1)
    first = made.candidates[0]
    fixture, plan = made.fixture(first), made.plan().sha256
    stopped(made, plan, "renamed")
    (moved,) = made.trash.iterdir()
    inode = moved.stat().st_ino
    assert made.activate(fixture) == first
    shutil.rmtree(made.deployment(first))
    _ended_by(made, plan, how)
    assert made.deployment(first).stat().st_ino == inode
    assert _is_sealed(made)


@HOW
@pytest.mark.parametrize("at", ["renamed", "detached"])
def test_another_activation_under_the_name_stays(tmp_path: Path, how: str, at: str) -> None:
    made = world(tmp_path, 2, active=1)
    first = made.candidates[0]
    fixture, plan = made.fixture(first), made.plan().sha256
    stopped(made, plan, at)
    old = made.activation(first)
    if old.exists():
        unseal(old)
        shutil.rmtree(old)
    assert made.activate(fixture) == first
    inode = made.activation(first).stat().st_ino
    # The activation alone is left of what was built again.
    shutil.rmtree(made.deployment(first))
    _ended_by(made, plan, how)
    assert made.activation(first).stat().st_ino == inode
    assert _is_sealed(made)


def test_what_is_built_again_and_not_promoted_keeps_the_activation_for_a_fresh_review(
    tmp_path: Path,
) -> None:
    made = world(tmp_path, 2, active=1)
    first = made.candidates[0]
    plan = made.plan().sha256
    stopped(made, plan, "renamed")
    inode = made.rebuild(first)
    ended = made.apply(plan)
    assert (ended.code, (ended.fields or {})["reason"]) == (ABORTED, OCCURRENCE)
    assert made.deployment(first).stat().st_ino == inode
    assert made.activation(first).stat().st_mode & 0o222 == 0
    assert made.apply(made.plan().sha256, OTHER_REVIEW).code == "committed"
    assert (made.there(), made.activation(first).exists()) == ([], False)


def test_a_replay_touches_nothing_of_what_was_promoted_again(tmp_path: Path) -> None:
    made = world(tmp_path, 1, active=1)
    first = made.candidates[0]
    fixture, plan = made.fixture(first), made.plan().sha256
    assert made.apply(plan).code == "committed"
    assert made.activate(fixture) == first
    assert (made.apply(plan).code, _is_sealed(made)) == ("committed", True)
