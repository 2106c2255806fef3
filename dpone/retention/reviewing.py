"""Answers what an apply asks of the cache, reading everything anew each time.

Promise: the signature covers the bytes of all that authority and protection rest on; nothing of
them is refused for what a promoter shows while he is at work; candidates are looked at entry by
entry before anything begins. Source: ADR 0043, steps 1 and 8 to 10; section 3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import TypeVar

from dpone.contracts import cache_layout as layout
from dpone.contracts.activation_history import ActivationHistory, encode_history
from dpone.contracts.authoring import Look
from dpone.contracts.current_pointer import POINTER_BYTES_MAX
from dpone.contracts.desired_state import CHECKPOINT_BYTES_MAX
from dpone.contracts.effects import Effect
from dpone.contracts.errors_cache import (
    ActivationHistoryFailed,
    CacheEnvironmentMismatch,
    PointerRecoveryRequired,
)
from dpone.contracts.errors_retention import AckRequired, RetentionError
from dpone.contracts.errors_retention_apply import CandidateObstructed
from dpone.contracts.loader_ack import ACK_BYTES_MAX
from dpone.contracts.retention_plan import Closing, RetentionPlan, plan_of
from dpone.ports.cachefiles import CacheFolder
from dpone.ports.files import FilesError, NameMissing
from dpone.ports.probe import Probe
from dpone.retention.authority import Current, read_authority, read_current
from dpone.retention.cache import Document, below, file_at
from dpone.retention.checks import Obstacle, inspect
from dpone.retention.locks import Locks
from dpone.retention.plan import Pending, Planner
from dpone.retention.protect import EVIDENCE_BYTES_MAX, Protection, protection_of
from dpone.retention.store import Nonces, put

T = TypeVar("T")
_CHECKPOINT = f"{layout.STATUS}/{layout.CHECKPOINT}"


class CacheReviewer:
    """One environment of an open cache, with what the command named."""

    def __init__(
        self,
        root: CacheFolder,
        environment: str,
        *,
        given: Iterable[str],
        evidence: Iterable[Document],
        ack_file: Document | None,
        user: int,
        locks: Locks,
        probe: Probe,
        nonces: Nonces,
    ) -> None:
        self.root = root
        self.locks = locks
        self.environment = environment
        self.given = tuple(given)
        self.evidence = tuple(evidence)
        self.ack_file = ack_file
        self.user = user
        self.probe = probe
        self.nonces = nonces

    def plan(
        self,
        recovery: str | None,
        closes: tuple[tuple[str, str], ...],
        without: frozenset[str] = frozenset(),
    ) -> RetentionPlan:
        """The plan as it is now, with the log and the operations that the caller names."""
        current = self._steadily(lambda: read_current(self.root, self.environment))
        if current is None:
            raise PointerRecoveryRequired(reason="nothing is current")
        protection = protection_of(current, self.given, self.evidence)
        planner = Planner(self.root, self.environment, user=self.user)
        fresh = planner.rebuild(protection, current, Pending(), operation=None)
        return plan_of(
            environment=self.environment,
            current_deployment_id=fresh.current_deployment_id,
            protected_ids=fresh.protected_deployment_ids,
            items=(item for item in fresh.items if item.deployment_id not in without),
            recovery_revision=recovery,
            closes=(
                Closing(operation_id=operation, receipt_revision=revision)
                for operation, revision in closes
            ),
        )

    def check(self) -> None:
        """Read everything that must agree, and compare it."""
        self._steadily(lambda: read_authority(self.root, self.environment, self.ack_file))

    def _steadily(self, read: Callable[[], T]) -> T:
        """Read; what is refused is read once more under the promotion lock.

        A promoter who is at work shows what disagrees for a moment: he is waited for, or the answer
        is that he is busy. Where all agrees nobody is kept waiting; it is compared under the lock
        before the beginning. What is no promoter's is refused at once.
        """
        try:
            return read()
        except (AckRequired, CacheEnvironmentMismatch):
            raise
        except RetentionError:
            with self.locks.promotion():
                return read()

    def signature(self) -> str:
        """A digest over pointer, link, checkpoint, acknowledgement and evidence."""
        whole = hashlib.sha256()
        for path, bytes_max in (
            (layout.POINTER, POINTER_BYTES_MAX),
            (_CHECKPOINT, CHECKPOINT_BYTES_MAX),
        ):
            _add(whole, file_at(self.root, path, bytes_max))
        _add(whole, (self.root.read_link(layout.CURRENT) or "").encode("utf-8", "surrogateescape"))
        if self.ack_file is not None:
            _add(whole, self.ack_file.read(ACK_BYTES_MAX))
        for document in self.evidence:
            _add(whole, document.read(EVIDENCE_BYTES_MAX))
        return whole.hexdigest()

    def current(self) -> str | None:
        """The current deployment."""
        found = self._shallow()
        return found.deployment_id if found else None

    def protected(self) -> tuple[str, ...]:
        """Every protected deployment."""
        return self._protection().ids

    def _protection(self) -> Protection:
        return protection_of(self._shallow(), self.given, self.evidence)

    def _shallow(self) -> Current | None:
        return self._steadily(lambda: read_current(self.root, self.environment, deep=False))

    def history(self) -> tuple[ActivationHistory | None, ActivationHistory]:
        """The history, and what the acknowledgement makes of it; nothing is written."""
        found = self._steadily(
            lambda: read_authority(self.root, self.environment, self.ack_file, deep=False)
        )
        return found.present_history, found.history

    def save_history(self, history: ActivationHistory) -> None:
        """Persist a history, unless it is there."""
        try:
            put(
                self.root,
                layout.HISTORY,
                encode_history(history),
                effect=Effect.RETENTION_HISTORY,
                probe=self.probe,
                nonce=self.nonces(),
            )
        except FilesError as error:
            raise ActivationHistoryFailed(reason=error.reason) from error

    def inspect(self, plan: RetentionPlan) -> None:
        """Look at every candidate's deployment and activation, entry by entry."""
        here = self.root.itself()
        for deployment_id in plan.delete_candidates:
            for place in (layout.DEPLOYMENTS, layout.ACTIVATIONS):
                path = f"{place}/{self.environment}"
                self._inspect(path, layout.folder_name(deployment_id), here)

    def _inspect(self, path: str, leaf: str, here: Look) -> None:
        try:
            with below(self.root, path) as folder:
                if folder.look(leaf) is None:
                    return
                tree = inspect(folder, leaf, user=self.user)
                refusal = self._refusal(folder, leaf, here)
        except NameMissing:
            return
        except FilesError as error:
            raise CandidateObstructed(path=f"{path}/{leaf}", reason=error.reason, more=0) from error
        obstacles = list(tree.obstacles)
        if tree.root.device != here.device:
            obstacles.insert(0, Obstacle("other_file_system", "."))
        elif tree.root.mount != here.mount:
            obstacles.insert(0, Obstacle("mount_point", "."))
        elif refusal:
            obstacles.insert(0, Obstacle(refusal, "."))
        if obstacles:
            first = obstacles[0]
            where = layout.text_of(f"{path}/{leaf}/{first.path}".removesuffix("/."))
            more = len(obstacles) - 1
            raise CandidateObstructed(path=where, reason=first.reason, more=more)

    def _refusal(self, folder: CacheFolder, leaf: str, here: Look) -> str:
        """Whether the rename into the trash would be refused, where only the system knows."""
        full = self.root.look(layout.RELEASES)
        if full is None or (full.mount, full.device) != (here.mount, here.device):
            return ""
        return folder.refusal(leaf, self.root, layout.RELEASES)


def _add(whole: hashlib._Hash, data: bytes | None) -> None:
    """Each part with its length, so that no two inputs run together alike."""
    shown = b"-" if data is None else data
    whole.update(f"{len(shown)}:{data is None}:".encode())
    whole.update(shown)
