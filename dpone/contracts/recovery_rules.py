"""The recovery table of a file transaction: total, and the only place that decides.

Bytes alone cannot decide: a person may have saved the same bytes, and a run may have died after it
had reported success. So a row asks for phase, identity and digest. Source: ADR 0023, journal
recovery, closed over every state that a crash or a rival can leave.
"""

from __future__ import annotations

from enum import StrEnum

from dpone.contracts.transaction import Phase


class Side(StrEnum):
    """What the side name shows."""

    ABSENT = "absent"
    EARLIER = "earlier"
    """The expected inode with the expected digest."""
    OURS = "ours"
    """The desired inode with the desired digest."""
    OTHER = "other"
    OPAQUE = "opaque"
    """A link, something that is no regular file, too large, or unreadable."""


class Target(StrEnum):
    """What the authoritative name shows."""

    ABSENT = "absent"
    OURS = "ours"
    """The desired inode with the desired digest."""
    OTHER = "other"
    OPAQUE = "opaque"


class Action(StrEnum):
    """What recovery does next. Each leaves a state for which the table has a row."""

    TOUCH_NOTHING = "touch_nothing"
    DROP_SIDE = "drop_side"
    """Staging: the side file holds nobody's bytes; remove it, then the journal."""
    CLOSE_COMMITTED = "close_committed"
    DISCARD_EARLIER = "discard_earlier"
    """Committed: remove the earlier bytes under proof, then the journal."""
    KEEP_COMMITTED = "keep_committed"
    """Committed: the side file changed since; it moves to the recovery name."""
    FINISH_KEEPING = "finish_keeping"
    CLOSE = "close"
    DISCARD_OURS = "discard_ours"
    COMMIT = "commit"
    """The exchange had happened: say so durably, then decide again."""
    KEEP_EARLIER = "keep_earlier"
    """The exchange had happened and somebody then removed the target: keep the earlier bytes."""
    EXCHANGE_BACK = "exchange_back"
    KEEP = "keep"
    REMOVED = "removed"
    """Removing: nothing is in quarantine; remove the journal."""
    DISCARD_REMOVED = "discard_removed"
    PUT_BACK = "put_back"
    """Removing: another file went into quarantine; it gets its name back."""


def decide(phase: Phase, side: Side, target: Target, *, by_hand: bool = False) -> Action:
    """The next action. First match wins.

    `by_hand`: the run that made the exchange itself, or a person who asked, may also move what
    cannot be read; a rename touches no byte.
    """
    if not by_hand and (side is Side.OPAQUE or target is Target.OPAQUE):
        return Action.TOUCH_NOTHING
    if phase is Phase.STAGING:
        return Action.DROP_SIDE
    if phase is Phase.REMOVING:
        return _removing(side, target)
    if phase is Phase.COMMITTED:
        if side is Side.ABSENT:
            return Action.CLOSE_COMMITTED
        return Action.DISCARD_EARLIER if side is Side.EARLIER else Action.KEEP_COMMITTED
    if phase is Phase.KEPT:
        return Action.FINISH_KEEPING
    return _open(side, target)


def _open(side: Side, target: Target) -> Action:
    """PREPARED and ROLLING_BACK: whether the exchange happened is told by what is there."""
    if side is Side.ABSENT:
        return Action.CLOSE
    if side is Side.OURS:
        return Action.DISCARD_OURS
    if side is Side.EARLIER:
        return Action.KEEP_EARLIER if target is Target.ABSENT else Action.COMMIT
    return Action.EXCHANGE_BACK if target is Target.OURS else Action.KEEP


def _removing(side: Side, target: Target) -> Action:
    if side is Side.ABSENT:
        return Action.REMOVED
    if side is Side.EARLIER:
        return Action.DISCARD_REMOVED
    return Action.PUT_BACK if target is Target.ABSENT else Action.KEEP


class EarlierAction(StrEnum):
    """What recovery does with a journal of version 1, which knew bytes only."""

    CLOSE = "close"
    DISCARD = "discard"
    """The side file holds known bytes: ours, or the earlier ones of a finished exchange."""
    KEEP = "keep"


def decide_earlier(
    side: str | None, target: str | None, expected: str, desired: str
) -> EarlierAction:
    """Decide by digests (None: absent; empty: cannot be read) where they alone decide safely."""
    if side is None:
        return EarlierAction.CLOSE
    if (target, side) in ((desired, expected), (expected, desired)):
        return EarlierAction.DISCARD
    return EarlierAction.KEEP
