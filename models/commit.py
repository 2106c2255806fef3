"""The whole commit protocol: processes, journal, target and everything that goes wrong.

Promises that within its bounds no interleaving of crashes, pauses, lost answers, late
sessions, lost or restored journals, restored targets, pruning, floors and operators makes
the change twice or writes a false state.

What is simplified, and why nothing is lost by it: the change of a unit is invisible until it
lands, so claiming and changing are one step; a lease may expire at any time, so there is no
lease; a crash in mid-unit is a lost answer or an abort; a worker that finished a phase reads
the row again before the next. Reading the row and asking the fence are one step, because a
row that changed in between makes the next compare-and-set fail.

What is bounded: attempt_ids, units in flight, one copy of the journal, one restore of the
target (to nothing, to just before the commit, or as it is), and the number of counted faults
in one run. Crashes, pauses, rejections, lost answers of COMMIT, operators and pruning are not
counted. Not modelled: values of the change and of its intent, clocks, other operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from dpone.contracts.journal import State
from models import fence, journal
from models.explorer import Model
from models.rules import Bounds, Rules
from models.worker import Process
from models.world import STOPPED, World, attached, canonical, invariants, landed

Steps = Iterator[tuple[str, World]]


class _Protocol:
    """The step relation of the product."""

    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self.rules = rules
        self.bounds = bounds
        self.process = Process(rules, bounds)

    def step(self, world: World) -> Steps:
        """Yield every successor: processes, late sessions, disasters and maintenance."""
        workers = world.workers
        for number in range(len(workers)):
            if number and workers[number] == workers[number - 1]:
                continue
            yield from self.process.steps(world, number)
        yield from self._sessions(world)
        yield from self._journal_faults(world)
        yield from self._target_faults(world)
        yield from self._maintenance(world)

    def _sessions(self, world: World) -> Steps:
        """Let units without a client arrive, land or vanish."""
        target = world.target
        for unit in dict.fromkeys(target.units):
            if attached(world, unit):
                continue
            yield "late:gone", world._replace(target=fence.drop(target, unit))
            if unit.stage == fence.SEALING:
                answer, sealed = fence.seal(target, *unit[1:], self.rules)
                if answer == fence.WON:
                    yield "late:sealed", world._replace(target=fence.drop(sealed, unit))
                continue
            if unit.stage == fence.FLYING:
                rest = fence.drop(target, unit)
                if fence.admission(rest, *unit[1:], self.rules) != fence.WON:
                    continue
            yield "late:landed", landed(world, unit)

    def _journal_faults(self, world: World) -> Steps:
        """Lose the journal, copy it, or put the copy back and adopt it."""
        bounds, row = self.bounds, world.row
        faults, may_fail = world.faults + 1, world.faults < bounds.faults
        if bounds.journal_losses and row is not None and may_fail:
            yield "journal:lost", _excused(world._replace(row=None, faults=faults))
        if not bounds.journal_restores:
            return
        if world.copy is not None:
            adopted = journal.adopt(world.copy, self.rules)
            after = world._replace(row=adopted, copy=None)
            same = adopted.incarnation == world.target.incarnation
            yield "journal:restored", _reviewed(after) if world.restored and same else after
        elif row is not None and not world.copied and may_fail:
            yield "journal:copied", world._replace(copy=row, copied=True, faults=faults)

    def _target_faults(self, world: World) -> Steps:
        """Bring back an earlier target, seen or unseen; let an operator accept what is there."""
        target, row = world.target, world.row
        if not world.restored and world.faults < self.bounds.faults:
            drained = all(worker == STOPPED for worker in world.workers) and not target.units
            for copy in fence.earlier(target):
                if self.bounds.target_restores:
                    units = tuple(u for u in target.units if attached(world, u))
                    after = copy._replace(incarnation=target.incarnation + 1, units=units)
                    yield "target:restored", _restored(world, after)
                allowed = drained or not self.rules.drained_restore
                if self.bounds.unseen_restores and allowed and copy != target:
                    yield "target:restored-unseen", _reviewed(_restored(world, copy))
        if row is not None and row.incarnation != target.incarnation:
            yield "target:adopted", _reviewed(_accepted(world))

    def _maintenance(self, world: World) -> Steps:
        """Prune a complete row; raise the floor over the key."""
        row, target = world.row, world.target
        if self.bounds.prune and row is not None and _prunable(row):
            pruned = row._replace(version=row.version + 1, mark=journal.PRUNED)
            after = world._replace(row=pruned)
            if not self.rules.prune_keeps_fence:
                bare = target._replace(kind=fence.ABSENT, epoch=0, attempt=0)
                after = after._replace(target=bare)
            yield "pruned", after
        may_fail = world.faults < self.bounds.faults
        if self.bounds.floor and may_fail and fence.raisable(target, self.rules):
            raised = fence.raise_floor(target)
            yield "floor:raised", world._replace(target=raised, faults=world.faults + 1)


def _prunable(row: journal.Row) -> bool:
    return row.state == journal.COMPLETE and row.mark == journal.CLEAR


def _restored(world: World, target: fence.Target) -> World:
    """Replace the target by an earlier copy of itself."""
    lineages = world.lineages
    if target.kind == fence.COMMITTED:
        lineages |= 1 << target.incarnation
    after = world._replace(target=target, restored=True, lineages=lineages, faults=world.faults + 1)
    return _excused(after)


def _excused(world: World) -> World:
    """Forget what no record can know: the journal is gone and the target went back.

    Both are an operator's acts, and together they mean an earlier point in time.
    """
    target = world.target
    if world.row is not None or not world.restored or target.floor:
        return world
    return world._replace(
        mutations=int(target.kind == fence.COMMITTED),
        closed=target.kind == fence.CLOSED,
    )


def _reviewed(world: World) -> World:
    """Count an operator's review as approval, unless the journal knows of the commit."""
    row = world.row
    if row is None or row.state in journal.ACKNOWLEDGED or world.target.floor:
        return world
    kind = world.target.kind
    return world._replace(mutations=int(kind == fence.COMMITTED), closed=kind == fence.CLOSED)


