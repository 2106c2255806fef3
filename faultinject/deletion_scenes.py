"""The workloads of deletion on a disk in memory: what stands there, and which command is run.

Each command is the real one, as the desk of retention makes it. A scene that begins in the middle
is made by the same code, stopped where the scene begins, and then had all the time to be durable.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from itertools import count
from typing import NamedTuple

from dpone.contracts import cache_layout as layout
from dpone.contracts.codec import encode
from dpone.contracts.errors import DponeError
from dpone.contracts.retention_apply import report_of_receipt
from dpone.contracts.retention_receipt import Receipt, encode_receipt, receipt_name
from dpone.ports import files
from dpone.retention.cache import Document
from dpone.retention.desk import RetentionDesk
from dpone.retention.materialize import Preview
from dpone.retention.plan import Planner
from dpone.retention.request import Request
from faultinject.deletion_disk import CacheDisk
from faultinject.deletion_memory import MemoryCache
from faultinject.deletion_standing import (
    ACK,
    DAGS,
    book_of,
    candidate_of,
    history_of,
    maker_of,
    promote,
    rebuild,
    standing,
)
from faultinject.deletion_truth import ENVIRONMENT, Book, Case
from faultinject.disk import Crash, Watcher, unwatched

REVIEW = "0f8fad5b-d9cb-469f-a165-70867728950e"
OTHER_REVIEW = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
THIRD_REVIEW = "9b2c1d7e-55aa-4c0e-8d0e-1f2a3b4c5d6e"
_NONCE = re.compile(rb"0{20}[0-9a-f]{12}")


class Answer(NamedTuple):
    """What a command said: its exit code, its code, its whole report, and the receipt it told."""

    exit_code: int
    code: str
    report: str = ""
    told: tuple[str, bytes] | None = None
    replayed: bool = False

    @property
    def outcome(self) -> tuple[int, str, str]:
        """What has to be the same whenever it is run."""
        return self.exit_code, self.code, self.report


Call = Callable[[MemoryCache], Answer]


@dataclass(frozen=True)
class Scene:
    """A start, and the command that is run until it ends."""

    name: str
    begin: Callable[[], Case]
    call: Call


# -- the command -----------------------------------------------------------------------------------


class _Nonces:
    """The least numbers that nothing on the disk mentions, so that alike disks stay alike."""

    def __init__(self, disk: CacheDisk) -> None:
        self.used = {
            int(found, 16)
            for path, inode in disk.tree()
            for text in (path.encode(), inode.data if b"dev/" in inode.data else b"")
            for found in _NONCE.findall(text)
        }

    def __call__(self) -> str:
        number = next(it for it in count(1) if it not in self.used)
        self.used.add(number)
        return f"{number:032x}"


def desk_of(cache: MemoryCache) -> RetentionDesk:
    """The desk of a cache in memory, which waits for nobody."""
    return RetentionDesk(
        cache,
        ENVIRONMENT,
        nonces=_Nonces(cache.cache),
        reconcile_wait_s=0.0,
        promotion_wait_s=0.0,
    )


def answered(call: Callable[[], Answer]) -> Answer:
    """A typed refusal is an answer; anything else comes through."""
    try:
        return call()
    except DponeError as error:
        fields = {name: str(value) for name, value in sorted(error.fields.items())}
        return Answer(error.exit_code, error.code, encode(fields))


def applying(plan: str, review: str = REVIEW) -> Call:
    """`cache-retention-apply`."""

    def apply(cache: MemoryCache) -> Answer:
        request = Request(ENVIRONMENT, plan, review, "somebody")
        ack = Document(MemoryCache(cache.cache), ACK)
        done = desk_of(cache).apply(request, ack_file=ack)
        if done.receipt is None:
            return Answer(0, "nothing")
        if done.receipt.status != "committed":
            return Answer(4, "unfinished", encode(dict(sorted(done.causes.items()))))
        report = encode(report_of_receipt(done.receipt, "v3"))
        return Answer(0, "committed", report, _told(done.receipt), done.replayed)

    return lambda cache: answered(lambda: apply(cache))


def _told(receipt: Receipt) -> tuple[str, bytes]:
    return receipt_name(receipt.operation_id), encode_receipt(receipt)


def plan_of(disk: CacheDisk, base: int) -> str:
    """The digest of the plan as it is now."""
    cache = MemoryCache(disk, base=base)
    with cache.folder("") as root:
        planner = Planner(root, ENVIRONMENT, user=cache.user)
        found = planner.show(now=datetime(2026, 8, 4, tzinfo=UTC)).plan
    assert found is not None
    return found.sha256


def stopped(call: Call, disk: CacheDisk, base: int, label: str, number: int = 1) -> None:
    """Run a command until a label was told so many times, and let the process die there."""
    left = number

    def watch(said: str) -> None:
        nonlocal left
        left -= said.startswith(label)
        if left == 0:
            raise Crash(said)

    cache = MemoryCache(disk, watch, base)
    try:
        call(cache)
    except Crash:
        cache.die()
        return
    raise LookupError(f"{label} was told {number - left} times")


def refusing(leaf: str) -> Watcher:
    """Nobody may remove this file."""

    def watch(said: str) -> None:
        if said.startswith("unlink") and said.endswith(leaf):
            raise files.AccessDenied(leaf)

    return watch


# -- scenes ----------------------------------------------------------------------------------------

MOVED = ("after carry", 1)
DETACHED = ("after append", 2)
COMMITTED = ("after append", 4)
ACTIVE = ("after append", 5)


def reviewed() -> Case:
    """Three candidates, nothing begun; no directory of ours is there yet."""
    disk, base, ids = standing()
    return Case(disk.copy(), book_of(disk, base, ids), ("begin: reviewed",))


def _plan() -> str:
    disk, base, _ = standing()
    return plan_of(disk, base)


def _stopped_at(place: tuple[str, int], mix: Callable[[CacheDisk, int], None]) -> CacheDisk:
    disk, base, _ = standing()
    twin = disk.copy()
    stopped(applying(_plan()), twin, base, *place)
    mix(twin, base)
    twin.settle()
    return twin


@cache
def _half_done(place: tuple[str, int]) -> CacheDisk:
    return _stopped_at(place, lambda disk, base: None)


@cache
def _drifted(place: tuple[str, int]) -> CacheDisk:
    """One is detached, and another deployment was promoted since."""
    return _stopped_at(place, lambda disk, base: promote(disk, base, "yet another"))


def closing(place: tuple[str, int], *, is_back: bool) -> Case:
    """An unfinished operation that a newly reviewed plan closes; `is_back`: one is restored."""
    begun, (_, base, ids) = _half_done(place), standing()
    first, _, _ = standing()
    book = book_of(first, base, ids)
    gone = frozenset(ids[1:] if is_back else ids)
    phases = ("restored",) if is_back else ()
    book = replace(book, gone=gone, phases=phases, statuses=("aborted", "committed"))
    return Case(begun.copy(), book, (f"begin: an operation stopped {place}, and a new plan",))


def aborting(place: tuple[str, int] = DETACHED, deleted: int = 0) -> Case:
    """An operation whose authority is another by now: it ends, and what is not deleted is there."""
    disk, (first, base, ids) = _drifted(place), standing()
    gone = frozenset(ids[:deleted])
    book = book_of(first, base, ids, gone=gone, statuses=("aborted",), phases=("restored",))
    left = frozenset(path for path, _ in disk.tree(base))
    kept = {
        path: (inode.kind.value, inode.data) for path, inode in disk.tree(base) if path in book.kept
    }
    book = replace(book, kept=kept, shows=left)
    return Case(disk.copy(), book, (f"begin: drifted {place}",))


def sealed_again() -> Case:
    """The same, and a loss of power has taken back that the active one was opened up."""
    case = aborting(ACTIVE, 1)
    sealed = case.disk.inodes[case.book.candidates[1].activation]
    assert sealed.mode & 0o200, "it was opened up to be moved"
    sealed.mode = 0o555
    return case


@cache
def _stuck() -> tuple[CacheDisk, Book]:
    """An earlier tree could not be deleted; its record is in the snapshot."""
    first, base, ids = standing()
    disk = first.copy()
    book = book_of(first, base, ids, statuses=("aborted", "committed", "committed"))
    plan = plan_of(disk, base)
    applying(plan)(MemoryCache(disk, refusing("deep"), base))
    rebuild(disk, base, ids[1])
    disk.settle()
    plan = plan_of(disk, base)
    said = applying(plan, OTHER_REVIEW)(MemoryCache(disk, refusing("deep"), base))
    assert said.code == "committed", said
    assert disk.find(layout.WAL, base) is not None
    later = maker_of(disk, base, 1 << 41).run(Preview(ENVIRONMENT, DAGS, "later")).deployment_id
    disk.settle()
    stuck = book.candidates[0]
    candidates = (stuck, candidate_of(disk, base, later))
    gone = frozenset({ids[0], later})
    return disk, replace(
        book,
        candidates=candidates,
        gone=gone,
        begun=frozenset({stuck.number}),
        history=history_of(disk),
    )


def unstuck() -> Case:
    """A tree that an earlier operation could not delete can be deleted now, beside a new one."""
    disk, book = _stuck()
    return Case(disk.copy(), book, ("begin: an earlier tree was stuck",))


def torn() -> Case:
    """An operation that stopped with a torn end of the log and temporaries beside what it wrote."""
    begun, (first, base, ids) = _half_done(COMMITTED).copy(), standing()
    log = begun.find(layout.LOG, base)
    assert log is not None
    log.data += b"\0\0\1"
    leave_temporaries(begun, base)
    begun.settle()
    return Case(begun, book_of(first, base, ids), ("begin: a torn log",))


def leave_temporaries(disk: CacheDisk, base: int) -> None:
    """What a death leaves beside a snapshot and beside a receipt."""
    receipts = disk.find(layout.RECEIPTS, base)
    assert receipts is not None
    for folder, leaf in (
        (base, f".{layout.WAL}.{'b' * 32}.tmp"),
        (receipts.number, f".sha256-{'a' * 64}.json.{'b' * 32}.tmp"),
    ):
        file = disk.make()
        file.data, file.mode = b"x", 0o600
        disk.change(folder, (leaf, file.number))


@cache
def _unsynced(number: int) -> CacheDisk:
    disk, base, _ = standing()
    twin = disk.copy()
    stopped(applying(_plan()), twin, base, "after carry", number)
    return twin.killed()


def resuming(number: int) -> Case:
    """A process was killed right after a rename, and nothing has synced it."""
    disk, base, ids = standing()
    book = book_of(disk, base, ids)
    return Case(_unsynced(number).copy(), book, (f"begin: killed after rename {number}",))


def scenes() -> tuple[Scene, ...]:
    """Every scene of the apply."""
    plan = _plan()
    base = standing()[1]
    committed, detached = _half_done(COMMITTED), _half_done(DETACHED)
    return (
        Scene("apply", reviewed, applying(plan)),
        Scene(
            "close",
            lambda: closing(COMMITTED, is_back=False),
            applying(plan_of(committed, base), OTHER_REVIEW),
        ),
        Scene(
            "close and restore",
            lambda: closing(DETACHED, is_back=True),
            applying(plan_of(detached, base), OTHER_REVIEW),
        ),
        Scene(
            "close and restore what no record tells",
            lambda: closing(MOVED, is_back=True),
            applying(plan_of(_half_done(MOVED), base), OTHER_REVIEW),
        ),
        Scene("abort", aborting, applying(plan)),
        Scene("abort what is active", lambda: aborting(ACTIVE, 1), applying(plan)),
        Scene("abort what is sealed again", sealed_again, applying(plan)),
        Scene("unstick", unstuck, applying(plan_of(_stuck()[0], base), THIRD_REVIEW)),
        Scene("torn", torn, applying(plan)),
        Scene("resume after a rename", lambda: resuming(1), applying(plan)),
        Scene("resume between two renames", lambda: resuming(2), applying(plan)),
        Scene("resume after the activation", lambda: resuming(3), applying(plan)),
    )


__all__ = ["Scene", "Watcher", "scenes", "unwatched"]
