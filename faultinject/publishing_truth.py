"""What must be true of several files that are published as one, whatever happens: the judge.

It knows the plan, the disk's books and what another program did and where; never the receipt. A
file is ours while nobody else wrote to its inode. What a reader may rely on is asked at every
moment: a root of ours stands on what it names, and new files appear and go in the plan's order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from dpone.authoring.publish import Unpublished
from dpone.contracts.authoring import Kind, Status
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_authoring import RecoveryRequired, TransactionInProgress
from dpone.contracts.publication import Change, FileOutcome, Publication, PublishOutcome
from faultinject.authoring_inodes import ROOT, Disk, Inode
from faultinject.violations import demand

Concluded = tuple[FileOutcome, ...]
Answer = PublishOutcome | Unpublished | DponeError | Concluded

_KEPT = ".dpone-recovery-"


class Rival(NamedTuple):
    """One thing that another program does to one file of a plan.

    `may_remove`: the name may be absent after. `is_opaque`: nobody can read what it shows then.
    """

    name: str
    path: str
    act: Callable[[Disk, int, str], None]
    may_remove: bool = False
    is_opaque: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A disk at some moment, and what the judge has to remember about its past.

    `rival` is what another program did, if it did; `spoiled`: it took the place of something that
    this very run had already relied on, before the root's turn. `told` are the kept names that an
    outcome has named; `acknowledged`: a run said that everything is in force and durable.
    `denied`: calls are refused, so that clearing up completely is not owed; `loose`: they were, so
    that order among what is left is not.
    `first` is the plan of an earlier run, when another one is applied. `is_seeded`: it began with
    something beside the root that no run of ours leaves.
    """

    disk: Disk
    plan: Publication
    trail: tuple[str, ...] = ()
    rival: Rival | None = None
    spoiled: bool = False
    told: frozenset[str] = frozenset()
    acknowledged: bool = False
    denied: bool = False
    loose: bool = False
    depth: int = 0
    first: Publication | None = None
    is_seeded: bool = False

    def after(self, *steps: str, disk: Disk | None = None) -> Case:
        """The case some steps later."""
        return replace(self, disk=disk or self.disk, trail=(*self.trail, *steps))

    def touched(self, path: str) -> bool:
        """Whether another program acted on a file."""
        return self.rival is not None and self.rival.path == path

    def may_lack(self, path: str) -> bool:
        """Whether another program may have removed a file."""
        return self.rival is not None and self.rival.path == path and self.rival.may_remove


# -- what is there ---------------------------------------------------------------------------------


def shown(disk: Disk, path: str) -> Inode | None:
    """What bears a path."""
    found: Inode | None = disk.inodes[ROOT]
    for part in path.split("/"):
        if found is None or found.entries is None:
            return None
        found = disk.at(part, found.number)
    return found


def walk(disk: Disk) -> dict[str, Inode]:
    """Everything that has a path, folders too."""
    found: dict[str, Inode] = {}
    waiting = [("", ROOT)]
    while waiting:
        above, number = waiting.pop()
        for leaf, child in disk.entries(number).live.items():
            inode = disk.inodes[child]
            found[above + leaf] = inode
            if inode.entries is not None:
                waiting.append((above + leaf + "/", child))
    return found


def is_ours(inode: Inode | None) -> bool:
    """Whether this is a file that we made, and that nobody else wrote to since."""
    return inode is not None and not inode.by_user


def news(plan: Publication) -> tuple[Change, ...]:
    """The files that a plan creates before its root, and that go when it is undone."""
    return tuple(
        change
        for change in plan.changes
        if change.is_new and change is not plan.root and not change.shared
    )


def in_force(case: Case) -> bool:
    """Whether the root shows the planned bytes, whoever put them there."""
    root = shown(case.disk, case.plan.root.path)
    return root is not None and root.data == case.plan.root.after


# -- at every moment -------------------------------------------------------------------------------


def at_rest(case: Case) -> None:
    """What holds at every moment, also right after a crash."""
    for change in case.plan.changes:
        _whole(case, change, shown(case.disk, change.path))
    _stands(case)
    if not case.loose:
        _ordered(case)
    lost = case.disk.precious - case.disk.reachable()
    demand(not lost, "I5 no byte of others lost", f"no name shows {sorted(lost)!r:.60}")
    root = shown(case.disk, case.plan.root.path)
    if case.acknowledged and not case.touched(case.plan.root.path):
        demand(
            is_ours(root) and in_force(case),
            "I2 acknowledged is durable",
            "the acknowledged publication is undone",
        )


