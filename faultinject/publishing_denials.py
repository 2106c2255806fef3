"""Every call of a publication denied in turn, with and without somebody who won the root.

A denial strikes once or for ever, before the call or, as a lost answer, after it. Promise: the
answer is judged, then every state that a loss of power may leave after it; recovery, the same plan
and another plan end there with nothing left over, and one denied call costs no two compensations.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dpone.authoring.publish import Publisher, Unpublished
from dpone.contracts.authoring import Status
from dpone.contracts.errors import DponeError
from dpone.contracts.publication import PublishOutcome
from dpone.ports import files
from faultinject import publishing_truth as truth
from faultinject.authoring_denials import CHANGES
from faultinject.authoring_inodes import Disk
from faultinject.disk import MemoryFiles
from faultinject.persistence import confined
from faultinject.publishing_search import Call, Run, Workload, publishing, recovering, spot
from faultinject.publishing_truth import Answer, Case, Rival
from faultinject.violations import Violated, judged

# Nothing fails but what makes a change durable, or everything that changes anything.
ERRORS: dict[type[files.FilesError], tuple[str, ...]] = {
    files.SyncFailed: ("sync",),
    files.FilesError: CHANGES,
}
CALLS_MAX = 400


@dataclass(frozen=True, slots=True)
class Denial:
    """The error, the number of the changing call that it strikes, and how."""

    error: type[files.FilesError]
    at: int
    for_ever: bool = False
    late: bool = False


class _Denied:
    """One publication with one denial; `winner` acts right before the root is put in force."""

    def __init__(self, case: Case, denial: Denial, winner: Rival | None) -> None:
        self.case = replace(case, denied=True, loose=True)
        self.denial = denial
        self.winner = winner
        self.calls = 0
        self.struck = ""
        self.is_in_force = False
        self.answer = self._run()

    def _run(self) -> Answer:
        memory = MemoryFiles(self.case.disk, self._watch)
        try:
            return publishing(Publisher(confined(self.case.disk, memory)), self.case.plan)
        except (DponeError, Unpublished) as error:
            return error
        except files.FilesError as error:
            raise Violated("I9 outcomes are true", f"{error!r} came out", self.trail) from error
        finally:
            memory.die()

    @property
    def trail(self) -> tuple[str, ...]:
        """What was denied."""
        return (f"{self.denial.error.__name__} at {self.struck}", f"{self.denial}")

    def _watch(self, label: str) -> None:
        root = self.case.plan.root.path
        if self.winner is not None and _puts_in_force(label, root.rpartition("/")[2]):
            winner, self.winner = self.winner._replace(path=root), None
            winner.act(self.case.disk, *spot(self.case.disk, root))
            self.case = replace(self.case, rival=winner)
        is_after = label.startswith("after ")
        if is_after:
            now = self.case.after(*self.trail, label)
            with judged(now):
                truth.at_rest(now)
                self.is_in_force = truth.stays(now, was=self.is_in_force)
        name = label.removeprefix("after ")
        if is_after != self.denial.late or not name.startswith(ERRORS[self.denial.error]):
            return
        self.calls += 1
        is_due = self.calls == self.denial.at or (
            self.denial.for_ever and self.calls > self.denial.at
        )
        if is_due and not (is_after and name.startswith(("sync", "stage", "create", "patch"))):
            self.struck = self.struck or label
            raise self.denial.error(root, "denied")


def _puts_in_force(label: str, leaf: str) -> bool:
    """Whether a call exchanges the root, or gives a new one its name."""
    words = label.split()
    is_new = words[0] in ("link", "move") and words[-1] == leaf
    return is_new or words[:2] == ["exchange", leaf]


def explore(
    workload: Workload,
    winner: Rival | None = None,
    *,
    stride: int = 1,
    lates: tuple[bool, ...] = (False, True),
) -> Iterator[tuple[Denial, Answer]]:
    """Every denial, or each so-manyth, and what was answered. Raises `Violated`."""
    kinds = itertools.product(ERRORS, (False, True), lates)
    for error, for_ever, late in kinds:
        for at in range(1, CALLS_MAX, stride):
            denied = _Denied(workload.begin(), Denial(error, at, for_ever, late), winner)
            if denied.calls < at:
                break
            if denied.struck:
                _judge(denied, workload)
                yield denied.denial, denied.answer


def _judge(denied: _Denied, workload: Workload) -> None:
    case = denied.case.after(*denied.trail, f"answered {denied.answer!r}"[:400])
    with judged(case):
        truth.at_rest(case)
        case = truth.answered(case, denied.answer, raced=case.rival is not None)
        if not denied.denial.for_ever:
            _each_attempted(case, denied.answer)
            if denied.denial.late:
                _all_cleared(denied.answer)
    is_said = isinstance(denied.answer, PublishOutcome) and (
        denied.answer.status is Status.COMMITTED and not denied.answer.cleanup_required
    )
    case = replace(case, denied=False, acknowledged=is_said)
    disk = _forgotten(case.disk.killed(), workload)
    for name, state in (("killed", disk), *(("power cut", s) for s in disk.power_cuts(weak=True))):
        now = truth.untold(case.after(name, disk=state))
        with judged(now):
            truth.at_rest(now)
        _ends(now, "recover", recovering)
        _ends(now, "publish again", publishing)
        if case.rival is None and not truth.in_force(now):
            _ends(replace(now, plan=workload.other, first=now.plan), "another plan", publishing)


def _forgotten(disk: Disk, workload: Workload) -> Disk:
    """What a rehearsal showed is known to its own process alone."""
    disk.certified = workload.begin().disk.certified
    return disk


def _each_attempted(case: Case, answer: Answer) -> None:
    """One denied call costs at most one compensation: the rest of them were made."""
    if not isinstance(answer, Unpublished):
        return
    if not any(issue.action == "failed" for issue in answer.outcome.issues):
        return
    left = [c.path for c in truth.news(case.plan) if truth.is_ours(truth.shown(case.disk, c.path))]
    if len(left) > 1:
        raise Violated("I6 no compensation stops the rest", f"{left} of ours are left")


def _all_cleared(answer: Answer) -> None:
    """Where only an answer was lost, everything could be done, so no journal waits."""
    if isinstance(answer, Unpublished):
        left = [i.path for i in answer.outcome.issues if i.reason == "cleanup_required"]
        if left:
            raise Violated("I7 no residue", f"the journals of {left} are left")


def _ends(case: Case, name: str, call: Call) -> None:
    """A run without denials ends, with nothing left over."""
    plan = case.first or case.plan
    run = Run(replace(case.after(f"{name}:", disk=case.disk.copy()), acknowledged=False), call)
    after = truth.untold(run.case.after(*run.labels))
    with judged(after):
        is_done = isinstance(run.answer, tuple | PublishOutcome)
        if case.rival is None and not is_done:
            raise Violated("I8 the plan ends", f"{name} does not: {run.answer}")
        truth.undone(replace(after, plan=plan))
        paths = {change.path for change in (*plan.changes, *case.plan.changes)}
        found = set(truth.leftovers(after)) - paths
        if found:
            raise Violated("I7 no residue", f"{sorted(found)} left by {name}")
