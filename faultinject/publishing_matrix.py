"""The kill matrix of publishing: every sync of its own and every rule, left out, and who notices.

The same rows as `faultinject.authoring_matrix`; the syncs of the changes of single files that
publishing is made of are judged there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from faultinject.authoring_matrix import Row
from faultinject.authoring_syncs import BYTES, left_out, sites
from faultinject.publishing_meetings import MEETING_RULES, meeting_witness
from faultinject.publishing_rules import RULES, WINNER, denied_violation, witness
from faultinject.publishing_search import Bounds, Workload, first_violation
from faultinject.publishing_worlds import workloads
from faultinject.violations import Violated

MODULES: Final = frozenset({"fragments", "publish", "receipts", "undo"})
# The byte of a journal's phase is the only one that is patched where files can lack a name.
SITES: Final = (*(site for site in sites(MODULES) if site not in BYTES), *BYTES)
# Where a site showed soonest: asked first. Elsewhere is asked only when nothing shows there.
ASKED_FIRST: Final = {
    "fragments._make_folders#1": ("publish what is there", False, 1),
    "fragments.rely_on#1": ("publish beside another run", False, 1),
    "receipts._set_aside#1": ("publish beside no receipt", False, 1),
    "undo._settle_names#1": ("publish a new root", False, 2),
    "undo._drop_side#1": ("publish by name a new root", False, 2),
    "undo._remove_folder#1": ("publish elsewhere", True, 1),
    "byte of a patch": ("publish by name a new root", False, 1),
}


def lost_sync(site: str, *, weak: bool, bounds: Bounds | None = None) -> Row:
    """Leave one sync out, and ask one world after the other."""
    chosen = bounds or Bounds(weak=weak, near=True)
    engine = "weak" if weak else "ordered"
    with left_out(site) as due:
        for world, depth in _asked(site, chosen.depth):
            found = first_violation(world, replace(chosen, depth=depth))
            if found is not None:
                return _row(site, engine, found, len(due))
        found = denied_violation(workloads(raced=False)[0], WINNER) if weak else None
    return _row(site, engine, found, len(due))


def _asked(site: str, depth: int) -> Iterator[tuple[Workload, int]]:
    """Every world at one crash before any at more, after the one that is asked first."""
    name, is_raced, near = ASKED_FIRST.get(site, ("publish", False, 1))
    for world in _worlds():
        if (world.name, bool(world.rivals)) == (name, is_raced):
            yield world, near
    for deep in range(1, depth + 1):
        for world in _worlds():
            yield world, deep


def _worlds() -> Iterator[Workload]:
    """All of them undisturbed; then those where somebody wins the root and we undo what we did."""
    yield from workloads(raced=False)
    for raced in workloads():
        if raced.name in ("publish", "publish elsewhere"):
            root = raced.begin().plan.root.path
            winners = tuple(r for r in raced.rivals if (r.name, r.path) == ("save", root))
            yield replace(raced, rivals=winners)


def _row(defect: str, engine: str, found: Violated | None, due: int = 0) -> Row:
    if found is None:
        return Row(f"publish: {defect}", engine, "", 0, due)
    return Row(f"publish: {defect}", engine, found.rule, len(found.trail), due)


def matrix() -> list[Row]:
    """Every sync under both kinds of persistence, then every rule under its engine.

    An ordered file system is asked for one crash only: most of its rows are blank.
    """
    rows: list[Row] = []
    for site in SITES:
        rows.append(lost_sync(site, weak=True))
        rows.append(lost_sync(site, weak=False, bounds=Bounds(depth=1, near=True, weak=False)))
    rows += [_row(rule.name, "weak", witness(rule)) for rule in RULES]
    rows += [_row(rule.name, "schedules", meeting_witness(rule)) for rule in MEETING_RULES]
    return rows
