"""Where each effect comes from, and what a crash around it leaves: those on files."""

from __future__ import annotations

from dpone.contracts.effects import About, Effect

_AUTHORING = "ADR 0023, "
_RETENTION = "ADR 0043"

ABOUT_FILES: dict[Effect, About] = {
    Effect.AUTHORING_RECORD: About(
        "authoring",
        _AUTHORING + "step 5",
        "Before: nobody knows of the change. After: the journal names every file that the "
        "change may leave; its sync follows.",
    ),
    Effect.AUTHORING_REHEARSE: About(
        "authoring",
        _AUTHORING + "native-platform contract",
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
        _AUTHORING + "multi-file authoring apply, step 2",
        "Before: nobody knows of the new files. After: whose they are outlives the process.",
    ),
    Effect.AUTHORING_FOLDER: About(
        "authoring",
        _AUTHORING + "multi-file authoring apply, step 2",
        "Before: no folder. After: an empty one, which the receipt knows.",
    ),
    Effect.AUTHORING_PUBLISH: About(
        "authoring",
        _AUTHORING + "multi-file authoring apply, step 2",
        "Before: a complete file without a name. After: it has it, and a receipt.",
    ),
    Effect.AUTHORING_WITHDRAW: About(
        "authoring",
        _AUTHORING + "multi-file authoring apply, step 6",
        "Before: an empty folder of ours. After: none.",
    ),
    Effect.AUTHORING_SETTLE: About(
        "authoring",
        _AUTHORING + "multi-file authoring apply, step 4",
        "Before: the receipt could undo the new files. After: they are the project's.",
    ),
    Effect.RETENTION_CLEAR: About(
        "retention",
        _RETENTION,
        "Before: an unfinished temporary file of ours. After: none.",
    ),
    Effect.RETENTION_CUT: About(
        "retention",
        _RETENTION,
        "Before: the log ends in a torn record. After: at its last whole one.",
    ),
    Effect.RETENTION_INTENT: About(
        "retention",
        _RETENTION + ", step 10",
        "Before: nobody knows of the operation. After: the log knows its intent and the "
        "occurrence of every candidate, and authorises nothing.",
    ),
    Effect.RETENTION_BEGIN: About(
        "retention",
        _RETENTION + ", step 11",
        "Before: no receipt; the plan is checked again. After: an applying receipt, which "
        "alone authorises deletion.",
    ),
    Effect.RETENTION_HISTORY: About(
        "retention",
        _RETENTION + ", step 11",
        "Before: the history is the earlier one. After: exactly the revision that the "
        "receipt names.",
    ),
    Effect.RETENTION_DETACH: About(
        "retention",
        _RETENTION + ", step 15",
        "Before: the deployment has its name. After: it is in the trash, and no reader "
        "can find it.",
        linearizes=True,
    ),
    Effect.RETENTION_DETACH_ACTIVATION: About(
        "retention",
        _RETENTION + ", step 15",
        "Before: the activation still has its name. After: it is in the trash beside its "
        "deployment.",
    ),
    Effect.RETENTION_PHASE: About(
        "retention",
        _RETENTION + ", step 15",
        "Before: what is there tells how far it came. After: the log does.",
    ),
    Effect.RETENTION_SCRUB: About(
        "retention",
        _RETENTION + ", step 15",
        "Before: a whole tree in the trash. After: none of it; in between a half one, "
        "which no reader can find.",
    ),
    Effect.RETENTION_PROGRESS: About(
        "retention",
        _RETENTION + ", step 16",
        "Before: the log is ahead of the receipt. After: the receipt shows what the log "
        "had confirmed.",
    ),
    Effect.RETENTION_COMMIT: About(
        "retention",
        _RETENTION + ", step 17",
        "Before: an applying receipt without pending items. After: the outcome that every "
        "replay returns.",
    ),
    Effect.RETENTION_ABORT: About(
        "retention",
        _RETENTION + ", step 14",
        "Before: an applying receipt that cannot go on. After: closed, its confirmed "
        "outcomes kept.",
    ),
    Effect.RETENTION_RESTORE: About(
        "retention",
        _RETENTION + ", step 2",
        "Before: an occurrence that may not be deleted is in the trash. After: it has its "
        "name again.",
    ),
    Effect.RETENTION_PRUNE: About(
        "retention",
        _RETENTION + ", step 17",
        "Before: the log still knows finished transactions. After: a tombstone stands for them.",
    ),
    Effect.RETENTION_COMPACT: About(
        "retention",
        _RETENTION,
        "Before: snapshot and log. After: a snapshot that holds both; the log is replayed "
        "over it without effect.",
    ),
    Effect.RETENTION_ACKNOWLEDGE: About(
        "retention",
        _RETENTION,
        "Before: a restored occurrence waits for a person. After: it was seen.",
    ),
    Effect.RETENTION_ARCHIVE: About(
        "retention",
        _RETENTION,
        "Before: a finished receipt lies among the receipts. After: in the archive, where "
        "a replay finds it.",
    ),
    Effect.RETENTION_REPAIR: About(
        "retention",
        _RETENTION,
        "Before: a directory with another mode or owner. After: as it must be.",
    ),
    Effect.RETENTION_DRIFT: About(
        "retention",
        _RETENTION,
        "Before: a deleted deployment is there again, and nobody was told. After: a file beside "
        "the receipts says so; the receipt is what it was.",
    ),
    Effect.CACHE_STAGE: About(
        "cache",
        _RETENTION,
        "Before: nothing. After: a tree under a temporary name that no reader takes for a "
        "deployment.",
    ),
    Effect.CACHE_PUBLISH: About(
        "cache",
        _RETENTION,
        "Before: a complete tree under its temporary name. After: under its own.",
    ),
    Effect.CACHE_PROMOTE: About(
        "cache",
        _RETENTION,
        "Before: the earlier deployment is current. After: the new one.",
        linearizes=True,
    ),
}
"""Effects of authoring, of retention and of the deployment cache."""