def _accepted(world: World) -> World:
    """`adopt --target`: compare the row with its fence and accept the new incarnation."""
    row, target = world.row, world.target
    assert row is not None
    mark = row.mark
    if row.state in journal.ACKNOWLEDGED and target.kind != fence.COMMITTED:
        mark = mark if mark in (journal.ACCEPTED, journal.RELOADED) else journal.DIVERGED
    accepted = row._replace(
        version=row.version + 2 * journal.ADOPTED,
        attempt=journal.NOBODY,
        incarnation=target.incarnation,
        mark=mark,
    )
    return world._replace(row=accepted)


def _canonical_is_valid(rules: Rules) -> bool:
    journal_rules = (
        rules.cas_version,
        rules.cas_attempt,
        rules.lost_answer_version,
        rules.lost_answer_state,
        rules.lost_answer_attempt,
        rules.adopt,
    )
    return all(journal_rules)


# Steps that a full exploration has to take, beside every state: what the protocol is for.
SOMETIMES: Final = frozenset(
    {
        "replay",
        "pruned",
        "mark-diverged",
        "mark-cleared",
        "accept-loss",
        "reload",
        "resolve:asserted",
        "resolve:unknown",
        "seal-resolve:won",
        "seal-resolve:committed",
        "ask:expired",
        "ask:closed",
        "ask:foreign",
        "claim:already",
        "claim:fenced",
        "claim:expired",
        "claim:foreign",
        "seal:busy",
        "seal:fenced",
        "seal:expired",
        "seal:foreign",
        "seal-begun:won",
        "commit:rejected",
        "commit:lost",
        "cas:refused",
        "reread:applied",
        "reread:not-applied",
        "reread:lost-ownership",
        "journal:restored",
        "target:restored",
        "target:restored-unseen",
        "target:adopted",
        "late:landed",
        "crash",
    }
)


def commit_model(
    rules: Rules, bounds: Bounds, *, reduced: bool = True, sometimes: frozenset[str] = frozenset()
) -> Model[World]:
    """Return the product under given rules and bounds."""
    protocol = _Protocol(rules, bounds)

    def reached(state: str) -> Callable[[World], bool]:
        return lambda world: world.row is not None and world.row.state == state

    return Model(
        name="commit",
        initial=(World(workers=(STOPPED,) * bounds.workers),),
        step=protocol.step,
        invariants=invariants(rules),
        sometimes_labels=sometimes,
        sometimes={state.value: reached(state.value) for state in State},
        canonical=canonical if reduced and _canonical_is_valid(rules) else None,
    )