def _whole(case: Case, change: Change, inode: Inode | None) -> None:
    """A name that was there stays, and no file of ours is half written."""
    if change.before is not None and not case.may_lack(change.path):
        demand(inode is not None, "I1 never absent", f"{change.path} shows nothing")
    if inode is not None and is_ours(inode):
        allowed = {change.after, change.before}
        if case.first is not None:
            allowed |= {each.after for each in case.first.changes if each.path == change.path}
        demand(
            inode.data in allowed,
            "I1 never torn",
            f"{change.path} shows {inode.data[:40]!r} of ours",
        )


def _stands(case: Case) -> None:
    """A root that we put in force has everything that it names."""
    root = shown(case.disk, case.plan.root.path)
    if not (is_ours(root) and in_force(case)):
        return
    demand(not case.spoiled, "I6 the root stands on the plan", "it does not, and we knew")
    for change in case.plan.changes[:-1]:
        inode = shown(case.disk, change.path)
        if not case.may_lack(change.path):
            demand(
                inode is not None,
                "I6 the root stands on the plan",
                f"{change.path}, which it names, is not there",
            )
        if inode is not None and not case.touched(change.path):
            demand(
                inode.data == change.after,
                "I6 the root stands on the plan",
                f"{change.path} is another than planned",
            )


def _ordered(case: Case) -> None:
    """Of the new files of ours there is always a first part of the plan, never a later one."""
    earlier: Change | None = None
    for change in news(case.plan):
        if earlier is not None and is_ours(shown(case.disk, change.path)):
            is_there = shown(case.disk, earlier.path) is not None or case.may_lack(earlier.path)
            demand(
                is_there,
                "I6 new files come and go in order",
                f"{change.path} is there without {earlier.path}",
            )
        earlier = change


# -- at the end of a run ---------------------------------------------------------------------------


def leftovers(case: Case) -> list[str]:
    """Files beside the plan's that no outcome has told."""
    plan = {change.path for change in case.plan.changes}
    theirs = {case.rival.path, case.rival.path + "~"} if case.rival is not None else set()
    allowed = plan | theirs | case.told
    # Where a write was refused a record that never had its name is cleared by the next run.
    allowed |= {path for path in walk(case.disk) if case.denied and path.endswith(".draft")}
    return sorted(
        path
        for path, inode in walk(case.disk).items()
        if inode.kind is not Kind.FOLDER and path not in allowed
    )


def untold(case: Case) -> Case:
    """A run that had closed a journal was done with it; what it kept was on its way to be told."""
    paths = walk(case.disk)
    open_ones = b"".join(i.data for path, i in paths.items() if "transaction.json" in path)
    kept = {path for path in paths if path.rpartition("/")[2].startswith(_KEPT)}
    closed = {path for path in kept if path.rpartition(_KEPT)[2].encode() not in open_ones}
    return replace(case, told=case.told | closed)


def undone(case: Case, *, met: bool = False) -> None:
    """Nothing of ours is there unless the root is in force, or somebody else changed the root.

    `met`: that somebody may have been another run of ours, while this one died.
    """
    root = case.plan.root
    now = shown(case.disk, root.path)
    is_changed = (None if now is None else now.data) not in (root.before, root.after)
    is_theirs = case.touched(root.path) or (met and is_changed)
    if in_force(case) or is_theirs or case.denied:
        return
    for change in news(case.plan):
        inode = shown(case.disk, change.path)
        demand(
            not is_ours(inode),
            "I6 exactly ours is undone",
            f"{change.path} of ours is left, and the root does not name it",
        )


def answered(case: Case, answer: Answer, *, raced: bool) -> Case:
    """Judge what a run said against what is there; `raced`: another program acted during it."""
    if isinstance(answer, tuple):
        names = tuple(file.recovery_name for file in answer if file.recovery_name)
        return _names(case, names)
    if isinstance(answer, DponeError):
        return _refused(case, answer)
    outcome = answer.outcome if isinstance(answer, Unpublished) else answer
    case = _names(case, outcome.recovery_names)
    if isinstance(answer, Unpublished) and isinstance(answer.error, RecoveryRequired):
        case = _told_by(case, answer.error)
    for file in outcome.files:
        if not (raced and case.touched(file.path)):
            _file(case, file)
    if outcome.status in (Status.COMMITTED, Status.NONE):
        _committed(case, raced=raced)
    elif outcome.status is Status.ROLLED_BACK:
        _rolled_back(case, {issue.path for issue in outcome.issues if issue.action == "preserved"})
    elif outcome.status is Status.RECOVERY_REQUIRED:
        is_due = case.rival is not None or case.denied
        demand(is_due, "I3 no needless manual recovery", f"{outcome.reason}, and no rival")
    if not outcome.cleanup_required:
        found = leftovers(case)
        demand(not found, "I7 no residue", f"{found} left and not told")
    return case


