"""A sweep over every file-changing system call: kill a worker there, run it again, judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from faultinject.matrix import FENCED, World, fresh
from faultinject.rivals import loaded_once, spread
from faultinject.syscalls import Traced
from faultinject.zygote import Zygote

STRIDE = 8
STOPS_MAX = 2000


@dataclass(frozen=True, slots=True)
class Swept:
    """One worker killed at one stop, or ended by itself because it never came to it."""

    stop_at: int
    seen: Traced
    faults: tuple[str, ...]


def swept(zygote: Zygote, world: World, strategy: str, stop_at: int) -> Swept:
    """Kill a worker at its `stop_at`-th stop, run it again, and judge."""
    with fresh(world, {"strategy": strategy}) as args:
        seen = zygote.run_to_syscall(FENCED, args, Path(args["folder"]), stop_at)
        again = zygote.run(FENCED, args)
        faults = loaded_once(args, strategy)
        if again.exit_code != 0:
            faults.append(f"the next run answered {again.result}")
        if not seen.killed_at and seen.exit_code != 0:
            faults.append(f"the worker ended with {seen.exit_code}")
        return Swept(stop_at, seen, tuple(f"{seen.killed_at}: {fault}" for fault in faults))


def sweep(zygotes: Sequence[Zygote], world: World, strategy: str, *, ends: int = 3) -> list[Swept]:
    """Kill at stop 1, 2, … until `ends` workers never came to theirs.

    Runs differ by a few calls (pages of a file, threads of an engine), hence more than one end.
    """
    done: list[Swept] = []
    step = STRIDE * len(zygotes)
    for start in range(1, STOPS_MAX, step):
        work = [
            partial(swept, world=world, strategy=strategy, stop_at=number)
            for number in range(start, start + step)
        ]
        done += spread(zygotes, work)
        if sum(not entry.seen.killed_at for entry in done) >= ends:
            return done
    raise RuntimeError(f"after {STOPS_MAX} stops the workers still came to theirs")
