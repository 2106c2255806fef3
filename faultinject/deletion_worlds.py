"""Throw-away caches for reviewed deletions, made without the command line, and what became of them.

One world: a cache with candidates and one current deployment, the loader's acknowledgement beside
it, and the desk that plans, applies and tells. Times are fixed; ids follow from what is made.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock
from uuid import UUID

from dpone import wiring
from dpone.adapters.posix.cachefiles import PosixCache
from dpone.contracts.errors import DponeError
from dpone.contracts.retention_apply import report_of_receipt
from dpone.contracts.retention_log import Replayed
from dpone.contracts.retention_plan import RetentionPlan
from dpone.contracts.retention_receipt import Receipt, decode_receipt, receipt_name
from dpone.ports.probe import Probe, quiet
from dpone.retention.cache import Document, read_recovery
from dpone.retention.desk import RetentionDesk
from dpone.retention.locks import Locks
from dpone.retention.materialize import Materializer, Preview
from dpone.retention.plan import Planned, Planner
from dpone.retention.request import Request

ENVIRONMENT = "dev"
DAGS = ("DAG__a",)
REVIEW = "0f8fad5b-d9cb-469f-a165-70867728950e"
OTHER_REVIEW = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
NOW = "2026-08-03T00:00:00+00:00"
_NUMBERS = count(1)


class Ended(NamedTuple):
    """How an apply ended: its exit code, its code or `committed` or `nothing`, its receipt."""

    exit_code: int
    code: str
    receipt: Receipt | None = None
    replayed: bool = False
    stuck: int = 0
    fields: dict[str, Any] | None = None


@dataclass(slots=True)
class World:
    """One cache. `candidates` are sorted by id, as a plan sorts them."""

    root: Path
    ack: Path
    candidates: tuple[str, ...]
    current: str

    # -- places

    def deployment(self, deployment_id: str) -> Path:
        return self.root / "deployments" / ENVIRONMENT / deployment_id.replace(":", "-")

    def activation(self, deployment_id: str) -> Path:
        return self.root / "activations" / ENVIRONMENT / deployment_id.replace(":", "-")

    @property
    def receipts(self) -> Path:
        return self.root / ".retention-apply-receipts"

    @property
    def trash(self) -> Path:
        return self.root / ".retention-trash"

    @property
    def log(self) -> Path:
        return self.root / ".retention-recovery.log"

    @property
    def wal(self) -> Path:
        return self.root / ".retention-recovery.json"

    def trashed(self) -> list[str]:
        """What lies in the trash."""
        return sorted(path.name for path in self.trash.iterdir()) if self.trash.exists() else []

    def there(self) -> list[str]:
        """The candidates that bear their names."""
        return [it for it in self.candidates if self.deployment(it).exists()]

    # -- what it says

    def plan(
        self, *, given: Iterable[str] = (), evidence: Iterable[Document] = ()
    ) -> RetentionPlan:
        """The plan as it is now."""
        shown = self.planned(given, evidence)
        if shown.plan is None:
            assert shown.blocker is not None
            raise shown.blocker
        return shown.plan

    def planned(self, given: Iterable[str] = (), evidence: Iterable[Document] = ()) -> Planned:
        """The plan with everything that people see beside it."""
        files = PosixCache(self.root)
        with files.folder("") as folder:
            planner = Planner(folder, ENVIRONMENT, user=files.user)
            return planner.show(given, evidence, now=datetime(2026, 8, 4, tzinfo=UTC))

    def table_notes(self) -> tuple[str, ...]:
        """What a reviewer is told."""
        return self.planned().warnings

    def recovery(self) -> Replayed:
        """Snapshot and log together."""
        with PosixCache(self.root).folder("") as folder:
            return read_recovery(folder)

    def phases(self) -> list[str]:
        """The phases of all transactions, in the order of their deployments."""
        found = self.recovery().transactions.values()
        return [it.phase for it in sorted(found, key=lambda it: it.deployment_id)]

    def receipt(self, plan: str, review: str = REVIEW) -> Receipt | None:
        """An operation's receipt as it lies there."""
        data = self.raw(plan, review)
        found = None if data is None else decode_receipt(data)
        assert found is None or isinstance(found, Receipt)
        return found

    def raw(self, plan: str, review: str = REVIEW) -> bytes | None:
        """The bytes of an operation's receipt."""
        operation = Request(ENVIRONMENT, plan, review, "").operation_id
        path = self.receipts / receipt_name(operation)
        return path.read_bytes() if path.exists() else None

    # -- what is done

    def desk(
        self,
        files: PosixCache | None = None,
        probe: Probe = quiet,
        *,
        promotion_wait_s: float = 30.0,
        reconcile_wait_s: float = 10.0,
    ) -> RetentionDesk:
        """The desk of the cache."""
        return RetentionDesk(
            files or PosixCache(self.root),
            ENVIRONMENT,
            probe=probe,
            promotion_wait_s=promotion_wait_s,
            reconcile_wait_s=reconcile_wait_s,
        )

    def apply(
        self,
        plan: str,
        review: str = REVIEW,
        *,
        files: PosixCache | None = None,
        probe: Probe = quiet,
        given: Iterable[str] = (),
        evidence: Iterable[Document] = (),
        desk: RetentionDesk | None = None,
        promoter: str = "somebody",
    ) -> Ended:
        """One run of the command. Errors that are not typed come through."""
        request = Request(ENVIRONMENT, plan, review, promoter)
        try:
            done = (desk or self.desk(files, probe)).apply(
                request, given=given, evidence=evidence, ack_file=wiring.open_document(self.ack)
            )
        except DponeError as error:
            return Ended(error.exit_code, error.code, fields=dict(error.fields))
        receipt = done.receipt
        if receipt is None:
            return Ended(0, "nothing", None, stuck=done.stuck)
        if receipt.status != "committed":
            return Ended(4, "unfinished", receipt)
        report_of_receipt(receipt, "v3")
        return Ended(0, "committed", receipt, done.replayed, done.stuck)

    def rebuild(self, deployment_id: str) -> int:
        """The same deployment, made anew under its name: another occurrence; its inode."""
        place = self.deployment(deployment_id)
        aside = self.root.parent / f"rebuilt-{next(_NUMBERS)}"
        if place.exists():
            shutil.copytree(place, aside, symlinks=True)
            shutil.rmtree(place)
            aside.rename(place)
        else:
            self._materialize(deployment_id)
        return place.stat().st_ino

    def _materialize(self, deployment_id: str) -> None:
        for number in range(200):
            made = _maker(self.root).run(Preview(ENVIRONMENT, DAGS, str(number)))
            if made.deployment_id == deployment_id:
                return
            if made.written and made.deployment_id not in self.candidates:
                shutil.rmtree(self.deployment(made.deployment_id))
        raise LookupError(deployment_id)

    def activate(self, fixture: str, *, acknowledged: bool = True) -> str:
        """Promote another deployment as a promoter does that takes the promotion lock alone."""
        ack = wiring.open_document(self.ack) if acknowledged else None
        preview = Preview(ENVIRONMENT, DAGS, fixture)
        with mock.patch.object(Locks, "reconcile", return_value=nullcontext()):
            made = _maker(self.root).run(preview, activate=True, ack_file=ack)
        return made.deployment_id

    def fixture(self, deployment_id: str) -> str:
        """The word that gives this deployment."""
        data = (self.deployment(deployment_id) / "deployment.json").read_bytes()
        return str(json.loads(data)["fixture_identity"])

    def edit_ack(self, **changes: Any) -> None:
        self.ack.write_text(json.dumps(json.loads(self.ack.read_text()) | changes))


