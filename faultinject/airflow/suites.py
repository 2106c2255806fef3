"""The tests that run beside an Airflow: on the installed wheel, never on the checkout's sources.

The tests and their judges are copied to a folder without the library, so whatever `import dpone`
finds is what was installed; a plugin of the test run states that it was.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    "tests",
    "faultinject",
    "models",
    "certification",
    "tools",
    "airflow_tests",
    "docs",
    "bench",
)
FILES = ("pyproject.toml", "README.md", "CHANGELOG.md")
SUITE_S = 900.0
# The plugin states where the library is from. Another one comes with Airflow and is no part of the
# tests; it uses names that pytest means to drop, a warning that our settings make an error.
PLUGINS = ("-p", "faultinject.airflow.installed", "-p", "no:anyio")


class Ended(NamedTuple):
    """How a suite ended."""

    passed: int
    skipped: tuple[str, ...]
    faults: tuple[str, ...]


@contextmanager
def without_library() -> Iterator[Path]:
    """A copy of everything but the library, in a folder that is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="dpone-beside-"))
    try:
        for name in COPIED:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        for name in FILES:
            shutil.copy(ROOT / name, folder / name)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(python: Path, paths: Sequence[str], *options: str) -> Ended:
    """Run tests with an environment's Python; what failed, and what was skipped and why."""
    with without_library() as folder:
        report = folder / "report.xml"
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *PLUGINS]
        command += [*options, f"--junitxml={report}", *paths]
        try:
            done = _ended(command, folder)
        except subprocess.TimeoutExpired:
            return Ended(0, (), (f"the tests took more than {SUITE_S:g} s",))
        if not report.exists():
            return Ended(0, (), (f"pytest wrote no report: {(done.stdout + done.stderr)[-2000:]}",))
        return _read(report, done.returncode, done.stdout)


def parse(python: Path) -> list[dict[str, Any]]:
    """What a DAG file pays for the import, as figures with their bounds. Raises RuntimeError."""
    with without_library() as folder:
        done = _ended([str(python), "-m", "bench.airflow_parse", "--json"], folder)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(f"no figures: {(done.stdout + done.stderr)[-2000:]}") from None
    return [dict(figure) for figure in found]


def _ended(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A command run to its end in a folder. Raises subprocess.TimeoutExpired."""
    # Only what a program needs: nothing may lead Python to the checkout.
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG") if name in os.environ}
    return subprocess.run(
        command,
        cwd=folder,
        env={**kept, "PYTHONPATH": str(folder), "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SUITE_S,
        check=False,
    )


def _read(report: Path, code: int, said: str) -> Ended:
    passed, skipped, faults = 0, [], []
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        if (skip := case.find("skipped")) is not None:
            skipped.append(f"{name}: {skip.get('message')}")
        elif case.find("failure") is not None or case.find("error") is not None:
            faults.append(name)
        else:
            passed += 1
    if code != 0 and not faults:
        faults.append(f"pytest ended with {code}: {said[-1500:]}")
    if not passed:
        faults.append("no test has passed")
    return Ended(passed, tuple(skipped), tuple(faults))
