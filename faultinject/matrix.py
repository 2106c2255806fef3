"""The kill matrix: a worker killed at every point, and its successor killed inside recovery.

One round: a fresh target and journal; a worker killed at `first`; a second one killed at `second`
of its own recovery; a third one runs to its end; a fourth one replays. A round is judged by the
target alone: the rows of exactly one load, one mutation, and the operation COMPLETE.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from faultinject import workloads
from faultinject.zygote import Ended, Zygote

FENCED = "faultinject.workloads:fenced"
NAIVE = "faultinject.workloads:naive"
RUNS_MAX = 6

World = Callable[[Path], AbstractContextManager[dict[str, Any]]]
"""Makes a fresh target and journal in a folder; yields the arguments of the workload."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one round saw. `faults` is empty when it held."""

    target: str
    strategy: str
    first: str
    second: str
    pids: tuple[int, ...]
    hits: tuple[str, ...]
    exits: tuple[int, ...]
    mutations: int
    faults: tuple[str, ...] = field(default_factory=tuple)

    def record(self) -> dict[str, Any]:
        """The round as plain JSON values."""
        return asdict(self)


class Matrix:
    """Runs rounds of one target and strategy."""

    def __init__(
        self, zygote: Zygote, world: World, target: str, strategy: str, **extra: Any
    ) -> None:
        self.zygote = zygote
        self.world = world
        self.target = target
        self.strategy = strategy
        self.extra = extra

    def points(self, first: str = "") -> list[str]:
        """The points that a run passes, or, after a kill at `first`, its successor passes."""
        with self._fresh() as args:
            if first:
                self.zygote.run(FENCED, args, point=first)
            trace = Path(args["folder"]) / "trace"
            trace.touch()
            self.zygote.run(FENCED, args, trace=trace)
            return [json.loads(line)["point"] for line in trace.read_text().splitlines()]

    def round(self, first: str, second: str = "") -> Round:
        """Kill at `first`, kill the successor at `second`, then let it finish and replay."""
        with self._fresh() as args:
            runs = [self.zygote.run(FENCED, args, point=first)]
            if second:
                runs.append(self.zygote.run(FENCED, args, point=second))
            while runs[-1].exit_code != 0 and len(runs) < RUNS_MAX:
                runs.append(self.zygote.run(FENCED, args))
            replay = self.zygote.run(FENCED, args)
            return self._judge(args, first, second, runs, replay)

    def _judge(
        self, args: Mapping[str, Any], first: str, second: str, runs: list[Ended], replay: Ended
    ) -> Round:
        faults = []
        for run, point in zip(runs, [first, second] if second else [first], strict=False):
            if not (run.killed and run.hit(point)):
                faults.append(f"{point} was armed and not hit")
        outcome = (runs[-1].result or {}).get("outcome", {})
        again = (replay.result or {}).get("outcome", {})
        if outcome.get("state") != "COMPLETE":
            faults.append(f"ended {outcome.get('state')} {(runs[-1].result or {}).get('said')}")
        if again.get("how") != "replayed":
            faults.append(f"the replay answered {replay.result}")
        same = ("operation_id", "attempt", "attempt_id", "intent_digest", "result")
        if [outcome.get(name) for name in same] != [again.get(name) for name in same]:
            faults.append("the replay's outcome differs")
        rows, count = workloads.observed(args["target"])
        if rows != workloads.expected(self.strategy, "p"):
            faults.append(f"rows are {rows}")
        if count != 1:
            faults.append(f"{count} mutations")
        return Round(
            target=self.target,
            strategy=self.strategy,
            first=first,
            second=second,
            pids=tuple(run.pid for run in runs if run.killed),
            hits=tuple(run.proof["point"] for run in runs if run.proof),
            exits=tuple(run.exit_code for run in runs),
            mutations=count,
            faults=tuple(faults),
        )

    def control(self, first: str) -> int:
        """The naive load killed at `first` and run again: how often it mutated the target."""
        with self._fresh() as args:
            killed = self.zygote.run(NAIVE, args, point=first)
            assert killed.killed
            assert killed.hit(first)
            self.zygote.run(NAIVE, args)
            return workloads.mutations(args["target"])

    def _fresh(self) -> AbstractContextManager[dict[str, Any]]:
        return fresh(self.world, {"strategy": self.strategy, **self.extra})


def memory_folder() -> str | None:
    """A folder in memory where there is one: a kill proves nothing about disks, so they need not
    be waited for. None stands for the usual temporary folder."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class fresh(AbstractContextManager[dict[str, Any]]):  # noqa: N801 - reads as a function
    """A temporary folder with a fresh world in it; yields the world's arguments and `args`."""

    def __init__(self, world: World, args: dict[str, Any]) -> None:
        self._world = world
        self._args = args
        self._folder = Path(tempfile.mkdtemp(prefix="dpone-kill-", dir=memory_folder()))
        self._inner: AbstractContextManager[dict[str, Any]] | None = None

    def __enter__(self) -> dict[str, Any]:
        self._inner = self._world(self._folder)
        return {**self._inner.__enter__(), "folder": str(self._folder), **self._args}

    def __exit__(self, *exc: Any) -> None:
        assert self._inner is not None
        self._inner.__exit__(*exc)
        shutil.rmtree(self._folder, ignore_errors=True)


def rotate(matrix: Matrix) -> Iterator[tuple[str, str]]:
    """Each first point once, paired so that recovery points are spread as widely as possible."""
    seen: set[str] = set()
    for first in matrix.points():
        recovery = matrix.points(first)
        fresh = [point for point in recovery if point not in seen]
        second = fresh[0] if fresh else (recovery[len(seen) % len(recovery)] if recovery else "")
        seen.add(second)
        yield first, second


def pairs(matrix: Matrix) -> Iterator[tuple[str, str]]:
    """Every first point with every point of its recovery."""
    for first in matrix.points():
        yield first, ""
        for second in matrix.points(first):
            yield first, second
