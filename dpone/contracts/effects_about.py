"""Where each effect comes from, and what a crash around it leaves: all of them."""

from __future__ import annotations

from dpone.contracts.effects import About, Effect
from dpone.contracts.effects_files import ABOUT_FILES

_ADR = "ADR 0022, decision "
_GUARD = "ADR 0022, interim mitigation"

_FENCING: dict[Effect, About] = {
    Effect.FENCING_FENCE: About(
        "fencing",
        _ADR + "3",
        "Before: the target has no fence tables. After: it has empty ones and an incarnation.",
    ),
    Effect.FENCING_INTENT: About(
        "fencing",
        _ADR + "2",
        "Before: nobody knows of the attempt. After: the journal says COMMITTING and the target "
        "is untouched; a retry takes over and seals.",
    ),
    Effect.FENCING_TAKE_OVER: About(
        "fencing",
        _ADR + "4",
        "Before: the earlier attempt owns the row. After: its next write to the journal loses, and "
        "a mended intent is recorded.",
    ),
    Effect.FENCING_SEAL: About(
        "fencing",
        _ADR + "3",
        "Before: the earlier attempt may still commit. After: only the named attempt may.",
    ),
    Effect.FENCING_CLAIM: About(
        "fencing",
        _ADR + "3",
        "Before: the unit of the target is empty. After: it holds the key; a crash rolls it back.",
    ),
    Effect.FENCING_CHANGE: About(
        "fencing",
        _ADR + "3",
        "Before: the unit holds the key only. After: it holds the rows too, invisible to others.",
    ),
    Effect.FENCING_COMMIT: About(
        "fencing",
        _ADR + "3",
        "Before: the change is not visible. After: the change and its fence are, together.",
        linearizes=True,
    ),
    Effect.FENCING_ACKNOWLEDGE: About(
        "fencing",
        _ADR + "4",
        "Before: the fence knows of the commit, the journal does not. After: both know.",
    ),
    Effect.FENCING_SETTLE: About(
        "fencing",
        _ADR + "5",
        "Before: the fence shows a commit of which the journal has no word. After: both agree.",
    ),
    Effect.FENCING_CONCLUDE: About(
        "fencing",
        _ADR + "4",
        "Before: the journal says COMMITTING. After: it says what the seal or its absence showed.",
    ),
    Effect.FENCING_OBLIGATION: About(
        "fencing",
        "ADR 0022, context",
        "Before: the named step after the commit is not recorded. After: a retry passes it over.",
    ),
    Effect.FENCING_COMPLETE: About(
        "fencing",
        _ADR + "4",
        "Before: obligations are open. After: the operation is COMPLETE or says which one failed.",
    ),
    Effect.FENCING_DIVERGE: About(
        "fencing",
        "ADR 0022, decision",
        "Before: the row claims what the target lost. After: it is marked and blocks.",
    ),
    Effect.FENCING_RESOLVE: About(
        "fencing",
        "ADR 0022, decision",
        "Before: the outcome is unknown. After: an operator's answer is in the history for ever.",
    ),
    Effect.FENCING_ADOPT: About(
        "fencing",
        "ADR 0022, consequences",
        "Before: a restored journal could be written by an older attempt. After: it cannot.",
    ),
    Effect.FENCING_REBIND: About(
        "fencing",
        "ADR 0022, consequences",
        "Before: the fence is bound to the earlier target. After: to the one it now lies in.",
    ),
    Effect.FENCING_SHORTEN: About(
        "fencing",
        "ADR 0022, consequences",
        "Before: a fence row carries its receipt. After: all but the result.",
    ),
    Effect.FENCING_FLOOR: About(
        "fencing",
        "ADR 0022, consequences",
        "Before: rows below the floor answer for themselves. After: the floor answers for them.",
    ),
    Effect.FENCING_PRUNE: About(
        "fencing",
        "ADR 0022, consequences",
        "Before: a finished entry is whole. After: it is a tombstone.",
    ),
    Effect.GUARD_ARM: About(
        "guard",
        _GUARD,
        "Before: no guard. After: every active partition's checkpoint blocks a later run.",
    ),
    Effect.GUARD_MUTATE: About(
        "guard",
        _GUARD,
        "Before: the target is untouched. After: it holds rows that only the guard knows of.",
        linearizes=True,
    ),
    Effect.GUARD_CLOSE: About(
        "guard",
        _GUARD,
        "Before: the guard is armed and blocks. After: it says committed, failed or unknown.",
    ),
}

ABOUT: dict[Effect, About] = {**_FENCING, **ABOUT_FILES}
"""Every effect."""
