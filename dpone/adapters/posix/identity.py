"""What a file is, beyond its name: inode and birth time, and the file system it lies on."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre"}
    | {"fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.glusterfs", "virtiofs", "gfs2", "ocfs2"}
)
_AT_FDCWD = -100
_STATX_BTIME = 0x800
_STATX_SIZE = 256


_statx = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)


class _Statx(ctypes.Structure):
    """The part of the kernel's statx answer that we read; padded to its full size."""

    _fields_ = (
        ("mask", ctypes.c_uint32),
        ("head", ctypes.c_uint8 * 76),
        ("btime_s", ctypes.c_int64),
        ("btime_ns", ctypes.c_uint32),
        ("rest", ctypes.c_uint8 * (_STATX_SIZE - 92)),
    )


def birth_ns(path: Path) -> int:
    """Birth time in nanoseconds since the epoch; 0 where the file system has none."""
    if _statx is None:
        return 0
    answer = _Statx()
    code = _statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, ctypes.byref(answer))
    if code != 0 or not answer.mask & _STATX_BTIME:
        return 0
    return int(answer.btime_s) * 1_000_000_000 + int(answer.btime_ns)


def identity(path: Path) -> str:
    """Inode and birth time as text, never the device number, which changes at a remount.

    Raises `OSError` when the file is not there.
    """
    return f"{path.stat().st_ino}.{birth_ns(path)}"


def filesystem(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> str:
    """The type of the file system on which `path` (or its nearest parent) lies; '' if unknown."""
    try:
        lines = mountinfo.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    target = os.path.realpath(path)
    best, kind = "", ""
    for line in lines:
        left, _, right = line.partition(" - ")
        point = left.split(" ")[4].encode().decode("unicode_escape")
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split(" ")[0]
    return kind


def is_network(kind: str) -> bool:
    """Whether locks on a file system of this type cannot be trusted by SQLite."""
    return kind in NETWORK_FILESYSTEMS
