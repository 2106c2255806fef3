"""Run all benchmarks and write `bench/results.json` and `bench/results.md`.

Every figure is a ratio or a median taken in this run; the exit code is 1 when one is not met.
`--only WORD` runs the parts whose name holds the word and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench import authoring, loads, operations, retention, startup  # noqa: E402
from bench.measure import Figure  # noqa: E402
from faultinject.postgres import PostgresServer  # noqa: E402

PARTS: dict[str, Callable[[PostgresServer], Iterable[Figure]]] = {
    "startup": lambda _: startup.startup_figures(),
    "replay": lambda _: operations.replay_figures(),
    "sqlite": lambda _: operations.sqlite_figures(),
    "postgres": operations.postgres_figures,
    "peer": operations.peer_figures,
    "journal": lambda _: operations.long_journal_figures(),
    "authoring": lambda _: authoring.authoring_figures(),
    "retention": lambda _: retention.retention_figures(),
    "loads": loads.load_figures,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    only = parser.parse_args().only
    figures: list[Figure] = []
    with PostgresServer() as server:
        for name, part in PARTS.items():
            if only not in name:
                continue
            for figure in part(server):
                print(figure.line(), flush=True)
                figures.append(figure)
    if not only:
        _write(figures)
    missed = [figure for figure in figures if not figure.met]
    print(f"{len(figures) - len(missed)} figures met, {len(missed)} not met")
    return 1 if missed else 0


def _write(figures: list[Figure]) -> None:
    machine = {
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    records = [{**asdict(figure), "met": figure.met} for figure in figures]
    body = {"machine": machine, "figures": records}
    (ROOT / "bench/results.json").write_text(json.dumps(body, indent=1, sort_keys=True) + "\n")
    lines = [
        "# Benchmark results",
        "",
        "Written by `make bench`; every figure is from one run.",
        "",
    ]
    lines += ["| figure | measured | bound | met | note |", "|---|---:|---:|---|---|"]
    for figure in figures:
        sign = "≥" if figure.at_least else "≤"
        lines.append(
            f"| {figure.name} | {figure.value:.3f} {figure.unit} | {sign} {figure.bound:g} |"
            f" {'yes' if figure.met else 'no'} | {figure.note} |"
        )
    lines += ["", "Machine: " + ", ".join(f"{name} {value}" for name, value in machine.items())]
    (ROOT / "bench/results.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
