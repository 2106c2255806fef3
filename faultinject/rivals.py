"""Rounds with a rival: a worker that is stopped, replaced and woken, and workers from a barrier.

A round is judged by the target alone and by what each worker's caller saw: one mutation, one
winner, and a loser that says so with a type.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from faultinject import workloads
from faultinject.matrix import FENCED, World, fresh
from faultinject.operators import entry_of, events_of
from faultinject.zygote import Ended, Zygote, wake

T = TypeVar("T")
LOST = "DPONE_TARGET_COMMIT_OWNERSHIP_LOST"
IN_PROGRESS = "DPONE_TARGET_COMMIT_IN_PROGRESS"
HELD = "DPONE_TARGET_HELD"
LOSERS = frozenset({LOST, IN_PROGRESS, HELD})
PATIENCE_S = 30.0
WON = frozenset({"committed", "settled"})


def spread(zygotes: Sequence[Zygote], work: Iterable[Callable[[Zygote], T]]) -> list[T]:
    """Do each piece of work with one of the zygotes, as many at once; results in order."""
    free: SimpleQueue[Zygote] = SimpleQueue()
    for zygote in zygotes:
        free.put(zygote)

    def run(piece: Callable[[Zygote], T]) -> T:
        zygote = free.get()
        try:
            return piece(zygote)
        finally:
            free.put(zygote)

    with ThreadPoolExecutor(len(zygotes)) as pool:
        return list(pool.map(run, work))


@dataclass(frozen=True, slots=True)
class Bout:
    """What one round with a rival saw."""

    faults: tuple[str, ...]
    how: str
    loser: str

    @property
    def held(self) -> bool:
        """Whether everything was as it has to be."""
        return not self.faults


def stopped_at(zygote: Zygote, args: Mapping[str, Any], point: str) -> int:
    """Start a worker that stops at `point`; its pid. An armed point that is not hit is an error."""
    pid = zygote.start(FENCED, args, point=point, action="stop")
    stopped = zygote.wait(pid)
    if not (stopped.stopped and stopped.hit(point)):
        raise AssertionError(f"{point} was armed and not hit: {stopped.result}")
    return pid


def zombie(
    zygote: Zygote, world: World, strategy: str, point: str, *, lease_s: float = 60.0, **extra: Any
) -> Bout:
    """Stop a worker at `point`, let its replacement take over and finish, wake the worker."""
    with fresh(world, {"strategy": strategy, "lease_s": lease_s, **extra}) as args:
        first = stopped_at(zygote, args, point)
        second = zygote.run(FENCED, {**args, "take_over": lease_s > 1.0})
        before = events_of(args)
        wake(first)
        woken = zygote.wait(first)
        faults = loaded_once(args, strategy)
        if code_of(woken) != LOST or woken.exit_code != 3:
            faults.append(f"the woken worker answered {woken.result}")
        if events_of(args) != before:
            faults.append(f"the woken worker wrote {events_of(args)[len(before) :]}")
        if second.exit_code != 0:
            faults.append(f"the replacement answered {second.result}")
        return Bout(tuple(faults), how_of(second), code_of(woken))


def barrier(zygote: Zygote, world: World, strategy: str, meet_at: str, killed_at: str = "") -> Bout:
    """Two workers with one operation wait for each other just before `meet_at`, then race.

    With `killed_at` they race for what an earlier worker, killed there, left behind.
    """
    with fresh(world, {"strategy": strategy}) as args:
        if killed_at:
            earlier = zygote.run(FENCED, args, point=killed_at)
            assert earlier.killed
            assert earlier.hit(killed_at)
        folder = Path(args["folder"]) / "meet"
        folder.mkdir()
        # Until they meet, one must not give up because the other holds the file on a busy machine.
        patient = {"options": {**args["options"], "lock_wait_s": PATIENCE_S}}
        met = {**args, **patient, "meet": str(folder), "meet_count": 2, "meet_at": meet_at}
        pids = [zygote.start(FENCED, met) for _ in range(2)]
        ended = [zygote.wait(pid) for pid in pids]
        faults = loaded_once(args, strategy)
        winners = [run for run in ended if how_of(run) in WON]
        losers = [run for run in ended if code_of(run) in LOSERS and run.exit_code == 3]
        if (len(winners), len(losers)) != (1, 1):
            faults.append(f"the two answered {[run.result for run in ended]}")
        if len(list(folder.iterdir())) != 2:
            faults.append("the two did not meet")
        return Bout(tuple(faults), "committed", code_of(losers[0]) if losers else "")


def paused(
    zygote: Zygote, world: World, strategy: str, point: str, *, killed: bool, **extra: Any
) -> Bout:
    """Stop a worker that holds its unit at `point`; a replacement meets it while it lives.

    Then the worker is killed, or woken so that it goes on, and one more run has to settle.
    """
    with fresh(world, {"strategy": strategy, **extra}) as args:
        first = stopped_at(zygote, args, point)
        met = zygote.run(FENCED, {**args, "take_over": True})
        if killed:
            os.kill(first, signal.SIGKILL)
        else:
            wake(first)
        woken = zygote.wait(first)
        last = zygote.run(FENCED, {**args, "take_over": True})
        faults = loaded_once(args, strategy)
        if last.exit_code != 0:
            faults.append(f"the last run answered {last.result}")
        return Bout(tuple(faults), f"{met.exit_code} {code_of(met) or how_of(met)}", code_of(woken))


def intrusion(
    zygote: Zygote, world: World, point: str, *, killed_at: str = "", **extra: Any
) -> Bout:
    """A worker is stopped at `point`, whichever it is; a rival takes over; the worker goes on.

    With `killed_at` the worker is itself the successor of one that was killed there. Whoever
    wins, one more run must find one mutation.
    """
    with fresh(world, {"strategy": "append", **extra}) as args:
        if killed_at:
            earlier = zygote.run(FENCED, args, point=killed_at)
            assert earlier.killed
        first = stopped_at(zygote, args, point)
        rival = zygote.run(FENCED, {**args, "take_over": True})
        wake(first)
        woken = zygote.wait(first)
        last = zygote.run(FENCED, {**args, "take_over": True})
        faults = loaded_once(args, "append")
        faults += [
            f"a worker answered {run.result}"
            for run in (rival, woken)
            if run.exit_code not in (0, 3, 4) or run.result is None
        ]
        if last.exit_code != 0:
            faults.append(f"the last run answered {last.result}")
        named = tuple(f"{killed_at} {point}: {fault}" for fault in faults)
        return Bout(named, code_of(rival) or how_of(rival), code_of(woken) or how_of(woken))


def loaded_once(args: dict[str, Any], strategy: str) -> list[str]:
    """Faults of a target and journal that should hold one complete load."""
    faults = []
    rows, count = workloads.observed(args["target"])
    if count != 1:
        faults.append(f"{count} mutations")
    if rows != workloads.expected(strategy, args.get("part", "p")):
        faults.append(f"rows are {rows}")
    entry = entry_of(args)
    if entry is None or entry.state != "COMPLETE":
        faults.append(f"the journal says {entry.state if entry else None}")
    return faults


def code_of(run: Ended) -> str:
    """The error code that the worker's caller saw."""
    return str((run.result or {}).get("code", "no answer"))


def how_of(run: Ended) -> str:
    """How the worker came to its outcome; empty when it had none."""
    return str((run.result or {}).get("outcome", {}).get("how", ""))
