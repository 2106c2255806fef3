"""Which lock is held when, and what is read again under it."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from dpone.adapters.posix.cachefiles import PosixCache
from dpone.contracts.effects import Effect
from dpone.ports.probe import quiet
from dpone.retention.locks import Locks
from faultinject.deletion_files import WatchedCache, acting_at
from faultinject.deletion_worlds import World, world
from tests.retention.apply.boundaries import ABORTED, AUTHORITY, PROTECTED, stopped

CHANGES = ("create", "replace", "carry", "unlink", "rmdir", "append", "sync", "mkdir", "cut")


def is_held(made: World, leaf: str) -> bool:
    """Whether somebody holds a lock of the cache alone."""
    descriptor = os.open(made.root / leaf, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def watched(made: World, leaf: str) -> tuple[WatchedCache, dict[str, set[bool]]]:
    """A cache that tells for each kind of change whether the lock was held."""
    seen: dict[str, set[bool]] = {}

    def watch(call: str, path: str) -> None:
        if call in CHANGES:
            where = path.partition("/")[0]
            seen.setdefault(f"{call} {where}", set()).add(is_held(made, leaf))

    return WatchedCache(made.root, watch), seen


def test_the_reconcile_lock_is_held_from_recovery_to_the_end(made: World) -> None:
    files, seen = watched(made, ".reconcile.lock")
    assert made.apply(made.plan().sha256, files=files).code == "committed"
    assert seen["sync deployments"] == {True}
    assert seen["replace .retention-recovery.json"] == {True}
    assert set().union(*seen.values()) == {True}
    assert not is_held(made, ".reconcile.lock")


@pytest.mark.parametrize("leaf", [".promotion.lock", "."])
def test_the_promotion_lock_is_held_for_every_detach_and_for_no_deletion(
    made: World, leaf: str
) -> None:
    files, seen = watched(made, leaf)
    assert made.apply(made.plan().sha256, files=files).code == "committed"
    assert seen["carry deployments"] == {True}
    assert seen["unlink .retention-trash"] == {False}
    assert seen["rmdir .retention-trash"] == {False}
    assert seen["replace .retention-activation-history.v2.json"] == {False}


def test_an_activation_goes_in_the_same_hold_as_its_deployment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path / "active", 2, active=2)
    plan = made.plan().sha256
    seen: list[str] = []
    promotion = Locks.promotion

    @contextmanager
    def told(self: Locks) -> Iterator[None]:
        with promotion(self):
            seen.append("held")
            yield

    def watch(call: str, path: str) -> None:
        if call == "carry":
            assert is_held(made, ".promotion.lock")
            seen.append(path.partition("/")[0])

    monkeypatch.setattr(Locks, "promotion", told)
    assert made.apply(plan, files=WatchedCache(made.root, watch)).code == "committed"
    # The first hold is that of the beginning.
    assert seen == ["held", *(["held", "deployments", "activations"] * 2)]


def _promote(made: World) -> None:
    made.activate("yet another")


def _protect(made: World) -> None:
    made.activate(made.fixture(made.candidates[-1]))


def _other_acknowledgement(made: World) -> None:
    made.edit_ack(fatal=True)


def _other_checkpoint(made: World) -> None:
    (made.root / "status/desired-state-checkpoint.json").write_bytes(b"{}")


ACTS: dict[str, tuple[Callable[[World], None], str]] = {
    "pointer": (_promote, AUTHORITY),
    "protection": (_protect, PROTECTED),
    "acknowledgement": (_other_acknowledgement, AUTHORITY),
}


@pytest.mark.parametrize("what", ACTS)
@pytest.mark.parametrize("done", [1, 2])
def test_before_each_detach_authority_is_read_again(made: World, what: str, done: int) -> None:
    plan = made.plan().sha256
    act, reason = ACTS[what]
    # While the last but so many are deleted, no lock keeps anybody from it.
    watch = acting_at("unlink", lambda: act(made), "deployment.json", count=done)
    ended = made.apply(plan, files=WatchedCache(made.root, watch))
    assert (ended.code, (ended.fields or {})["reason"]) == (ABORTED, reason)
    receipt = made.receipt(plan)
    assert receipt is not None
    assert receipt.deleted_ids == made.candidates[:done]
    assert made.there() == list(made.candidates[done:])


def test_a_checkpoint_that_breaks_meanwhile_stops_the_next_detach(made: World) -> None:
    plan = made.plan().sha256
    watch = acting_at("unlink", lambda: _other_checkpoint(made), "deployment.json")
    ended = made.apply(plan, files=WatchedCache(made.root, watch))
    assert (ended.exit_code, ended.code) == (
        4,
        "DPONE_DEPLOYMENT_CACHE_GC_DESIRED_CHECKPOINT_INVALID",
    )
    assert made.there() == list(made.candidates[1:])


def test_what_changes_between_validation_and_beginning_begins_nothing(made: World) -> None:
    plan = made.plan().sha256
    # The first append is the intent, behind all validation.
    watch = acting_at("append", lambda: _promote(made))
    ended = made.apply(plan, files=WatchedCache(made.root, watch))
    assert (ended.exit_code, ended.code) == (1, "DPONE_DEPLOYMENT_CACHE_GC_CURRENT_CHANGED")
    assert (made.raw(plan), made.there()) == (None, list(made.candidates))
    assert not (made.root / ".retention-activation-history.v2.json").exists()


def test_every_candidate_is_looked_at_before_the_first_record(made: World) -> None:
    plan = made.plan().sha256
    seen: list[str] = []

    def watch(call: str, path: str) -> None:
        seen.append(f"{call} {path}")

    assert made.apply(plan, files=WatchedCache(made.root, watch)).code == "committed"
    begun = seen.index("append .retention-recovery.log")
    for deployment_id in made.candidates:
        entered = f"descend deployments/dev/{made.deployment(deployment_id).name}"
        assert entered in seen[:begun]


def test_effects_come_in_the_order_of_the_steps(made: World) -> None:
    order: list[Effect] = []

    def probe(effect: Effect, /) -> AbstractContextManager[None]:
        if effect not in order:
            order.append(effect)
        return quiet(effect)

    assert made.apply(made.plan().sha256, probe=probe).code == "committed"
    steps = (
        *(Effect.RETENTION_INTENT, Effect.RETENTION_BEGIN, Effect.RETENTION_HISTORY),
        *(Effect.RETENTION_DETACH, Effect.RETENTION_PHASE, Effect.RETENTION_SCRUB),
        *(Effect.RETENTION_PROGRESS, Effect.RETENTION_COMMIT, Effect.RETENTION_PRUNE),
        Effect.RETENTION_COMPACT,
    )
    assert [effect for effect in order if effect in steps] == list(steps)


def _relink(link: Path, leads_to: Path) -> None:
    aside = link.with_name(".current.aside")
    aside.symlink_to(leads_to)
    aside.rename(link)


@contextmanager
def _a_promoter_works(made: World, wrote: str = "audit") -> Iterator[Callable[[], None]]:
    """He holds the lock, and has written a part of a promotion; call what he gives to end him."""
    audit, current = made.root / "current-pointer-audit.jsonl", made.root / "current"
    before = audit.read_text()
    line = before.splitlines()[-1].replace("local://preview", "local://another")
    with (made.root / ".promotion.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        audit.write_text(before + line + "\n")
        leads_to = current.readlink()
        if wrote == "link":
            _relink(current, Path("activations/dev") / made.deployment(made.candidates[-1]).name)

        def end() -> None:
            # It came to nothing: the pointer is what it was.
            audit.write_text(before)
            _relink(current, leads_to)
            fcntl.flock(file, fcntl.LOCK_UN)

        yield end


@pytest.mark.parametrize("wrote", ["audit", "link"])
@pytest.mark.parametrize("at", ["", "history", "detached", "committed"])
def test_while_a_promoter_works_an_apply_is_busy_and_concludes_nothing(
    made: World, at: str, wrote: str
) -> None:
    plan = made.plan().sha256
    if at:
        stopped(made, plan, at)
    raw = made.raw(plan)
    with _a_promoter_works(made, wrote) as end:
        assert made.apply(plan, desk=made.desk(promotion_wait_s=0.05)).exit_code == 3
        assert made.raw(plan) == raw
        end()
    assert made.apply(plan).code == "committed"


@pytest.mark.parametrize("wrote", ["audit", "link"])
@pytest.mark.parametrize("at", ["", "history", "detached", "committed"])
def test_an_apply_waits_for_a_promoter_who_works(made: World, at: str, wrote: str) -> None:
    plan = made.plan().sha256
    if at:
        stopped(made, plan, at)
    with _a_promoter_works(made, wrote) as end:
        timer = threading.Timer(0.2, end)
        timer.start()
        assert made.apply(plan).code == "committed"
        timer.join()


def test_what_disagrees_while_nobody_promotes_is_refused_as_what_it_is(made: World) -> None:
    plan = made.plan().sha256
    audit = made.root / "current-pointer-audit.jsonl"
    audit.write_text(audit.read_text().replace("local://preview", "local://another"))
    ended = made.apply(plan)
    assert (ended.exit_code, ended.code) == (4, "DPONE_DEPLOYMENT_CACHE_GC_PROMOTION_AUDIT_INVALID")
    assert not is_held(made, ".promotion.lock")


def test_what_no_promoter_changes_is_refused_at_once(made: World) -> None:
    plan = made.plan().sha256
    made.ack.unlink()
    with (made.root / ".promotion.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert made.apply(plan).code == "DPONE_DEPLOYMENT_CACHE_GC_ACK_REQUIRED"


def test_a_hold_within_a_hold_is_the_same_one(made: World) -> None:
    with PosixCache(made.root).folder("") as root:
        locks = Locks(root, promotion_wait_s=0.01)
        with locks.promotion():
            with locks.promotion():
                assert is_held(made, ".promotion.lock")
            assert is_held(made, ".promotion.lock")
        assert not is_held(made, ".promotion.lock")
        with locks.promotion():
            assert is_held(made, ".")
