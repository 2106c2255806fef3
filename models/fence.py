"""The target's fence for one key: what it holds, and the units in flight against it.

Promises the rules of seal, claim and commit as the target enforces them, one atomic step
each. Says nothing about clients, their journal or what they conclude from an answer.
Linearization point of an operation: `land`, where fence and data become visible together.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from models.rules import Rules

ABSENT: Final = "absent"
SEALED: Final = "sealed"
COMMITTED: Final = "committed"
CLOSED: Final = "closed"  # A final seal that admits nobody.

# Answers of seal and claim.
WON: Final = "won"
LOST: Final = "committed"
BUSY: Final = "busy"
FENCED: Final = "fenced"
EXPIRED: Final = "expired"
FOREIGN: Final = "foreign"

# Stages of a unit in flight.
FLYING: Final = 0  # The whole unit was sent in one request and has not arrived.
CLAIMED: Final = 1  # The key is claimed; without its client it can only be rolled back.
COMMITTING: Final = 2  # COMMIT was sent; the server lands it or not, with or without a client.
SEALING: Final = 3  # A seal whose answer was given up, still on its way.

HOLDING: Final = (CLAIMED, COMMITTING)


class Unit(NamedTuple):
    """One request at the target that may outlive the client that sent it."""

    stage: int
    epoch: int
    attempt: int
    incarnation: int


class Target(NamedTuple):
    """The fence row of one key, the floor, the incarnation, and the units in flight."""

    kind: str = ABSENT
    epoch: int = 0
    attempt: int = 0
    floor: bool = False
    incarnation: int = 1
    units: tuple[Unit, ...] = ()


def held(target: Target) -> bool:
    """Say whether a unit of this incarnation has claimed the key and is not finished."""
    for unit in target.units:
        if unit.stage in HOLDING and unit.incarnation == target.incarnation:
            return True
    return False


def seal(
    target: Target, epoch: int, attempt: int, incarnation: int, rules: Rules
) -> tuple[str, Target]:
    """Try to seal the key for one attempt; return the answer and the target after it."""
    if rules.incarnation and incarnation != target.incarnation:
        return FOREIGN, target
    if rules.floor_in_unit and target.floor:
        return EXPIRED, target
    if rules.seal_contends and rules.claim_first and held(target):
        return BUSY, target
    kind = target.kind
    if kind == CLOSED:
        return FENCED, target
    if kind == COMMITTED and rules.seal_loses_to_commit:
        return LOST, target
    if kind == SEALED:
        if epoch < target.epoch and rules.seal_never_lowers:
            return FENCED, target
        if epoch == target.epoch and attempt != target.attempt and rules.seal_keeps_equal:
            return FENCED, target
    return WON, target._replace(kind=SEALED, epoch=epoch, attempt=attempt)


def close(target: Target, incarnation: int, rules: Rules) -> tuple[str, Target]:
    """Seal the key for nobody, for an operator who gives this operation up."""
    if incarnation != target.incarnation:
        return FOREIGN, target
    if target.floor:
        return EXPIRED, target
    if held(target) and rules.answer_seals:
        return BUSY, target
    if target.kind == COMMITTED:
        return LOST, target
    if not rules.answer_seals:
        return WON, target
    if rules.final_seal:
        return WON, target._replace(kind=CLOSED, epoch=0, attempt=0)
    if target.kind == SEALED and target.attempt == 0:
        return WON, target
    return WON, target._replace(kind=SEALED, epoch=target.epoch + 1, attempt=0)


def admission(target: Target, epoch: int, attempt: int, incarnation: int, rules: Rules) -> str:
    """Return WON when a unit of this attempt may change the data, else why it may not."""
    if rules.incarnation and incarnation != target.incarnation:
        return FOREIGN
    if rules.floor_in_unit and target.floor:
        return EXPIRED
    if rules.claim_first and held(target):
        return BUSY
    kind = target.kind
    if kind == COMMITTED and rules.commit_already:
        return LOST
    if kind == CLOSED:
        return FENCED
    named = epoch == target.epoch and attempt == target.attempt
    if kind == SEALED and rules.commit_fenced and not named:
        return FENCED
    return WON


def add(target: Target, unit: Unit) -> Target:
    """Put one more unit in flight; their order carries no meaning."""
    return target._replace(units=tuple(sorted((*target.units, unit))))


def drop(target: Target, unit: Unit) -> Target:
    """Take a unit out of flight: rolled back, lost on the way, or finished."""
    units = list(target.units)
    units.remove(unit)
    return target._replace(units=tuple(units))


def land(target: Target, unit: Unit) -> Target:
    """Make the change and its fence visible in the lineage the unit belongs to.

    A unit of an earlier incarnation lands in a lineage that is no longer this target.
    """
    after = drop(target, unit)
    if unit.incarnation != target.incarnation:
        return after
    return after._replace(kind=COMMITTED, epoch=unit.epoch, attempt=unit.attempt)


def raisable(target: Target, rules: Rules) -> bool:
    """Say whether the floor can be raised over this key now."""
    return not target.floor and not (rules.floor_contends and held(target))


def raise_floor(target: Target) -> Target:
    """Raise the floor over the key and delete its row, in one transaction."""
    return target._replace(kind=ABSENT, epoch=0, attempt=0, floor=True)


def earlier(target: Target) -> tuple[Target, ...]:
    """Return the copies a restore can bring back: empty, before the commit, and as it is."""
    bare = target._replace(kind=ABSENT, epoch=0, attempt=0, floor=False)
    copies = [bare]
    if target.kind == COMMITTED and target.epoch > 1:
        copies.append(target._replace(kind=SEALED))
    if target.kind != ABSENT or target.floor:
        copies.append(target)
    return tuple(copies)
