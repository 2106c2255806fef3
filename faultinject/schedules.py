"""Two real workers on one file, every schedule with few preemptions, then with a crash of either.

Each worker is a thread with a process of its own on the shared disk; a baton passes only where the
watcher is called. A schedule says at which of its steps the running worker loses the baton, at most
`preemptions` times; all of them are run. Promise: the same schedule takes the same steps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from dpone.authoring.confined import ConfinedFiles
from dpone.contracts.authoring import ConfinedReplaceOutcome, Status
from dpone.contracts.errors_authoring import (
    AuthoringError,
    RecoveryRequired,
    SourceChanged,
    SourceMissing,
    TransactionInProgress,
)
from faultinject import authoring_truth as truth
from faultinject.authoring_inodes import Disk
from faultinject.authoring_truth import LEAF, Answer, Case, D, E
from faultinject.disk import Crash, MemoryFiles
from faultinject.persistence import Call, Run, confined, recovering
from faultinject.violations import Violated, judged

BATON_WAIT_S = 20.0


class Schedule(NamedTuple):
    """Who starts, after how many steps of all the baton changes hands, and who dies when."""

    starts: int
    switches: tuple[int, ...]
    dies: int = -1
    dies_at: int = 0


class Stuck(Exception):
    """The baton was lost: a worker waits for something that is no step."""


class OnDisk(Protocol):
    """What two workers meet on."""

    @property
    def disk(self) -> Disk:
        """Their common disk."""


Task = Callable[[ConfinedFiles], Any]


@dataclass
class _Worker:
    call: Task
    files: MemoryFiles | None = None
    answer: Any = None
    error: BaseException | None = None
    steps: int = 0
    is_done: bool = False
    gate: threading.Event = field(default_factory=threading.Event)


class Race:
    """One run of two calls under one schedule. `refusals` are answers that come as errors."""

    def __init__(
        self,
        case: OnDisk,
        calls: tuple[Task, Task],
        schedule: Schedule,
        refusals: tuple[type[Exception], ...] = (AuthoringError,),
    ) -> None:
        self.case = case
        self.refusals = refusals
        self.schedule = schedule
        self.workers = [_Worker(call) for call in calls]
        self.steps = 0
        self.running = schedule.starts
        self.trail: list[str] = []
        self.committed: list[tuple[int, bytes]] = []

    def run(self) -> None:
        """Run both to their ends. Raises `Stuck`."""
        threads = [
            threading.Thread(target=self._live, args=(number,), daemon=True) for number in (0, 1)
        ]
        for thread in threads:
            thread.start()
        self.workers[self.running].gate.set()
        for thread in threads:
            thread.join(BATON_WAIT_S)
            if thread.is_alive():
                raise Stuck(f"{self.schedule}")

    def _live(self, number: int) -> None:
        worker = self.workers[number]
        worker.gate.wait(BATON_WAIT_S)
        worker.gate.clear()
        worker.files = MemoryFiles(self.case.disk, lambda label: self._step(number, label))
        try:
            worker.answer = worker.call(confined(self.case.disk, worker.files))
        except self.refusals as error:
            worker.answer = error
        except BaseException as error:  # noqa: BLE001 - whatever ended him is judged later
            worker.error = error
        worker.files.die()
        worker.is_done = True
        self._hand_over(number)

    def _step(self, number: int, label: str) -> None:
        worker = self.workers[number]
        if label.startswith("after "):
            self.trail.append(f"{number}: {label.removeprefix('after ')}")
            return
        self.steps += 1
        worker.steps += 1
        if (self.schedule.dies, self.schedule.dies_at) == (number, worker.steps):
            self.trail.append(f"{number}: killed before {label}")
            assert worker.files is not None
            worker.files.die()
            raise Crash(label)
        if self.steps in self.schedule.switches and not self.workers[1 - number].is_done:
            self._hand_over(number)
            if not worker.gate.wait(BATON_WAIT_S):
                raise Stuck(label)
            worker.gate.clear()

    def _hand_over(self, number: int) -> None:
        other = self.workers[1 - number]
        if not other.is_done:
            self.running = 1 - number
            other.gate.set()
        elif not self.workers[number].is_done:
            self.workers[number].gate.set()


@dataclass(frozen=True)
class Contest:
    """Two calls that meet at one file. `wanted` are the bytes that each of them is to put there."""

    name: str
    begin: Callable[[], Case]
    calls: tuple[Call, Call]
    wanted: tuple[bytes, bytes] = (D, D)


@dataclass
class Figures:
    """What the schedules of a contest were."""

    schedules: int = 0
    crashed: int = 0
    answers: set[tuple[str, str]] = field(default_factory=set)


def schedules(steps: int, *, preemptions: int) -> Iterator[Schedule]:
    """Every schedule with at most so many preemptions within so many steps of both."""
    for starts in (0, 1):
        yield Schedule(starts, ())
        if preemptions >= 1:
            for first in range(1, steps + 1):
                yield Schedule(starts, (first,))
                if preemptions >= 2:
                    for second in range(first + 1, steps + 1):
                        yield Schedule(starts, (first, second))


def explore(
    contest: Contest, *, preemptions: int = 2, stride: int = 1, crashes: bool = False
) -> Figures:
    """Run every schedule and judge it. Raises `Violated`.

    `stride` takes each so-manyth schedule only. `crashes`: each worker dies at each of its steps
    in every schedule with one preemption.
    """
    figures = Figures()
    alone = _raced(contest, Schedule(0, ()))
    steps = alone.steps
    for number, schedule in enumerate(schedules(steps, preemptions=preemptions)):
        if number % stride == 0:
            _judge(contest, _raced(contest, schedule), figures)
    if crashes:
        lengths = [worker.steps for worker in alone.workers]
        for dies in (0, 1):
            for at in range(1, max(lengths) + 1):
                for number, schedule in enumerate(schedules(steps, preemptions=1)):
                    if (number + at) % stride == 0:
                        race = _raced(contest, schedule._replace(dies=dies, dies_at=at))
                        _judge(contest, race, figures)
    return figures


def _raced(contest: Contest, schedule: Schedule) -> Race:
    race = Race(contest.begin(), contest.calls, schedule)
    race.run()
    return race


def _judge(contest: Contest, race: Race, figures: Figures) -> None:
    figures.schedules += 1
    trail = (f"{race.schedule}", *race.trail)
    assert isinstance(race.case, Case)
    case = race.case.after(*trail)
    has_died = False
    for worker in race.workers:
        if isinstance(worker.error, Crash):
            has_died = True
        elif worker.error is not None:
            raise Violated("I9 outcomes are true", f"{worker.error!r} came out", trail)
    figures.crashed += has_died
    figures.answers.add((_word(race.workers[0].answer), _word(race.workers[1].answer)))
    with judged(case):
        _winners(contest, race, has_died=has_died)
        _told(case, race)
        _recovered(contest, case, race, has_died=has_died)


def _word(answer: Answer | None) -> str:
    if answer is None:
        return "died"
    if isinstance(answer, AuthoringError):
        return answer.code
    return str(getattr(answer, "status", "")) + ":" + answer.reason


def _told(case: Case, race: Race) -> None:
    """Every recovery name that somebody was told is there."""
    for worker in race.workers:
        name = getattr(worker.answer, "recovery_name", None)
        if name is not None and case.disk.at(name) is None:
            raise Violated("I9 outcomes are true", f"{name} is told, not there")
        if getattr(worker.answer, "cleanup_required", False):
            raise Violated("I7 no residue", "one of us could not clear up")
        if isinstance(worker.answer, RecoveryRequired):
            raise Violated("I8 the leaf works again", "one of us needs a person")


def _winners(contest: Contest, race: Race, *, has_died: bool) -> None:
    """Of two different changes one is acknowledged, and what was acknowledged is there."""
    if len(_changed(race)) > 1:
        raise Violated("I2 acknowledged is durable", "both were told that they changed the file")
    for number, worker in enumerate(race.workers):
        answer = worker.answer
        polite = SourceChanged | SourceMissing | TransactionInProgress
        if isinstance(answer, AuthoringError) and not isinstance(answer, polite):
            raise Violated("I9 outcomes are true", f"{number} was refused with {answer.code}")
    has_answer = any(_word(worker.answer).startswith("committed") for worker in race.workers)
    is_replacing = all(contest.wanted)
    if is_replacing and not has_died and not has_answer:
        raise Violated("I8 the leaf works again", "nobody changed the file, and nobody died")


def _changed(race: Race) -> list[int]:
    """Who was told that he changed the file."""
    return [
        number
        for number, worker in enumerate(race.workers)
        if isinstance(worker.answer, ConfinedReplaceOutcome)
        and worker.answer.status is Status.COMMITTED
        and worker.answer.changed
    ]


def _recovered(contest: Contest, case: Case, race: Race, *, has_died: bool) -> None:
    """After recovery nothing is left, and the change can be made."""
    told = {getattr(worker.answer, "recovery_name", None) for worker in race.workers} - {None}
    found = [name for name in truth.leftovers(case) if name not in told]
    if found and not has_died:
        raise Violated("I7 no residue", f"{found} left, and nobody died")
    run = Run(case.after("recover:"), recovering)
    name = getattr(run.answer, "recovery_name", None)
    told |= {name} - {None}
    found = [each for each in truth.leftovers(run.case) if each not in told]
    kept = [each for each in found if each.startswith(".dpone-recovery-")]
    if [each for each in found if each not in kept]:
        raise Violated("I7 no residue", f"{found} left after recovery", (*case.trail, *run.labels))
    target = case.disk.at(LEAF)
    removed = any(getattr(worker.answer, "removed", False) for worker in race.workers)
    if removed and _changed(race):
        raise Violated("I9 outcomes are true", "one file was removed and replaced")
    for number in _changed(race):
        if contest.wanted[number] and (target is None or target.data != contest.wanted[number]):
            raise Violated("I2 acknowledged is durable", "an acknowledged change was overwritten")
    allowed = {E, D, *contest.wanted} - {b""}
    if target is not None and target.data not in allowed:
        raise Violated("I1 never torn", f"the name shows {target.data!r:.40}")
    if target is None and all(contest.wanted):
        raise Violated("I1 never absent", "the name shows nothing")
