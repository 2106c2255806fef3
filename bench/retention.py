"""Retention at its bounds: a plan over ten thousand deployments."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.deletions import deletion_figures
from bench.measure import Figure
from dpone.cli.main import main
from dpone.contracts.cache_layout import folder_name
from dpone.contracts.deployment_set import deployment_files, release_files

DEPLOYMENTS = 10_000
DAGS = ("DAG__bench",)
_PEAK = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"


def retention_figures() -> Iterator[Figure]:
    """Wall time of the plan as a command, and what its memory grows by, in MB."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small", Path(folder) / "large"
        make_cache(small, 10)
        make_cache(large, DEPLOYMENTS)
        few, many = plan_peak_mb(small), plan_peak_mb(large)
        seconds = min(_timed(lambda: plan(large)) for _ in range(3))
        yield Figure(f"plan over {DEPLOYMENTS} deployments", seconds, 5.0, "s")
        yield Figure(
            "memory of that plan above a small one", many - few, 64.0, "MB", note="items kept"
        )
    yield from deletion_figures()


def make_cache(root: Path, count: int) -> None:
    """A cache with one current and `count` unreferenced deployments, without syncs."""
    options = ["--cache-root", str(root), "--dag", DAGS[0], "--fixture", "current", "--activate"]
    call(["airflow", "cache-materialize", *options])
    release_id, released = release_files(DAGS)
    for number in range(count):
        deployment_id, files = deployment_files("dev", release_id, released, str(number), 0)
        folder = root / "deployments" / "dev" / folder_name(deployment_id)
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)


def plan(root: Path) -> None:
    call(["airflow", "cache-retention-plan", "--cache-root", str(root), "--format", "json"])


def call(arguments: list[str]) -> None:
    """Run a command in this process; it must end with 0."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            main(arguments)
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"{arguments[1]} ended with {end.code}") from None


def plan_peak_mb(root: Path) -> float:
    """The highest resident size of a process that plans."""
    code = (
        "import sys; from bench.retention import plan; from pathlib import Path;"
        f" plan(Path(sys.argv[1])); {_PEAK}"
    )
    repository = str(Path(__file__).resolve().parent.parent)
    said = subprocess.run(
        [sys.executable, "-c", code, str(root)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": repository},
    )
    return int(said.stdout.split()[-1]) / 1024


def _timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    for figure in retention_figures():
        print(figure.line())
