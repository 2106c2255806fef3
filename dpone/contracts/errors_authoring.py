"""Errors of authoring: what was refused before a file changed, and what a person must look at."""

from __future__ import annotations

from typing import Any

from dpone.contracts.errors import (
    EXIT_CLOSED,
    EXIT_CONFLICT,
    EXIT_INTERNAL,
    EXIT_LATER,
    EXIT_USAGE,
    DponeError,
)

_UNTOUCHED = "No file was changed."


class AuthoringError(DponeError):
    """Base of all refusals of authoring. `reason` is the stable word of the confined files."""


class SourceChanged(AuthoringError):
    """The file no longer is what the plan saw."""

    code = "DPONE_AUTHORING_SOURCE_CHANGED"
    exit_code = EXIT_CONFLICT
    happened = "{path} changed after it was planned."
    known = "It keeps what its writer made of it."
    advice = "Plan again, look at the difference, and apply."


class SourceMissing(AuthoringError):
    """The file that was to be replaced is not there."""

    code = "DPONE_AUTHORING_SOURCE_MISSING"
    exit_code = EXIT_CONFLICT
    happened = "{path} was planned to be replaced, and is not there any more."
    known = _UNTOUCHED
    advice = "Plan again."


class FileConflict(AuthoringError):
    """A file that was to be created exists with other bytes."""

    code = "DPONE_AUTHORING_FILE_CONFLICT"
    exit_code = EXIT_CONFLICT
    happened = "{path} was planned to be created, and exists with other bytes."
    known = "It was left as it is."
    advice = "Move it away or choose another name, and plan again."


class PathUnsafe(AuthoringError):
    """A path that must not be followed or changed. `part`: the folder on the way that is a link."""

    code = "DPONE_AUTHORING_PATH_UNSAFE"
    exit_code = EXIT_CLOSED
    happened = "{path} cannot be changed safely: {reason}."
    known = _UNTOUCHED
    advice = "Put a plain file inside the project there, and run again."

    def sentences(self) -> tuple[str, str, str]:
        """As the path has it: a folder on the way may be what stands there."""
        if "part" not in self.fields:
            return super().sentences()
        happened = "{path} cannot be changed safely: {part}, on the way to it, is a link."
        return happened, self.known, "Put a plain folder in the place of {part}, and run again."


class PlanTooLarge(AuthoringError):
    """A change of more files than one receipt can hold."""

    code = "DPONE_AUTHORING_PLAN_TOO_LARGE"
    exit_code = EXIT_CLOSED
    happened = "The change around {path} is larger than one receipt can hold: {reason}."
    known = _UNTOUCHED
    advice = "Change fewer files at once: several smaller workloads, one after the other."


class PathInvalid(AuthoringError):
    """A path that names no file inside the project. `part`: what on the way is no folder."""

    code = "DPONE_AUTHORING_PATH_INVALID"
    exit_code = EXIT_CLOSED
    happened = "{path} names no file of this project: {reason}."
    known = _UNTOUCHED
    advice = "Give a path below the project's folder, without .. and links."

    def sentences(self) -> tuple[str, str, str]:
        """As the path has it: it may be right, and something stand in its way."""
        if "part" not in self.fields:
            return super().sentences()
        happened = "{path} names no file of this project: {part}, on the way to it, is no folder."
        return happened, self.known, "Move {part} away, or give another path."


class DigestInvalid(AuthoringError):
    """What a program gave as the expected digest is no SHA-256, and no file can ever have it."""

    code = "DPONE_AUTHORING_DIGEST_INVALID"
    exit_code = EXIT_USAGE
    happened = "The digest that {path} is expected to have is no SHA-256."
    known = _UNTOUCHED
    advice = "Give the SHA-256 of the bytes that were read, as 64 lower-case hexadecimal digits."


class TargetHardLinked(AuthoringError):
    """The file has more than one name, and an exchange would split them."""

    code = "DPONE_AUTHORING_HARD_LINK"
    exit_code = EXIT_CLOSED
    happened = "{path} has another hard link, which a replacement would split from it."
    known = _UNTOUCHED
    advice = "Make it a file of its own (copy it and rename the copy over it), and run again."


class TargetReadOnly(AuthoringError):
    """The file is marked read-only."""

    code = "DPONE_AUTHORING_READ_ONLY"
    exit_code = EXIT_CLOSED
    happened = "{path} is marked read-only."
    known = _UNTOUCHED
    advice = "If it may be changed: chmod u+w, and run again."


class FolderReadOnly(AuthoringError):
    """The directory does not let us make, rename or remove names."""

    code = "DPONE_AUTHORING_FOLDER_READ_ONLY"
    exit_code = EXIT_CLOSED
    happened = "The folder of {path} does not allow names to be changed ({reason})."
    known = _UNTOUCHED
    advice = "Give this user write permission on the folder, and run again."


class TargetMountPoint(AuthoringError):
    """The file is itself a mount point."""

    code = "DPONE_AUTHORING_MOUNT_POINT"
    exit_code = EXIT_CLOSED
    happened = "{path} is a mount point; its name cannot be exchanged."
    known = _UNTOUCHED
    advice = "Mount the folder instead of the file, and run again."


class OwnershipNotPreservable(AuthoringError):
    """Owner, group, access list, attributes or label would be lost."""

    code = "DPONE_AUTHORING_OWNERSHIP_NOT_PRESERVABLE"
    exit_code = EXIT_CLOSED
    happened = "The owner, group, access list, attributes or label of {path} cannot be kept."
    known = _UNTOUCHED
    advice = "Run as its owner and as a member of its group, or as root."


