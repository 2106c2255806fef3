"""The persistence engine for publishing: every crash of every step, every state it may leave.

The real publisher runs over the disk in memory, once for each act of another program at each step.
After every change the process may die or the power may go; each legal state is concluded by
recovery, by the same plan again and by another plan, with crashes inside the first two again, down
to `depth`. Everything is judged by `faultinject.publishing_truth`. States that differ only in the
numbers of inodes and nonces, or in times, are visited once. A search that was cut says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from dpone.authoring.publish import Publisher, Unpublished
from dpone.authoring.undo import beside
from dpone.contracts.authoring import Kind
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_authoring import SourceMissing
from dpone.contracts.publication import FileOutcome, Publication, PublishOutcome
from faultinject import publishing_truth as truth
from faultinject.authoring_inodes import ROOT, Disk
from faultinject.disk import MemoryFiles
from faultinject.persistence import confined
from faultinject.publishing_keys import key_of
from faultinject.publishing_truth import Answer, Case, Rival
from faultinject.violations import Violated, judged

Call = Callable[[Publisher, Publication], Answer]
STEPS_MAX = 2000


def publishing(library: Publisher, plan: Publication) -> Answer:
    """The publication that every workload wants."""
    return library.publish(plan)


def recovering(library: Publisher, plan: Publication) -> Answer:
    """What `dpone authoring recover` does, for every file of the plan and the root last."""
    kept: list[FileOutcome] = []
    for change in plan.changes:
        try:
            found = library.confined.recover_file_transaction(change.path)
        except SourceMissing:
            # Its folder is not there, so nothing waits in it.
            continue
        name = beside(change.path, found.recovery_name)
        kept.append(FileOutcome(path=change.path, action=found.status.value, recovery_name=name))
        if change is plan.root and not found.cleanup_required:
            kept += library.conclude(plan.root.path) or ()
    return tuple(kept)


@dataclass(frozen=True)
class Workload:
    """A start, the plan, and another plan for the same root that somebody may apply instead."""

    name: str
    begin: Callable[[], Case]
    other: Publication
    rivals: tuple[Rival, ...] = ()


@dataclass(frozen=True)
class Bounds:
    """How far to go. `near`: rivals act only at steps that name their file, or come right after:
    fewer states, for every run of the tests.

    `raced_depth`: down to which crash another program acts in recovery and in the next run too.
    """

    depth: int = 3
    raced_depth: int = 0
    weak: bool = True
    near: bool = False
    states_max: int = 200_000


@dataclass
class Figures:
    """What a search saw."""

    states: int = 0
    runs: int = 0
    crashes: int = 0
    deepest: int = 0
    is_complete: bool = True


class Run:
    """One call on a case's disk, with one act at one step; notes the moments when power may go."""

    def __init__(self, case: Case, call: Call, rival: Rival | None = None, at: int = 0) -> None:
        self.case = replace(case, spoiled=False)
        self.rival = rival
        self.at = at
        self.steps = 0
        self.calls: list[str] = []
        self.moments: list[Case] = []
        self.labels: list[str] = []
        self._unnamed = {change.path for change in truth.news(case.plan)}
        self._is_created = not self._unnamed
        self._is_in_force = truth.in_force(case)
        self._version = -1
        self.answer = self._run(call)

    def _run(self, call: Call) -> Answer:
        disk = self.case.disk
        files = MemoryFiles(disk, self._watch)
        answer: Answer
        try:
            answer = call(Publisher(confined(disk, files)), self.case.plan)
        except (DponeError, Unpublished) as error:
            answer = error
        except Violated:
            raise
        except Exception as error:
            trail = (*self.case.trail, *self.labels)
            raise Violated("I9 outcomes are true", f"{error!r} came out", trail) from error
        files.die()
        self._note()
        return answer

    def _watch(self, label: str) -> None:
        self.steps += 1
        if self.steps > STEPS_MAX:
            trail = (*self.case.trail, *self.labels)
            raise Violated("I8 every run ends", f"more than {STEPS_MAX} steps", trail)
        self.calls.append(label)
        if label.startswith("after "):
            self.labels.append(label.removeprefix("after "))
            if label != "after sync-folder":
                self._rest()
            else:
                self._look_at_names()
        elif self.rival is not None and self.steps == self.at:
            self._act(self.rival)
        self._note(*(("bytes written, not yet synced",) if label.startswith("sync-re") else ()))

    def _look_at_names(self) -> None:
        """All new files before the root have their names, and those are durable."""
        self._unnamed -= {p for p in self._unnamed if truth.shown(self.case.disk, p) is not None}
        self._is_created = not self._unnamed

    def _act(self, rival: Rival) -> None:
        before = self.case.disk.version
        inode = truth.shown(self.case.disk, rival.path)
        folder, leaf = spot(self.case.disk, rival.path)
        rival.act(self.case.disk, folder, leaf)
        if self.case.disk.version == before:
            return
        self.labels.append(f"rival: {rival.name} {rival.path}")
        now = truth.shown(self.case.disk, rival.path)
        # What this very run has named, or found right.
        named = {label.split()[-1] for label in self.labels if label.startswith(("link", "move"))}
        was_planned = (truth.is_ours(inode) and leaf in named) or any(
            change.path == rival.path and now is not None and now.data != change.after
            for change in self.case.plan.edits
        )
        is_root = rival.path == self.case.plan.root.path
        is_open = not self._is_created and not self._is_in_force
        is_spoiled = was_planned and is_open and not is_root
        self.case = replace(self.case, rival=rival, spoiled=is_spoiled)

    def _rest(self) -> None:
        now = self.case.after(*self.labels)
        with judged(now):
            truth.at_rest(now)
            self._is_in_force = truth.stays(now, was=self._is_in_force)

    def _note(self, *steps: str) -> None:
        if self._version == self.case.disk.version:
            return
        self._version = self.case.disk.version
        if self.rival is None or self.is_raced:
            self.moments.append(self.case.after(*self.labels, *steps, disk=self.case.disk.killed()))

    @property
    def is_raced(self) -> bool:
        """Whether the act happened in this run."""
        return self.rival is not None and self.case.rival is self.rival

    @property
    def made(self) -> list[str]:
        """The names of the folders that this run made."""
        labels = [label for label in self.labels if label.startswith("make-folder ")]
        return [label.removeprefix("make-folder ") for label in labels]

    def ended(self) -> Case:
        """The judged case after the call."""
        now = replace(self.case.after(*self.labels), spoiled=False)
        with judged(now):
            truth.at_rest(replace(now, spoiled=self.case.spoiled))
            if isinstance(self.answer, Unpublished) and not self.answer.outcome.cleanup_required:
                truth.emptied(now, self.made)
            return truth.answered(now, self.answer, raced=self.is_raced)


