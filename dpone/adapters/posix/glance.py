"""One look at a file: kind, identity, owner, times and mount, from one system call.

Promise: links are not followed, and nothing is opened. Where a file system keeps no birth time the
identity is the inode number alone, which a file that was deleted and made again may share; digests
are compared beside it wherever it matters.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from typing import Any

from dpone.contracts.authoring import Kind, Look

_SYMLINK_NOFOLLOW, _EMPTY_PATH = 0x100, 0x1000
# A mount's plain number is given again once it is gone; the unique one (Linux 6.8) never is, in one
# boot. A kernel that does not know it answers with the plain one.
_BASIC, _BIRTH, _MOUNT, _UNIQUE_MOUNT = 0x7FF, 0x800, 0x1000, 0x4000
_WANTED = _BASIC | _BIRTH | _MOUNT | _UNIQUE_MOUNT
_SECOND_NS = 1_000_000_000
_IMMUTABLE = 0x10 | 0x20  # immutable, append-only


# The kernel's statx answer up to the mount's number: mask, blksize, attributes, nlink, uid, gid,
# mode, ino, size, blocks, attributes_mask; four times; four device numbers; mount.
_ANSWER = struct.Struct("=IIQIIIHxxQQQQ qIxxxx qIxxxx qIxxxx qIxxxx IIIIQ")
_Buffer = ctypes.c_char * 256
_KINDS = {stat.S_IFREG: Kind.FILE, stat.S_IFDIR: Kind.FOLDER, stat.S_IFLNK: Kind.LINK}


def _native() -> Any:
    if sys.platform != "linux":
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    if function is not None:
        function.argtypes = (
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_uint,
            ctypes.c_char_p,
        )
    return function


_statx = _native()


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
    buffer = _Buffer()
    if _statx(descriptor, name, flags, _WANTED, buffer) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    (mask, _, attributes, links, owner, group, mode, inode, size, *rest) = _ANSWER.unpack_from(
        buffer
    )
    birth_s, birth_ns, modified_s, modified_ns = rest[4], rest[5], rest[8], rest[9]
    device = os.makedev(rest[12], rest[13])
    birth = birth_s * _SECOND_NS + birth_ns if mask & _BIRTH else 0
    return Look(
        _kind(mode),
        f"{inode:016x}.{birth:016x}",
        device,
        rest[14] if mask & (_MOUNT | _UNIQUE_MOUNT) else device,
        links,
        size,
        mode & 0o7777,
        owner,
        group,
        modified_s * _SECOND_NS + modified_ns,
        bool(attributes & _IMMUTABLE),
    )


def _portable(found: os.stat_result) -> Look:
    birth = int(getattr(found, "st_birthtime", 0) * _SECOND_NS)
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


def _kind(mode: int) -> Kind:
    return _KINDS.get(stat.S_IFMT(mode), Kind.OTHER)
