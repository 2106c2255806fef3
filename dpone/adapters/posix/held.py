"""A regular file held by descriptor: stable reads, the proof that nobody writes, and our records.

Promise: `read` returns bytes that two reads agree on; `prove` answers PROVEN only where the kernel
refuses a read lease to files that are open for writing (measured: ext4, xfs, btrfs, tmpfs).
overlayfs grants it falsely, so it and everything else that was not measured answer UNKNOWN.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import stat
import sys
from collections.abc import Callable

from dpone.adapters.posix import glance
from dpone.contracts.authoring import Look, Proof
from dpone.ports import files

# From linux/magic.h: file systems on which the lease was measured to tell the truth.
_HONEST = {0xEF53: "ext4", 0x58465342: "xfs", 0x9123683E: "btrfs", 0x01021994: "tmpfs"}
_OVERLAY = 0x794C7630
_SET_LEASE, _GET_LEASE, _SET_SIGNAL = 1024, 1025, 10
# Its default action is to do nothing, while that of SIGIO ends the process.
_HARMLESS = getattr(signal, "SIGURG", 0)
_STATFS_BYTES = 256
_CHUNK_BYTES = 1024 * 1024

_Statfs = ctypes.c_long * (_STATFS_BYTES // ctypes.sizeof(ctypes.c_long))
_fstatfs = getattr(ctypes.CDLL(None, use_errno=True), "fstatfs", None)

_ERRORS: dict[int, type[files.FilesError]] = {
    errno.ENOENT: files.NameMissing,
    errno.EEXIST: files.NameTaken,
    errno.ENOTEMPTY: files.NameTaken,
    errno.ELOOP: files.LinkForbidden,
    errno.ENOTDIR: files.NotAFolder,
    errno.EISDIR: files.NotRegular,
    errno.ENXIO: files.NotRegular,
    errno.EACCES: files.AccessDenied,
    errno.EPERM: files.AccessDenied,
    errno.EROFS: files.AccessDenied,
    errno.ENOSPC: files.StorageFull,
    errno.EDQUOT: files.StorageFull,
    errno.EBUSY: files.NameBusy,
}


class translated:  # noqa: N801 - read as the verb that it is: with translated(leaf)
    """Turn an `OSError` of the block into the port's error.

    A class, because a generator costs thrice as much and stands around every call.
    """

    __slots__ = ("leaf",)

    def __init__(self, leaf: str = "") -> None:
        self.leaf = leaf

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            raise ported(error, self.leaf) from error


def ported(error: OSError, leaf: str) -> files.FilesError:
    """The port's error, for the calls of which there are so many that even a block costs."""
    kind = _ERRORS.get(error.errno or 0, files.FilesError)
    return kind(leaf, errno.errorcode.get(error.errno or 0, ""))


def sync(descriptor: int, leaf: str = "") -> None:
    """Have a file or directory durable. Raises `SyncFailed`; never to be repeated after that."""
    try:
        # A plain sync leaves the data in the drive's own memory there.
        if sys.platform == "darwin":
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fsync(descriptor)
    except OSError as error:
        full_disk = error.errno in (errno.ENOSPC, errno.EDQUOT)
        kind = files.StorageFull if full_disk else files.SyncFailed
        raise kind(leaf, errno.errorcode.get(error.errno or 0, "")) from error


class Syncs:
    """The syncs of one descriptor. After one failed the kernel may call what it lost durable."""

    __slots__ = ("has_failed", "leaf")

    def __init__(self, leaf: str) -> None:
        self.leaf = leaf
        self.has_failed = False

    def once(self, force: Callable[[], None]) -> None:
        """Have it durable by `force`, and never again once that failed. Raises `SyncFailed`."""
        if self.has_failed:
            raise files.SyncFailed(self.leaf, "failed before")
        try:
            force()
        except files.FilesError:
            self.has_failed = True
            raise


