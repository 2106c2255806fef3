"""Probes that end, stop or watch a process at a named point.

A point is `<effect>:before#n` or `<effect>:after#n`; n counts the effect's occurrences in this
process. The proof of a kill is on the disk before the signal is sent, so a test that finds none
knows that the point was never reached.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpone.contracts.effects import Effect

ACTIONS = ("kill", "stop", "report")
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class _Points:
    """Names the points that a process passes, in order."""

    def __init__(self) -> None:
        self._counts: Counter[Effect] = Counter()

    @contextmanager
    def __call__(self, effect: Effect, /) -> Iterator[None]:
        self._counts[effect] += 1
        number = self._counts[effect]
        self.passing(f"{effect.value}:before#{number}")
        yield
        self.passing(f"{effect.value}:after#{number}")

    def passing(self, point: str) -> None:
        """Called at every point."""
        raise NotImplementedError


class KillProbe(_Points):
    """Writes a proof line at one point and then sends this process a signal.

    `action`: `kill` (SIGKILL), `stop` (SIGSTOP) or `report` (the proof only).
    """

    def __init__(self, point: str, proof_path: Path, action: str = "kill") -> None:
        super().__init__()
        if action not in ACTIONS:
            raise ValueError(f"{action!r} is none of {', '.join(ACTIONS)}")
        check_point(point)
        self.point = point
        self.proof_path = proof_path
        self.action = action

    def passing(self, point: str) -> None:
        if point != self.point:
            return
        sent = _SIGNALS.get(self.action)
        append(
            self.proof_path,
            {"point": point, "pid": os.getpid(), "signal": sent.name if sent else ""},
        )
        if sent is not None:
            os.kill(os.getpid(), sent)


class TraceProbe(_Points):
    """Appends every point to a file, one JSON line each."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def passing(self, point: str) -> None:
        append(self.path, {"point": point, "pid": os.getpid()})


def check_point(point: str) -> None:
    """Raise `ValueError` for a text that names no point."""
    effect, _, rest = point.partition(":")
    side, _, number = rest.partition("#")
    if effect not in {member.value for member in Effect} or side not in ("before", "after"):
        raise ValueError(f"{point!r} is no point; it reads <effect>:before#n or <effect>:after#n")
    if not number.isdigit() or int(number) < 1:
        raise ValueError(f"{point!r} has no number from 1")


def append(path: Path, line: dict[str, object]) -> None:
    """Append one JSON line and have it on the disk when the call returns."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
