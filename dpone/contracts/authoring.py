"""The values of authoring: what a file is, whose it is, and what a change of it came to.

Promise: outcomes say what the world did, with project-relative names only; no bytes, no absolute
path and no secret is in any of them. Source: ADR 0023, commands and calls.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import NamedTuple

import msgspec

FILE_BYTES_MAX = 4 * 1024 * 1024
NAME_BYTES_MAX = 255


class Kind(StrEnum):
    """What a name stands for."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


class Look(NamedTuple):
    """One look at a name or a descriptor.

    `identity` is inode and birth time (or generation) as fixed-width text: it survives a rename
    and differs for a file that was deleted and made again. `device` and `mount` are numbers of
    this boot. `size` is in bytes, `mode` holds the permission bits, `modified_ns` is the time of
    the last write since the epoch, `immutable` a flag that forbids removal even to its owner.
    """

    kind: Kind
    identity: str
    device: int
    mount: int
    links: int
    size: int
    mode: int
    owner: int
    group: int
    modified_ns: int
    immutable: bool = False


class Proof(StrEnum):
    """Whether anybody can still write to an inode."""

    PROVEN = "proven"
    """Nobody has it open for writing, and whoever tries now is held up."""
    WRITER = "writer"
    """Somebody has it open for writing."""
    UNKNOWN = "unknown"
    """This platform or file system cannot tell."""


class OwnedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The receipt of a file that was created: taken from its descriptor, never from its name.

    `path` is project-relative, `sha256` 64 hexadecimal digits, `size` in bytes. `identity` is inode
    and birth time as a `Look` has them: whoever has the file made anew has another. `device` is
    told for people; it may differ after a restart, and nothing is decided by it.
    """

    path: str
    device: int
    identity: str
    size: int
    sha256: str


class Status(StrEnum):
    """What became of a change. `NONE`: nothing was changed by it."""

    NONE = "none"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    RECOVERY_REQUIRED = "recovery_required"


class ConfinedReplaceOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one compare-and-replace did.

    `status` COMMITTED: the authoritative name shows the desired bytes (`changed` False: it did so
    before). ROLLED_BACK: the source had changed, and shows what its writer made of it.
    RECOVERY_REQUIRED: nothing was lost, and a person must look at `recovery_name`.
    `cleanup_required`: committed, while earlier bytes or the journal are still there; the next
    apply or `dpone authoring recover` finishes. `durable` False: a sync failed after the commit,
    so a power cut may undo it. `recovery_name`: sibling that holds bytes which were kept;
    `also_kept`: those that the recovery of an earlier change kept before. `newer`: which of two
    versions was written last, `target` or `recovery`. `reason`: a stable word.
    """

    status: Status
    changed: bool = True
    cleanup_required: bool = False
    durable: bool = True
    recovery_name: str | None = None
    reason: str = ""
    newer: str = ""
    also_kept: tuple[str, ...] = ()

    @property
    def committed(self) -> bool:
        """Whether the authoritative name shows the desired bytes through this or an earlier run."""
        return self.status is Status.COMMITTED


class ConfinedRollbackOutcome(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True
):
    """What the removal of an owned file did.

    `removed`: the very file of the receipt is gone. `reason`: `removed`, `missing`, `not_owned`
    (somebody else's file has the name, and keeps it), or `kept` with `recovery_name`. `also_kept`
    and `newer` are as in a replacement.
    """

    removed: bool
    reason: str
    recovery_name: str | None = None
    cleanup_required: bool = False
    newer: str = ""
    also_kept: tuple[str, ...] = ()


class ConfinedRecoveryOutcome(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True
):
    """What recovery found and did.

    `found` False: no transaction was pending. `status` says what became of it; `changed_since`:
    committed, and the name shows later bytes; `newer`: which of two kept versions is newer,
    `target` or `recovery`. `sides`: siblings that no record knows, named when a journal that could
    not be read as one was kept; each may hold earlier bytes.
    """

    found: bool
    status: Status = Status.NONE
    reason: str = ""
    recovery_name: str | None = None
    changed_since: bool = False
    newer: str = ""
    cleanup_required: bool = False
    sides: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every sibling that a person should look at."""
        return (self.recovery_name, *self.sides) if self.recovery_name else self.sides


def sha256_of(data: bytes) -> str:
    """The SHA-256 of `data` as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