class PosixHeld:
    """A descriptor, closed once."""

    def __init__(self, descriptor: int, leaf: str = "") -> None:
        self.descriptor = descriptor
        self.leaf = leaf
        self._is_leased = False

    def look(self) -> Look:
        """What the open file is now."""
        try:
            return glance.at_descriptor(self.descriptor)
        except OSError as error:
            raise ported(error, self.leaf) from error

    def read(self, bytes_max: int) -> bytes:
        """All bytes, read twice."""
        try:
            before = _stamp(self.descriptor)
            data = self._read(bytes_max)
            again = self._read(bytes_max)
            after = _stamp(self.descriptor)
        except OSError as error:
            raise ported(error, self.leaf) from error
        if data != again or before != after or len(data) != after[0]:
            raise files.ChangedDuringRead(self.leaf)
        return data

    def _read(self, bytes_max: int) -> bytes:
        parts: list[bytes] = []
        offset = 0
        while offset <= bytes_max:
            part = os.pread(self.descriptor, min(_CHUNK_BYTES, bytes_max + 1 - offset), offset)
            if not part:
                return parts[0] if len(parts) == 1 else b"".join(parts)
            parts.append(part)
            offset += len(part)
        raise files.FileTooLarge(self.leaf)

    def attributes(self) -> files.Attributes:
        """Mode, owner, group and extended attributes."""
        try:
            found = os.fstat(self.descriptor)
            extended = tuple(sorted(attributes_of(self.descriptor).items()))
        except OSError as error:
            raise ported(error, self.leaf) from error
        return stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, extended

    def prove(self) -> Proof:
        """Take a read lease, which the kernel refuses while somebody may write."""
        if sys.platform != "linux" or _magic(self.descriptor) not in _HONEST:
            return Proof.UNKNOWN
        try:
            fcntl.fcntl(self.descriptor, _SET_SIGNAL, int(_HARMLESS))
            fcntl.fcntl(self.descriptor, _SET_LEASE, fcntl.F_RDLCK)
        except OSError as error:
            return Proof.WRITER if error.errno == errno.EAGAIN else Proof.UNKNOWN
        self._is_leased = True
        return Proof.PROVEN

    def undisturbed(self) -> bool:
        """Whether the lease is whole: a pending break shows as its removal."""
        if not self._is_leased:
            return False
        with translated(self.leaf):
            return bool(fcntl.fcntl(self.descriptor, _GET_LEASE) == fcntl.F_RDLCK)

    def release(self) -> None:
        """Give the lease back."""
        if self._is_leased:
            self._is_leased = False
            fcntl.fcntl(self.descriptor, _SET_LEASE, fcntl.F_UNLCK)

    def close(self) -> None:
        """Close the descriptor; the kernel drops lease and lock with it."""
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            self._is_leased = False
            shut(descriptor)


class PosixRecord(PosixHeld):
    """A small file of ours, open for patching."""

    def __init__(self, descriptor: int, leaf: str = "") -> None:
        super().__init__(descriptor, leaf)
        self._syncs = Syncs(leaf)

    def lock(self) -> bool:
        """Take the advisory lock without waiting."""
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise files.FilesError(self.leaf, "flock") from error
        return True

    def patch(self, offset: int, data: bytes) -> None:
        """Write in place and have it durable; refused for ever once its sync failed."""
        if self._syncs.has_failed:
            raise files.SyncFailed(self.leaf, "failed before")
        view = memoryview(data)
        with translated(self.leaf):
            while view:
                count = os.pwrite(self.descriptor, view, offset)
                view, offset = view[count:], offset + count
        self._syncs.once(self._force)

    def _force(self) -> None:
        try:
            getattr(os, "fdatasync", os.fsync)(self.descriptor)
        except OSError as error:
            raise files.SyncFailed(self.leaf) from error


def shut(descriptor: int) -> None:
    """Close; what had to be durable was synced before, so a late failure says nothing of it."""
    try:  # noqa: SIM105 - stands around every call, and a context manager costs as much as the close
        os.close(descriptor)
    except OSError:
        pass


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, however short the single writes are. Raises `OSError`."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _stamp(descriptor: int) -> tuple[int, int, int]:
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def attributes_of(descriptor: int) -> dict[str, bytes]:
    """The extended attributes, access lists and labels among them; none where there are none."""
    if not hasattr(os, "listxattr"):
        return {}
    try:
        names = os.listxattr(descriptor)
    except OSError:
        return {}
    return {name: os.getxattr(descriptor, name) for name in names}


def is_overlay(descriptor: int) -> bool:
    """Whether the file lies in an overlay of several layers."""
    return sys.platform == "linux" and _magic(descriptor) == _OVERLAY


def _magic(descriptor: int) -> int:
    """The file system's magic number; 0 when it cannot be told."""
    buffer = _Statfs()
    if _fstatfs is None or _fstatfs(descriptor, ctypes.byref(buffer)) != 0:
        return 0
    return int(buffer[0]) & 0xFFFFFFFF
