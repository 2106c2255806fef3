"""The workloads beside the apply on a disk in memory: acknowledge, archive, repair, and a replay.

Each begins where an apply has ended.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from dpone.contracts import cache_layout as layout
from dpone.contracts.retention_archive import ARCHIVE, MANIFEST, segment_name
from dpone.contracts.retention_drift import DRIFT
from dpone.contracts.retention_receipt import receipt_name
from dpone.retention.materialize import Preview
from dpone.retention.request import Request
from faultinject.deletion_disk import CacheDisk
from faultinject.deletion_memory import MemoryCache
from faultinject.deletion_scenes import (
    OTHER_REVIEW,
    REVIEW,
    Answer,
    Scene,
    aborting,
    answered,
    applying,
    desk_of,
    leave_temporaries,
    plan_of,
    reviewed,
)
from faultinject.deletion_standing import DAGS, book_of, maker_of, promote, rebuild
from faultinject.deletion_truth import ENVIRONMENT, Book, Case

# -- acknowledge -----------------------------------------------------------------------------------


@cache
def _aborted() -> tuple[CacheDisk, Book]:
    """One was put back, and waits for a person's word."""
    case = aborting()
    applying(_first_plan())(MemoryCache(case.disk, base=case.book.base))
    case.disk.settle()
    history = case.disk.find(layout.HISTORY, case.book.base)
    return case.disk, replace(case.book, history=history.data if history else None)


def _first_plan() -> str:
    case = reviewed()
    return plan_of(case.disk, case.book.base)


def acknowledging() -> Case:
    """One was put back, and a person has seen it."""
    disk, book = _aborted()
    needs = frozenset({layout.ACKNOWLEDGEMENT})
    return Case(disk.copy(), replace(book, needs=needs), ("begin: restored",))


def _acknowledge(cache: MemoryCache) -> Answer:
    said = desk_of(cache).acknowledge(apply=True)
    return Answer(0, f"{said.acknowledged} acknowledged")


# -- archive ---------------------------------------------------------------------------------------


@cache
def _finished() -> tuple[CacheDisk, Book, str]:
    """An aborted and a committed operation, and an acknowledged restoration."""
    case = acknowledging()
    disk, base = case.disk, case.book.base
    memory = MemoryCache(disk, base=base)
    desk_of(memory).acknowledge(apply=True)
    plan = plan_of(disk, base)
    assert applying(plan, OTHER_REVIEW)(memory).code == "committed"
    disk.settle()
    reviewed_archive = desk_of(memory).archive_receipts("", apply=False).archive_sha256
    names = {
        receipt_name(Request(ENVIRONMENT, plan, review, "").operation_id)
        for plan, review in ((_first_plan(), REVIEW), (plan, OTHER_REVIEW))
    }
    segment = f"{ARCHIVE}/{segment_name(1)}"
    needs = {layout.ACKNOWLEDGEMENT, ARCHIVE, segment, f"{segment}/{MANIFEST}"}
    needs |= {f"{segment}/{name}" for name in names}
    history = disk.find(layout.HISTORY, base)
    book = replace(
        case.book,
        gone=frozenset(it.deployment_id for it in case.book.candidates),
        statuses=("aborted", "committed"),
        phases=(),
        needs=frozenset(needs),
        log_stays=True,
        history=history.data if history else None,
    )
    return disk, book, reviewed_archive


def archiving() -> Case:
    """Two finished operations move into the archive."""
    disk, book, _ = _finished()
    return Case(disk.copy(), book, ("begin: finished",))


def _archive(cache: MemoryCache) -> Answer:
    said = desk_of(cache).archive_receipts(_finished()[2], apply=True)
    return Answer(0, f"{said.receipts} archived")


# -- repair, and a replay that finds something -----------------------------------------------------


@cache
def _done() -> tuple[CacheDisk, Book]:
    """A committed operation."""
    case = reviewed()
    applying(_first_plan())(MemoryCache(case.disk, base=case.book.base))
    case.disk.settle()
    history = case.disk.find(layout.HISTORY, case.book.base)
    return case.disk, replace(case.book, history=history.data if history else None)


def repairing() -> Case:
    """A remount gave the group what only its owner may have."""
    disk, book = _done()
    twin = disk.copy()
    receipts = twin.find(layout.RECEIPTS, book.base)
    trash = twin.find(layout.TRASH, book.base)
    assert receipts is not None
    assert receipts.entries is not None
    assert trash is not None
    receipts.mode = trash.mode = 0o770
    for number in receipts.entries.live.values():
        twin.inodes[number].mode = 0o660
    return Case(twin, book, ("begin: modes changed",))


def _repair(cache: MemoryCache) -> Answer:
    desk_of(cache).receipts(repair=True, apply=True)
    # Whether it is really repaired, the replay says: it refuses what others may enter.
    return applying(_first_plan())(cache)


def drifting() -> Case:
    """A committed deletion, and a directory that came back under one of its names."""
    disk, book = _done()
    twin = disk.copy()
    number = rebuild(twin, book.base, book.candidates[2].deployment_id)
    twin.settle()
    path = layout.deployment_path(ENVIRONMENT, book.candidates[2].deployment_id)
    book = replace(book, needs=frozenset({DRIFT}), came_back=frozenset({path}))
    return Case(twin, book, ("begin: one came back",), spared=(number,))


def tidying() -> Case:
    """A committed deletion, and temporaries that an earlier death left beside what it wrote."""
    disk, book = _done()
    twin = disk.copy()
    leave_temporaries(twin, book.base)
    twin.settle()
    return Case(twin, book, ("begin: temporaries",))


@cache
def _again(*, has_log: bool) -> tuple[CacheDisk, Book, str]:
    """A committed operation, another promotion since, and a new candidate; the trash is there.

    An earlier release kept no log.
    """
    disk, earlier = _done()
    twin, base = disk.copy(), earlier.base
    made = maker_of(twin, base, 1 << 42).run(Preview(ENVIRONMENT, DAGS, "later"))
    promote(twin, base, "yet another")
    # Nothing leads back to what was current: the promotion before it was the same one.
    promote(twin, base, "and another")
    if not has_log:
        twin.change(base, (layout.LOG, None))
    twin.settle()
    plan = plan_of(twin, base)
    ids = tuple(sorted((made.deployment_id, _current_id(disk, base))))
    book = book_of(twin, base, ids, statuses=("committed", "committed"))
    return twin, book, plan


def _current_id(disk: CacheDisk, base: int) -> str:
    link = disk.find(layout.CURRENT, base)
    assert link is not None
    return link.data.decode().rpartition("/")[2].replace("-", ":")


def again(*, has_log: bool = True) -> Case:
    """A second operation, whose history is another than that of the first."""
    disk, book, _ = _again(has_log=has_log)
    return Case(disk.copy(), book, ("begin: a second operation",))


def desk_scenes() -> tuple[Scene, ...]:
    """Every scene beside the apply."""
    return (
        Scene("acknowledge", acknowledging, lambda cache: answered(lambda: _acknowledge(cache))),
        Scene("archive", archiving, lambda cache: answered(lambda: _archive(cache))),
        Scene("repair", repairing, _repair),
        Scene("drift", drifting, applying(_first_plan())),
        Scene("tidy", tidying, applying(_first_plan())),
        Scene("again", again, applying(_again(has_log=True)[2], OTHER_REVIEW)),
        Scene(
            "after an earlier release",
            lambda: again(has_log=False),
            applying(_again(has_log=False)[2], OTHER_REVIEW),
        ),
    )
