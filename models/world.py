"""The state that the commit protocol's model explores: journal, target, workers, ghosts.

Ghosts are what only an outside observer knows: how often the change was made, in which
lineages it was committed, and the first rule of conduct that somebody broke.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from models import fence, journal
from models.fence import Target, Unit
from models.journal import Row
from models.rules import Rules

# Where a worker stands when it is not about to write the journal.
IDLE: Final = "idle"
ASKED: Final = "asked"
SEAL_READY: Final = "seal-ready"  # For itself, in PREPARING.
SEAL_BEGUN: Final = "seal-begun"  # The same, on a key that was sealed before the row began.
SEAL_FAIL: Final = "seal-fail"  # To conclude that nothing was committed.
SEAL_REJECTED: Final = "seal-rejected"  # The same, after its own unit was rejected.
SEAL_RESOLVE: Final = "seal-resolve"  # The same, by an operator.
CLOSE: Final = "close"  # An operator answers a diverged row.
CLAIM: Final = "claim"
SENT: Final = "sent"


class Worker(NamedTuple):
    """One process: where it stands, the row it holds, and the identity it acts under."""

    at: str = IDLE
    version: int = 0
    attempt: int = 0
    epoch: int = 0
    incarnation: int = 0
    fresh: int = 0  # The attempt_id it has chosen for a write that is not confirmed.
    lost: bool = False  # The answer to its last write was lost; it will read the row.
    seen: str = ""  # What an ask made before the read had answered.


class World(NamedTuple):
    """Everything there is."""

    row: Row | None = None
    target: Target = Target()
    workers: tuple[Worker, ...] = ()
    issued: int = 0  # How many attempt_ids exist.
    copy: Row | None = None  # A backup of the journal.
    copied: bool = False
    restored: bool = False  # The target was restored.
    mutations: int = 0  # Changes made since the last approval by an operator.
    lineages: int = 0  # Bit n: the change was committed in incarnation n.
    closed: bool = False  # An operator gave the operation up.
    bad: str = ""  # The first breach of a rule of conduct.
    faults: int = 0  # How many counted faults have happened.


STOPPED: Final = Worker()

# Versions in a canonical world. 0 is kept for "expects no row".
PRESENT: Final = 2
STALE: Final = -8


def replace_worker(workers: tuple[Worker, ...], number: int, worker: Worker) -> tuple[Worker, ...]:
    """Return the workers with one of them replaced."""
    return (*workers[:number], worker, *workers[number + 1 :])


def moved(world: World, number: int, worker: Worker) -> World:
    """Return the world after a worker's private step."""
    return world._replace(workers=replace_worker(world.workers, number, worker))


def landed(world: World, unit: Unit) -> World:
    """Return the world after a unit's change and fence became visible."""
    target = fence.land(world.target, unit)
    lineages = world.lineages | 1 << unit.incarnation
    if unit.incarnation != world.target.incarnation:
        return world._replace(target=target, lineages=lineages)
    bad = world.bad
    if world.closed:
        bad = bad or "loaded after an operator gave the operation up"
    if world.target.floor:
        bad = bad or "loaded below the floor"
    return world._replace(
        target=target,
        lineages=lineages,
        mutations=min(2, world.mutations + 1),
        bad=bad,
    )


def attached(world: World, unit: Unit) -> bool:
    """Say whether a client still waits for this unit's answer."""
    if unit.stage != fence.COMMITTING:
        return False
    return any(w.at == SENT and w.attempt == unit.attempt for w in world.workers)


def can_still_land(world: World, rules: Rules) -> bool:
    """Say whether the change is committed, in flight, or admitted for somebody at the fence."""
    target = world.target
    if target.kind == fence.COMMITTED or fence.held(target):
        return True
    for unit in target.units:
        arrives = unit.stage == fence.FLYING
        if arrives and fence.admission(target, *unit[1:], rules) == fence.WON:
            return True
    for worker in world.workers:
        if worker.at == CLAIM:
            held = (worker.epoch, worker.attempt, worker.incarnation)
            if fence.admission(target, *held, rules) == fence.WON:
                return True
    return False


def canonical(world: World) -> World:
    """Return the representative of the worlds that differ in names and dead values only.

    Valid while every rule of the journal holds: then `(version, attempt_id)` never returns,
    so a version matters only as "the present row", "the row just before it" or "another".
    A worker that can only be refused by its next compare-and-set has already stopped.
    """
    row, copy = world.row, world.copy
    workers = [_in_short(worker, row) for worker in world.workers]
    workers.sort()
    shortened = tuple(workers)
    if copy is not None and (copy.version, copy.attempt) != (PRESENT, 0):
        copy = copy._replace(version=PRESENT, attempt=0)
    if row is not None and row.version != PRESENT:
        row = row._replace(version=PRESENT)
    if row is world.row and copy is world.copy and shortened == world.workers:
        return world
    return world._replace(row=row, workers=shortened, copy=copy)


def _in_short(worker: Worker, row: Row | None) -> Worker:
    """Return a worker without what no longer matters about it."""
    if worker.at == IDLE:
        return worker
    version = _relative(worker, row)
    if version == STALE and worker.at not in _AT_TARGET:
        return STOPPED
    return worker if version == worker.version else worker._replace(version=version)


def _relative(worker: Worker, row: Row | None) -> int:
    """Return what a worker's version means relative to the present row."""
    written = worker.lost and row is not None and worker.version == row.version - 1
    if written and row is not None and row.attempt == (worker.fresh or worker.attempt):
        return PRESENT - 1
    if worker.at.startswith("begin") or worker.at == ASKED:
        return 0
    if row is not None and (worker.version, worker.attempt) == (row.version, row.attempt):
        return PRESENT
    return STALE


_AT_TARGET: Final = frozenset(
    {SEAL_READY, SEAL_BEGUN, SEAL_FAIL, SEAL_REJECTED, SEAL_RESOLVE, CLOSE, CLAIM, SENT}
)


def invariants(rules: Rules) -> dict[str, Callable[[World], bool]]:
    """Return the safety properties by name."""

    def one_mutation(world: World) -> bool:
        return world.mutations <= 1

    def failed_is_final(world: World) -> bool:
        row = world.row
        if row is None or row.state != journal.FAILED_PRE_COMMIT:
            return True
        if row.attempt == journal.NOBODY or row.mark == journal.RESTORED:
            return True
        if row.incarnation != world.target.incarnation:
            return True
        return not can_still_land(world, rules)

    def committed_is_true(world: World) -> bool:
        row = world.row
        if row is None or row.state not in journal.ACKNOWLEDGED:
            return True
        return row.mark in journal.ANSWERED or bool(world.lineages >> row.incarnation & 1)

    def conduct(world: World) -> bool:
        return not world.bad

    return {
        "at most one mutation": one_mutation,
        "FAILED_PRE_COMMIT is never committed": failed_is_final,
        "a committed state has a committed fence": committed_is_true,
        "nobody breaks a rule of conduct": conduct,
    }
