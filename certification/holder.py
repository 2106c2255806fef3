"""A process that holds a unit of a target open: `python -m certification.holder SPEC UNIT`.

It claims, changes one row, says so on its output and goes on when its input ends. A suite pauses
or kills it in between.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from certification.places import TargetPlace
from dpone import wiring
from dpone.contracts.codec import convert, encode
from dpone.contracts.fence import Unit

ROOT = Path(__file__).resolve().parent.parent
WAIT_S = 60.0


class Holder:
    """The process from outside."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def pause(self) -> None:
        """SIGSTOP: it holds what it holds and answers nobody."""
        self.process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.process.kill()
        self.process.wait(WAIT_S)

    def finish(self) -> str:
        """Let it commit; return the kind of its verdict."""
        self.process.send_signal(signal.SIGCONT)
        out, _ = self.process.communicate(timeout=WAIT_S)
        return out.strip()


@contextmanager
def holding(place: TargetPlace, unit: Unit) -> Iterator[Holder]:
    """A process that has claimed the key of `unit`, written a row, and waits."""
    command = [sys.executable, "-m", "certification.holder", place.spec, encode(unit)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline().strip()
            if said != "held":
                raise RuntimeError(f"the holder said {said!r}")
            yield Holder(process)
        finally:
            process.kill()


def main(spec: str, text: str) -> None:
    """Hold the unit until the input ends, then commit and print the verdict's kind."""
    unit = convert(json.loads(text), Unit)
    target = wiring.open_target(spec)

    def change(transaction: Any) -> None:
        TargetPlace.write(transaction, unit.attempt_id)
        print("held", flush=True)
        sys.stdin.read()

    print(type(target.commit(unit, change)).__name__)
    target.close()


if __name__ == "__main__":
    main(*sys.argv[1:3])
