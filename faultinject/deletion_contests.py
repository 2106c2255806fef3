"""Somebody else acts at one point of a deletion: builds, builds over, or promotes.

The act falls before each change of the first run, one point at a time; promoters wait for the
promotion lock, so that their act does not happen where it is held. Then every crash behind the act
may follow. The same command is run again until it ends; it may refuse now, for something really
changed. What was built later or became protected stays whole, and a fresh review ends everything.
In an interlude the act falls between a run that died and what comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from dpone.contracts import cache_layout as layout
from dpone.contracts.errors import DponeError
from faultinject import deletion_truth as truth
from faultinject.deletion_disk import CacheDisk
from faultinject.deletion_memory import MemoryCache
from faultinject.deletion_persistence import Run
from faultinject.deletion_scenes import OTHER_REVIEW, Answer, Scene, applying, plan_of
from faultinject.deletion_standing import promote, rebuild
from faultinject.deletion_truth import ENVIRONMENT, Case
from faultinject.violations import Violated, demand, judged

_CHANGES = (
    *("create", "replace", "carry", "append", "unlink", "remove-folder", "make-folder"),
    *("move", "mode", "cut", "lock", "sync"),
)
_PROMOTED = (
    *(layout.POINTER, layout.CURRENT, layout.AUDIT),
    f"{layout.STATUS}/{layout.CHECKPOINT}",
)
REFUSED = 1


@dataclass(frozen=True)
class Act:
    """What somebody else does; `do` answers None where it cannot be done now."""

    name: str
    do: Callable[[Case], Case | None]


def _path(case: Case, index: int) -> str:
    return layout.deployment_path(ENVIRONMENT, case.book.candidates[index].deployment_id)


def _is_begun(case: Case) -> bool:
    """Whether a receipt is durable: until then a loss of power begins the operation anew."""
    folder = case.disk.find(layout.RECEIPTS, case.book.base)
    names = folder.entries.durable if folder is not None and folder.entries is not None else {}
    return any(leaf.startswith("sha256-") for leaf in names)


def _build(case: Case, index: int) -> Case | None:
    """The same deployment again, where its name is free by now."""
    if case.disk.find(_path(case, index), case.book.base) is not None:
        return None
    candidate = case.book.candidates[index].deployment_id
    number = rebuild(case.disk, case.book.base, candidate)
    book = replace(case.book, came_back=case.book.came_back | {_path(case, index)})
    return replace(case, spared=(*case.spared, number), book=book)


def _build_over(case: Case, index: int) -> Case | None:
    """The same deployment in the place of the first; before the receipt it is what was planned."""
    candidate = case.book.candidates[index]
    found = case.disk.find(_path(case, index), case.book.base)
    if found is None or found.number != candidate.number:
        return None
    number = rebuild(case.disk, case.book.base, candidate.deployment_id)
    rest = tuple(it for it in case.book.candidates if it is not candidate)
    path = _path(case, index)
    gone = case.book.gone - {candidate.deployment_id}
    book = replace(case.book, candidates=rest, gone=gone, came_back=case.book.came_back | {path})
    spared = (*case.spared, number) if _is_begun(case) else case.spared
    return replace(case, book=book, spared=spared)


def _promote(case: Case, fixture: str, index: int | None, *, is_gone: bool = False) -> Case | None:
    """A candidate, or another deployment, becomes current; whoever is current is protected.

    `is_gone`: only where the candidate's name is free, so that it is built again first; it uses the
    activation that it finds.
    """
    disk, base = case.disk, case.book.base
    lock = disk.find(layout.PROMOTION_LOCK, base)
    assert lock is not None
    if disk.locks.get(lock.number):
        return None
    if index is not None and (disk.find(_path(case, index), base) is None) != is_gone:
        return None
    before = {path for path, _ in disk.tree(base)}
    promote(disk, base, fixture)
    kept = {path: it for path, it in case.book.kept.items() if path not in _PROMOTED}
    shows = case.book.shows | {path for path, _ in disk.tree(base)} - before | {*_PROMOTED}
    book = replace(case.book, kept=kept, shows=frozenset(shows))
    if index is None:
        return replace(case, book=book)
    found = disk.find(_path(case, index), base)
    candidate = book.candidates[index]
    sealed = disk.find(layout.activation_path(ENVIRONMENT, candidate.deployment_id), base)
    assert found is not None
    assert sealed is not None
    places = {_path(case, index), layout.activation_path(ENVIRONMENT, candidate.deployment_id)}
    book = replace(
        book,
        candidates=tuple(it for it in book.candidates if it is not candidate),
        gone=book.gone - {candidate.deployment_id},
        came_back=book.came_back | places,
    )
    return replace(case, book=book, spared=(*case.spared, found.number, sealed.number))


def acts_of(disk: CacheDisk, case: Case) -> tuple[Act, ...]:
    """Every act: on the active candidate, on the last one, and on what is current."""
    fixtures = [_fixture(disk, case, index) for index in range(len(case.book.candidates))]
    return (
        Act("build again", lambda now: _build(now, 1)),
        Act("build the last again", lambda now: _build(now, 2)),
        Act("build over", lambda now: _build_over(now, 1)),
        Act("build over the last", lambda now: _build_over(now, 2)),
        Act("promote a candidate", lambda now: _promote(now, fixtures[1], 1)),
        Act("promote the last candidate", lambda now: _promote(now, fixtures[2], 2)),
        Act(
            "build again and promote",
            lambda now: _promote(now, fixtures[1], 1, is_gone=True),
        ),
        Act("promote another", lambda now: _promote(now, "yet another", None)),
    )


def _fixture(disk: CacheDisk, case: Case, index: int) -> str:
    """The word that gives this deployment."""
    import json

    found = disk.find(f"{_path(case, index)}/{layout.DEPLOYMENT_FILE}", case.book.base)
    assert found is not None
    return str(json.loads(found.data)["fixture_identity"])


class RacedRun(Run):
    """A run in which an act falls before the `at`-th change."""

    def __init__(
        self, case: Case, scene: Scene, is_new: Callable[[Case], bool], act: Act, at: int
    ) -> None:
        self.act = act
        self.left = at
        self.is_raced = False
        super().__init__(case, scene, lambda now: self.is_raced and is_new(now))

    def _watch(self, label: str) -> None:
        if label.startswith(_CHANGES):
            self.left -= 1
            if self.left == 0:
                self._act()
        super()._watch(label)

    def _act(self) -> None:
        try:
            found = self.act.do(self.case)
        except DponeError as error:
            raise RuntimeError(f"{self.act.name}: {error}") from error
        if found is not None:
            self.case = replace(found, act=self.act.name)
            self.labels.append(f"somebody else: {self.act.name}")
            self.is_raced = True


@dataclass
class Seen:
    """What a contest saw."""

    points: int = 0
    raced: int = 0
    crashes: int = 0
    states: int = 0
    answers: dict[str, int] = field(default_factory=dict)


class Contest:
    """One scene with one act at every point; with `crashes`, every crash behind the act too."""

    def __init__(
        self,
        scene: Scene,
        act: Act,
        *,
        weak: bool = True,
        crashes: bool = False,
        since: Callable[[], bool] = lambda: True,
    ) -> None:
        self.scene = scene
        self.since = since
        self.act = act
        self.weak = weak
        self.crashes = crashes
        self.seen = Seen()
        self.known: set[object] = set()

    def explore(self, stride: int = 1, first: int = 1) -> Seen:
        """Every `stride`-th point from `first` on. Raises `Violated`."""
        at = first
        while (run := self._run(at)).left <= 0:
            self.seen.points += 1
            if run.is_raced:
                self.seen.raced += 1
                self._follow(run)
            at += stride
        return self.seen

    def _run(self, at: int) -> RacedRun:
        case = self.scene.begin()
        case.disk.is_ordered = not self.weak
        is_new = self._is_new if self.crashes else lambda _: False
        return RacedRun(case, self.scene, is_new, self.act, at)

    def _is_new(self, case: Case) -> bool:
        return self.since() and case.key() not in self.known

    def _follow(self, run: Run) -> None:
        self._settle(run.ended(), run.answer)
        for moment in run.moments:
            for state in self._states(moment):
                self.seen.crashes += 1
                if state.key() in self.known:
                    continue
                self.known.add(state.key())
                self.seen.states += 1
                with judged(state):
                    truth.at_rest(state)
                again = Run(state.after("run again:", disk=state.disk), self.scene, lambda _: False)
                self._settle(again.ended(), again.answer)

    def _states(self, moment: Case) -> Iterator[Case]:
        yield moment.after("killed", disk=moment.disk.copy())
        for state in moment.disk.power_cuts(weak=self.weak):
            yield moment.after("power cut", disk=state)

    def _settle(self, case: Case, answer: Answer) -> None:
        """The command has ended, says the same again, and a fresh review ends everything."""
        with judged(case):
            truth.at_rest(case)
            self._answered(answer)
        again = Run(case.after("run again:"), self.scene, lambda _: False)
        case = again.ended()
        with judged(case):
            if again.answer.outcome != answer.outcome and answer.exit_code == 0:
                raise Violated(truth.ONE_OUTCOME, f"then {again.answer.code}")
            self._answered(again.answer)
            truth.at_rest(case)
        self._reviewed(case)

    def _answered(self, answer: Answer) -> None:
        self.seen.answers[answer.code] = self.seen.answers.get(answer.code, 0) + 1
        if answer.exit_code not in (0, REFUSED):
            raise Violated(truth.ENDS, f"{answer.code}: {answer.report!r:.200}")

    def _reviewed(self, case: Case) -> None:
        """A fresh plan commits; what it could plan is gone, and the trash is empty."""
        with judged(case):
            try:
                plan = plan_of(case.disk, case.book.base)
            except DponeError as error:
                raise Violated(truth.ENDS, f"no plan: {error}") from error
        memory = MemoryCache(case.disk, base=case.book.base)
        said = applying(plan, OTHER_REVIEW)(memory)
        memory.die()
        # What was built later was reviewed now; what is protected may not go.
        spared = case.spared if "promote" in self.act.name else ()
        after = replace(case.after(f"reviewed anew: {said.code}"), spared=spared)
        with judged(after):
            if said.exit_code != 0:
                raise Violated(truth.ENDS, f"a fresh review: {said.code} {said.report!r:.200}")
            truth.at_rest(after)
            _emptied(after)
            _current(after)


class Interlude(Contest):
    """The act falls where a run has died, before the same command, or a later plan, is applied."""

    def explore(self, stride: int = 1, first: int = 1) -> Seen:
        """Every `stride`-th death from the `first` on. Raises `Violated`."""
        case = self.scene.begin()
        case.disk.is_ordered = not self.weak
        for moment in Run(case, self.scene, lambda _: True).moments[first - 1 :: stride]:
            self.seen.points += 1
            killed = moment.after("killed", disk=moment.disk.copy())
            for state in self._states(moment) if self.crashes else (killed,):
                self._meet(state)
        return self.seen

    def _meet(self, state: Case) -> None:
        found = self.act.do(state)
        if found is None:
            return
        self.seen.raced += 1
        acted = replace(found, act=self.act.name).after(f"somebody else: {self.act.name}")
        with judged(acted):
            truth.at_rest(acted)
        # `Run` works on the disk that it is given.
        self._reviewed(acted.after("no retry:", disk=acted.disk.copy()))
        is_new = self._is_new if self.crashes else lambda _: False
        self._follow(Run(acted.after("run again:"), self.scene, is_new))


def _emptied(case: Case) -> None:
    disk, base = case.disk, case.book.base
    trash = disk.find(layout.TRASH, base)
    left = sorted(trash.entries.live) if trash is not None and trash.entries is not None else []
    demand(not left, truth.NO_GARBAGE, f"{left} is left in the trash")
    state = truth.recovery_of(disk, base)
    phases = {it.phase for it in state.transactions.values()}
    demand(phases <= {"restored"}, truth.NO_GARBAGE, f"the log knows {sorted(phases)}")
    statuses = {it.status for it, _ in truth.receipts_of(disk, base).values()}
    demand("applying" not in statuses, truth.ENDS, "an operation has not ended")
    left = [path for path, _ in disk.tree(base) if path.endswith((".tmp", ".making"))]
    demand(not left, truth.NO_GARBAGE, f"{left} is left")


def _current(case: Case) -> None:
    """What is current has its activation, whole and read-only."""
    disk, base = case.disk, case.book.base
    link = disk.find(layout.CURRENT, base)
    assert link is not None
    active = disk.find(link.data.decode(), base)
    if active is None:
        raise Violated(truth.SPARED, "current leads nowhere")
    whole = len(truth.tree_of(disk, active.number)) >= truth.FILES_MIN
    demand(whole and active.mode & 0o222 == 0, truth.WHOLE, f"current has mode {active.mode:o}")
