"""What must be true of a cache whose deployments are deleted, whatever happens: the judge.

It knows the disk and what stood there at the beginning, and reads receipts and log by their
contracts; it never asks the code that it judges what to do next. Each rule has a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dpone.contracts import cache_layout as layout
from dpone.contracts.activation_history import decode_history
from dpone.contracts.errors import DponeError
from dpone.contracts.retention_archive import ARCHIVE
from dpone.contracts.retention_log import Replayed
from dpone.contracts.retention_receipt import LegacyReceipt, Receipt, decode_receipt
from dpone.retention.cache import read_receipts, read_recovery
from faultinject.deletion_disk import CacheDisk
from faultinject.deletion_memory import MemoryCache
from faultinject.violations import Violated, demand

ENVIRONMENT = "dev"
Tree = dict[str, tuple[str, bytes]]
Receipts = dict[str, tuple[Receipt | LegacyReceipt, bytes]]
# The marker and the two files of a deployment.
FILES_MIN = 3
READABLE = "R1 control state is readable"
KEPT = "R2 nothing protected is touched"
WHOLE = "R3 no half tree bears its name"
NOT_LOST = "R4 nothing is deleted without its record"
ORDER = "R5 receipt and history come before the first detach"
LAGS = "R6 the receipt never leads the log"
PROMISED = "R7 a committed outcome stays"
ONE_OUTCOME = "R8 one operation, one outcome, one report"
NO_GARBAGE = "R9 nothing is left"
SPARED = "R10 what was built later stays"
ENDS = "R11 the same command ends"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A deployment at the beginning: its inodes, its trees; no activation: number 0."""

    deployment_id: str
    number: int
    tree: Tree
    activation: int = 0
    activation_tree: Tree | None = None


@dataclass(frozen=True, slots=True)
class Book:
    """What stood there when the work began, and what must stand there when it has ended.

    `gone` are the ids that must be deleted then, `statuses` those of all receipts, `phases` those
    that the log may still know, `shows` further names below the root, `needs` those that must be
    there, `begun` the inodes whose deletion had begun before, `came_back` names of candidates that
    something built later bears; with `log_stays` its records are left to the next apply.
    """

    base: int
    candidates: tuple[Candidate, ...]
    kept: dict[str, tuple[str, bytes]]
    history: bytes | None
    gone: frozenset[str]
    statuses: tuple[str, ...]
    phases: tuple[str, ...] = ()
    shows: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    begun: frozenset[int] = frozenset()
    came_back: frozenset[str] = frozenset()
    log_stays: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A disk at some moment, with how it came to that.

    `promised` are receipts that an answer has told; `spared` are directories that were built after
    the operation had begun; `act` is what somebody else did, if he did.
    """

    disk: CacheDisk
    book: Book
    trail: tuple[str, ...] = ()
    promised: tuple[tuple[str, bytes], ...] = ()
    spared: tuple[int, ...] = ()
    act: str = ""
    depth: int = 0

    def key(self) -> object:
        """Equal for cases that can go on in the same ways."""
        return self.disk.key(), self.promised, self.spared, self.act

    def after(self, *steps: str, disk: CacheDisk | None = None) -> Case:
        """The case some steps later."""
        return replace(self, disk=disk or self.disk, trail=(*self.trail, *steps))


# -- reading ---------------------------------------------------------------------------------------


def tree_of(disk: CacheDisk, number: int) -> Tree:
    """Every path below a directory with kind and bytes; modes are judged apart."""
    return {path: (inode.kind.value, inode.data) for path, inode in disk.tree(number)}


def receipts_of(disk: CacheDisk, base: int) -> Receipts:
    """Every receipt by its file's name. Raises `Violated` for one that is none."""
    found: Receipts = {}
    for path in (layout.RECEIPTS, *_segments(disk, base)):
        folder = disk.find(path, base)
        for leaf, number in folder.entries.live.items() if folder and folder.entries else ():
            if not leaf.startswith("sha256-"):
                continue
            try:
                found[leaf] = decode_receipt(disk.inodes[number].data), disk.inodes[number].data
            except DponeError as error:
                raise Violated(READABLE, f"{leaf}: {error}") from error
    return found


