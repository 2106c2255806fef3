"""Process identity from /proc: boot, pid namespace, pid and start ticks.

Promise: `proven_dead` is True only for a process of this very boot and namespace whose pid is
free, reused, or a zombie. Elsewhere, or in doubt, it is False.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from dpone.contracts.journal import Owner

_STAT_BYTES_MAX = 4096


class ProcLiveness:
    """The liveness port over /proc."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self.proc = proc

    def me(self) -> Owner | None:
        """This process, or None where /proc cannot tell."""
        return _identify(self.proc, os.getpid())

    def proven_dead(self, owner: Owner) -> bool:
        """Whether `owner` ran here and is gone."""
        mine = self.me()
        if mine is None or _place(mine) != _place(owner):
            return False
        seen = _start_ticks(self.proc, owner.pid)
        return seen is None or seen != owner.start_ticks


def _place(owner: Owner) -> tuple[str, str]:
    return owner.boot_id, owner.pid_namespace


@cache
def _identify(proc: Path, pid: int) -> Owner | None:
    ticks = _start_ticks(proc, pid)
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text("ascii").strip()
        namespace = str((proc / "self/ns/pid").readlink())
    except OSError:
        return None
    if ticks is None:
        return None
    return Owner(
        host=os.uname().nodename,
        boot_id=boot,
        pid_namespace=namespace,
        pid=pid,
        start_ticks=ticks,
    )


def _start_ticks(proc: Path, pid: int) -> int | None:
    """Field 22 of the stat file; None for a free pid or an unreaped (zombie) process."""
    try:
        with (proc / str(pid) / "stat").open("rb") as file:
            text = file.read(_STAT_BYTES_MAX)
    except OSError:
        return None
    # The command name stands in parentheses and may hold anything, so split after the last one.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return int(fields[19])
