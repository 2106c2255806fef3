"""The closed list of effects: every durable change that this library makes in the world.

Two crash points follow from each effect, `<value>:before#n` and `<value>:after#n`, where n counts
its occurrences in one run. Exactly one effect of a flow is its linearization point.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class About(NamedTuple):
    """Where an effect comes from and what a crash around it leaves.

    `flow` is the capability, `clause` the numbered place in its source document.
    """

    flow: str
    clause: str
    crash: str
    linearizes: bool = False


class Effect(StrEnum):
    """One member for each durable change; the value is the stable name used in evidence."""

    FENCING_FENCE = "fencing.fence"
    FENCING_INTENT = "fencing.intent"
    FENCING_TAKE_OVER = "fencing.take_over"
    FENCING_SEAL = "fencing.seal"
    FENCING_CLAIM = "fencing.claim"
    FENCING_CHANGE = "fencing.change"
    FENCING_COMMIT = "fencing.commit"
    FENCING_ACKNOWLEDGE = "fencing.acknowledge"
    FENCING_SETTLE = "fencing.settle"
    FENCING_CONCLUDE = "fencing.conclude"
    FENCING_OBLIGATION = "fencing.obligation"
    FENCING_COMPLETE = "fencing.complete"
    FENCING_DIVERGE = "fencing.diverge"
    FENCING_RESOLVE = "fencing.resolve"
    FENCING_ADOPT = "fencing.adopt"
    FENCING_REBIND = "fencing.rebind"
    FENCING_SHORTEN = "fencing.shorten"
    FENCING_FLOOR = "fencing.floor"
    FENCING_PRUNE = "fencing.prune"
    GUARD_ARM = "guard.arm"
    GUARD_MUTATE = "guard.mutate"
    GUARD_CLOSE = "guard.close"
    AUTHORING_RECORD = "authoring.record"
    AUTHORING_REHEARSE = "authoring.rehearse"
    AUTHORING_STAGE = "authoring.stage"
    AUTHORING_PREPARE = "authoring.prepare"
    AUTHORING_SIDE = "authoring.side"
    AUTHORING_EXCHANGE = "authoring.exchange"
    AUTHORING_COMMIT = "authoring.commit"
    AUTHORING_ROLL_BACK = "authoring.roll_back"
    AUTHORING_EXCHANGE_BACK = "authoring.exchange_back"
    AUTHORING_KEEP = "authoring.keep"
    AUTHORING_SET_ASIDE = "authoring.set_aside"
    AUTHORING_DISCARD = "authoring.discard"
    AUTHORING_RESCUE = "authoring.rescue"
    AUTHORING_CLOSE = "authoring.close"
    AUTHORING_SYNC = "authoring.sync"
    AUTHORING_QUARANTINE = "authoring.quarantine"
    AUTHORING_PUT_BACK = "authoring.put_back"
    AUTHORING_RECEIPT = "authoring.receipt"
    AUTHORING_FOLDER = "authoring.folder"
    AUTHORING_PUBLISH = "authoring.publish"
    AUTHORING_WITHDRAW = "authoring.withdraw"
    AUTHORING_SETTLE = "authoring.settle"


_ADR = "ADR 0022, proposed decision "
_GUARD = "ADR 0022, implemented interim mitigation"
_AUTHORING = "ADR 0023, "

ABOUT: dict[Effect, About] = {
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
        "Before: the earlier attempt owns the row. After: its next write to the journal loses.",
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
        "ADR 0022, fail-closed recovery",
        "Before: the row claims what the target lost. After: it is marked and blocks.",
    ),
    Effect.FENCING_RESOLVE: About(
        "fencing",
        "ADR 0022, manual recovery",
        "Before: the outcome is unknown. After: an operator's answer is in the history for ever.",
    ),
    Effect.FENCING_ADOPT: About(
        "fencing",
        "ADR 0022, recovery operations",
        "Before: a restored journal could be written by an older attempt. After: it cannot.",
    ),
    Effect.FENCING_REBIND: About(
        "fencing",
        "ADR 0022, recovery operations",
        "Before: the fence is bound to the earlier target. After: to the one it now lies in.",
    ),
    Effect.FENCING_SHORTEN: About(
        "fencing",
        "ADR 0022, retention",
        "Before: a fence row carries its receipt. After: key, kind and epoch only.",
    ),
    Effect.FENCING_FLOOR: About(
        "fencing",
        "ADR 0022, retention",
        "Before: rows below the floor answer for themselves. After: the floor answers for them.",
    ),
    Effect.FENCING_PRUNE: About(
        "fencing",
        "ADR 0022, retention",
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
    Effect.AUTHORING_RECORD: About(
        "authoring",
        _AUTHORING + "step 5",
        "Before: nobody knows of the change. After: the journal names every file that the "
        "change may leave; its sync follows.",
    ),
    Effect.AUTHORING_REHEARSE: About(
        "authoring",
        _AUTHORING + "assumptions",
        "Before: the exchange is untried here. After: two scratch files may be left, "
        "which recovery clears under the journal's lock.",
    ),
    Effect.AUTHORING_STAGE: About(
        "authoring",
        _AUTHORING + "step 5",
        "Before: no side file. After: one whose name the journal knows; recovery removes it.",
    ),
    Effect.AUTHORING_PREPARE: About(
        "authoring",
        _AUTHORING + "step 5",
        "Before: the side file may be incomplete. After: it is complete, and so is the journal.",
    ),
    Effect.AUTHORING_SIDE: About(
        "authoring",
        _AUTHORING + "step 5",
        "Before: the new bytes have no name. After: they have the side name; recovery "
        "removes them.",
    ),
    Effect.AUTHORING_EXCHANGE: About(
        "authoring",
        _AUTHORING + "step 6",
        "Before: the authoritative name shows the earlier bytes. After: it shows the "
        "desired ones, and the earlier ones have the side name.",
        linearizes=True,
    ),
    Effect.AUTHORING_COMMIT: About(
        "authoring",
        _AUTHORING + "step 8",
        "Before: what is there decides. After: the change is in force for ever.",
    ),
    Effect.AUTHORING_ROLL_BACK: About(
        "authoring",
        _AUTHORING + "step 9",
        "Before: the source is known to have changed by this run only. After: by the journal too.",
    ),
    Effect.AUTHORING_EXCHANGE_BACK: About(
        "authoring",
        _AUTHORING + "step 9",
        "Before: the writer's bytes have the side name. After: they have their own again.",
    ),
    Effect.AUTHORING_KEEP: About(
        "authoring",
        _AUTHORING + "step 9",
        "Before: the side file has yet to be judged. After: it will get its recovery name.",
    ),
    Effect.AUTHORING_SET_ASIDE: About(
        "authoring",
        _AUTHORING + "step 9",
        "Before: bytes that nobody may drop have the side name. After: the recovery name.",
    ),
    Effect.AUTHORING_DISCARD: About(
        "authoring",
        _AUTHORING + "step 8",
        "Before: bytes that are not needed have a name. After: none.",
    ),
    Effect.AUTHORING_RESCUE: About(
        "authoring",
        _AUTHORING + "step 9",
        "Before: bytes written late have no name. After: they have the recovery name.",
    ),
    Effect.AUTHORING_CLOSE: About(
        "authoring",
        _AUTHORING + "step 8",
        "Before: a journal without anything to recover. After: no trace of the change.",
    ),
    Effect.AUTHORING_SYNC: About(
        "authoring",
        _AUTHORING + "step 8",
        "Before: a power cut may undo the last change of a name. After: it cannot.",
    ),
    Effect.AUTHORING_QUARANTINE: About(
        "authoring",
        _AUTHORING + "created-file rollback",
        "Before: the created file has its name. After: the name that the journal knows.",
    ),
    Effect.AUTHORING_PUT_BACK: About(
        "authoring",
        _AUTHORING + "created-file rollback",
        "Before: somebody else's file is in quarantine. After: it has its own name again.",
    ),
    Effect.AUTHORING_RECEIPT: About(
        "authoring",
        _AUTHORING + "multi-file step 2",
        "Before: nobody knows of the new files. After: whose they are outlives the process.",
    ),
    Effect.AUTHORING_FOLDER: About(
        "authoring",
        _AUTHORING + "multi-file step 2",
        "Before: no folder. After: an empty one, which the receipt knows.",
    ),
    Effect.AUTHORING_PUBLISH: About(
        "authoring",
        _AUTHORING + "multi-file step 2",
        "Before: a complete file without a name. After: it has it, and a receipt.",
    ),
    Effect.AUTHORING_WITHDRAW: About(
        "authoring",
        _AUTHORING + "multi-file step 6",
        "Before: an empty folder of ours. After: none.",
    ),
    Effect.AUTHORING_SETTLE: About(
        "authoring",
        _AUTHORING + "multi-file step 4",
        "Before: the receipt could undo the new files. After: they are the project's.",
    ),
}
