"""The persistence engine of deletion: every crash of every step, every state it may leave, retried.

A command is run once. At every change the process may die or the power may go; from each legal
state the same command is run again, with crashes in it again, down to `depth`. However it went, the
command ends with the same answer, nothing is left, and the answer comes again when asked again.
States on which the same can happen are visited once. Promise: breadth first by number of crashes; a
search that stops early says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from faultinject import deletion_truth as truth
from faultinject.deletion_memory import MemoryCache
from faultinject.deletion_scenes import Answer, Scene
from faultinject.deletion_truth import Case
from faultinject.violations import Violated, judged

STEPS_MAX = 5000


@dataclass(frozen=True)
class Bounds:
    """How far to go. `stride`: only every so many of the moments of a first run."""

    depth: int = 1
    weak: bool = True
    states_max: int = 1_000_000


@dataclass
class Figures:
    """What a search saw: legal crash states, those that differ, and runs of the command."""

    crashes: int = 0
    states: int = 0
    runs: int = 0
    moments: int = 0
    sampled: int = 0
    deepest: int = 0
    is_complete: bool = True


class Run:
    """One run of the command on a case's disk; notes the moments that are new to `is_new`."""

    def __init__(self, case: Case, scene: Scene, is_new: Callable[[Case], bool]) -> None:
        self.case = case
        self.is_new = is_new
        self.labels: list[str] = []
        self.moments: list[Case] = []
        self.steps = 0
        self._version = case.disk.version
        cache = MemoryCache(case.disk, self._watch, case.book.base)
        try:
            self.answer: Answer = scene.call(cache)
        except Violated:
            raise
        except Exception as error:
            raise Violated(truth.ENDS, f"{error!r} came out", self.trail) from error
        cache.die()
        self._note()

    @property
    def trail(self) -> tuple[str, ...]:
        """How it came to this."""
        return (*self.case.trail, *self.labels)

    def _watch(self, label: str) -> None:
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Violated(truth.ENDS, f"more than {STEPS_MAX} steps", self.trail)
        if label.startswith("after "):
            self.labels.append(label.removeprefix("after "))
        self._note(*((f"{label}: not yet",) if label.startswith("sync") else ()))

    def _note(self, *steps: str) -> None:
        if self._version != self.case.disk.version:
            self._version = self.case.disk.version
            if self.is_new(self.case):
                twin = self.case.disk.killed()
                self.moments.append(self.case.after(*self.labels, *steps, disk=twin))

    def ended(self) -> Case:
        """The case after the answer."""
        now = self.case.after(*self.labels, f"answered {self.answer.code}")
        told = self.answer.told
        if told is not None and told not in now.promised:
            now = replace(now, promised=(*now.promised, told))
        return now


class Search:
    """One exploration of one scene; no crash is looked at before `since` says so."""

    def __init__(
        self, scene: Scene, bounds: Bounds, since: Callable[[], bool] = lambda: True
    ) -> None:
        self.scene = scene
        self.since = since
        self.bounds = bounds
        self.figures = Figures()
        self.seen: set[object] = set()
        self.finished: set[object] = set()
        self.queue: deque[Case] = deque()
        self.wanted: tuple[int, str, str] | None = None

    def explore(self) -> Figures:
        """Visit everything within the bounds. Raises `Violated`."""
        self.step(self._begin())
        while self.queue:
            self.step(self.queue.popleft())
        return self.figures

    def _begin(self) -> Case:
        case = self.scene.begin()
        case.disk.is_ordered = not self.bounds.weak
        with judged(case):
            truth.at_rest(case)
        return case

    def step(self, case: Case) -> None:
        """Run the command from a state, and go on from every crash in it."""
        self.figures.deepest = max(self.figures.deepest, case.depth)
        is_new = self._is_new if case.depth < self.bounds.depth else _never
        run = self._run(case.after("run:" if not case.depth else "run again:"), is_new)
        after = run.ended()
        for moment in run.moments:
            self._crash(moment)
        self._finish(after, run.answer)

    def _is_new(self, case: Case) -> bool:
        """Whether a death here leaves what was not seen yet; else its power cuts are known too."""
        self.figures.moments += 1
        return self.since() and case.key() not in self.seen

    def _run(self, case: Case, is_new: Callable[[Case], bool]) -> Run:
        self.figures.runs += 1
        run = Run(case, self.scene, is_new)
        if self.wanted is None:
            self.wanted = run.answer.outcome
        if run.answer.outcome != self.wanted:
            said = f"{run.answer.outcome[:2]}, wanted {self.wanted[:2]}: {run.answer.report!r:.200}"
            raise Violated(truth.ONE_OUTCOME, said, run.trail)
        return run

    def _finish(self, after: Case, answer: Answer) -> None:
        """The command has answered: judge, lose the power, and ask again."""
        key = after.key()
        if key in self.finished:
            return
        self.finished.add(key)
        self._judge(after, is_disturbed=False)
        for state in after.disk.killed().power_cuts(weak=self.bounds.weak):
            cut = after.after("power cut", disk=state)
            # A run that nothing disturbed had everything durable when it answered.
            self._judge(cut, is_disturbed=after.depth > 0)
            self._ask_again(cut, answer)
        self._ask_again(after, answer)

    def _judge(self, case: Case, *, is_disturbed: bool) -> None:
        with judged(case):
            truth.at_rest(case)
            truth.ended(case, is_disturbed=is_disturbed)

    def _ask_again(self, case: Case, answer: Answer) -> None:
        key = "asked", case.key()
        if key in self.finished:
            return
        self.finished.add(key)
        again = self._run(case.after("ask again:", disk=case.disk.copy()), _never)
        with judged(said := again.ended()):
            if answer.told is not None and not again.answer.replayed:
                raise Violated(truth.ONE_OUTCOME, "asked again, it did something")
        self._judge(said, is_disturbed=False)

    def _crash(self, moment: Case) -> None:
        """Every state after a crash at this moment, judged, and queued when it is new."""
        if not self._add(moment.after("killed", disk=moment.disk)):
            return
        for state in moment.disk.power_cuts(weak=self.bounds.weak):
            self._add(moment.after("power cut", disk=state))
        self.figures.sampled += moment.disk.sampled

    def _add(self, case: Case) -> bool:
        self.figures.crashes += 1
        key = case.key()
        if key in self.seen:
            return False
        if len(self.seen) >= self.bounds.states_max:
            self.figures.is_complete = False
            return False
        self.seen.add(key)
        self.figures.states += 1
        with judged(case):
            truth.at_rest(case)
        self.queue.append(replace(case, depth=case.depth + 1))
        return True


def _never(_: Case) -> bool:
    return False


def first_violation(
    scene: Scene, bounds: Bounds, since: Callable[[], bool] = lambda: True
) -> Violated | None:
    """The first violation, or None when the scene holds within the bounds."""
    try:
        Search(scene, bounds, since).explore()
    except Violated as found:
        return found
    return None
