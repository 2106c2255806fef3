"""What must be true of a file that is replaced or removed, whatever happens: the judge.

It knows the disk's books (which bytes other programs wrote and did not destroy themselves), and
never the recovery table. Each rule has a name, which `Violated` carries. One exception is accepted,
the first row of the table: what cannot be read blocks automatic recovery until a person asks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpone.contracts.authoring import (
    ConfinedRecoveryOutcome,
    ConfinedReplaceOutcome,
    ConfinedRollbackOutcome,
    Kind,
    Status,
)
from dpone.contracts.errors_authoring import (
    AuthoringError,
    RecoveryRequired,
    TargetHardLinked,
    TransactionInProgress,
)
from dpone.contracts.transaction import PHASE_OFFSET
from faultinject.authoring_editors import Act
from faultinject.authoring_inodes import FOREIGN, Disk, Inode
from faultinject.violations import demand

LEAF = "pipeline.yaml"
E = b"expected: earlier\n"
D = b"desired: later and longer\n"

Answer = ConfinedReplaceOutcome | ConfinedRecoveryOutcome | ConfinedRollbackOutcome | AuthoringError


@dataclass(frozen=True, slots=True)
class Case:
    """A disk at some moment, and what the judge has to remember about its past.

    `expected` is the inode that the transaction began with. `act` is what another program did, if
    it did; `told` are the recovery names that an outcome has named; `acknowledged` is the inode of
    a change that was reported as durable.
    """

    disk: Disk
    expected: int
    trail: tuple[str, ...] = ()
    act: Act | None = None
    told: frozenset[str] = frozenset()
    acknowledged: int = 0
    depth: int = 0
    is_removal: bool = False
    is_seeded: bool = False

    def key(self) -> object:
        """Equal for cases that can go on in the same ways."""
        act = self.act.name if self.act is not None else ""
        told = self.told.intersection(self.disk.entries().live)
        return self.disk.key(), self.expected, act, told, self.acknowledged, self.is_removal

    def after(self, *steps: str, disk: Disk | None = None) -> Case:
        """The case some steps later."""
        return replace(self, disk=disk or self.disk, trail=(*self.trail, *steps))


def is_ours(inode: Inode | None) -> bool:
    """Whether this is a file that our change made, and that nobody wrote to since."""
    return inode is not None and not inode.by_user


def at_rest(case: Case) -> None:
    """What holds at every moment, also right after a crash."""
    disk = case.disk
    target = disk.at(LEAF)
    is_removed = case.act is not None and case.act.may_remove
    may_remove = case.is_removal or case.is_seeded or is_removed
    demand(target is not None or may_remove, "I1 never absent", "the name shows nothing")
    if is_ours(target):
        assert target is not None
        demand(target.data == D, "I1 never torn", f"the name shows {target.data[:40]!r} of ours")
    is_known = case.act is None and not case.is_seeded
    if target is not None and target.number == case.expected and is_known:
        demand(
            target.data == (D if case.is_removal else E),
            "I1 never torn",
            f"the earlier file holds {target.data[:40]!r}",
        )
    lost = disk.precious - disk.reachable()
    demand(not lost, "I5 no byte of others lost", f"no name shows {sorted(lost)!r:.60}")
    if case.acknowledged:
        number = target.number if target is not None else 0
        is_undone = number == case.expected or (target is None and case.act is None)
        demand(not is_undone, "I2 acknowledged is durable", "the acknowledged change is undone")


def live_versions(case: Case) -> None:
    """While nothing crashes, every version of others has a name, durable or not."""
    lost = case.disk.precious - case.disk.reachable()
    demand(not lost, "I5 no byte of others lost", f"no name shows {sorted(lost)!r:.60}")


def still_there(before: Case, after: Case) -> None:
    """Recovery never empties the name, unless it is there to remove the file."""
    if before.disk.at(LEAF) is not None and not before.is_removal:
        demand(after.disk.at(LEAF) is not None, "I1 never absent", "recovery emptied the name")


def rescued(case: Case) -> None:
    """Whoever was held up while a file lost its name finds what he wrote under some name."""
    lost = case.disk.rescuable - case.disk.reachable()
    demand(not lost, "I5 no byte of others lost", f"not rescued: {sorted(lost)!r:.60}")
    case.disk.precious |= case.disk.rescuable
    case.disk.rescuable.clear()


def earlier_version(before: Disk, after: Disk) -> None:
    """A name that somebody else removed before the commit: the earlier bytes are kept."""
    phases = [
        before.inodes[number].data[PHASE_OFFSET : PHASE_OFFSET + 1]
        for name, number in before.entries().live.items()
        if name.endswith("transaction.json")
    ]
    if before.at(LEAF) is None and E in before.reachable() and phases in ([b"1"], [b"2"]):
        demand(E in after.reachable(), "I5 no byte of others lost", "the earlier bytes went")


def leftovers(case: Case) -> list[str]:
    """Names beside the file that no outcome has told."""
    theirs = {LEAF, LEAF + "~", *case.told}
    return sorted(name for name in case.disk.entries().live if name not in theirs)


def untold(case: Case) -> Case:
    """A run that had closed its journal was done; what it kept was on its way to be told."""
    live = case.disk.entries().live
    if any("transaction" in name for name in live):
        return case
    kept = {name for name in live if name.startswith(".dpone-recovery-")}
    return replace(case, told=case.told | kept)


def answered(case: Case, answer: Answer, *, raced: bool) -> Case:
    """Judge what a call said against what is there; `raced`: another program acted during it."""
    if isinstance(answer, AuthoringError):
        return _refused(case, answer)
    also = () if isinstance(answer, ConfinedRecoveryOutcome) else answer.also_kept
    for name in (answer.recovery_name, *also):
        if name is None:
            continue
        demand(case.disk.at(name) is not None, "I9 outcomes are true", f"{name} is told, not there")
        case = replace(case, told=case.told | {name})
    if isinstance(answer, ConfinedRollbackOutcome):
        _removed(case, answer)
    elif answer.status is Status.COMMITTED:
        _committed(case, answer, raced=raced)
    elif answer.status is Status.ROLLED_BACK:
        _rolled_back(case, answer, raced=raced)
    elif answer.status is Status.RECOVERY_REQUIRED:
        _needs_a_person(case, answer, raced=raced)
    if not answer.cleanup_required:
        found = leftovers(case)
        demand(not found, "I7 no residue", f"{found} left and not told")
    return case


def _refused(case: Case, answer: AuthoringError) -> Case:
    demand(
        not isinstance(answer, TransactionInProgress),
        "I4 the dead block nobody",
        "in progress, and nobody lives",
    )
    # No world here has a file with two names.
    demand(not isinstance(answer, TargetHardLinked), "I9 outcomes are true", "no second link")
    if isinstance(answer, RecoveryRequired):
        names = {*str(answer.fields.get("recovery_name", "none")).split(", ")} - {"none"}
        return replace(case, told=case.told | names | {*answer.kept})
    case = replace(case, told=case.told | {*answer.kept})
    found = leftovers(case)
    demand(not found, "I7 no residue", f"{found} left after a refusal")
    return case


def _committed(
    case: Case, answer: ConfinedReplaceOutcome | ConfinedRecoveryOutcome, *, raced: bool
) -> None:
    target = case.disk.at(LEAF)
    is_known = is_ours(target) or not case.expected
    is_shown = is_known and target is not None and target.data == D
    if isinstance(answer, ConfinedReplaceOutcome):
        is_shown = is_shown or (target is not None and target.data == D and not answer.changed)
        demand(is_shown or case.act is not None, "I9 outcomes are true", "committed, and not shown")
    elif not raced:
        demand(
            is_shown != answer.changed_since,
            "I9 outcomes are true",
            f"changed_since is {answer.changed_since}; desired bytes of ours: {is_shown}",
        )


def _rolled_back(
    case: Case, answer: ConfinedReplaceOutcome | ConfinedRecoveryOutcome, *, raced: bool
) -> None:
    target = case.disk.at(LEAF)
    is_shown = is_ours(target) and target is not None and target.data == D
    is_free = case.is_removal or case.is_seeded
    demand(not is_shown or is_free, "I9 outcomes are true", "rolled back, and shown")
    demand(not case.acknowledged, "I9 outcomes are true", "acknowledged, then rolled back")
    if raced:
        return
    kept = case.disk.at(answer.recovery_name) if answer.recovery_name is not None else None
    is_foreign = kept is not None and kept.number >= FOREIGN and kept.data in case.disk.precious
    is_foreign = is_foreign and not case.is_removal and case.expected != 0
    demand(not is_foreign, "I9 outcomes are true", "bytes of others are kept, and nobody is told")
    if answer.reason == "not_committed" and case.expected and not case.is_removal:
        is_earlier = target is not None and target.number == case.expected and target.data == E
        demand(is_earlier, "I9 outcomes are true", "not committed, and the source had changed")
    if answer.reason == "not_owned" and not case.is_seeded:
        is_owned = target is not None and target.number == case.expected
        demand(not is_owned, "I9 outcomes are true", "not owned, and it is")
    if answer.reason == "source_missing":
        demand(target is None, "I9 outcomes are true", "missing, and there")
    if answer.reason in ("source_changed", "not_committed") and not case.is_removal:
        demand(target is not None, "I9 outcomes are true", f"{answer.reason}, and missing")
    if answer.reason == "source_changed":
        demand(case.act is not None or case.is_seeded, "I9 outcomes are true", "nobody changed it")


def _needs_a_person(
    case: Case, answer: ConfinedReplaceOutcome | ConfinedRecoveryOutcome, *, raced: bool
) -> None:
    act = case.act
    if case.is_seeded or (act is not None and act.is_opaque):
        return
    demand(act is not None, "I3 no needless manual recovery", f"{answer.reason}, and no rival")
    is_shown = is_ours(case.disk.at(LEAF)) and not case.is_removal
    demand(not is_shown, "I3 no needless manual recovery", "his version could have its name back")
    kept = case.disk.at(answer.recovery_name) if answer.recovery_name is not None else None
    demand(
        kept is not None and kept.by_user,
        "I3 no needless manual recovery",
        f"{answer.reason}: what is kept is nobody's",
    )
    if isinstance(answer, ConfinedRecoveryOutcome) and not raced:
        _newer(case, answer, kept)


def _newer(case: Case, answer: ConfinedRecoveryOutcome, kept: Inode | None) -> None:
    """Where two versions exist the answer says which one was written later."""
    target = case.disk.at(LEAF)
    if target is None or kept is None or {target.kind, kept.kind} != {Kind.FILE}:
        return
    wanted = "recovery" if kept.modified > target.modified else "target"
    demand(answer.newer == wanted, "I9 outcomes are true", f"newer is {answer.newer or 'unsaid'}")


def _removed(case: Case, answer: ConfinedRollbackOutcome) -> None:
    target = case.disk.at(LEAF)
    is_there = target is not None and target.number == case.expected
    demand(not (answer.removed and is_there), "I9 outcomes are true", "removed, and still shown")
    if answer.reason == "missing":
        demand(target is None, "I9 outcomes are true", "missing, and there")
