"""The bundle of evidence: what a run saw, in files whose digests its manifest holds.

Everything outside `timing/` follows from commit and seed and is the same bit for bit in a second
run; dates, process ids, durations and exit codes of intermediate runs lie under `timing/`, with a
manifest of their own. The bundle is not signed: print and keep the digest of `manifest.json`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
TIMING = "timing"
PASSED = "passed"
FAILED = "failed"
ERROR = "error"
INCONCLUSIVE = "inconclusive"
UNVERIFIED = "unverified"
OUTCOMES = (PASSED, FAILED, ERROR, INCONCLUSIVE, UNVERIFIED)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judgement: `key` names what was judged, `invariant` the sentence that it is about."""

    key: str
    engine: str
    invariant: str
    outcome: str
    detail: str = ""

    def record(self) -> dict[str, Any]:
        """The verdict as plain JSON values."""
        return asdict(self)


class Bundle:
    """Writes one run. The folder is made anew; only a bundle may lie in its place."""

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not (folder / MANIFEST).exists() and any(folder.iterdir()):
            raise ValueError(f"{folder.name} is no bundle and is not replaced")
        shutil.rmtree(folder, ignore_errors=True)
        (folder / TIMING).mkdir(parents=True)
        self.folder = folder

    def write(self, name: str, value: Any) -> None:
        """One JSON document."""
        self.text(name, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")

    def lines(self, name: str, records: Iterable[Mapping[str, Any]]) -> None:
        """One JSON object a line, in the given order."""
        rows = [json.dumps(record, sort_keys=True, ensure_ascii=False) for record in records]
        self.text(name, "".join(row + "\n" for row in rows))

    def text(self, name: str, text: str) -> None:
        """One file of text."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def seal(self, about: Mapping[str, Any]) -> str:
        """Write both manifests; return the digest of the one that counts."""
        self.write(f"{TIMING}/{MANIFEST}", {"files": digests(self.folder, timing=True)})
        self.write(MANIFEST, {**about, "files": digests(self.folder, timing=False)})
        return digest_of(self.folder / MANIFEST)


def digests(folder: Path, *, timing: bool) -> dict[str, str]:
    """The SHA-256 of every file, of the timing part or of the rest, manifests left out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and path.name != MANIFEST and name.startswith(TIMING + "/") == timing:
            found[name] = digest_of(path)
    return found


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
