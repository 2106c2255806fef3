"""The kill matrix of deletion: every sync left out, every marked rule taken out, and who notices.

Promise: rows are plain values for a bundle of evidence, and depend on nothing but the code. A row
whose `rule` is empty was noticed by nobody within the bounds; it is published like the others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from dpone.contracts.cache_layout import TRASH
from faultinject.deletion_contests import Contest, acts_of
from faultinject.deletion_desk_scenes import desk_scenes
from faultinject.deletion_persistence import Bounds, Search
from faultinject.deletion_scenes import Scene, scenes
from faultinject.deletion_syncs import FIRM, left_out, sites
from faultinject.violations import Violated

SWAP = "build over"
# The format of a receipt promises this sync, at most 64 an attempt; the protocol does not need it.
BY_CONTRACT = "store.put#1 retention.progress"
MOVES = tuple(f"{FIRM} {path}" for path in ("deployments", "activations", TRASH))
# The cheap ones first; the whole apply last.
_ORDER = (
    *("drift", "repair", "tidy", "acknowledge", "archive", "after an earlier release"),
    *("abort", "abort what is active", "abort what is sealed again", "unstick"),
    *("resume after the activation", "resume between two renames", "resume after a rename"),
    *("again", "close and restore"),
    *("close and restore what no record tells", "torn", "close", "apply"),
)
_LARGE = (
    *("resume after the activation", "resume between two renames", "resume after a rename"),
    *("torn", "again", "after an earlier release", "close", "close and restore"),
    *("close and restore what no record tells", "apply"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One defect under one engine. `steps` is the length of the witness, `due` how often it struck.

    `engine` is `weak`, `ordered` or `contest`; `rule` is what the witness violates, `scene` where.
    """

    defect: str
    engine: str
    rule: str = ""
    scene: str = ""
    steps: int = 0
    due: int = 0

    def record(self) -> dict[str, Any]:
        """The row as plain JSON values."""
        return asdict(self)


@cache
def every_scene() -> tuple[Scene, ...]:
    """All scenes, in the order in which a defect is looked for."""
    found = {scene.name: scene for scene in (*scenes(), *desk_scenes())}
    assert set(found) == set(_ORDER), set(found) ^ set(_ORDER)
    for scene in found.values():
        # Made now, by the code as it is, and never by one with a defect.
        scene.begin()
    return tuple(found[name] for name in _ORDER)


def lost_sync(site: str, *, weak: bool, depth: int = 2) -> Row:
    """Leave one sync out; where it is due in an undisturbed run, its loss shows after one crash."""
    engine = "weak" if weak else "ordered"
    chosen = every_scene()
    if site in MOVES:
        # What a dead process had moved shows it soonest.
        chosen = tuple(sorted(chosen, key=lambda scene: not scene.name.startswith("resume")))
    count = 0
    with left_out(site) as due:
        for scene in chosen:
            if not _is_due(scene, due, weak=weak):
                continue
            count += 1
            due.clear()
            if found := _witness(scene, Bounds(1, weak), due):
                return _row(site, engine, scene, found, len(due))
        if "put_back" in site:
            return _swapped(site, due, weak=weak)
        for scene in sorted(chosen, key=_cost) if depth > 1 and site != BY_CONTRACT else ():
            due.clear()
            if found := _witness(scene, Bounds(depth, weak), None):
                return _row(site, engine, scene, found, len(due))
        return Row(site, engine, due=len(due) + count)


def depth_of(scene: Scene) -> int:
    """How deep a long run goes: three crashes, two where the states are very many."""
    return 2 if scene.name in _LARGE and scene.name != "again" else 3


def _cost(scene: Scene) -> int:
    """Two crashes deep the larger scenes come last."""
    return _LARGE.index(scene.name) if scene.name in _LARGE else -1


def _swapped(site: str, due: list[str], *, weak: bool) -> Row:
    """It is due only where somebody swaps a directory between the look and the rename."""
    scene = next(it for it in every_scene() if it.name == "apply")
    case = scene.begin()
    act = next(it for it in acts_of(case.disk, case) if it.name == SWAP)
    try:
        Contest(scene, act, weak=weak, crashes=True, since=lambda: bool(due)).explore()
    except Violated as found:
        return Row(site, "contest", found.rule, SWAP, len(found.trail), len(due))
    return Row(site, "contest", due=len(due))


def _is_due(scene: Scene, due: list[str], *, weak: bool) -> bool:
    due.clear()
    _witness(scene, Bounds(0, weak), None)
    return bool(due)


def _witness(scene: Scene, bounds: Bounds, due: list[str] | None) -> Violated | None:
    """The first violation; with `due`, crashes before the first strike are left out."""
    try:
        Search(scene, bounds, (lambda: True) if due is None else (lambda: bool(due))).explore()
    except Violated as found:
        return found
    return None


def _row(defect: str, engine: str, scene: Scene, found: Violated, due: int) -> Row:
    return Row(defect, engine, found.rule, scene.name, len(found.trail), due)


def lost_syncs(*, weak: bool, depth: int = 2) -> list[Row]:
    """Every site in turn."""
    return [lost_sync(site, weak=weak, depth=depth) for site in sites()]
