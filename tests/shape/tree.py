"""Where the rules look: the files of this project, found anew in every run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PRODUCTION = ("dpone",)
JUDGES = ("models", "faultinject", "certification")
ALL_PYTHON = (*PRODUCTION, *JUDGES, "tests", "airflow_tests", "bench", "demo", "tools")

FILE_BYTES_MAX = 4 * 1024 * 1024


def name_of(path: Path) -> str:
    """Return a path as people write it: relative to the project."""
    return path.relative_to(ROOT).as_posix()


def python_files(*folders: str) -> Iterator[Path]:
    """Yield the Python files below some top-level folders, in a fixed order."""
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def source(path: Path) -> str:
    """Return a file's text."""
    return path.read_text(encoding="utf-8")


def kept_files() -> list[Path]:
    """Return the files that git keeps or would keep; what it ignores is nobody's text.

    Outside a clone, in an unpacked archive, every file counts but those of environments,
    caches and built code.
    """
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:
        paths = [path for path in ROOT.rglob("*") if not _is_made(path)]
    return sorted({path for path in paths if path.is_file() and not path.is_symlink()})


def _is_made(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return "__pycache__" in parts or (parts[0].startswith(".") and parts[0] not in (".ci",))