class AtomicExchangeUnsupported(AuthoringError):
    """The platform, file system or mount has no exchange that can be relied on."""

    code = "DPONE_AUTHORING_ATOMIC_EXCHANGE_UNSUPPORTED"
    exit_code = EXIT_CLOSED
    happened = "Two names cannot be exchanged atomically in the folder of {path}."
    known = _UNTOUCHED
    advice = "Plans and checks work here. Apply on a local Linux or macOS file system."


class SyncRefused(AuthoringError):
    """The file system does not confirm that names are durable."""

    code = "DPONE_AUTHORING_SYNC_FAILED"
    exit_code = EXIT_CLOSED
    happened = "The folder of {path} or a file in it could not be synced ({reason})."
    known = "This attempt exchanged nothing; {path} shows what it showed before."
    advice = "Check the disk and the mount; a file system without directory sync is unsupported."


class StorageExhausted(AuthoringError):
    """No space or quota for the new bytes."""

    code = "DPONE_AUTHORING_STORAGE_FULL"
    exit_code = EXIT_CLOSED
    happened = "There is no space for the new bytes of {path}."
    known = "{path} is as it was."
    advice = "Free some space, and run again."


class TransactionInProgress(AuthoringError):
    """A live process is changing this very file."""

    code = "DPONE_AUTHORING_TRANSACTION_IN_PROGRESS"
    exit_code = EXIT_LATER
    happened = "Another process is changing {path} right now."
    known = "This run wrote nothing."
    advice = "Run again when it has ended."


class RecoveryRequired(AuthoringError):
    """A change, of this run or an earlier one, left something that a person must look at.

    `reason` chooses the sentences. `root` is the file whose recovery goes on with it, `path` where
    that is not said. `newer` tells which of two versions was written last, if it is known.
    """

    code = "DPONE_AUTHORING_RECOVERY_REQUIRED"
    exit_code = EXIT_CLOSED
    happened = "A change of {path} is not finished, and needs a look: {reason}."
    known = "Nothing was lost. Kept bytes: {recovery_name}."
    advice = "Run: dpone authoring recover {root} --apply. Compare {path} with what is kept."

    def __init__(self, *, newer: str = "", **fields: Any) -> None:
        told = {"newer": newer} if newer else {}
        super().__init__(**{"root": fields.get("path", ""), **fields, **told})

    def sentences(self) -> tuple[str, str, str]:
        """As the reason has it: after some of them no change waits any more."""
        happened, known, advice = (
            _BY_REASON.get(str(self.fields.get("reason"))) or super().sentences()
        )
        return happened, known + _NEWER.get(str(self.fields.get("newer")), ""), advice


_NEWER = {"target": " {path} was written last.", "recovery": " The kept file was written last."}
_ASIDE = (
    "What bore the name of a record of {path} is none ({reason}), and was moved aside.",
    "{path} shows what it showed before. To look at: {recovery_name}.",
    "Nothing waits for it, so run again. All that was left lists: dpone authoring recover {root}",
)
_BY_REASON = {
    "kept": (
        "Two versions of {path} met, and one was kept beside it.",
        "Nothing was lost. Kept: {recovery_name}.",
        "Compare {path} with it, take what you need, and remove it. It blocks nothing.",
    ),
    "kept_target_missing": (
        "{path} was removed while it was changed, and a version of it was kept beside it.",
        "Nothing was lost. Kept: {recovery_name}.",
        "Rename it to {path} if you need it, or remove it. It blocks nothing, so run again.",
    ),
    "journal_invalid": _ASIDE,
    "draft_invalid": _ASIDE,
    "receipt_invalid": _ASIDE,
    "unsafe_path": (
        RecoveryRequired.happened,
        RecoveryRequired.known,
        "Look what stands there. To move it aside: dpone authoring recover {root} --keep --apply",
    ),
    "exchange_lied": (
        "The file system said that it exchanged {path} with the new bytes, and dropped a file.",
        "One version of {path} may be gone. Kept bytes: {recovery_name}.",
        "Compare {path} with your version control, and work on a local file system.",
    ),
}


class RecordUnreadable(AuthoringError):
    """The journal or receipt of an earlier change is there, and this user cannot open it."""

    code = "DPONE_AUTHORING_RECORD_UNREADABLE"
    exit_code = EXIT_CLOSED
    happened = "{record}, the record of another change of {path}, cannot be opened ({reason})."
    known = "It belongs to user number {owner}, who may be at work; nothing was touched."
    advice = "As that user, or as root, run: dpone authoring recover {path} --apply"


class FileUnreadable(AuthoringError):
    """A file exists and cannot be read as it must be."""

    code = "DPONE_AUTHORING_FILE_UNREADABLE"
    exit_code = EXIT_CLOSED
    happened = "{path} cannot be read: {reason}."
    known = _UNTOUCHED
    advice = "Make it a readable file of at most 4 MiB, and run again."


class WriteFailed(AuthoringError):
    """The file system refused a write for a reason that has no code of its own."""

    code = "DPONE_AUTHORING_WRITE_FAILED"
    exit_code = EXIT_CLOSED
    happened = "A change beside {path} failed ({reason})."
    known = "{path} is as it was."
    advice = "Check the file system, and run again."


class ChangeStopped(AuthoringError):
    """Something unforeseen in the middle of a change; its receipt says how far it came."""

    code = "DPONE_AUTHORING_INTERNAL"
    exit_code = EXIT_INTERNAL
    happened = "An unforeseen {kind} stopped the change of {path}."
    known = "The receipt lists what was changed; nothing was undone, and nothing was lost."
    advice = "Run the same command again: it finishes, or undoes exactly what is its own."
