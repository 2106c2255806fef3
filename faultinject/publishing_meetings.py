"""Two real publications that meet at one root: every schedule with few preemptions, and deaths.

The baton passes as in `faultinject.schedules`. Promise: whatever the order, what was acknowledged
is in force, a root of ours stands on what it names, and after recovery nothing is left over. One of
two ends, except where files cannot lack a name: a draft is taken for a dead run's between its
creation and its lock, and both may then be told that another change is going on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from dpone.authoring.confined import ConfinedFiles
from dpone.authoring.publish import Publisher, Unpublished
from dpone.contracts.authoring import Status
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_authoring import RecoveryRequired
from dpone.contracts.publication import Publication, PublishOutcome
from faultinject import publishing_truth as truth
from faultinject import schedules
from faultinject.authoring_seeds import Cut, planted
from faultinject.disk import Crash
from faultinject.publishing_rules import Rule
from faultinject.publishing_search import Run, publishing, recovering
from faultinject.publishing_truth import Case
from faultinject.publishing_worlds import ALL_NEW, OTHER, OTHER_NEW, PLAN, standing
from faultinject.schedules import Race, Schedule
from faultinject.violations import Violated, judged


def _publish(plan: Publication, library: ConfinedFiles) -> object:
    return Publisher(library).publish(plan)


def _recover(plan: Publication, library: ConfinedFiles) -> object:
    return recovering(Publisher(library), plan)


@dataclass(frozen=True)
class Meeting:
    """Two calls from one start; `plans` are what each of them has in mind.

    `is_named`: a file cannot lack a name there.
    """

    name: str
    begin: Callable[[], Case]
    calls: tuple[Callable[[ConfinedFiles], object], Callable[[ConfinedFiles], object]]
    plans: tuple[Publication, Publication]
    is_named: bool = False


MEETINGS: Final = (
    Meeting("the same plan", standing, (partial(_publish, PLAN),) * 2, (PLAN, PLAN)),
    Meeting(
        "different plans",
        standing,
        (partial(_publish, PLAN), partial(_publish, OTHER)),
        (PLAN, OTHER),
    ),
    Meeting(
        "the same plan by name",
        partial(standing, nameless=False),
        (partial(_publish, PLAN),) * 2,
        (PLAN, PLAN),
        is_named=True,
    ),
    Meeting(
        "different new roots",
        partial(standing, ALL_NEW),
        (partial(_publish, ALL_NEW), partial(_publish, OTHER_NEW)),
        (ALL_NEW, OTHER_NEW),
    ),
    Meeting(
        "publish and recover",
        standing,
        (partial(_publish, PLAN), partial(_recover, PLAN)),
        (PLAN, PLAN),
    ),
)

# The rules that need two processes.
MEETING_RULES: Final = (
    Rule(
        "the receipt's lock tells the living from the dead",
        (Cut("receipts", "find_receipt", "not record.lock()", "False"),),
        "different plans",
        "schedules",
    ),
    Rule(
        "the locked receipt still bears its name",
        (
            Cut(
                "receipts",
                "find_receipt",
                "shown is None or shown.identity != record.look().identity",
                "False",
            ),
        ),
        "publish and recover",
        "schedules",
    ),
)


@dataclass
class Figures:
    """What the schedules of a meeting were."""

    schedules: int = 0
    crashed: int = 0
    answers: set[tuple[str, str]] = field(default_factory=set)


def explore(meeting: Meeting, *, stride: int = 1, crashes: bool = False) -> Figures:
    """Run every so-manyth schedule with two preemptions, and judge it. Raises `Violated`.

    `crashes`: each worker dies at each of its steps in such schedules with one preemption.
    """
    figures = Figures()
    alone = _raced(meeting, Schedule(0, ()))
    _judge(meeting, alone, figures)
    for number, schedule in enumerate(schedules.schedules(alone.steps, preemptions=2)):
        if number % stride == 0:
            _judge(meeting, _raced(meeting, schedule), figures)
    lengths = [worker.steps for worker in alone.workers] if crashes else []
    for dies, length in enumerate(lengths):
        for at in range(1, length + 1):
            for number, schedule in enumerate(schedules.schedules(alone.steps, preemptions=1)):
                if (number + at) % stride == 0:
                    dying = schedule._replace(dies=dies, dies_at=at)
                    _judge(meeting, _raced(meeting, dying), figures)
    return figures


def _raced(meeting: Meeting, schedule: Schedule) -> Race:
    race = Race(meeting.begin(), meeting.calls, schedule, refusals=(DponeError, Unpublished))
    race.run()
    return race


def _judge(meeting: Meeting, race: Race, figures: Figures) -> None:
    figures.schedules += 1
    first, second = meeting.plans
    begun = meeting.begin()
    trail = (f"{race.schedule}", *race.trail)
    case = replace(begun, disk=race.case.disk, trail=trail, plan=first, loose=True)
    has_died = any(isinstance(worker.error, Crash) for worker in race.workers)
    figures.crashed += has_died
    figures.answers.add((_word(race.workers[0].answer), _word(race.workers[1].answer)))
    with judged(case):
        for worker in race.workers:
            if worker.error is not None and not isinstance(worker.error, Crash):
                raise Violated("I9 outcomes are true", f"{worker.error!r} came out")
        _acknowledged(meeting, case, race)
        for plan, other in ((first, second), (second, first)):
            now = replace(case, plan=plan, first=other)
            truth.at_rest(now)
        if not has_died:
            _nothing_left(meeting, case, has_died=False)
            is_done = any(isinstance(worker.answer, PublishOutcome) for worker in race.workers)
            if not is_done and not meeting.is_named:
                raise Violated("I8 the plan ends", "nobody published, and nobody died")
    _recovered(meeting, replace(case, disk=case.disk.killed()), has_died=has_died)


def _word(answer: object) -> str:
    if isinstance(answer, PublishOutcome):
        return answer.status.value
    if isinstance(answer, Unpublished):
        return f"unpublished {answer.error.code}"
    return answer.code if isinstance(answer, DponeError) else type(answer).__name__


def _acknowledged(meeting: Meeting, case: Case, race: Race) -> None:
    """Who was told that all is in force was told the truth, and nobody needs a person."""
    for number, worker in enumerate(race.workers):
        answer = worker.answer
        if isinstance(answer, PublishOutcome):
            if answer.status in (Status.COMMITTED, Status.NONE):
                now = replace(case, plan=meeting.plans[number])
                if not truth.in_force(now):
                    raise Violated("I2 acknowledged is durable", "one was told so, and it is not")
            if answer.cleanup_required:
                raise Violated("I7 no residue", "one of us could not clear up")
        error = answer.error if isinstance(answer, Unpublished) else answer
        if isinstance(error, RecoveryRequired):
            raise Violated("I8 the plan ends", "one of us needs a person")


def _nothing_left(meeting: Meeting, case: Case, *, has_died: bool) -> None:
    """No record is left, and no new file whose root is not in force, and was not changed since."""
    known = {change.path for plan in meeting.plans for change in plan.changes}
    found = set(truth.leftovers(case)) - known
    if found:
        raise Violated("I7 no residue", f"{sorted(found)} left")
    for plan in meeting.plans:
        truth.undone(replace(case, plan=plan), met=has_died)


def _recovered(meeting: Meeting, case: Case, *, has_died: bool) -> None:
    """Whatever happened: recovery, and the first plan again, leave nothing over."""
    for plan, other in (meeting.plans, meeting.plans[::-1]):
        run = Run(replace(case.after("recover:"), plan=plan, first=other), recovering)
        case = replace(case, trail=(*case.trail, *run.labels))
    with judged(case):
        _nothing_left(meeting, case, has_died=has_died)
    first, second = meeting.plans
    run = Run(replace(case.after("publish again:"), plan=first, first=second), publishing)
    with judged(run.case):
        is_free = not truth.in_force(replace(case, plan=second)) or first is second
        if is_free and not isinstance(run.answer, PublishOutcome):
            raise Violated("I8 the plan ends", f"it does not: {run.answer}")


def meeting_witness(rule: Rule, *, stride: int = 5) -> Violated | None:
    """The violation that the schedules find without the rule."""
    chosen = next(meeting for meeting in MEETINGS if meeting.name == rule.world)
    with planted(*rule.cuts):
        try:
            explore(chosen, stride=stride)
        except Violated as found:
            return found
    return None
