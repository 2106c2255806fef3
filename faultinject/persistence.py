"""The persistence engine: every crash of every step, every state that it may leave, recovered.

A workload is run once for each act of another program at each of its steps. After every change the
process may die or the power may go; each legal state is recovered, with crashes in recovery again,
down to `depth`. Then the same change is tried again and everything is judged by
`faultinject.authoring_truth`. States that differ in nothing but times are visited once.
Promise: breadth first by number of crashes; a search that stops early says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from dpone.authoring.confined import ConfinedFiles
from dpone.contracts.authoring import (
    ConfinedRecoveryOutcome,
    ConfinedReplaceOutcome,
    Status,
    sha256_of,
)
from dpone.contracts.errors_authoring import AuthoringError, RecoveryRequired
from faultinject import authoring_truth as truth
from faultinject.authoring_editors import Act, follow, write_late
from faultinject.authoring_inodes import Disk
from faultinject.authoring_truth import LEAF, Answer, Case, D, E
from faultinject.disk import MemoryFiles
from faultinject.violations import Violated, judged

Call = Callable[[ConfinedFiles], Answer]
STEPS_MAX = 400


def confined(disk: Disk, files: MemoryFiles) -> ConfinedFiles:
    """The library on a disk, with nonces that repeat from run to run."""

    def nonces() -> str:
        disk.nonces += 1
        return f"{disk.nonces:032x}"

    return ConfinedFiles(files, nonces=nonces)


def replacing(library: ConfinedFiles) -> Answer:
    """The change that every workload wants."""
    return library.replace_file_if_digest(LEAF, expected_sha256=sha256_of(E), desired=D)


def recovering(library: ConfinedFiles) -> Answer:
    """Automatic recovery."""
    return library.recover_file_transaction(LEAF)


def recovering_by_hand(library: ConfinedFiles) -> Answer:
    """Recovery for a person who asked."""
    return library.recover_file_transaction(LEAF, by_hand=True)


@dataclass(frozen=True)
class Workload:
    """A start and what is done from it. `acts` happen one at a time, at every step."""

    name: str
    begin: Callable[[], Case]
    call: Call
    acts: tuple[Act, ...] = ()


@dataclass(frozen=True)
class Bounds:
    """How far to go. `raced_depth`: down to which crash another program acts in recovery too."""

    depth: int = 3
    raced_depth: int = 0
    weak: bool = True
    states_max: int = 1_000_000


@dataclass
class Figures:
    """What a search saw."""

    states: int = 0
    runs: int = 0
    crashes: int = 0
    deepest: int = 0
    is_complete: bool = True
    rows: set[str] = field(default_factory=set)


class Run:
    """One call on a case's disk, with one act at one step; notes the moments when power may go."""

    def __init__(self, case: Case, call: Call, act: Act | None = None, at: int = 0) -> None:
        self.case = case
        self.act = act
        self.at = at
        self.steps = 0
        self.moments: list[Case] = []
        self.labels: list[str] = []
        self.is_late = False
        self._has_followed = False
        self._version = -1
        self._compared = call is not replacing
        self.answer = self._run(call)

    def _run(self, call: Call) -> Answer:
        disk = self.case.disk
        files = MemoryFiles(disk, self._watch)
        answer: Answer
        try:
            answer = call(confined(disk, files))
        except AuthoringError as error:
            answer = error
        except Violated:
            raise
        except Exception as error:
            raise Violated("I9 outcomes are true", f"{error!r} came out", self._trail()) from error
        files.die()
        self._note()
        self._write_late()
        return answer

    def _write_late(self) -> None:
        """Whoever holds the file open writes to it, at the latest when the call has returned."""
        if write_late(self.case.disk):
            self.labels.append("rival: writes to what he has open")
            self.is_late = True
            self._note()

    def _watch(self, label: str) -> None:
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Violated("I8 every run ends", f"more than {STEPS_MAX} steps", self._trail())
        if label.startswith("after "):
            self.labels.append(label.removeprefix("after "))
            if not label.startswith("after sync"):
                self._rest()
        elif self.act is not None and self.steps == self.at:
            self.act.act(self.case.disk, LEAF)
            self.labels.append(f"rival: {self.act.name}")
            self.case = replace(self.case, act=self.act)
        elif self.act is not None and self.act.gap and self.steps == self.at + self.act.gap:
            self._write_late()
        self._supersede(label)
        self._follow()
        self._note(*(("bytes written, not yet synced",) if label.startswith("sync-re") else ()))

    def _follow(self) -> None:
        """Somebody acts again as soon as the name shows our file."""
        act, target = self.case.act, self.case.disk.at(LEAF)
        if act is None or not act.follows or act is not self.act or self._has_followed:
            return
        if target is not None and not target.by_user and not target.leases:
            self._has_followed = True
            self.labels.append(f"rival: then {act.follows}")
            follow(self.case.disk, LEAF, act.follows)

    def _supersede(self, label: str) -> None:
        """The caller gave the expected bytes up: the very file that was compared may go."""
        target = self.case.disk.at(LEAF)
        if target is None or target.data != E:
            return
        if label == f"hold {LEAF}" and not self._compared:
            self._compared = True
            self.case = replace(self.case, expected=target.number)
        elif label.startswith(f"exchange {LEAF} ") and target.number == self.case.expected:
            self.case.disk.precious.discard(E)
            self.case.disk.secured.discard(E)

    def _rest(self) -> None:
        now = self.case.after(*self.labels)
        with judged(now):
            truth.live_versions(now)

    def _note(self, *steps: str) -> None:
        if self._version != self.case.disk.version:
            self._version = self.case.disk.version
            now = self.case.after(*self.labels, *steps, disk=self.case.disk.killed())
            self.moments.append(now)

    def _trail(self) -> tuple[str, ...]:
        return (*self.case.trail, *self.labels)

    @property
    def is_raced(self) -> bool:
        """Whether the act happened."""
        return self.is_late or (self.act is not None and self.case.act is self.act)

    def ended(self) -> Case:
        """The judged case after the call."""
        now = self.case.after(*self.labels, disk=self.case.disk)
        with judged(now):
            truth.rescued(now)
            return truth.answered(now, self.answer, raced=self.is_raced)


