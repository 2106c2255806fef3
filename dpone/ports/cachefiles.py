"""Files of a deployment cache: what the files port has, and trees, links, logs and leases.

Everything is relative to a directory held by descriptor and follows no link. Names that are no
UTF-8 are carried losslessly, as Python does it. Every refusal is a `FilesError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from dpone.contracts.authoring import Kind, Look
from dpone.ports.files import FilesError, Folder


class LockBusy(FilesError):
    """Somebody holds the lock, and the bounded wait is over."""

    reason = "lock_busy"


class Log(Protocol):
    """A file that only grows, or is cut at its torn end."""

    def read(self, bytes_max: int) -> bytes:
        """All its bytes. Raises `FileTooLarge`."""

    def append(self, data: bytes, *, forced: bool = True) -> None:
        """Write at the end; if `forced`, have it and all before it durable.

        Raises `SyncFailed`, `StorageFull`.
        """

    def sync(self) -> None:
        """Have durable what was written, by whomever. Raises `SyncFailed`."""

    def cut(self, size: int) -> None:
        """Drop everything behind `size` bytes, durably."""

    def close(self) -> None:
        """Close the descriptor."""


class CacheFolder(Folder, Protocol):
    """One directory of a cache."""

    def itself(self) -> Look:
        """What the open directory is now."""

    def below(self, leaf: str) -> AbstractContextManager[CacheFolder]:
        """Open a directory in it. Raises `NameMissing`, `LinkForbidden`, `NotAFolder`."""

    def descend(self, leaf: str) -> CacheFolder:
        """The same, closed by the caller."""

    def ascend(self) -> CacheFolder:
        """The directory above; the caller compares its identity, and closes it."""

    def close(self) -> None:
        """Close the descriptor."""

    def entries(self) -> Iterator[tuple[str, Kind]]:
        """Every name with its kind, as the directory is read; memory does not grow with it."""

    def read_link(self, leaf: str) -> str | None:
        """Where a symbolic link leads; None when the name shows none."""

    def make_link(self, leaf: str, leads_to: str) -> None:
        """Make a symbolic link. Raises `NameTaken`."""

    def replace(self, leaf: str, over: str) -> None:
        """Rename over another name of ours, in one step."""

    def carry(self, leaf: str, to: CacheFolder, free: str) -> None:
        """Rename into another directory, to a name that is free, in one step.

        Raises `NameTaken`, `NameMissing`, `OtherFileSystem`.
        """

    def may_change(self) -> bool:
        """Whether this user may give names in it and take them away; nothing is tried."""

    def refusal(self, leaf: str, to: CacheFolder, full: str) -> str:
        """Why `carry` would fail where nothing else shows it; empty when it would not.

        `full` is a directory of `to` that is not empty, so that asking the system renames nothing.
        """

    def open_up(self) -> None:
        """Let the owner change this directory's names. Raises `AccessDenied`."""

    def unseal(self, leaf: str) -> None:
        """Let the owner enter and change a directory in it, links not followed.

        Raises `AccessDenied`, `NotAFolder`. Files are never touched: they may have other links.
        """

    def set_mode(self, leaf: str, mode: int) -> None:
        """Set the permission bits of a file or directory of ours, durably, links not followed."""

    def log(self, leaf: str, *, create: bool) -> Log | None:
        """Open a log of ours (mode 0600); None when there is none and none is to be made."""

    def lock(
        self, leaf: str, wait_s: float, *, shared: bool = False
    ) -> AbstractContextManager[None]:
        """Hold an advisory lock on a file (made when missing), or on the directory itself (`.`).

        Waits at most `wait_s`. Raises `LockBusy`.
        """


class CacheFiles(Protocol):
    """A cache's tree."""

    user: int
    """The effective user's number; 0 may do everything."""

    def folder(self, path: str) -> AbstractContextManager[CacheFolder]:
        """Open a directory part by part from the cache's root, following no link."""


class OtherFileSystem(FilesError):
    """A rename would cross file systems."""

    reason = "other_file_system"
