"""One look at a file: kind, identity, owner, times and mount, from one system call.

Promise: links are not followed, and nothing is opened. Where a file system keeps no birth time the
identity is the inode number alone, which a file that was deleted and made again may share; digests
are compared beside it wherever it matters.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys

from dpone.contracts.authoring import Kind, Look

_SYMLINK_NOFOLLOW, _EMPTY_PATH = 0x100, 0x1000
_BASIC, _BIRTH, _MOUNT = 0x7FF, 0x800, 0x1000
_IMMUTABLE = 0x10 | 0x20  # immutable, append-only


class _Time(ctypes.Structure):
    _fields_ = (
        ("s", ctypes.c_int64),
        ("ns", ctypes.c_uint32),
        ("pad", ctypes.c_int32),
    )


class _Statx(ctypes.Structure):
    """The kernel's statx answer up to the mount's number; padded to its full size."""

    _fields_ = (
        ("mask", ctypes.c_uint32),
        ("blksize", ctypes.c_uint32),
        ("attributes", ctypes.c_uint64),
        ("nlink", ctypes.c_uint32),
        ("uid", ctypes.c_uint32),
        ("gid", ctypes.c_uint32),
        ("mode", ctypes.c_uint16),
        ("pad", ctypes.c_uint16),
        ("ino", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("blocks", ctypes.c_uint64),
        ("attributes_mask", ctypes.c_uint64),
        ("atime", _Time),
        ("btime", _Time),
        ("ctime", _Time),
        ("mtime", _Time),
        ("rdev_major", ctypes.c_uint32),
        ("rdev_minor", ctypes.c_uint32),
        ("dev_major", ctypes.c_uint32),
        ("dev_minor", ctypes.c_uint32),
        ("mnt_id", ctypes.c_uint64),
        ("rest", ctypes.c_uint8 * 104),
    )


_statx = (
    getattr(ctypes.CDLL(None, use_errno=True), "statx", None) if sys.platform == "linux" else None
)


def at_name(folder: int, leaf: str) -> Look:
    """Look at a name in a directory. Raises `OSError`."""
    if _statx is None:
        return _portable(os.stat(leaf, dir_fd=folder, follow_symlinks=False))
    return _ask(folder, os.fsencode(leaf), _SYMLINK_NOFOLLOW)


def at_descriptor(descriptor: int) -> Look:
    """Look at an open file. Raises `OSError`."""
    if _statx is None:
        return _portable(os.fstat(descriptor))
    return _ask(descriptor, b"", _EMPTY_PATH)


def _ask(descriptor: int, name: bytes, flags: int) -> Look:
    assert _statx is not None
    answer = _Statx()
    wanted = _BASIC | _BIRTH | _MOUNT
    if _statx(descriptor, name, flags, wanted, ctypes.byref(answer)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    device = os.makedev(answer.dev_major, answer.dev_minor)
    birth = _ns(answer.btime) if answer.mask & _BIRTH else 0
    return Look(
        kind=_kind(answer.mode),
        identity=f"{answer.ino:016x}.{birth:016x}",
        device=device,
        mount=answer.mnt_id if answer.mask & _MOUNT else device,
        links=answer.nlink,
        size=answer.size,
        mode=stat.S_IMODE(answer.mode),
        owner=answer.uid,
        group=answer.gid,
        modified_ns=_ns(answer.mtime),
        immutable=bool(answer.attributes & _IMMUTABLE),
    )


def _portable(found: os.stat_result) -> Look:
    birth = int(getattr(found, "st_birthtime", 0) * 1_000_000_000)
    return Look(
        kind=_kind(found.st_mode),
        identity=f"{found.st_ino:016x}.{birth:016x}",
        device=found.st_dev,
        mount=found.st_dev,
        links=found.st_nlink,
        size=found.st_size,
        mode=stat.S_IMODE(found.st_mode),
        owner=found.st_uid,
        group=found.st_gid,
        modified_ns=found.st_mtime_ns,
    )


def _ns(time: _Time) -> int:
    return int(time.s) * 1_000_000_000 + int(time.ns)


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return Kind.FILE
    if stat.S_ISDIR(mode):
        return Kind.FOLDER
    return Kind.LINK if stat.S_ISLNK(mode) else Kind.OTHER
