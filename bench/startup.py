"""What it costs to start: importing the library, and commands that do nothing."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.loads import ordinary_environment
from bench.measure import Figure

ROUNDS = 15
_COMMANDS = ("run", "route", "journal", "schema")
_ARGPARSE = """
import argparse, sys
parser = argparse.ArgumentParser(prog="dpone")
commands = parser.add_subparsers(dest="command")
for name in {names!r}:
    command = commands.add_parser(name, help=name)
    command.add_argument("place", nargs="?")
    command.add_argument("--format", default="text")
arguments = parser.parse_args()
if arguments.command:
    print(arguments.command)
"""


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(
        command,
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=tempfile.gettempdir(),
        env=ordinary_environment(),
    )
    return time.perf_counter() - start


def startup_figures() -> Iterator[Figure]:
    bare, imported, ours_help, theirs_help, ours_none, theirs_none = [], [], [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        program.write_text(_ARGPARSE.format(names=_COMMANDS))
        python = [sys.executable]
        dpone = [str(Path(sys.executable).parent / "dpone")]
        for _ in range(ROUNDS):
            bare.append(_seconds([*python, "-c", "pass"]))
            imported.append(_seconds([*python, "-c", "import dpone"]))
            ours_help.append(_seconds([*dpone, "--help"]))
            theirs_help.append(_seconds([*python, str(program), "--help"]))
            ours_none.append(_seconds([*dpone, "schema"]))
            theirs_none.append(_seconds([*python, str(program), "schema"]))
    cost = (statistics.median(imported) - statistics.median(bare)) * 1000
    yield Figure("import dpone over the bare interpreter", cost, 60, "ms")
    yield _ratio("dpone --help against argparse", ours_help, theirs_help)
    yield _ratio("a command that only lists names against argparse", ours_none, theirs_none)


def _ratio(name: str, ours: list[float], theirs: list[float]) -> Figure:
    mine, others = statistics.median(ours), statistics.median(theirs)
    note = f"{mine * 1000:.0f} ms and {others * 1000:.0f} ms"
    return Figure(name, mine / others, 3, "x", note=note)
