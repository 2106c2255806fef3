"""The operating system under the POSIX file adapter, with the n-th call failing.

Promise: every call that the adapter makes is counted, in order; the chosen one, or all from it on,
fails with an error number before it does anything. Short writes: each write takes one byte.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

from dpone.adapters.posix import attributes, files, glance, held, swap

_NAMES = (
    "open",
    "link",
    "unlink",
    "mkdir",
    "rmdir",
    "write",
    "pwrite",
    "pread",
    "fsync",
    "fdatasync",
    "fstat",
    "scandir",
    "fchmod",
    "fchown",
    "setxattr",
    "getxattr",
)
CHANGING = frozenset(
    {
        "link",
        "unlink",
        "mkdir",
        "rmdir",
        "write",
        "pwrite",
        "fsync",
        "fdatasync",
        "exchange",
        "move",
    }
)
SPACE = (errno.ENOSPC, errno.EDQUOT)


class Calls:
    """Counts calls; `names` are those that were made. `at` 0: none fails."""

    def __init__(
        self, at: int, number: int, *, ever: bool = False, only: frozenset[str] | None = None
    ) -> None:
        self.at = at
        self.number = number
        self.ever = ever
        self.only = only
        self.names: list[str] = []

    def passing(self, name: str) -> None:
        """Count a call, and fail if it is its turn."""
        if self.only is not None and name not in self.only:
            return
        self.names.append(name)
        count = len(self.names)
        if self.at and (count == self.at or (self.ever and count > self.at)):
            raise OSError(self.number, os.strerror(self.number))

    def wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, counted."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self.passing(name)
            return function(*args, **kwargs)

        return call


class _System:
    """The module `os` with some functions counted."""

    def __init__(self, calls: Calls, names: Iterable[str] = _NAMES) -> None:
        for name in names:
            setattr(self, name, calls.wrapped(name, getattr(os, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@contextmanager
def counted(
    calls: Calls, modules: Sequence[ModuleType], names: Iterable[str], moves: Sequence[str]
) -> Iterator[Calls]:
    """Let calls of `os` in these modules, moves and looks be counted, and fail, until the end."""
    system = _System(calls, names)
    patches: list[Any] = [mock.patch.object(module, "os", system) for module in modules]
    looks = [(glance, "at_name", "look"), (glance, "at_descriptor", "look")]
    for module, function, name in [*((swap, move, move) for move in moves), *looks]:
        wrapped = calls.wrapped(name, getattr(module, function))
        patches.append(mock.patch.object(module, function, wrapped))
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield calls


def failing(calls: Calls) -> AbstractContextManager[Calls]:
    """Let the adapter's calls be counted, and fail, until the block ends."""
    return counted(calls, (files, held, attributes), _NAMES, ("exchange", "move"))


@contextmanager
def short_writes() -> Iterator[None]:
    """Every write takes one byte only."""
    system = _System(Calls(0, 0))
    vars(system)["write"] = lambda descriptor, data: os.write(descriptor, data[:1])
    vars(system)["pwrite"] = lambda descriptor, data, offset: os.pwrite(
        descriptor, data[:1], offset
    )
    with mock.patch.object(held, "os", system), mock.patch.object(files, "os", system):
        yield


@contextmanager
def uncertified() -> Iterator[None]:
    """Forget what rehearsals showed, so that each is made again."""
    with mock.patch.dict(files._VERDICTS, clear=True):
        yield
