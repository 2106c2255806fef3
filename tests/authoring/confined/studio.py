"""One file under compare-and-replace, with whatever probe, and the questions to ask afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpone.adapters.posix.files import PosixFiles
from dpone.authoring.confined import ConfinedFiles
from dpone.contracts.authoring import ConfinedReplaceOutcome, OwnedFile, sha256_of
from dpone.contracts.effects import Effect
from dpone.contracts.transaction import Phase, Transaction, encode, recovery_name, side_name
from dpone.ports.probe import Probe, quiet
from faultinject.writing import NEW, OLD, owned
from tests.loading.project import Said

CATALOG = "dpone_workloads/gitops/domains/sales.yaml"
NONCE = "0123456789abcdef" * 2
JOURNAL = ".f.yaml.dpone-transaction.json"


class Single:
    """The folder of `f.yaml`."""

    def __init__(self, root: Path, data: bytes = OLD) -> None:
        self.root = root
        self.path = root / "f.yaml"
        self.path.write_bytes(data)

    def confined(self, probe: Probe = quiet) -> ConfinedFiles:
        """The changes of this folder."""
        return ConfinedFiles(PosixFiles(self.root), probe=probe)

    def replace(
        self, data: bytes = NEW, *, expected: bytes = OLD, probe: Probe = quiet
    ) -> ConfinedReplaceOutcome:
        """Replace the file."""
        return self.confined(probe).replace_file_if_digest(
            "f.yaml", expected_sha256=sha256_of(expected), desired=data
        )

    def owned(self) -> OwnedFile:
        """The receipt of the file as it is."""
        return OwnedFile(**owned(self.root, "f.yaml"))

    @property
    def names(self) -> set[str]:
        """Everything in the folder."""
        return set(os.listdir(self.root))  # noqa: PTH208 - names, links too

    @property
    def shown(self) -> bytes:
        """What the file shows."""
        return self.path.read_bytes()

    def journal(self, phase: Phase, side: bytes | None = None, **fields: str) -> Path:
        """Leave a journal of version 2, and a side file, as a dead run would have."""
        if side is not None:
            (self.root / side_name(NONCE)).write_bytes(side)
        given = {
            "target_name": "f.yaml",
            "exchange_name": side_name(NONCE),
            "recovery_name": recovery_name(NONCE),
            "expected_sha256": sha256_of(OLD),
            "desired_sha256": sha256_of(NEW),
            "expected_identity": self.identity("f.yaml"),
            "desired_identity": self.identity(side_name(NONCE)),
            "nonce": NONCE,
            "schema": "dpone.confined-file-transaction",
            **fields,
        }
        path = self.root / JOURNAL
        path.write_bytes(encode(Transaction(phase=int(phase), version=2, **given)))
        return path

    def identity(self, leaf: str) -> str:
        """The identity of what bears a name; zeros for nothing."""
        with PosixFiles(self.root).folder("") as folder:
            look = folder.look(leaf)
        return look.identity if look is not None else f"{0:016x}.{0:016x}"


def codes(said: Said) -> list[str]:
    """The codes of all errors in a report, or of the error that stands for one."""
    report = said.report
    return [report["code"]] if "code" in report else [e["code"] for e in report["errors"]]


class Watching:
    """Passes every effect on, and notes the moments at which a path was absent."""

    def __init__(self, inner: Probe, path: Path) -> None:
        self.inner = inner
        self.path = path
        self.absent: list[str] = []

    @contextmanager
    def __call__(self, effect: Effect, /) -> Iterator[None]:
        with self.inner(effect):
            yield
        if not os.path.lexists(self.path):
            self.absent.append(effect.value)


class At:
    """Calls something once, before or after the first (or n-th) time of an effect."""

    def __init__(self, point: str, act: object, number: int = 1) -> None:
        self.effect, _, self.side = point.partition(":")
        self.act = act
        self.left = number

    @contextmanager
    def __call__(self, effect: Effect, /) -> Iterator[None]:
        is_it = effect.value == self.effect
        self.left -= is_it
        is_now = is_it and self.left == 0
        if is_now and self.side == "before":
            self.act()  # type: ignore[operator]
        yield
        if is_now and self.side == "after":
            self.act()  # type: ignore[operator]
