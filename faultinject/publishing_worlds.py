"""The workloads of publishing: what stands on the disk, the plan, and what other programs do."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from msgspec.structs import replace as replace_fields

from dpone.contracts.authoring import Kind
from dpone.contracts.publication import Change, Publication, receipt_name
from faultinject import authoring_editors as editors
from faultinject.authoring_inodes import Disk
from faultinject.authoring_truth import D, E
from faultinject.publishing_search import Bounds, Workload, spot
from faultinject.publishing_truth import Case, Rival

FIRST: Final = Change(path="parts/first.yaml", after=b"first part\n")
SECOND: Final = Change(path="parts/deep/second.yaml", after=b"second part, deeper\n")
WATCHED: Final = Change(path="watched.yaml", before=b"watched\n", after=b"watched\n")
ROOT_FILE: Final = Change(path="pipeline.yaml", before=E, after=D)
NEW_ROOT: Final = Change(path="pipeline.yaml", after=D)

PLAN: Final = Publication(root=ROOT_FILE, fragments=(FIRST, SECOND))
WATCHING: Final = Publication(root=ROOT_FILE, fragments=(FIRST, SECOND), edits=(WATCHED,))
# Another root may stand on the first new file.
SHARING: Final = Publication(
    root=ROOT_FILE, fragments=(Change(path=FIRST.path, after=FIRST.after, shared=True), SECOND)
)
LEANING: Final = replace_fields(SHARING, fragments=SHARING.fragments[:1])
ALL_NEW: Final = Publication(root=NEW_ROOT, fragments=(FIRST, SECOND))
# The root lies in a folder of its own, so that no sync of it covers the new files' folders.
ELSEWHERE: Final = Publication(
    root=Change(path="flows/pipeline.yaml", before=E, after=D), fragments=(FIRST, SECOND)
)
# Somebody changes his mind: the same root, and another new file.
THIRD: Final = Change(path="third.yaml", after=b"third part of another plan\n")
OTHER: Final = Publication(
    root=Change(path="pipeline.yaml", before=E, after=b"another root\n"), fragments=(THIRD,)
)
OTHER_ELSEWHERE: Final = Publication(
    root=Change(path="flows/pipeline.yaml", before=E, after=b"another root\n"), fragments=(THIRD,)
)
OTHER_NEW: Final = Publication(
    root=Change(path="pipeline.yaml", after=b"another root\n"), fragments=(THIRD,)
)


def standing(
    plan: Publication = PLAN,
    *,
    nameless: bool = True,
    proves: bool = True,
    certified: bool | None = True,
    given: tuple[Change, ...] = (),
) -> Case:
    """What a plan saw, durable; `given` are new files that somebody has already made."""
    disk = Disk.empty()
    disk.nameless, disk.proves, disk.certified = nameless, proves, certified
    for change in plan.changes:
        if change.before is not None:
            _put(disk, change.path, change.before)
    for change in given:
        _put(disk, change.path, change.after)
        disk.precious.add(change.after)
        disk.secured.add(change.after)
    return Case(disk, plan)


def half_made() -> Case:
    """Another run has just made the shared file for a root of its own, and its name is unsynced."""
    case = standing(LEANING)
    folder, leaf = spot(case.disk, FIRST.path)
    inode = case.disk.make(foreign=True)
    case.disk.write(inode, FIRST.after)
    case.disk.sync_inode(inode)
    case.disk.change(folder, (leaf, inode.number))
    case.disk.precious.add(FIRST.after)
    return case


def malformed() -> Case:
    """Something beside the root bears the receipt's name, and is none."""
    case = standing()
    data = b"no receipt\n"
    _put(case.disk, receipt_name(PLAN.root.path), data)
    case.disk.precious.add(data)
    case.disk.secured.add(data)
    return replace(case, is_seeded=True)


def _put(disk: Disk, path: str, data: bytes) -> None:
    folder, leaf = spot(disk, path)
    editors.put(disk, leaf, data, folder=folder).by_user = True


# -- other programs --------------------------------------------------------------------------------


def _save(disk: Disk, folder: int, leaf: str) -> None:
    editors.save(disk, leaf, editors.USER, folder=folder)


def _save_planned(data: bytes, disk: Disk, folder: int, leaf: str) -> None:
    editors.save(disk, leaf, data, folder=folder)


def _write(disk: Disk, folder: int, leaf: str) -> None:
    editors.write(disk, leaf, editors.USER, folder=folder)


def _unlink(disk: Disk, folder: int, leaf: str) -> None:
    editors.unlink(disk, leaf, folder=folder)


def _away(disk: Disk, folder: int, leaf: str) -> None:
    editors.away(disk, leaf, editors.USER, folder=folder)


def _symlink(disk: Disk, folder: int, leaf: str) -> None:
    editors.swap_in(disk, leaf, Kind.LINK, folder=folder)


def rivals(plan: Publication) -> tuple[Rival, ...]:
    """Every act at every file of a plan."""
    found: list[Rival] = []
    for change in plan.changes:
        planned = partial(_save_planned, change.after)
        found += [
            Rival("save", change.path, _save),
            Rival("save the planned bytes", change.path, planned),
            Rival("write", change.path, _write),
            Rival("unlink", change.path, _unlink, may_remove=True),
            Rival("rename away", change.path, _away, may_remove=True),
            Rival("symlink", change.path, _symlink, is_opaque=True),
        ]
    return tuple(found)


def thorough(world: Workload, *, weak: bool) -> tuple[Bounds, ...]:
    """All crash states, however deep: each search ends by itself before the ninth crash.

    That is so for the plain publication: first with rivals at every step, then also in recovery
    and in the next run, there at the steps of their own files. In the other worlds the states are
    too many for that: two crashes, and rivals at the steps of their own files.
    """
    every = Bounds(depth=9, weak=weak)
    if world.name != "publish":
        return (replace(every, depth=2, near=bool(world.rivals)),)
    if not weak or not world.rivals:
        return (every,)
    return every, replace(every, raced_depth=1, near=True)


def clean_starts() -> tuple[Workload, ...]:
    """Those that begin with nothing that needs a person, undisturbed."""
    return tuple(world for world in workloads(raced=False) if not world.begin().is_seeded)


def workloads(*, raced: bool = True) -> tuple[Workload, ...]:
    """Every workload; `raced`: with other programs at every step."""
    plain = rivals(PLAN) if raced else ()
    return (
        Workload("publish", standing, OTHER, plain),
        Workload("publish by name", partial(standing, nameless=False), OTHER, plain),
        Workload("publish unproven", partial(standing, proves=False), OTHER),
        Workload("publish uncertified", partial(standing, certified=None), OTHER),
        Workload(
            "publish and watch",
            partial(standing, WATCHING),
            OTHER,
            tuple(rival for rival in rivals(WATCHING) if rival.path == WATCHED.path and raced),
        ),
        Workload(
            "publish a new root",
            partial(standing, ALL_NEW),
            OTHER_NEW,
            rivals(ALL_NEW) if raced else (),
        ),
        Workload(
            "publish by name a new root", partial(standing, ALL_NEW, nameless=False), OTHER_NEW
        ),
        Workload("publish what is there", partial(standing, given=(FIRST,)), OTHER),
        Workload("publish what is shared", partial(standing, SHARING), OTHER),
        Workload("publish beside another run", half_made, OTHER),
        Workload(
            "publish elsewhere",
            partial(standing, ELSEWHERE),
            OTHER_ELSEWHERE,
            tuple(each for each in rivals(ELSEWHERE) if each.path.startswith("flows/") and raced),
        ),
        Workload("publish beside no receipt", malformed, OTHER),
    )
