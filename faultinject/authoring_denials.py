"""Every call of a run denied in turn, with every error that the port knows, once or from then on.

Promise: after each denial the judge is asked; what could not be cleared is cleared by the next run,
and an answer that claims too much is a violation. A denial before a call changes nothing; `late`
ones strike after it, as when a server lost the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dpone.contracts.authoring import ConfinedReplaceOutcome, Status
from dpone.contracts.errors_authoring import AtomicExchangeUnsupported, AuthoringError
from dpone.ports import files
from faultinject import authoring_truth as truth
from faultinject.authoring_truth import LEAF, Answer, Case, D, E
from faultinject.disk import MemoryFiles
from faultinject.persistence import Run, Workload, confined, recovering, replacing
from faultinject.violations import Violated, judged

ERRORS: tuple[type[files.FilesError], ...] = (
    files.FilesError,
    files.AccessDenied,
    files.StorageFull,
    files.SyncFailed,
)
# A question to a descriptor does not fail for want of space, nor does one that syncs nothing.
CHANGES = (
    "stage",
    "create",
    "write",
    "sync",
    "link",
    "exchange",
    "move",
    "unlink",
    "patch",
    "make",
)
STEPS_MAX = 400


@dataclass(frozen=True, slots=True)
class Denial:
    """The error, the number of the call that it strikes, and whether every later one fails too."""

    error: type[files.FilesError]
    at: int
    for_ever: bool = False
    late: bool = False


class _Denied:
    """Runs one call with one denial."""

    def __init__(self, case: Case, denial: Denial) -> None:
        self.case = case
        self.denial = denial
        self.calls = 0
        self.struck = ""

    def run(self, workload: Workload) -> Answer:
        """The answer under the denial."""
        memory = MemoryFiles(self.case.disk, self._watch)
        answer: Answer
        try:
            answer = workload.call(confined(self.case.disk, memory))
        except AuthoringError as error:
            answer = error
        except files.FilesError as error:
            raise Violated("I9 outcomes are true", f"{error!r} came out", self.trail) from error
        memory.die()
        return answer

    @property
    def trail(self) -> tuple[str, ...]:
        return (f"{self.denial.error.__name__} at {self.struck}", f"{self.denial}")

    def _watch(self, label: str) -> None:
        is_after = label.startswith("after ")
        name = label.removeprefix("after ")
        if is_after != self.denial.late or not name.startswith(CHANGES):
            return
        self.calls += 1
        is_due = self.calls == self.denial.at or (
            self.denial.for_ever and self.calls > self.denial.at
        )
        if is_due and not (is_after and name.startswith(("sync", "stage", "create", "patch"))):
            self.struck = self.struck or label
            raise self.denial.error(LEAF, "denied")


def explore(workload: Workload) -> Iterator[tuple[Denial, Answer]]:
    """Every denial and what was answered. Raises `Violated`."""
    for error in ERRORS:
        for for_ever in (False, True):
            for late in (False, True):
                for at in range(1, STEPS_MAX):
                    denial = Denial(error, at, for_ever, late)
                    denied = _Denied(workload.begin(), denial)
                    answer = denied.run(workload)
                    if denied.calls < at:
                        break
                    if denied.struck:
                        _judge(denied, answer)
                        yield denial, answer


def _judge(denied: _Denied, answer: Answer) -> None:
    case = denied.case.after(*denied.trail, f"answered {answer!r}"[:300])
    with judged(case):
        target = case.disk.at(LEAF)
        is_shown = target is not None and not target.by_user and target.data == D
        if not case.is_removal:
            truth.at_rest(case)
            _true(answer, is_shown=is_shown)
        after = Run(case.after("recover:", disk=case.disk.copy()), recovering)
        _settled(answer, replace(after.case, told=_told(answer, after.answer)), after.answer)
        if case.is_removal:
            return
        again = Run(case.after("replace again:"), replacing).answer
        # What a rehearsal showed is remembered as long as the process lives.
        is_verdict = isinstance(answer, AtomicExchangeUnsupported)
        if getattr(again, "status", None) is not Status.COMMITTED and not is_verdict:
            raise Violated("I8 the leaf works again", f"{again!r}"[:200])


def _told(*answers: Answer) -> frozenset[str]:
    names = {getattr(answer, "recovery_name", None) for answer in answers}
    return frozenset(name for name in names if name)


def _true(answer: Answer, *, is_shown: bool) -> None:
    if isinstance(answer, AuthoringError) and is_shown:
        raise Violated("I9 outcomes are true", f"refused with {answer.code}, and changed")
    if isinstance(answer, ConfinedReplaceOutcome):
        is_said = answer.status is Status.COMMITTED
        if is_said and not is_shown:
            raise Violated("I9 outcomes are true", "committed, and not shown")
        if answer.status is Status.ROLLED_BACK and is_shown:
            raise Violated("I9 outcomes are true", "rolled back, and shown")


def _settled(answer: Answer, after: Case, recovered: Answer) -> None:
    """Recovery ends what was left, and agrees with what had been said."""
    found = truth.leftovers(after)
    if found:
        raise Violated("I7 no residue", f"{found} left after recovery")
    if after.is_removal:
        return
    target = after.disk.at(LEAF)
    if target is None or target.data not in (E, D):
        raise Violated("I1 never absent", "the name shows neither")
    was_said = isinstance(answer, ConfinedReplaceOutcome) and answer.status is Status.COMMITTED
    if was_said and target.data != D:
        raise Violated("I2 acknowledged is durable", "recovery undid a committed change")
    if getattr(recovered, "status", None) is Status.RECOVERY_REQUIRED:
        raise Violated("I3 no needless manual recovery", f"{recovered!r}"[:200])
