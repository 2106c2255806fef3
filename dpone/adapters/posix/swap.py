"""The platform's exchange of two names, and its rename that overwrites nothing.

Promise: `exchange` and `move` are one step each for everybody who looks, or raise and change
nothing. Linux: renameat2; macOS: renameatx_np (UNVERIFIED: built from its manual, never run there).
Elsewhere `SUPPORTED` is False. Not promised: that a file system does what it says; rehearse it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from typing import Any

_LINUX = ("renameat2", 1 << 1, 1 << 0)
_MACOS = ("renameatx_np", 1 << 1, 1 << 2)
_CALLS = {"linux": _LINUX, "darwin": _MACOS}


def _native() -> tuple[Any, int, int] | None:
    """The function, its flag for an exchange and its flag for not overwriting."""
    if sys.platform not in _CALLS:
        return None
    name, swap, exclusive = _CALLS[sys.platform]
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if function is None:
        return None
    function.argtypes = (
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_uint,
    )
    function.restype = ctypes.c_int
    return function, swap, exclusive


_NATIVE = _native()
SUPPORTED = _NATIVE is not None


def exchange(folder: int, left: str, right: str) -> None:
    """Swap what two names of a directory show. Raises `OSError`."""
    _call(folder, left, folder, right, is_swap=True)


def move(folder: int, leaf: str, free: str) -> None:
    """Rename to a name that nothing bears. Raises `OSError`, EEXIST when it is taken."""
    _call(folder, leaf, folder, free, is_swap=False)


def carry(folder: int, leaf: str, to: int, free: str) -> None:
    """Rename into another directory, to a name that nothing bears. Raises `OSError`."""
    _call(folder, leaf, to, free, is_swap=False)


def _call(folder: int, left: str, to: int, right: str, *, is_swap: bool) -> None:
    if _NATIVE is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    function, swap, exclusive = _NATIVE
    flag = swap if is_swap else exclusive
    if function(folder, os.fsencode(left), to, os.fsencode(right), flag) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
