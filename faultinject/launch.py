"""Runs the real command line under a probe.

    python -m faultinject.launch --point P --proof FILE [--action kill|stop|report] -- run ...
    python -m faultinject.launch --trace FILE -- run ...

Everything after `--` is what `dpone` would get.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from dpone.cli.main import main as dpone_main
from faultinject.probe import ACTIONS, KillProbe, TraceProbe


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, then hand over to the command line."""
    parser = argparse.ArgumentParser(prog="python -m faultinject.launch")
    parser.add_argument("--point", help="where to act, such as fencing.commit:after#1")
    parser.add_argument("--proof", type=Path, help="the file that gets the proof")
    parser.add_argument("--action", choices=ACTIONS, default="kill")
    parser.add_argument("--trace", type=Path, help="append every point to this file instead")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(argv)
    arguments = given.arguments[1:] if given.arguments[:1] == ["--"] else given.arguments
    if given.trace is not None:
        dpone_main(arguments, probe=TraceProbe(given.trace))
    if not given.point or not given.proof:
        parser.error("--point and --proof, or --trace, are needed")
    dpone_main(arguments, probe=KillProbe(given.point, given.proof, given.action))


if __name__ == "__main__":
    main()
