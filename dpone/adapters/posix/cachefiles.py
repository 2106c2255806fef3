"""The files of a deployment cache on a POSIX system.

Promise: as `dpone.adapters.posix.files`, and: a tree is walked by descriptor, a log is durable when
`append` returns, a lock is the kernel's and ends with its process. Linux and macOS.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpone.adapters.posix import glance
from dpone.adapters.posix.files import PosixFolder, open_part
from dpone.adapters.posix.held import PosixHeld, is_overlay, sync, translated, write_all
from dpone.contracts.authoring import Kind, Look
from dpone.ports import cachefiles, files

_LOCK_POLL_S = 0.005
_LOCK_MODE = 0o664
_LOG_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class PosixCache:
    """The tree below one cache root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.user = os.geteuid()

    @contextmanager
    def folder(self, path: str) -> Iterator[PosixCacheFolder]:
        """Open a directory part by part from the root."""
        with translated(path):
            descriptor = os.open(
                self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
            )
        try:
            for part in path.split("/") if path else []:
                below = open_part(descriptor, part)
                os.close(descriptor)
                descriptor = below
            yield PosixCacheFolder(descriptor, path)
        finally:
            os.close(descriptor)


class PosixCacheFolder(PosixFolder):
    """One open directory of a cache."""

    def itself(self) -> Look:
        """What the open directory is."""
        with translated(self.path):
            return glance.at_descriptor(self.descriptor)

    @contextmanager
    def below(self, leaf: str) -> Iterator[PosixCacheFolder]:
        """Open a directory in it."""
        descriptor = open_part(self.descriptor, leaf)
        try:
            yield PosixCacheFolder(descriptor, f"{self.path}/{leaf}" if self.path else leaf)
        finally:
            os.close(descriptor)

    def descend(self, leaf: str) -> PosixCacheFolder:
        """Open a directory in it, to be closed by the caller."""
        descriptor = open_part(self.descriptor, leaf)
        return PosixCacheFolder(descriptor, self.path)

    def ascend(self) -> PosixCacheFolder:
        """Open the directory above."""
        with translated(self.path):
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
            return PosixCacheFolder(os.open("..", flags, dir_fd=self.descriptor), self.path)

    def close(self) -> None:
        """Close the descriptor, once."""
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            os.close(descriptor)

    def entries(self) -> Iterator[tuple[str, Kind]]:
        """Names with kinds, from the kernel's own listing."""
        with translated(self.path), os.scandir(self.descriptor) as found:
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    yield entry.name, Kind.FOLDER
                elif entry.is_symlink():
                    yield entry.name, Kind.LINK
                else:
                    is_file = entry.is_file(follow_symlinks=False)
                    yield entry.name, Kind.FILE if is_file else Kind.OTHER

    def read_link(self, leaf: str) -> str | None:
        """Where a link leads."""
        try:
            return os.readlink(files.leaf_of(leaf), dir_fd=self.descriptor)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINVAL):
                return None
            with translated(leaf):
                raise

    def make_link(self, leaf: str, leads_to: str) -> None:
        """Make a link."""
        with translated(files.leaf_of(leaf)):
            os.symlink(leads_to, leaf, dir_fd=self.descriptor)

    def replace(self, leaf: str, over: str) -> None:
        """Rename over."""
        with translated(files.leaf_of(leaf)):
            files.leaf_of(over)
            os.replace(leaf, over, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def carry(self, leaf: str, to: cachefiles.CacheFolder, free: str) -> None:
        """Rename into another directory without overwriting."""
        assert isinstance(to, PosixCacheFolder), "a folder of another adapter"
        from dpone.adapters.posix import swap

        try:
            swap.carry(self.descriptor, files.leaf_of(leaf), to.descriptor, files.leaf_of(free))
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise cachefiles.OtherFileSystem(leaf) from error
            with translated(leaf):
                raise

    def may_change(self) -> bool:
        """What the kernel says: modes, access lists, flags, and a mount that is read-only."""
        effective = os.access in os.supports_effective_ids
        may = os.W_OK | os.X_OK
        return os.access(".", may, dir_fd=self.descriptor, effective_ids=effective)

    def refusal(self, leaf: str, to: cachefiles.CacheFolder, full: str) -> str:
        """An overlay does not rename what a lower layer holds, and only a rename shows it.

        Its answer for a directory that is not empty comes after that for a lower layer.
        """
        assert isinstance(to, PosixCacheFolder), "a folder of another adapter"
        files.leaf_of(leaf)
        files.leaf_of(full)
        if not is_overlay(self.descriptor):
            return ""
        try:
            os.rename(leaf, full, src_dir_fd=self.descriptor, dst_dir_fd=to.descriptor)
        except OSError as error:
            return cachefiles.OtherFileSystem.reason if error.errno == errno.EXDEV else ""
        raise AssertionError("a directory that is not empty was replaced")

    def open_up(self) -> None:
        """Give the owner all permissions on the directory itself, by descriptor."""
        with translated(self.path):
            mode = stat.S_IMODE(os.fstat(self.descriptor).st_mode)
            if mode & 0o700 != 0o700:
                os.fchmod(self.descriptor, mode | 0o700)

    def unseal(self, leaf: str) -> None:
        """Open up a directory that not even its owner may read."""
        flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
        with translated(files.leaf_of(leaf)):
            descriptor = os.open(leaf, flags, dir_fd=self.descriptor)
            try:
                mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
                if mode & 0o700 != 0o700:
                    # A descriptor of this kind takes no fchmod; its link does.
                    Path(f"/proc/self/fd/{descriptor}").chmod(mode | 0o700)
            finally:
                os.close(descriptor)

    def set_mode(self, leaf: str, mode: int) -> None:
        """Set permission bits through a descriptor that followed no link, and sync it."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        with translated(files.leaf_of(leaf)):
            descriptor = os.open(leaf, flags, dir_fd=self.descriptor)
            try:
                os.fchmod(descriptor, mode)
                sync(descriptor, leaf)
            finally:
                os.close(descriptor)

    # -- logs and locks

    def log(self, leaf: str, *, create: bool) -> PosixLog | None:
        """Open or make a log."""
        flags = _LOG_FLAGS | (os.O_CREAT if create else 0)
        try:
            descriptor = os.open(files.leaf_of(leaf), flags, 0o600, dir_fd=self.descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            with translated(leaf):
                raise error
        try:
            with translated(leaf):
                is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            if not is_regular:
                raise files.NotRegular(leaf)
        except BaseException:
            os.close(descriptor)
            raise
        return PosixLog(descriptor, leaf)

    @contextmanager
    def lock(self, leaf: str, wait_s: float, *, shared: bool = False) -> Iterator[None]:
        """Hold an advisory lock; polled, because the kernel's own wait has no bound."""
        descriptor = self._lock_descriptor(leaf)
        try:
            _acquire(descriptor, leaf, wait_s, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _lock_descriptor(self, leaf: str) -> int:
        if leaf == ".":
            here = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
            with translated(leaf):
                return os.open(".", here, dir_fd=self.descriptor)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        with translated(files.leaf_of(leaf)):
            try:
                return os.open(leaf, flags, _LOCK_MODE, dir_fd=self.descriptor)
            except PermissionError:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
                return os.open(leaf, flags, dir_fd=self.descriptor)


class PosixLog(PosixHeld):
    """A log, open for appending."""

    def read(self, bytes_max: int) -> bytes:
        """All bytes, once: nobody else writes to it under our lock."""
        with translated(self.leaf):
            return self._read(bytes_max)

    def append(self, data: bytes, *, forced: bool = True) -> None:
        """Write at the end, and sync."""
        with translated(self.leaf):
            write_all(self.descriptor, data)
        if forced:
            self.sync()

    def sync(self) -> None:
        """Have the bytes durable."""
        sync(self.descriptor, self.leaf)

    def cut(self, size: int) -> None:
        """Truncate and sync."""
        with translated(self.leaf):
            os.ftruncate(self.descriptor, size)
        self.sync()


def _acquire(descriptor: int, leaf: str, wait_s: float, how: int) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            return
        if time.monotonic() >= deadline:
            raise cachefiles.LockBusy(leaf)
        time.sleep(_LOCK_POLL_S)