def spot(disk: Disk, path: str) -> tuple[int, str]:
    """The folder and the leaf of a path; another program makes the folders that are missing."""
    *parts, leaf = path.split("/")
    number = ROOT
    for part in parts:
        found = disk.at(part, number)
        if found is None:
            found = disk.make(kind=Kind.FOLDER, foreign=True)
            disk.change(number, (part, found.number))
            disk.sync_folder(number)
        number = found.number
    return number, leaf


class Search:
    """One exploration of one workload."""

    def __init__(self, workload: Workload, bounds: Bounds) -> None:
        self.workload = workload
        self.bounds = bounds
        self.figures = Figures()
        self.seen: set[object] = set()
        self.tried: set[object] = set()
        self.moments: set[object] = set()
        self.queue: deque[Case] = deque()

    def explore(self) -> Figures:
        """Visit everything within the bounds. Raises `Violated`."""
        for run in self._runs(self.workload.begin, publishing, self.workload.rivals):
            self._ended(run, is_deep=True)
        while self.queue:
            self._recover(self.queue.popleft())
        return self.figures

    def _runs(
        self, begin: Callable[[], Case], call: Call, rivals: tuple[Rival, ...]
    ) -> Iterator[Run]:
        """The call undisturbed, then with each act at each of its steps that is due."""
        quiet = self._run(begin(), call)
        yield quiet
        for rival in rivals:
            for at in range(1, len(quiet.calls) + 1):
                if self._is_due(quiet, rival, at):
                    run = self._run(begin(), call, rival, at)
                    if run.is_raced:
                        yield run

    def _is_due(self, quiet: Run, rival: Rival, at: int) -> bool:
        """An act between two steps that do not concern its file can wait for the one that does."""
        if quiet.calls[at - 1].startswith("after "):
            return False
        leaf = rival.path.rpartition("/")[2]
        return not self.bounds.near or any(leaf in call for call in quiet.calls[at - 2 : at])

    def _run(self, case: Case, call: Call, rival: Rival | None = None, at: int = 0) -> Run:
        self.figures.runs += 1
        return Run(case, call, rival, at)

    def _ended(self, run: Run, *, is_deep: bool) -> None:
        """Judge a run, go into its crashes, and try again where it ended."""
        case = run.ended()
        if isinstance(run.answer, tuple):
            self._concluded(case)
        if is_deep and run.moments:
            for moment in run.moments[:-1]:
                self._crash(moment)
            self._crash(self._acknowledged(run, case))
        self._again(case)

    def _acknowledged(self, run: Run, case: Case) -> Case:
        """The last moment, with what was said by then."""
        answer = run.answer
        done = answer if isinstance(answer, PublishOutcome) else None
        is_said = done is not None and not done.cleanup_required
        last = replace(
            case.after("answered", disk=run.moments[-1].disk),
            acknowledged=case.acknowledged or is_said,
        )
        for state in last.disk.power_cuts(weak=self.bounds.weak):
            now = last.after("power cut", disk=state)
            with judged(now):
                truth.lasts(now, answer, run.made)
        return last

    def _crash(self, moment: Case) -> None:
        """Every state after a crash at this moment, judged, and queued when it is new."""
        key = key_of(moment)
        if key in self.moments:
            return
        self.moments.add(key)
        self._add(truth.untold(moment.after("killed")))
        for state in moment.disk.power_cuts(weak=self.bounds.weak):
            self._add(truth.untold(moment.after("power cut", disk=state)))

    def _add(self, case: Case) -> None:
        self.figures.crashes += 1
        with judged(case):
            truth.at_rest(case)
        case = replace(case, spoiled=False)
        key = key_of(case)
        if key in self.seen:
            return
        self.seen.add(key)
        if len(self.seen) > self.bounds.states_max:
            self.figures.is_complete = False
            return
        self.figures.states += 1
        self.queue.append(replace(case, depth=case.depth + 1))

    def _recover(self, case: Case) -> None:
        """Recovery, the same plan, another plan; crashes inside the first two; judged."""
        self.figures.deepest = max(self.figures.deepest, case.depth)
        is_raced = case.rival is None and case.depth <= self.bounds.raced_depth
        rivals = self.workload.rivals if is_raced else ()
        for name, call in (("recover", recovering), ("publish again", publishing)):
            begun = case.after(f"{name}:")
            for run in self._runs(partial(_copied, begun), call, rivals):
                self._ended(run, is_deep=case.depth < self.bounds.depth)
        if case.rival is None:
            self._otherwise(case)

    def _concluded(self, case: Case) -> None:
        """After recovery nothing waits any more, and no file of ours is without its root."""
        with judged(case):
            truth.undone(case)
            found = truth.leftovers(case)
            if found and not (case.rival is not None and case.rival.is_opaque):
                raise Violated("I7 no residue", f"{found} left after recovery")

    def _otherwise(self, case: Case) -> None:
        """Another plan finds exactly what the first one had created, and takes it away."""
        begun = replace(case.after("publish another plan:"), acknowledged=False)
        begun = replace(begun, disk=case.disk.copy(), plan=self.workload.other, first=case.plan)
        run = self._run(begun, publishing)
        after = truth.untold(replace(run.case.after(*run.labels), plan=case.plan, first=None))
        with judged(after):
            is_done = isinstance(run.answer, PublishOutcome)
            if truth.in_force(case):
                truth.at_rest(replace(after, acknowledged=case.acknowledged))
            elif not is_done and not case.is_seeded:
                raise Violated("I8 the plan ends", f"another plan does not: {run.answer}")
            truth.undone(after)
            found = set(truth.leftovers(after)) - {each.path for each in begun.plan.changes}
            if found:
                raise Violated("I7 no residue", f"{sorted(found)} left by another plan")

    def _again(self, case: Case) -> None:
        """The same plan ends, or says whose change is in its way; nothing of ours is left over."""
        key = key_of(case)
        if key in self.tried:
            return
        self.tried.add(key)
        run = self._run(case.after("publish once more:", disk=case.disk.copy()), publishing)
        case = run.ended()
        with judged(case):
            is_done = isinstance(run.answer, PublishOutcome)
            if case.rival is None and not is_done:
                raise Violated("I8 the plan ends", f"it does not: {run.answer}")
            if isinstance(run.answer, PublishOutcome) and run.answer.cleanup_required:
                raise Violated("I8 the plan ends", f"clearing up does not: {run.answer}")
            found = truth.leftovers(case)
            if found and not (case.rival is not None and case.rival.is_opaque):
                raise Violated("I7 no residue", f"{found} left after trying again")


def _copied(case: Case) -> Case:
    return replace(case, disk=case.disk.copy())


def first_violation(workload: Workload, bounds: Bounds) -> Violated | None:
    """The first violation, or None when the workload holds within the bounds."""
    try:
        Search(workload, bounds).explore()
    except Violated as found:
        return found
    return None
