"""Make an environment with one version of Airflow and the library's wheel, or find it ready.

    python -m tools.airflow_env 3.3.2 3.11      prints the path of the environment's Python

Promises: the environment holds what the lock of that Airflow version names, each file checked
against its digest, and the wheel built from this checkout, not a link to it; a call that was
killed half-way is repaired by the next one; whoever uses an environment through `held` does so
undisturbed by calls that would change it. It lies outside the tree, so a clone stays small.

Does not promise: that the interpreter exists. `Absent` says which one is missing.

Linearization point: the replacement of the stamp file by one that carries the digests.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.setup_env import (
    LOCK,
    ROOT,
    Refused,
    digest,
    empty,
    read_stamp,
    refuse_foreign,
    run,
    say,
    write_stamp,
)

LOCKS = ROOT / "faultinject" / "airflow" / "locks"
PYTHONS = ("3.11", "3.12")
PROBE_S = 20
WHEEL_SOURCES = ("pyproject.toml", "README.md", "LICENSE")


class Absent(Exception):
    """There is no such interpreter or lock here; the message says which."""


def versions() -> list[str]:
    """The Airflow versions that have a lock, oldest first."""
    names = [path.name for path in LOCKS.glob("airflow-*.lock")]
    found = [name.removeprefix("airflow-").removesuffix(".lock") for name in names]
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")])


def lock_of(version: str) -> Path:
    """The lock file of an Airflow version."""
    path = LOCKS / f"airflow-{version}.lock"
    if not path.is_file():
        raise Absent(f"there is no lock for Airflow {version}; there are {', '.join(versions())}")
    return path


def interpreter(version: str) -> str:
    """The path of a Python of this minor version that can make environments with pip."""
    for candidate in _candidates(version):
        if _suits(candidate, version):
            return candidate
    raise Absent(f"no Python {version} with the venv and ensurepip modules was found")


def _candidates(version: str) -> Iterator[str]:
    yield getattr(sys, "_base_executable", None) or sys.executable
    name = f"python{version}"
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(folder) / name
        if folder and path.is_file():
            yield str(path)
    # Version managers keep interpreters that are on the path only when they are chosen.
    for base in (os.environ.get("PYENV_ROOT"), str(Path.home() / ".pyenv")):
        if base:
            yield from map(str, sorted(Path(base).glob(f"versions/{version}.*/bin/{name}")))


def _suits(python: str, version: str) -> bool:
    wanted = tuple(int(part) for part in version.split("."))
    check = f"import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != {wanted!r})"
    try:
        asked = subprocess.run(
            [python, "-c", check], capture_output=True, timeout=PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


def cache() -> Path:
    """Where environments are kept: DPONE_CACHE, else the user's cache folder."""
    asked = os.environ.get("DPONE_CACHE")
    if asked:
        return (ROOT / asked / "airflow").resolve()
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "dpone" / "airflow"


def folder_of(version: str, python: str) -> Path:
    """The folder of an environment; another lock is another folder."""
    return cache() / f"{version}-py{python}-{digest(lock_of(version).read_bytes())[:12]}"


def sources_digest() -> str:
    """The digest of everything that goes into the wheel."""
    files = [ROOT / name for name in WHEEL_SOURCES]
    files += sorted(
        path
        for path in (ROOT / "dpone").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    parts: list[bytes] = []
    for path in files:
        parts += [path.relative_to(ROOT).as_posix().encode(), path.read_bytes()]
    return digest(*parts)


@contextmanager
def held(version: str, python: str) -> Iterator[Path]:
    """Yield the Python of a ready environment that nobody changes until the block ends."""
    folder = folder_of(version, python)
    refuse_foreign(folder)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = _wanted(folder, version)
    with open(folder / LOCK, "a") as lock:
        while True:
            fcntl.flock(lock, fcntl.LOCK_SH)
            if read_stamp(folder) == wanted and _python(folder).exists():
                break
            # Others may come between the two locks, so everything is looked at again.
            fcntl.flock(lock, fcntl.LOCK_UN)
            fcntl.flock(lock, fcntl.LOCK_EX)
            wanted = _wanted(folder, version)
            while read_stamp(folder) != wanted or not _python(folder).exists():
                _build(folder, version, python, wanted, lock.fileno())
                # Of sources that changed while they were built, nobody knows what is in the wheel.
                if wanted == (now := _wanted(folder, version)):
                    write_stamp(folder, wanted)
                wanted = now
            fcntl.flock(lock, fcntl.LOCK_UN)
        yield _python(folder)


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _wanted(folder: Path, version: str) -> dict[str, str]:
    return {
        # Environments hold absolute paths, so a copied or moved one is not ready.
        "folder": digest(str(folder).encode()),
        "lock": digest(lock_of(version).read_bytes()),
        "project": sources_digest(),
    }


def _build(folder: Path, version: str, python: str, wanted: dict[str, str], lock_fd: int) -> None:
    """Bring the environment to what is wanted, doing no more than is needed; the caller stamps."""
    inside = str(_python(folder))
    pip = [inside, "-m", "pip", "-qq", "--no-input", "--disable-pip-version-check"]
    stamp = read_stamp(folder)
    kept = {key: wanted[key] for key in ("folder", "lock")}
    if not _python(folder).exists() or any(stamp.get(key) != kept[key] for key in kept):
        base = interpreter(python)
        say(f"Setting up Airflow {version} for Python {python} (once; this downloads packages).")
        # From here until the next stamp the folder counts as half-made.
        write_stamp(folder, {"state": "building"})
        empty(folder)
        run([base, "-m", "venv", str(folder)], lock_fd, "Making the environment")
        # The lock is complete; pip's own resolver would stumble over extras without a digest.
        locked = ["install", "--no-deps", "--require-hashes", "-r", str(lock_of(version))]
        run([*pip, *locked], lock_fd, "Installing the locked packages")
    # The wheel is replaced below; whoever finds only this stamp replaces it again.
    write_stamp(folder, kept)
    side = Path(tempfile.mkdtemp(prefix="dpone-wheel-"))
    try:
        command = [inside, "-m", "hatchling", "build", "-t", "wheel", "-d", str(side)]
        run(command, lock_fd, "Building the wheel")
        wheel = str(next(side.glob("*.whl")))
        options = ["install", "--no-deps", "--no-index", "--force-reinstall"]
        run([*pip, *options, wheel], lock_fd, "Installing the wheel")
    finally:
        shutil.rmtree(side)


def main() -> int:
    """Make one environment and say where its Python is."""
    parser = argparse.ArgumentParser(prog="python -m tools.airflow_env", description=__doc__)
    parser.add_argument("airflow", choices=versions())
    parser.add_argument("python", choices=PYTHONS)
    given = parser.parse_args()
    try:
        with held(given.airflow, given.python) as python:
            print(python)
    except (Absent, Refused) as refused:
        say(f"set-up: {refused}")
        return 1
    except KeyboardInterrupt:
        say("set-up: interrupted; the next call starts the unfinished step again.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