def _segments(disk: CacheDisk, base: int) -> list[str]:
    """The complete segments of the archive."""
    folder = disk.find(ARCHIVE, base)
    names = folder.entries.live if folder and folder.entries else {}
    return [f"{ARCHIVE}/{leaf}" for leaf in sorted(names) if leaf.isdigit()]


def recovery_of(disk: CacheDisk, base: int) -> Replayed:
    """Snapshot and log together. Raises `Violated`."""
    try:
        with MemoryCache(disk, base=base).folder("") as root:
            read_receipts(root)
            return read_recovery(root)
    except DponeError as error:
        raise Violated(READABLE, str(error)) from error


def _places(candidate: Candidate) -> Iterator[tuple[str, int, Tree]]:
    deployment = layout.deployment_path(ENVIRONMENT, candidate.deployment_id)
    yield deployment, candidate.number, candidate.tree
    if candidate.activation_tree is not None:
        place = layout.activation_path(ENVIRONMENT, candidate.deployment_id)
        yield place, candidate.activation, candidate.activation_tree


# -- at every moment -------------------------------------------------------------------------------


def at_rest(case: Case) -> None:
    """What holds at every moment, also right after a crash."""
    disk, book = case.disk, case.book
    _kept(case)
    state = recovery_of(disk, book.base)
    receipts = receipts_of(disk, book.base)
    shown = {inode.number: path for path, inode in disk.tree(book.base)}
    begun = _begun(case, state, receipts)
    for candidate in book.candidates:
        for path, number, tree in _places(candidate):
            place = shown.get(number)
            if place == path:
                demand(tree_of(disk, number) == tree, WHOLE, f"{_short(path)} is not whole")
            elif number not in begun:
                is_there = place is not None and place.startswith(layout.TRASH + "/")
                demand(is_there, NOT_LOST, f"{_short(path)} is lost, and its deletion never began")
                demand(tree_of(disk, number) == tree, NOT_LOST, f"{_short(path)} is half deleted")
    _order(case, receipts, shown)
    _lags(case, receipts, shown)
    for name, data in case.promised:
        demand(name in receipts and receipts[name][1] == data, PROMISED, f"{name} has changed")
    for number in case.spared:
        demand(number in shown, SPARED, "what was built later is gone")
        is_whole = len(tree_of(disk, number)) >= FILES_MIN
        demand(is_whole, SPARED, f"{_short(shown[number])}, built later, is not whole")


def _kept(case: Case) -> None:
    found = {
        path: (inode.kind.value, inode.data)
        for path, inode in case.disk.tree(case.book.base)
        if path in case.book.kept
    }
    missing = sorted(case.book.kept.keys() - found.keys())
    demand(not missing, KEPT, f"{missing[:3]} are gone")
    changed = [path for path, value in found.items() if value != case.book.kept[path]]
    demand(not changed, KEPT, f"{changed[:3]} changed")


def _begun(case: Case, state: Replayed, receipts: Receipts) -> set[int]:
    """The inodes whose deletion the log has begun, or a receipt has told."""
    found = set(case.book.begun)
    for identity, it in state.transactions.items():
        if it.phase in ("prepared", "detached", "restored"):
            continue
        occurrence = state.occurrences.get(identity)
        found.add(it.expected_inode)
        if occurrence is not None and occurrence.activation is not None:
            found.add(occurrence.activation.inode)
    told = {
        item.deployment_id
        for receipt, _ in receipts.values()
        for item in receipt.items
        if item.action == "deleted"
    }
    for candidate in case.book.candidates:
        if candidate.deployment_id in told:
            found |= {candidate.number, candidate.activation}
    return found


def _order(case: Case, receipts: Receipts, shown: dict[int, str]) -> None:
    disk, book = case.disk, case.book
    file = disk.find(layout.HISTORY, book.base)
    history = None if file is None else file.data
    every = [it for it, _ in receipts.values() if isinstance(it, Receipt)]
    if history != book.history:
        revision = decode_history(history or b"").revision
        is_named = any(it.activation_history_revision == revision for it in every)
        demand(is_named, ORDER, "the history is new, and no receipt names it")
    for candidate in book.candidates:
        path = layout.deployment_path(ENVIRONMENT, candidate.deployment_id)
        if shown.get(candidate.number) == path:
            continue
        named = [
            it
            for it, _ in receipts.values()
            if isinstance(it, Receipt)
            and any(item.deployment_id == candidate.deployment_id for item in it.items)
        ]
        demand(named, ORDER, f"{_short(path)} was moved without a receipt")
        demand(history is not None, ORDER, f"{_short(path)} was moved before the history")
        revision = decode_history(history or b"").revision
        # The history of an operation that has ended may have given way to that of a later one.
        binding = [it for it in named if it.status == "applying"]
        agree = any(it.activation_history_revision == revision for it in binding or every)
        demand(agree, ORDER, "receipt and history disagree")


