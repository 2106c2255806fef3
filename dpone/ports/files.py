"""The one door to project files: folders held by descriptor, leaves named without following links.

Nobody else touches the operating system for project files. A `Folder` never leaves the directory
that it was opened on, whatever happens to its name. Nothing is durable until `sync` (names) or the
call that says so (bytes); a failed sync is never repeated on the same descriptor and never called
durable. Every refusal is a `FilesError` with a stable `reason`; an `OSError` never comes through.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from dpone.contracts.authoring import Look, Proof

Attributes = tuple[int, int, int, tuple[tuple[str, bytes], ...]]
"""Mode, owner, group, and extended attributes (access lists and labels among them) by name."""


class FilesError(Exception):
    """A file operation was refused or failed. `reason` is stable; `leaf` is the name, if any."""

    reason = "file_unavailable"

    def __init__(self, leaf: str = "", detail: str = "") -> None:
        super().__init__(f"{self.reason}: {leaf} {detail}".strip())
        self.leaf = leaf
        self.detail = detail


class NameMissing(FilesError):
    """Nothing bears the name."""

    reason = "file_not_found"


class NameTaken(FilesError):
    """Something bears the name already."""

    reason = "name_taken"


class LinkForbidden(FilesError):
    """A symbolic link stands where a file or folder is due."""

    reason = "symlink_forbidden"


class NotRegular(FilesError):
    """The name stands for a folder, a pipe, a device or a socket."""

    reason = "not_regular_file"


class FileTooLarge(FilesError):
    """More bytes than the bound."""

    reason = "file_too_large"


class ChangedDuringRead(FilesError):
    """Two reads of one descriptor disagreed."""

    reason = "source_changed"


class AccessDenied(FilesError):
    """The system forbids it: permissions, a read-only file system, a sticky directory."""

    reason = "access_denied"


class StorageFull(FilesError):
    """No space or no quota."""

    reason = "storage_full"


class NameBusy(FilesError):
    """The name is in use as a mount point."""

    reason = "mount_point"


class ExchangeUnsupported(FilesError):
    """No atomic exchange of two names here."""

    reason = "atomic_exchange_unsupported"


class NamelessUnsupported(FilesError):
    """No files without a name here."""

    reason = "nameless_unsupported"


class SyncFailed(FilesError):
    """A sync failed: what it should have made durable may be lost."""

    reason = "directory_sync_failed"


class OwnershipLost(FilesError):
    """Owner, group, access list, attribute or label cannot be carried over."""

    reason = "ownership_not_preservable"


class NotAFolder(FilesError):
    """A part of the path is no folder."""

    reason = "path_invalid"


class NameInvalid(FilesError):
    """No name of one folder: empty, a dot name, or with a slash or a zero byte in it."""

    reason = "name_invalid"


def leaf_of(name: str) -> str:
    """The name, which then leads nowhere but into its own folder. Raises `NameInvalid`."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise NameInvalid(name)
    return name


class Held(Protocol):
    """A regular file held open by descriptor; it stays the same inode whatever its name shows."""

    def look(self) -> Look:
        """What it is now. `links` 0: it has lost its last name."""

    def read(self, bytes_max: int) -> bytes:
        """All its bytes, read twice and compared.

        Raises `FileTooLarge`, `ChangedDuringRead`.
        """

    def attributes(self) -> Attributes:
        """Mode, owner, group and everything else that a replacement of it must carry over."""

    def prove(self) -> Proof:
        """Ask whether anybody can write to it, and hold up whoever tries from now on."""

    def undisturbed(self) -> bool:
        """Whether nobody has tried to write since `prove` answered PROVEN."""

    def release(self) -> None:
        """Give the proof back; whoever was held up goes on."""

    def close(self) -> None:
        """Close the descriptor; gives the proof and the lock back too."""


class Staged(Held, Protocol):
    """A file of ours, with bytes and metadata complete and synced, that may lack a name."""


class Record(Held, Protocol):
    """A small file of ours that is locked, read and patched in place."""

    def lock(self) -> bool:
        """Take the lock without waiting; the kernel returns it at death. False: a live owner."""

    def patch(self, offset: int, data: bytes) -> None:
        """Write `data` at `offset` and have it durable. Raises `SyncFailed`."""


class Folder(Protocol):
    """One directory, held by descriptor. Leaves are names without a slash.

    Every call refuses a leaf that is none (`NameInvalid`), whoever made it up.
    """

    path: str
    """Relative to the project root; empty for the root itself."""

    name_bytes_max: int

    def look(self, leaf: str) -> Look | None:
        """What bears the name, links not followed; None when nothing does."""

    def names(self, limit: int) -> Iterator[str]:
        """At most `limit` names, in no order. Raises `FileTooLarge` when there are more."""

    def hold(self, leaf: str) -> Held | None:
        """Hold a regular file for reading. Raises `LinkForbidden`, `NotRegular`."""

    def record(self, leaf: str) -> Record | None:
        """Hold a regular file of ours for reading and patching."""

    def stage(self, data: bytes, like: Held | None = None) -> Staged:
        """Make a nameless file, synced, with the metadata of `like` (else by the umask).

        Raises `NamelessUnsupported`, `StorageFull`, `OwnershipLost`, `SyncFailed`.
        """

    def create(self, leaf: str, data: bytes, like: Held | None = None) -> Staged:
        """The same under a name that was free. Raises `NameTaken` too."""

    def stage_record(self, data: bytes) -> Record:
        """Make a nameless private file, locked and synced."""

    def create_record(self, leaf: str, data: bytes) -> Record:
        """The same under a name that was free. Raises `NameTaken`."""

    def link(self, staged: Held, leaf: str) -> None:
        """Give a nameless file its name. Raises `NameTaken`."""

    def exchange(self, left: str, right: str) -> None:
        """Swap what two names show, in one step. Raises `ExchangeUnsupported`, `NameMissing`."""

    def move(self, leaf: str, free: str) -> None:
        """Rename to a name that is free, in one step. Raises `NameTaken`, `NameMissing`."""

    def unlink(self, leaf: str) -> None:
        """Take the name from a file. Raises `NameMissing`."""

    def make_folder(self, leaf: str) -> None:
        """Make a directory. Raises `NameTaken`."""

    def remove_folder(self, leaf: str) -> bool:
        """Remove a directory if it is empty; False when it is not, or not there."""

    def sync(self) -> None:
        """Have all names of this directory durable. Raises `SyncFailed`, for ever once it did."""

    def fitness(self, leaf: str) -> str:
        """Why a change of `leaf` would fail for sure, as a reason word; empty when fit."""

    def certified(self) -> bool | None:
        """What a rehearsal of the exchange on this mount and directory showed; None: not yet."""

    def certify(self, verdict: bool) -> None:
        """Remember the verdict of a rehearsal for this process."""


class Files(Protocol):
    """A project's tree, confined to its root."""

    def folder(self, path: str) -> AbstractContextManager[Folder]:
        """Open a directory part by part, following no link.

        Raises `NameMissing`, `LinkForbidden`, `NotAFolder`.
        """
