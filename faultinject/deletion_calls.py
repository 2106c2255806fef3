"""File-changing system calls of a deletion: all of them named, or the process killed at one.

Promise: as `faultinject.call_sweeps`, names relative to a directory's descriptor are resolved, so
renames, removals and new directories count too. Linux on x86-64 only.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpone.ports.probe import Probe, quiet
from faultinject import syscalls
from faultinject.call_sweeps import _MORE, Calls
from faultinject.deleting import APPLY, Deletions, Round
from faultinject.deletion_files import WatchedCache
from faultinject.deletion_worlds import World
from faultinject.syscalls import Traced
from faultinject.zygote import Zygote

SWEPT = "faultinject.deletion_calls:swept"
FALLING = "faultinject.deletion_calls:falling"


def swept(args: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """Run the workload `work` and kill it at stop `stop_at` (0: never) below `root`."""
    del probe
    syscalls.require()
    syscalls.CALLS.update(_MORE)
    module, _, name = str(args["work"]).partition(":")
    workload = getattr(importlib.import_module(module), name)
    pid = os.fork()
    if pid == 0:
        code = 70
        with contextlib.suppress(BaseException):
            syscalls._ptrace(syscalls._TRACEME, 0, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            syscalls._install_filter()
            code = int(workload(args, quiet).get("exit_code", 0))
        os._exit(code)
    return asdict(Calls(pid, os.path.realpath(args["root"]), int(args["stop_at"])).run())


def falling(args: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """An apply that is killed at its `at`-th removal of a file or directory."""
    del probe
    left = int(args["at"])

    def watch(call: str, _: str) -> None:
        nonlocal left
        left -= call in ("unlink", "rmdir")
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    root = Path(args["root"])
    ended = World(root, Path(args["ack"]), (), "").apply(
        args["plan"], files=WatchedCache(root, watch)
    )
    return {"exit_code": ended.exit_code}


def to_call(zygote: Zygote, args: Mapping[str, Any], stop_at: int, work: str = APPLY) -> Traced:
    """Run a workload and kill it at its `stop_at`-th stop; 0 runs it to its end."""
    ended = zygote.run(SWEPT, {**args, "stop_at": stop_at, "work": work})
    if ended.result is None:
        raise RuntimeError("the tracer died")
    return Traced(**{**ended.result, "stops": tuple(ended.result["stops"])})


def stops(deletions: Deletions) -> list[tuple[int, str]]:
    """The numbers and names of the stops before each file-changing call of a run."""
    args = deletions.fresh()
    seen = to_call(deletions.zygote, args, 0)
    shutil.rmtree(args["root"])
    return [(at, stop) for at, stop in enumerate(seen.stops, 1) if stop.startswith("before")]


def killed(deletions: Deletions, stop_at: int) -> tuple[str, Round]:
    """Kill a run at a call, run it to the end, and look."""
    args = deletions.fresh()
    seen = to_call(deletions.zygote, args, stop_at)
    found = deletions.judged(args, [deletions.zygote.run(APPLY, args)], seen.killed_at, "")
    shutil.rmtree(Path(args["root"]))
    return seen.killed_at, found