def _lags(case: Case, receipts: Receipts, shown: dict[int, str]) -> None:
    numbers = {it.deployment_id: it for it in case.book.candidates}
    for receipt, _ in receipts.values():
        for item in receipt.items:
            candidate = numbers.get(item.deployment_id or "")
            if candidate is None or item.action != "deleted":
                continue
            # What bears the name again has the activation that it found.
            is_back = item.path in case.book.came_back
            parts = {candidate.number} if is_back else {candidate.number, candidate.activation}
            left = parts & shown.keys()
            demand(not left, LAGS, f"{_short(item.path)} is called deleted, and is there")


def _short(path: str) -> str:
    head, _, leaf = path.rpartition("/")
    return f"{head}/{leaf[:14]}"


# -- at the end ------------------------------------------------------------------------------------


def ended(case: Case, *, is_disturbed: bool = False) -> None:
    """What holds once the command has answered: nothing more and nothing less.

    `is_disturbed`: the power went after a run that a crash had preceded; an older log may be back,
    in which nothing is unburied, or a temporary of ours, until the next run.
    """
    disk, book = case.disk, case.book
    receipts = receipts_of(disk, book.base)
    statuses = tuple(sorted(receipt.status for receipt, _ in receipts.values()))
    demand(statuses == book.statuses, ONE_OUTCOME, f"the receipts are {statuses}")
    state = recovery_of(disk, book.base)
    phases = tuple(sorted(it.phase for it in state.transactions.values()))
    demand(phases == book.phases, NO_GARBAGE, f"the log knows {phases}")
    log = disk.find(layout.LOG, book.base)
    is_free = is_disturbed or bool(book.phases) or book.log_stays
    demand(is_free or not (log and log.data), NO_GARBAGE, "the log still knows something")
    shown: dict[int, Any] = {inode.number: path for path, inode in disk.tree(book.base)}
    for candidate in book.candidates:
        for path, number, _ in _places(candidate):
            is_gone = candidate.deployment_id in book.gone
            wanted = None if is_gone else path
            demand(shown.get(number) == wanted, NO_GARBAGE, f"{_short(path)}: {shown.get(number)}")
    there = set(shown.values())
    demand(book.needs <= there, PROMISED, f"{sorted(book.needs - there)} is not there")
    known = {*book.kept, *book.shows, *book.needs, *_control(), *case_places(book)}
    for path, inode in disk.tree(book.base):
        below = any(path.startswith(it + "/") for it in case_places(book))
        is_receipt = path.rpartition("/")[2] in receipts
        is_ours = inode.number in case.spared or (is_disturbed and path.endswith(".tmp"))
        demand(path in known or below or is_receipt or is_ours, NO_GARBAGE, f"{path} is left")
    for number in case.spared:
        is_back = not shown.get(number, layout.TRASH).startswith(layout.TRASH)
        demand(is_back, SPARED, "what was built later lies in the trash")
    _sealed(case, shown)


def _sealed(case: Case, shown: dict[int, Any]) -> None:
    for candidate in case.book.candidates:
        if candidate.activation in shown:
            mode = case.disk.inodes[candidate.activation].mode
            demand(mode & 0o222 == 0, WHOLE, f"an activation that came back has mode {mode:o}")


def case_places(book: Book) -> set[str]:
    """The names of candidates that stay."""
    return {
        path
        for it in book.candidates
        if it.deployment_id not in book.gone
        for path, _, _ in _places(it)
    } | book.came_back


def _control() -> frozenset[str]:
    return frozenset(
        {layout.HISTORY, layout.RECEIPTS, layout.TRASH, layout.WAL, layout.LOG}
        | {layout.PROMOTION_LOCK, layout.RECONCILE_LOCK}
    )
