"""The transition table of an operation: the only place that chooses a state.

Source: ADR 0022 (states) and the table of `docs/concepts/fencing.md`. Policy asks `target_of`;
the reference models derive the same edges by exploration and a test compares both.
"""

from __future__ import annotations

from typing import NamedTuple

from dpone.contracts.effects import Effect
from dpone.contracts.errors import IllegalTransition
from dpone.contracts.journal import Event, State


class Transition(NamedTuple):
    """One row: from `source` (None: no entry yet), on `event`, to `target`.

    `effect` makes it durable.
    """

    source: State | None
    event: Event
    target: State
    effect: Effect


def _rows(
    sources: tuple[State | None, ...], event: Event, target: State, effect: Effect
) -> tuple[Transition, ...]:
    return tuple(Transition(source, event, target, effect) for source in sources)


_S = State
_UNCOMMITTED = (_S.PREPARING, _S.PREPARED, _S.COMMITTING, _S.COMMIT_UNKNOWN)
_AFTER_COMMIT = (_S.TARGET_COMMITTED, _S.COMMITTED_INCOMPLETE)

TRANSITIONS: tuple[Transition, ...] = (
    *_rows((None,), Event.BEGIN, _S.PREPARING, Effect.FENCING_INTENT),
    *_rows((_S.PREPARING,), Event.FENCE_READY, _S.PREPARED, Effect.FENCING_INTENT),
    *_rows((_S.PREPARED,), Event.COMMIT_STARTED, _S.COMMITTING, Effect.FENCING_INTENT),
    *_rows(
        (_S.COMMITTING,), Event.COMMIT_ACKNOWLEDGED, _S.TARGET_COMMITTED, Effect.FENCING_ACKNOWLEDGE
    ),
    *_rows((_S.COMMITTING,), Event.ANSWER_LOST, _S.COMMIT_UNKNOWN, Effect.FENCING_CONCLUDE),
    *_rows(
        (_S.COMMITTING, _S.COMMIT_UNKNOWN),
        Event.TAKEN_OVER,
        _S.COMMIT_UNKNOWN,
        Effect.FENCING_TAKE_OVER,
    ),
    *_rows((_S.PREPARING, _S.PREPARED), Event.TAKEN_OVER, _S.PREPARING, Effect.FENCING_TAKE_OVER),
    *_rows(
        (*_UNCOMMITTED, _S.FAILED_PRE_COMMIT),
        Event.FENCE_SHOWS_COMMITTED,
        _S.TARGET_COMMITTED,
        Effect.FENCING_SETTLE,
    ),
    *_rows(_UNCOMMITTED, Event.FENCE_SEALED, _S.FAILED_PRE_COMMIT, Effect.FENCING_CONCLUDE),
    *_rows(
        (_S.COMMIT_UNKNOWN,),
        Event.OPERATOR_COMMITTED,
        _S.TARGET_COMMITTED,
        Effect.FENCING_RESOLVE,
    ),
    *_rows(_AFTER_COMMIT, Event.OBLIGATIONS_MET, _S.COMPLETE, Effect.FENCING_COMPLETE),
    *_rows(
        _AFTER_COMMIT, Event.OBLIGATION_FAILED, _S.COMMITTED_INCOMPLETE, Effect.FENCING_COMPLETE
    ),
    *_rows((_S.FAILED_PRE_COMMIT,), Event.NEW_ATTEMPT, _S.PREPARING, Effect.FENCING_TAKE_OVER),
)

_TARGETS = {(row.source, row.event): row.target for row in TRANSITIONS}


def target_of(source: State | None, event: Event) -> State:
    """Return the state that `event` leads to from `source`.

    Raises `IllegalTransition` when the table has no such row: policy asked for something that
    the protocol does not know, which is a defect of ours and never a state of the world.
    """
    try:
        return _TARGETS[source, event]
    except KeyError:
        raise IllegalTransition(source=source or "-", event=event) from None
