"""Ends every process of an Airflow instance, however the one that started it ended.

Airflow's workers and tasks are children of children, some of them stand still on purpose, and all
overwrite their environment with a title. What they keep is the session of the program that was
started and the folder that it was started in, so by these they are found without any message.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

import psutil

SESSIONS = "sessions"
ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 500


def family(folder: Path) -> list[psutil.Process]:
    """The living processes of the instance in a folder."""
    sessions = _sessions(folder)
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            if os.getsid(process.pid) in sessions or Path(process.cwd()) == folder:
                found.append(process)
    return found


def _sessions(folder: Path) -> set[int]:
    with contextlib.suppress(FileNotFoundError):
        return {int(line) for line in (folder / SESSIONS).read_text().split()}
    return set()


def writing(folder: Path, paths: Collection[Path]) -> set[int]:
    """The living processes of an instance that have one of these files open."""
    wanted, found = set(map(str, paths)), set()
    for process in family(folder):
        with contextlib.suppress(psutil.Error, OSError):
            if wanted & {opened.path for opened in process.open_files()}:
                found.add(process.pid)
    return found


def end(folder: Path) -> int:
    """Kill the processes of an instance until there are none; how many there were."""
    killed: set[int] = set()
    for _ in range(ROUNDS):
        living = family(folder)
        if not living:
            break
        for process in living:
            killed.add(process.pid)
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(0.02)
    return len(killed)


def guard(parent_pid: int, folder: str) -> None:
    """Wait for the death of the parent process, then end the instance and remove its folder."""
    while os.getppid() == parent_pid:
        time.sleep(0.2)
    end(Path(folder))
    shutil.rmtree(folder, ignore_errors=True)


def watch(folder: Path) -> subprocess.Popen[bytes]:
    """Start a guard in a session of its own; whoever ends the instance in order kills it."""
    call = f"faultinject.airflow.guarding.guard({os.getpid()}, {str(folder)!r})"
    path = os.pathsep.join([str(ROOT), *(str(Path(entry).resolve()) for entry in sys.path)])
    return subprocess.Popen(
        [sys.executable, "-c", f"import faultinject.airflow.guarding; {call}"],
        cwd="/",
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
