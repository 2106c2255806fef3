"""Make the project's own Python environment, or find it ready.

Promises: the environment holds exactly what the lock file names, each file checked
against its digest, and the project itself as an editable install; a call that was
killed half-way is repaired by the next one; two calls at once wait for each other;
a folder that this program did not make is never emptied.

Does not promise: a working environment after somebody installed into it by hand.

Linearization point: the replacement of the stamp file by one that carries the digests.

Standard library only. The syntax stays readable to Python 3.7, so that an old
interpreter can still hand over to a newer one or say plainly that there is none.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
CANDIDATES = ("python3.13", "python3.12", "python3.11", "python3.14", "python3", "python")
PROBE_S = 20

# Every file of ours in the environment starts with this prefix. It marks the folder
# as one that may be emptied.
MARK = ".dpone-env"
STAMP = MARK + ".json"
LOCK = MARK + ".lock"


class Refused(Exception):
    """Set-up cannot go on; the message is one sentence for the person who asked."""


def digest(*parts: bytes) -> str:
    """Join parts so that no two lists of parts share a digest."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "big"))
        total.update(part)
    return total.hexdigest()


def is_suitable(python: str) -> bool:
    """Say whether an interpreter is new enough and can make environments with pip."""
    check = f"import sys, venv, ensurepip; sys.exit(sys.version_info < {OLDEST!r})"
    try:
        found = subprocess.run(
            [python, "-c", check],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0


def find_python() -> str:
    """Prefer the interpreter that runs this file, then newer names on the path."""
    asked = os.environ.get("DPONE_PYTHON")
    if asked:
        if is_suitable(asked):
            return asked
        raise Refused(
            "DPONE_PYTHON names an interpreter that is not Python 3.11 or newer with venv and pip."
        )
    # Inside an environment, sys.executable would make a chain of environments.
    base = getattr(sys, "_base_executable", None) or sys.executable
    for name in (base, *CANDIDATES):
        if is_suitable(name):
            return name
    raise Refused(
        "No Python 3.11 or newer with the venv and ensurepip modules was found; install one "
        "(on Debian: python3 and python3-venv) or name it in DPONE_PYTHON."
    )


def read_stamp(folder: Path) -> dict[str, str]:
    """Return the stamp's fields, or nothing when it is absent or torn."""
    try:
        fields = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(fields, dict):
        return {}
    return {str(key): str(value) for key, value in fields.items()}


def write_stamp(folder: Path, fields: dict[str, str]) -> None:
    """Replace the stamp in one step."""
    side = folder / (STAMP + ".new")
    side.write_text(json.dumps(fields, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    side.replace(folder / STAMP)


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder with contents that this program did not put there."""
    if not folder.exists():
        return
    if not folder.is_dir() or folder.is_symlink():
        raise Refused(f"{folder.name} is not a plain folder; remove it or set DPONE_VENV.")
    names = [entry.name for entry in folder.iterdir()]
    if names and not any(name.startswith(MARK) for name in names):
        raise Refused(
            f"The folder {folder.name} exists and was not made by this set-up; remove it or set "
            "DPONE_VENV to another folder."
        )


def empty(folder: Path) -> None:
    """Remove everything but our own marks, so that a kill half-way leaves it ours."""
    for entry in list(folder.iterdir()):
        if entry.name.startswith(MARK):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(str(entry))
        else:
            entry.unlink()


def run(arguments: list[str], lock_fd: int, what: str) -> None:
    """Run one step; its words go to stderr.

    The child inherits the lock: if this program is killed while pip still writes, the
    next call waits for pip to end before it repairs anything.
    """
    environment = dict(os.environ)
    environment.pop("PYTHONHOME", None)
    environment.pop("PYTHONPATH", None)
    environment["PIP_REQUIRE_VIRTUALENV"] = "1"
    ended = subprocess.run(
        arguments,
        cwd=str(ROOT),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        pass_fds=(lock_fd,),
        check=False,
    )
    if ended.returncode != 0:
        raise Refused(
            f"{what} failed (exit {ended.returncode}); its own words stand above. The next call "
            "starts this step again."
        )


def build(folder: Path, lock_file: Path, wanted: dict[str, str], lock_fd: int) -> None:
    """Bring the environment to the wanted stamp, doing no more than is needed."""
    bin_python = folder / "bin" / "python"
    pip = [str(bin_python), "-m", "pip", "-qq", "--no-input", "--disable-pip-version-check"]
    stamp = read_stamp(folder)
    packages_ready = bin_python.exists() and all(
        stamp.get(key) == wanted[key] for key in ("folder", "lock")
    )
    if not packages_ready:
        python = find_python()
        say(f"Setting up {folder.name} (once; this downloads packages).")
        # From here until the next stamp the folder counts as half-made.
        write_stamp(folder, {"state": "building"})
        empty(folder)
        run([python, "-m", "venv", str(folder)], lock_fd, "Making the environment")
        run(
            [*pip, "install", "--require-hashes", "-r", str(lock_file)],
            lock_fd,
            "Installing the locked packages",
        )
        write_stamp(folder, {key: wanted[key] for key in ("folder", "lock")})
    run(
        [*pip, "install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)],
        lock_fd,
        "Installing the project itself",
    )
    write_stamp(folder, wanted)


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def set_up(folder: Path, lock_file: Path) -> None:
    """Return when the environment is ready; raise Refused with a sentence otherwise."""
    wanted = {
        # Environments hold absolute paths, so a copied or moved one is not ready.
        "folder": digest(str(folder).encode()),
        "lock": digest(lock_file.read_bytes()),
        "project": digest((ROOT / "pyproject.toml").read_bytes()),
    }
    bin_python = folder / "bin" / "python"
    if read_stamp(folder) == wanted and bin_python.exists():
        return
    refuse_foreign(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with open(str(folder / LOCK), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another call may have finished the work while this one waited.
        if read_stamp(folder) != wanted or not bin_python.exists():
            build(folder, lock_file, wanted, lock.fileno())
            say(f"{folder.name} is ready.")


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the project's own Python environment.")
    parser.add_argument("--lock", default="requirements.lock", help="the lock file to install")
    parser.add_argument(
        "--venv",
        default=os.environ.get("DPONE_VENV") or ".venv",
        help="the folder to make (default: DPONE_VENV, else .venv)",
    )
    arguments = parser.parse_args()
    try:
        # A relative name means a folder of the project, whatever the working directory.
        set_up(ROOT / arguments.venv, ROOT / arguments.lock)
    except Refused as refused:
        say(f"set-up: {refused}")
        return 1
    except KeyboardInterrupt:
        say("set-up: interrupted; the next call starts the unfinished step again.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
