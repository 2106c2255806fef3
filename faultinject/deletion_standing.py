"""What stands on a disk in memory before a deletion: deployments, activations, what is current.

Made by the code that makes caches; ids follow from what is made, and everything is durable.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from itertools import count
from unittest import mock
from uuid import UUID

from dpone.contracts import cache_layout as layout
from dpone.contracts.authoring import Kind
from dpone.retention.cache import Document
from dpone.retention.locks import Locks
from dpone.retention.materialize import Materializer, Preview
from faultinject.authoring_inodes import ROOT
from faultinject.deletion_disk import CacheDisk
from faultinject.deletion_memory import MemoryCache
from faultinject.deletion_truth import ENVIRONMENT, Book, Candidate, Tree, tree_of

DAGS = ("DAG__a",)
NOW = "2026-08-03T00:00:00+00:00"
ACK = "ack.json"


def maker_of(disk: CacheDisk, base: int, first: int = 1) -> Materializer:
    """Makes deployments as the command does; its ids follow from `first`."""
    numbers = count(first)
    return Materializer(
        MemoryCache(disk, base=base),
        nonces=lambda: str(UUID(int=next(numbers), version=4)),
        now=lambda: NOW,
    )


@cache
def standing() -> tuple[CacheDisk, int, tuple[str, ...]]:
    """Three candidates (the first nested, the second active, the third rebuilt), one current."""
    disk = CacheDisk.empty()
    disk.change(ROOT, ("cache", disk.make(kind=Kind.FOLDER).number))
    base = disk.entries().live["cache"]
    maker = maker_of(disk, base)
    made = [maker.run(Preview(ENVIRONMENT, DAGS, str(number))) for number in range(3)]
    ack = Document(MemoryCache(disk), ACK)
    maker.run(Preview(ENVIRONMENT, DAGS, "current"), activate=True, ack_file=ack)
    ids = tuple(sorted(it.deployment_id for it in made))
    with MemoryCache(disk, base=base).folder(layout.deployment_path(ENVIRONMENT, ids[0])) as it:
        it.make_folder("a")
        with it.below("a") as inner:
            inner.make_folder("b")
            with inner.below("b") as deep:
                deep.create("deep", b"x").close()
            inner.make_link("link", "/")
    seal(disk, base, ids[1])
    rebuild(disk, base, ids[2])
    disk.settle()
    return disk, base, ids


def seal(disk: CacheDisk, base: int, deployment_id: str) -> None:
    """Give a deployment a read-only activation."""
    cache = MemoryCache(disk, base=base)
    leaf = layout.folder_name(deployment_id)
    tree = tree_of(disk, _number(disk, base, layout.deployment_path(ENVIRONMENT, deployment_id)))
    with cache.folder(f"{layout.ACTIVATIONS}/{ENVIRONMENT}") as folder:
        folder.make_folder(leaf)
        with folder.below(leaf) as made:
            for name, (_, data) in tree.items():
                made.create(name, data).close()
                made.set_mode(name, 0o444)
        folder.set_mode(leaf, 0o555)


def rebuild(disk: CacheDisk, base: int, deployment_id: str) -> int:
    """The same deployment anew under its name, durable at once: another occurrence."""
    place, _, leaf = layout.deployment_path(ENVIRONMENT, deployment_id).rpartition("/")
    folder = _number(disk, base, place)
    made = disk.make(kind=Kind.FOLDER, foreign=True)
    for name, (_, data) in _whole(deployment_id).items():
        file = disk.make(foreign=True)
        file.data = file.durable = file.intact = data
        assert made.entries is not None
        made.entries.live[name] = made.entries.durable[name] = file.number
    disk.change(folder, (leaf, made.number))
    disk.sync_folder(folder)
    return made.number


@cache
def _whole(deployment_id: str) -> Tree:
    """The files of a deployment as the command makes it."""
    for fixture in range(3):
        disk = CacheDisk.empty()
        report = maker_of(disk, ROOT).run(Preview(ENVIRONMENT, DAGS, str(fixture)))
        if report.deployment_id == deployment_id:
            path = layout.deployment_path(ENVIRONMENT, deployment_id)
            return tree_of(disk, _number(disk, ROOT, path))
    raise LookupError(deployment_id)


def _number(disk: CacheDisk, base: int, path: str) -> int:
    found = disk.find(path, base)
    assert found is not None, path
    return found.number


def candidate_of(disk: CacheDisk, base: int, deployment_id: str) -> Candidate:
    number = _number(disk, base, layout.deployment_path(ENVIRONMENT, deployment_id))
    sealed = disk.find(layout.activation_path(ENVIRONMENT, deployment_id), base)
    return Candidate(
        deployment_id,
        number,
        tree_of(disk, number),
        sealed.number if sealed else 0,
        tree_of(disk, sealed.number) if sealed else None,
    )


_OURS = (layout.HISTORY, layout.WAL, layout.LOG, layout.RECEIPTS, layout.TRASH)


def book_of(disk: CacheDisk, base: int, ids: tuple[str, ...], **ends: object) -> Book:
    """The book of a disk as it is now; `ends` say what must stand there in the end."""
    candidates = tuple(candidate_of(disk, base, it) for it in ids)
    places = [layout.deployment_path(ENVIRONMENT, it) for it in ids]
    places += [layout.activation_path(ENVIRONMENT, it) for it in ids]
    kept = {
        path: (inode.kind.value, inode.data)
        for path, inode in disk.tree(base)
        if not any(path == it or path.startswith(it + "/") for it in (*places, *_OURS))
    }
    history = disk.find(layout.HISTORY, base)
    book = Book(
        base,
        candidates,
        kept,
        history.data if history else None,
        frozenset(ids),
        ("committed",),
    )
    return replace(book, **ends)  # type: ignore[arg-type]


def promote(disk: CacheDisk, base: int, fixture: str) -> None:
    """Another deployment becomes current, by somebody who takes the promotion lock alone."""
    ack = Document(MemoryCache(disk), ACK)
    preview = Preview(ENVIRONMENT, DAGS, fixture)
    with mock.patch.object(Locks, "reconcile", return_value=nullcontext()):
        maker_of(disk, base, 1 << 40).run(preview, activate=True, ack_file=ack)


def history_of(disk: CacheDisk) -> bytes:
    found = disk.find(f"cache/{layout.HISTORY}")
    assert found is not None
    return found.data
