"""Whether a load would add rows that an earlier revision has already added.

Promise: a reload of an `append` route is refused until somebody asked for it, because append takes
nothing away: revision 2 of a loaded partition puts every row beside those of revision 1. Only
reads. Not promised: that an earlier revision is seen which neither the journal knows nor the fence
among the numbers that are asked (`ASKED_MAX`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable

from dpone.contracts.checkpoint import Status
from dpone.contracts.codec import replaced
from dpone.contracts.errors_run import ReloadAddsRows, ReloadNeedsPartition
from dpone.contracts.fence import Committed
from dpone.contracts.identity import Operation
from dpone.contracts.journal import State
from dpone.contracts.route import RouteManifest
from dpone.loading.operations import Planned, Wanted
from dpone.ports.checkpoint import Checkpoints
from dpone.ports.journal import Journal
from dpone.ports.target import Target

APPEND = "append"
ASKED_MAX = 20

Earlier = Callable[[Operation], int]
"""The earlier revision whose rows are in the target and stay there; 0 when there is none."""


def check_named(manifest: RouteManifest, wanted: Wanted, name: str) -> None:
    """A reload of an append route names its partitions. Raises `ReloadNeedsPartition`.

    A revision in the manifest is for every run; what it would load again is refused for each
    operation by `Reloads`, so that new partitions are loaded all the same.
    """
    if manifest.strategy_name != APPEND or manifest.partition == "none" or wanted.labels:
        return
    revision = wanted.revision or 1
    if wanted.again:
        revision = wanted.revision or manifest.revision
    if revision > 1:
        again = " --again" if wanted.again else ""
        command = f"dpone run {shlex.quote(name)} --partition P --revision {revision}{again}"
        raise ReloadNeedsPartition(revision=revision, command=command)


class Reloads:
    """Decides for each operation whether its load needs the word of a person."""

    def __init__(self, earlier: Earlier, *, name: str, approved: bool) -> None:
        self.earlier = earlier
        self.name = name
        self.approved = approved

    def added(self, planned: Planned) -> int:
        """The earlier revision whose rows stay beside those of this load, or 0."""
        if planned.load.strategy != APPEND or planned.operation.revision == 1:
            return 0
        return self.earlier(planned.operation)

    def check(self, planned: Planned) -> int:
        """As `added`. Raises `ReloadAddsRows` unless somebody asked for it."""
        earlier = self.added(planned)
        if earlier and not self.approved:
            revision, label = planned.operation.revision, planned.partition.label
            part = f"--partition {shlex.quote(label)} --revision {revision} --again"
            raise ReloadAddsRows(
                partition=label,
                earlier=earlier,
                revision=revision,
                command=f"dpone run {shlex.quote(self.name)} {part}",
            )
        return earlier


def fenced(journal: Journal, target: Target) -> Earlier:
    """Asks the journal, and of revisions that it does not know the fence.

    An operation with a row of its own was approved when it began: its retry needs no word. An
    earlier revision that is not settled, or diverged, is for the commit to refuse; one that an
    operator answered left nothing in the target.
    """

    def earlier(operation: Operation) -> int:
        rows = {row.revision: row for row in journal.family(operation.family)}
        if operation.revision in rows:
            return 0
        for number in sorted(rows, reverse=True):
            row = rows[number]
            if number < operation.revision and row.state is State.COMPLETE and not row.diverged:
                return number
        for number in _numbers(operation.revision):
            if number not in rows and _shows(target, replaced(operation, revision=number)):
                return number
        return 0

    return earlier


def guarded(checkpoints: Checkpoints) -> Earlier:
    """Asks the checkpoints of a target without a fence."""

    def committed(operation: Operation) -> bool:
        found = checkpoints.read(operation.operation_id)
        return found is not None and found.status is Status.COMMITTED

    def earlier(operation: Operation) -> int:
        if checkpoints.read(operation.operation_id) is not None:
            return 0
        numbers = _numbers(operation.revision)
        return next((n for n in numbers if committed(replaced(operation, revision=n))), 0)

    return earlier


def _numbers(revision: int) -> list[int]:
    """The revisions right below, and the first, which nearly every operation has."""
    near = list(range(revision - 1, max(1, revision - ASKED_MAX), -1))
    return [*near, 1]


def _shows(target: Target, operation: Operation) -> bool:
    verdict = target.ask(operation.operation_id, operation.floor).verdict
    return isinstance(verdict, Committed)