class Search:
    """One exploration of one workload."""

    def __init__(self, workload: Workload, bounds: Bounds) -> None:
        self.workload = workload
        self.bounds = bounds
        self.figures = Figures()
        self.seen: set[object] = set()
        self.queue: deque[Case] = deque()

    def explore(self) -> Figures:
        """Visit everything within the bounds. Raises `Violated`."""
        for run in self._runs(self.workload.begin, self.workload.call, self.workload.acts):
            self._first(run)
        while self.queue:
            self._recover(self.queue.popleft())
        return self.figures

    def _runs(self, begin: Callable[[], Case], call: Call, acts: tuple[Act, ...]) -> Iterator[Run]:
        """The call undisturbed, then with each act at each step until there is no such step."""
        self.figures.runs += 1
        yield Run(begin(), call)
        for act in acts:
            for at in range(1, STEPS_MAX):
                run = Run(begin(), call, act, at)
                self.figures.runs += 1
                if run.steps < at:
                    break
                if run.is_raced:
                    yield run

    def _first(self, run: Run) -> None:
        case = run.ended()
        with judged(case):
            truth.live_versions(case)
        moments = run.moments[:-1]
        for moment in moments:
            self._crash(moment)
        self._crash(self._acknowledged(run, case))
        self._again(case.after(disk=case.disk.copy()), run.answer)

    def _acknowledged(self, run: Run, case: Case) -> Case:
        """The last moment, with what was said by then."""
        answer, target = run.answer, case.disk.at(LEAF)
        is_said = (
            isinstance(answer, ConfinedReplaceOutcome | ConfinedRecoveryOutcome)
            and answer.status is Status.COMMITTED
            and getattr(answer, "durable", True)
            and target is not None
            and not target.by_user
        )
        said = target.number if is_said and target is not None else 0
        done = not getattr(answer, "cleanup_required", False) and getattr(answer, "found", True)
        last = case.after("answered", disk=run.moments[-1].disk)
        if done and not isinstance(answer, AuthoringError):
            # Whatever the power does now, nothing of the transaction may come back.
            for state in last.disk.power_cuts(weak=self.bounds.weak):
                with judged(now := last.after("power cut", disk=state)):
                    found = truth.leftovers(now)
                    if found:
                        raise Violated("I7 no residue", f"{found} come back after the answer")
        return replace(last, acknowledged=said or case.acknowledged)

    def _crash(self, moment: Case) -> None:
        """Every state after a crash at this moment, judged, and queued when it is new."""
        self._add(truth.untold(moment.after("killed", disk=moment.disk)))
        for state in moment.disk.power_cuts(weak=self.bounds.weak):
            self._add(truth.untold(moment.after("power cut", disk=state)))

    def _add(self, case: Case) -> None:
        self.figures.crashes += 1
        key = case.key()
        if key in self.seen:
            return
        if len(self.seen) >= self.bounds.states_max:
            self.figures.is_complete = False
            return
        self.seen.add(key)
        self.figures.states += 1
        with judged(case):
            truth.at_rest(case)
        self.queue.append(replace(case, depth=case.depth + 1))

    def _recover(self, case: Case) -> None:
        """Recover, with and without a rival, crash inside it, try again, and judge."""
        self.figures.deepest = max(self.figures.deepest, case.depth)
        acts = (
            self.workload.acts if case.act is None and case.depth <= self.bounds.raced_depth else ()
        )
        begin = lambda: case.after("recover:", disk=case.disk.copy())  # noqa: E731
        for run in self._runs(begin, recovering, acts):
            after = run.ended()
            self._kept_versions(case, run, after)
            if case.depth < self.bounds.depth:
                for moment in run.moments[:-1]:
                    self._crash(moment)
                self._crash(self._acknowledged(run, after))
            self._again(after.after(disk=after.disk.copy()), run.answer)

    def _kept_versions(self, before: Case, run: Run, after: Case) -> None:
        """Where the name is missing and nothing was committed, the earlier bytes are kept."""
        with judged(after):
            if not run.is_raced:
                truth.still_there(before, after)
            if not run.is_raced and not before.is_removal:
                truth.earlier_version(before.disk, after.disk)

    def _again(self, case: Case, answer: Answer) -> None:
        """Recovery has nothing more to do, the leaf works, and the same change ends."""
        idle = Run(case.after("recover again:"), recovering)
        case = idle.ended()
        with judged(case):
            if _is_pending(idle.answer):
                case = self._by_hand(case)
            elif (
                getattr(idle.answer, "found", True)
                and not _is_pending(answer)
                and not isinstance(answer, AuthoringError)
            ):
                raise Violated("I4 idempotent", f"found again: {idle.answer}")
        self._retry(case)

    def _by_hand(self, case: Case) -> Case:
        """What blocks automatic recovery is moved when a person asks."""
        if case.act is None and not case.is_seeded:
            raise Violated("I3 no needless manual recovery", "recovery does not end")
        by_hand = Run(case.after("recover by hand:"), recovering_by_hand)
        if _is_pending(by_hand.answer) or isinstance(by_hand.answer, AuthoringError):
            raise Violated("I8 the leaf works again", f"by hand: {by_hand.answer}")
        return by_hand.ended()

    def _retry(self, case: Case) -> None:
        run = Run(case.after("replace again:"), replacing)
        case = run.ended()
        with judged(case):
            truth.live_versions(case)
            answer = run.answer
            if isinstance(answer, RecoveryRequired):
                raise Violated("I8 the leaf works again", f"blocked: {answer.code}")
            is_ready = case.act is None and not case.is_removal and not case.is_seeded
            if is_ready and getattr(answer, "status", None) is not Status.COMMITTED:
                raise Violated("I8 the leaf works again", f"the change does not end: {answer}")
            found = truth.leftovers(case)
            if found:
                raise Violated("I7 no residue", f"{found} left after trying again")


def _is_pending(answer: Answer) -> bool:
    return bool(getattr(answer, "cleanup_required", False))


def first_violation(workload: Workload, bounds: Bounds) -> Violated | None:
    """The first violation, or None when the workload holds within the bounds."""
    try:
        Search(workload, bounds).explore()
    except Violated as found:
        return found
    return None
