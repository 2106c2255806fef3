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
    RETENTION_CLEAR = "retention.clear"
    RETENTION_CUT = "retention.cut"
    RETENTION_INTENT = "retention.intent"
    RETENTION_BEGIN = "retention.begin"
    RETENTION_HISTORY = "retention.history"
    RETENTION_DETACH = "retention.detach"
    RETENTION_DETACH_ACTIVATION = "retention.detach_activation"
    RETENTION_PHASE = "retention.phase"
    RETENTION_SCRUB = "retention.scrub"
    RETENTION_PROGRESS = "retention.progress"
    RETENTION_COMMIT = "retention.commit"
    RETENTION_ABORT = "retention.abort"
    RETENTION_RESTORE = "retention.restore"
    RETENTION_PRUNE = "retention.prune"
    RETENTION_COMPACT = "retention.compact"
    RETENTION_ACKNOWLEDGE = "retention.acknowledge"
    RETENTION_ARCHIVE = "retention.archive"
    RETENTION_REPAIR = "retention.repair"
    RETENTION_DRIFT = "retention.drift"
    CACHE_STAGE = "cache.stage"
    CACHE_PUBLISH = "cache.publish"
    CACHE_PROMOTE = "cache.promote"