def _maker(root: Path) -> Materializer:
    return Materializer(
        wiring.open_cache(root, create=True),
        nonces=lambda: str(UUID(int=next(_NUMBERS), version=4)),
        now=lambda: NOW,
    )


def world(folder: Path, candidates: int = 3, *, active: int = 0) -> World:
    """A cache with candidates; the first `active` of them have a sealed activation."""
    folder.mkdir(parents=True, exist_ok=True)
    root, ack = folder / "cache", folder / "ack.json"
    maker = _maker(root)
    made = [maker.run(Preview(ENVIRONMENT, DAGS, str(it))) for it in range(candidates)]
    ack_file = wiring.open_document(ack)
    current = maker.run(Preview(ENVIRONMENT, DAGS, "current"), activate=True, ack_file=ack_file)
    ids = tuple(sorted(it.deployment_id for it in made))
    found = World(root, ack, ids, current.deployment_id)
    for deployment_id in ids[:active]:
        seal(shutil.copytree(found.deployment(deployment_id), found.activation(deployment_id)))
    return found


def seal(tree: Path) -> None:
    """Make a tree read-only, as an activation is."""
    for path in [*tree.rglob("*"), tree]:
        path.chmod(0o555 if path.is_dir() else 0o444)


def unseal(tree: Path) -> None:
    """Make a tree's directories writable for their owner again."""
    for path in [tree, *tree.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)


def fill(tree: Path, files: int, each: int = 1000) -> None:
    """Put many empty files into a tree, some in each of its directories."""
    for number in range(files):
        folder = tree / f"d{number // each}"
        if number % each == 0:
            folder.mkdir()
        (folder / f"f{number}").touch()
