"""Reviewed deletions at their bounds: cost for each candidate, a loader's waits, flat memory."""

from __future__ import annotations

import fcntl
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.measure import Figure
from dpone import wiring
from dpone.contracts.cache_layout import folder_name
from dpone.contracts.deployment_set import deployment_files, release_files
from faultinject.deletion_worlds import DAGS, World, world

MANY, FEW = 10_000, 100
FILES = 20
HUGE = 300_000
LOADED = 1_000
SYNCS = 200


class Cost(NamedTuple):
    """What one apply took, in seconds."""

    wall_s: float
    cpu_s: float


def deletion_figures() -> Iterator[Figure]:
    """Everything of an apply that has a bound."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        few = statistics.median(applied(folder / f"few-{it}", FEW).cpu_s for it in range(5))
        latency_ms = sync_ms(folder)
        many = applied(folder / "many", MANY)
        ratio = (many.cpu_s / MANY) / (few / FEW)
        note = f"{few / FEW * 1000:.2f} and {many.cpu_s / MANY * 1000:.2f} ms each"
        yield Figure(f"CPU per candidate, {MANY} to {FEW}", ratio, 1.2, "times", note=note)
        note = f"one sync takes {latency_ms:.2f} ms (median of {SYNCS})"
        what = f"apply of {MANY} candidates of {FILES} files"
        yield Figure(what, many.wall_s, 600.0, "s", note=note)
        waits = loader_waits_ms(folder / "loaded")
        p99 = statistics.quantiles(waits, n=100)[98]
        note = f"{len(waits)} leases, longest {max(waits):.1f} ms"
        what = f"a loader's wait during an apply of {LOADED}, 99th percentile"
        yield Figure(what, p99, 100.0, "ms", note=note)
        yield Figure(f"memory of deleting {HUGE} files", huge_mb(folder / "huge"), 30.0, "MB")


def grown(folder: Path, candidates: int, files: int) -> World:
    """A cache with many candidates, made without syncs."""
    made = world(folder, 0)
    release_id, released = release_files(DAGS)
    for number in range(candidates):
        deployment_id, contents = deployment_files("dev", release_id, released, str(number), 0)
        place = made.root / "deployments" / "dev" / folder_name(deployment_id)
        place.mkdir()
        for name, data in contents.items():
            (place / name).write_bytes(data)
        for more in range(files - len(contents)):
            (place / f"f{more}").touch()
    os.sync()
    return made


def applied(folder: Path, candidates: int) -> Cost:
    """Delete that many candidates of twenty files each."""
    made = grown(folder, candidates, FILES)
    plan = made.plan().sha256
    wall, cpu = time.perf_counter(), time.process_time()
    ended = made.apply(plan)
    cost = Cost(time.perf_counter() - wall, time.process_time() - cpu)
    if ended.code != "committed":
        raise RuntimeError(f"the apply answered {ended.code}")
    return cost


def sync_ms(folder: Path) -> float:
    """How long appending a few bytes and syncing takes here."""
    taken = []
    with (folder / "synced").open("ab", buffering=0) as file:
        for _ in range(SYNCS):
            start = time.perf_counter()
            file.write(b"x" * 200)
            os.fsync(file.fileno())
            taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken)


def loader_waits_ms(folder: Path) -> list[float]:
    """What a loader in another process waited for its shared lease, again and again."""
    made = grown(folder, LOADED, FILES)
    plan = made.plan().sha256
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _load(made, write)
    os.close(write)
    try:
        if made.apply(plan).code != "committed":
            raise RuntimeError("the apply was not committed")
    finally:
        os.kill(pid, signal.SIGTERM)
        with os.fdopen(read) as pipe:
            text = pipe.read()
        os.waitpid(pid, 0)
    return [float(word) for word in text.split()]


def _load(made: World, write: int) -> None:
    waits: list[float] = []
    signal.signal(signal.SIGTERM, lambda *_: _tell(waits, write))
    with (made.root / ".promotion.lock").open("a") as file:
        while True:
            start = time.perf_counter()
            fcntl.flock(file, fcntl.LOCK_SH)
            waits.append((time.perf_counter() - start) * 1000)
            time.sleep(0.002)
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(0.02)


def _tell(waits: list[float], write: int) -> None:
    os.write(write, " ".join(f"{it:.3f}" for it in waits).encode())
    os._exit(0)


def huge_mb(folder: Path) -> float:
    """What the resident size of a process grows by while it deletes one huge candidate."""
    made = grown(folder, 1, HUGE)
    code = (
        "import sys; from pathlib import Path; from bench.deletions import grow_mb;"
        " print(grow_mb(Path(sys.argv[1]), Path(sys.argv[2])))"
    )
    repository = str(Path(__file__).resolve().parent.parent)
    said = subprocess.run(
        [sys.executable, "-c", code, str(made.root), str(made.ack)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": repository},
    )
    return float(said.stdout)


def grow_mb(root: Path, ack: Path) -> float:
    """In the process that deletes: the highest resident size above the one at the start."""
    wiring.open_cache(root)
    made = World(root, ack, (), "")
    before = _status_kb("VmRSS")
    if made.apply(made.plan().sha256).code != "committed":
        raise RuntimeError("the apply was not committed")
    return (_status_kb("VmHWM") - before) / 1024


def _status_kb(field: str) -> int:
    """A size of this very process; the peak that `getrusage` tells is inherited by a program."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


if __name__ == "__main__":
    for figure in deletion_figures():
        print(figure.line(), flush=True)
