"""Where a run took place, in words that name no person and no folder."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def git(*arguments: str) -> str:
    """What git says, or nothing."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def commit() -> dict[str, Any]:
    """The commit that is tested, and whether the tree differs from it."""
    head = git("rev-parse", "HEAD")
    return {"commit": head or "none", "dirty": not head or bool(git("status", "--porcelain"))}


def environment(work: Path) -> dict[str, Any]:
    """Python, packages, kernel, and the file system of the work folder with its options."""
    packages = {
        (found.metadata["Name"] or "").lower(): found.version
        for found in importlib.metadata.distributions()
    }
    kind, options = mount(work)
    return {
        "python": sys.version.split()[0],
        "implementation": platform.python_implementation(),
        "platform": platform_name(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "packages": dict(sorted(packages.items())),
        "filesystem": kind,
        "mount_options": options,
    }


def platform_name() -> str:
    """System, machine and C library."""
    return "-".join((platform.system(), platform.machine(), *platform.libc_ver())).lower()


def mount(path: Path) -> tuple[str, list[str]]:
    """Type and options of the file system on which a folder lies."""
    best, found = "", ("unknown", "")
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, options, *_ = line.split(" ")
        inside = f"{path.resolve()}/".startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, found = point, (kind, options)
    # An overlay names folders in its options.
    return found[0], sorted(option for option in found[1].split(",") if "/" not in option)


def versions(server_version: str) -> dict[str, str]:
    """The versions of the engines behind the connectors."""
    return {
        "sqlite": sqlite3.sqlite_version,
        "duckdb": importlib.metadata.version("duckdb"),
        "postgres": server_version,
    }