def _names(case: Case, names: tuple[str, ...]) -> Case:
    """Every kept name that is told is there, and nothing is kept that is nobody's."""
    for name in names:
        demand(
            shown(case.disk, name) is not None, "I9 outcomes are true", f"{name} is told, not there"
        )
    is_due = case.rival is not None or case.denied or case.loose or not case.disk.proves
    demand(
        not names or is_due, "I3 no needless manual recovery", f"{names} is kept, and is nobody's"
    )
    return replace(case, told=case.told | set(names))


def _told_by(case: Case, error: RecoveryRequired) -> Case:
    names = {*str(error.fields.get("recovery_name", "none")).split(", ")} - {"none"}
    return replace(case, told=case.told | names | {*error.kept})


def _refused(case: Case, answer: DponeError) -> Case:
    demand(
        not isinstance(answer, TransactionInProgress),
        "I4 the dead block nobody",
        "in progress, and nobody lives",
    )
    if isinstance(answer, RecoveryRequired):
        return _told_by(case, answer)
    case = replace(case, told=case.told | {*answer.kept})
    if not case.denied:
        found = leftovers(case)
        demand(not found, "I7 no residue", f"{found} left after a refusal")
    undone(case)
    return case


def _file(case: Case, file: FileOutcome) -> None:
    """What is said of one file is what it shows."""
    change = next(each for each in case.plan.changes if each.path == file.path)
    inode = shown(case.disk, file.path)
    is_after = inode is not None and inode.data == change.after
    is_mine = is_ours(inode) and is_after
    facts = {
        "create": is_after,
        "update": is_after,
        "no_op": is_after,
        # Another root may stand on a shared file.
        "rolled_back": not is_mine and not change.shared
        if change.is_new
        else not is_mine or is_before(change),
        "preserved": inode is not None if change.shared else not is_mine or is_before(change),
        "not_applied": not is_mine or is_before(change),
    }
    is_true = facts.get(file.action, True) or case.touched(file.path)
    demand(is_true, "I9 outcomes are true", f"{file.path} is said to be {file.action}")


def is_before(change: Change) -> bool:
    """Whether a change changes nothing."""
    return change.before == change.after


def stays(case: Case, *, was: bool) -> bool:
    """What was in force through us stays in force, whatever fails after that; whether it is."""
    root = case.plan.root.path
    is_so = is_ours(shown(case.disk, root)) and in_force(case)
    is_free = case.touched(root) or not was
    demand(is_so or is_free, "I6 what is in force stays", "the root was taken back")
    return is_so


def lasts(case: Case, answer: Answer, made: list[str]) -> None:
    """What a run said is still so after a loss of power; `made` are the folders that it made."""
    if isinstance(answer, RecoveryRequired):
        for name in {*str(answer.fields.get("recovery_name", "none")).split(", ")} - {"none"}:
            is_there = shown(case.disk, name) is not None or case.rival is not None
            demand(is_there, "I9 outcomes are true", f"{name} is gone again")
    outcome = answer.outcome if isinstance(answer, Unpublished) else answer
    if not isinstance(outcome, PublishOutcome) or outcome.cleanup_required:
        return
    if outcome.status in (Status.COMMITTED, Status.ROLLED_BACK):
        found = leftovers(case)
        demand(not found, "I7 no residue", f"{found} come back after the answer")
    if outcome.status is Status.ROLLED_BACK:
        emptied(case, made)


def emptied(case: Case, made: list[str]) -> None:
    """A run that was undone leaves no empty folder that it made; `made` are their names."""
    for path, inode in walk(case.disk).items():
        is_empty = inode.entries is not None and not inode.entries.live
        is_made = path.rpartition("/")[2] in made
        demand(not (is_empty and is_made), "I7 no residue", f"the empty folder {path} is left")


def _committed(case: Case, *, raced: bool) -> None:
    root = case.plan.root.path
    if not (raced and case.touched(root)):
        demand(in_force(case), "I9 outcomes are true", "committed, and the root does not show it")


def _rolled_back(case: Case, preserved: set[str]) -> None:
    """`preserved`: left by an earlier run whose root somebody changed since, and told."""
    root = shown(case.disk, case.plan.root.path)
    is_shown = is_ours(root) and in_force(case)
    demand(not is_shown, "I9 outcomes are true", "rolled back, and the root is in force")
    demand(not case.acknowledged, "I9 outcomes are true", "acknowledged, then rolled back")
    for change in (*news(case.plan), *case.plan.edits):
        inode = shown(case.disk, change.path)
        is_mine = is_ours(inode) and inode is not None and inode.data == change.after
        demand(
            not is_mine
            or is_before(change)
            or case.touched(change.path)
            or change.path in preserved,
            "I9 outcomes are true",
            f"rolled back, and {change.path} of ours is there",
        )
