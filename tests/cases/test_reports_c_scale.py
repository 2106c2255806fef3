"""Public reports of deletions that went wrong by size: deep trees, many files, long locks."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

from faultinject.deletion_files import WatchedCache
from faultinject.deletion_worlds import World, fill, world

DEPTH = 5_000
WAIT_MAX_S = 0.5


def test_c21_five_thousand_nested_directories_are_deleted_with_few_open_files(
    tmp_path: Path,
) -> None:
    made = world(tmp_path)
    descriptor = os.open(made.deployment(made.candidates[0]), os.O_RDONLY)
    name = "n" * 200
    for _ in range(DEPTH):
        os.mkdir(name, dir_fd=descriptor)
        below = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)
    plan = made.plan().sha256
    most = 0
    at = 0

    def watch(call: str, path: str) -> None:
        nonlocal most, at
        if call in ("descend", "rmdir"):
            at += 1
            if at % 500 == 0:
                most = max(most, _open_files())

    before = _open_files()
    ended = made.apply(plan, files=WatchedCache(made.root, watch))
    assert (ended.code, made.trashed()) == ("committed", [])
    assert at >= 2 * DEPTH
    assert most - before <= 20


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_c29_a_loader_waits_for_the_detach_only_however_long_the_deletion_takes(
    tmp_path: Path,
) -> None:
    made = world(tmp_path, 2)
    for deployment_id in made.candidates:
        fill(made.deployment(deployment_id), 20)
    plan = made.plan().sha256

    def slow(call: str, path: str) -> None:
        if call == "unlink":
            time.sleep(0.05)

    waits: list[float] = []
    ended = threading.Event()
    loader = threading.Thread(target=_load, args=(made, waits, ended))
    loader.start()
    started = time.monotonic()
    try:
        assert made.apply(plan, files=WatchedCache(made.root, slow)).code == "committed"
    finally:
        took = time.monotonic() - started
        ended.set()
        loader.join()
    assert took > 2
    assert len(waits) > 20
    assert max(waits) < WAIT_MAX_S


def _load(made: World, waits: list[float], ended: threading.Event) -> None:
    """What a loader does: hold its shared lease for a moment, again and again."""
    with (made.root / ".promotion.lock").open("a") as file:
        while not ended.is_set():
            start = time.monotonic()
            fcntl.flock(file, fcntl.LOCK_SH)
            waits.append(time.monotonic() - start)
            time.sleep(0.005)
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(0.005)


def _peak(folder: Path, files: int) -> int:
    """The highest size of what an apply allocates, for a candidate with so many files."""
    made = world(folder, 1)
    fill(made.deployment(made.candidates[0]), files, each=100_000)
    plan = made.plan().sha256
    tracemalloc.start()
    try:
        assert made.apply(plan).code == "committed"
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_c30_memory_does_not_grow_with_the_files_of_a_candidate(tmp_path: Path) -> None:
    _peak(tmp_path / "warm", 10)
    few, many = _peak(tmp_path / "few", 10), _peak(tmp_path / "many", 3_000)
    assert many - few < 100_000


def test_c30_ended_by_a_signal_half_way_it_is_resumed(tmp_path: Path) -> None:
    made = world(tmp_path)
    fill(made.deployment(made.candidates[0]), 3_000)
    plan = made.plan().sha256
    code = (
        "import os, signal, sys; from pathlib import Path;"
        "from faultinject.deletion_files import WatchedCache, acting_at;"
        "from faultinject.deletion_worlds import World;"
        "made = World(Path(sys.argv[1]), Path(sys.argv[2]), (), '');"
        "act = lambda: os.kill(os.getpid(), signal.SIGTERM);"
        "made.apply(sys.argv[3],"
        " files=WatchedCache(made.root, acting_at('unlink', act, count=1500)))"
    )
    repository = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code, str(made.root), str(made.ack), plan],
        env={**os.environ, "PYTHONPATH": repository},
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGTERM, done.stderr
    (half,) = made.trash.iterdir()
    assert 0 < sum(path.is_file() for path in half.rglob("*")) < 3_000
    assert made.apply(plan).code == "committed"
    assert (made.trashed(), made.there()) == ([], [])
