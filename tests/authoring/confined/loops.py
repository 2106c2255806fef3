"""Repeated changes of a file that an editor process saves all the time."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from dpone.adapters.posix.files import PosixFiles
from dpone.authoring.confined import ConfinedFiles
from dpone.contracts.authoring import sha256_of
from dpone.contracts.errors_authoring import (
    AuthoringError,
    RecoveryRequired,
    SourceChanged,
    SourceMissing,
)

ROOT = Path(__file__).resolve().parents[3]
FILE = "f.yaml"
ORDINARY = (SourceChanged, SourceMissing, RecoveryRequired)


@dataclass
class Seen:
    """What the rounds answered, and the names that receipts told."""

    answers: Counter[str] = field(default_factory=Counter)
    told: set[str] = field(default_factory=set)


def against_an_editor(root: Path, style: str, rounds: int, *, pause_s: float = 0.002) -> Seen:
    """Change the file again and again while an editor saves it; then let both end."""
    (root / FILE).write_bytes(b"# 0\n")
    arguments = [str(root / FILE), style, str(rounds), str(pause_s)]
    seen = Seen()
    with subprocess.Popen(
        [sys.executable, "-m", "faultinject.editing_process", *arguments], cwd=ROOT
    ) as editor:
        number = 0
        while editor.poll() is None or number < rounds:
            number += 1
            change(root, number, seen)
        assert editor.returncode == 0
    # The last one finds a quiet file.
    change(root, number + 1, seen)
    return seen


def change(root: Path, number: int, seen: Seen) -> None:
    """Give the first line another number, keeping the rest as it was read."""
    try:
        before = (root / FILE).read_bytes()
    except FileNotFoundError:
        seen.answers["absent"] += 1
        return
    body = before.partition(b"\n")[2]
    desired = b"# %d\n" % number + body
    try:
        outcome = ConfinedFiles(PosixFiles(root)).replace_file_if_digest(
            FILE, expected_sha256=sha256_of(before), desired=desired
        )
    except ORDINARY as error:
        seen.answers[error.code] += 1
        seen.told |= {str(error.fields.get("recovery_name"))}
        return
    except AuthoringError as error:
        raise AssertionError(f"round {number}: {error}") from error
    seen.answers[f"{outcome.status.value} {outcome.reason}"] += 1
    if outcome.recovery_name is not None:
        seen.told.add(outcome.recovery_name)


def tokens(root: Path) -> set[int]:
    """Every token that can be read under some name."""
    found: set[int] = set()
    for path in filter(Path.is_file, root.iterdir()):
        found |= {int(token) for token in re.findall(rb"(\d+);", path.read_bytes())}
    return found


def leftovers(root: Path, seen: Seen) -> set[str]:
    """Names of ours that no receipt told."""
    return {path.name for path in root.iterdir() if ".dpone-" in path.name} - seen.told
