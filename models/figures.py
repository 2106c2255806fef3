"""The explorations that are pinned, and what they measured, for a bundle of evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from models.commit import SOMETIMES, commit_model
from models.explorer import Model, Report, explore
from models.files import files_model
from models.publishing import publish_model
from models.publishing_world import PublishBounds
from models.retention import retention_model
from models.rules import Bounds, Rules
from models.target import target_model
from models.writers import journal_model

# All kinds of fault at once; any two of the counted kinds in one run.
SERVER: Final = Bounds(faults=2)
# A target that is a file: what a process had claimed dies with it, nothing is on its way.
FILE: Final = Bounds(faults=2, sessions_outlive=False, lost_requests=False, lost_seals=False)
# For certification: any three of the counted kinds.
WIDE: Final = Bounds(faults=3)

# For every test run: one of each thing that can go wrong with a publication.
NARROW: Final = PublishBounds(rivals=1, crashes=1, failures=1, runs=1)

# What cannot happen where no session outlives its client.
_SERVER_ONLY: Final = frozenset({"late:landed"})


@dataclass(frozen=True)
class Exploration:
    """One pinned exploration; the model is built when it is run."""

    name: str
    bounds: str
    build: Callable[[], Model[Any]]
    states_max: int

    def run(self) -> Report[Any]:
        """Explore the model to its end or to the budget."""
        return explore(self.build(), states_max=self.states_max)


EXPLORATIONS: Final = (
    Exploration("target", "3 clients, epochs 1, 2, 2", lambda: target_model(Rules()), 10_000),
    Exploration(
        "journal",
        "2 writers, 3 attempts, 5 versions, 1 lost answer",
        lambda: journal_model(Rules()),
        400_000,
    ),
    Exploration(
        "commit",
        "2 workers, 3 attempts, 2 units in flight, 2 counted faults of any kind",
        lambda: commit_model(Rules(), SERVER, sometimes=SOMETIMES),
        1_000_000,
    ),
    Exploration(
        "commit-file",
        "2 workers, 3 attempts, 2 counted faults of any kind, no session outlives its client",
        lambda: commit_model(Rules(), FILE, sometimes=SOMETIMES - _SERVER_ONLY),
        1_000_000,
    ),
    Exploration(
        "files",
        "1 replace or removal, 2 acts of other programs, 2 deaths, a power cut",
        files_model,
        200_000,
    ),
    Exploration(
        "publish",
        "2 new files and a root, 1 act of another program, 1 death, 1 failing call, 1 more run",
        lambda: publish_model(bounds=NARROW),
        50_000,
    ),
)

CERTIFICATION: Final = (
    Exploration(
        "commit-wide",
        "2 workers, 3 attempts, 2 units in flight, 3 counted faults of any kind",
        lambda: commit_model(Rules(), WIDE, sometimes=SOMETIMES),
        8_000_000,
    ),
    # Pinned by its own tests; here it is evidence.
    Exploration(
        "retention",
        "2 operations, 2 candidates, deaths, drift, rebuilt trees, one that cannot be deleted",
        retention_model,
        1_000_000,
    ),
    Exploration(
        "publish-wide",
        "2 new files and a root, 2 acts of other programs, 2 deaths, 1 failing call, 2 more runs",
        publish_model,
        1_000_000,
    ),
)


def figure(exploration: Exploration, report: Report[Any]) -> dict[str, Any]:
    """Return what one exploration measured; nothing in it depends on the machine."""
    model = exploration.build()
    return {
        "model": exploration.name,
        "bounds": exploration.bounds,
        "verdict": report.verdict.value,
        "states": report.states,
        "transitions": report.transitions,
        "depth": report.depth,
        "labels": sorted(report.labels),
        "invariants": sorted(model.invariants),
        "sometimes": sorted({*model.sometimes, *model.sometimes_labels}),
        "unreached": list(report.unreached),
        "violated": report.violated,
        "trace": list(report.trace),
    }


def figures(*, wide: bool = False) -> list[dict[str, Any]]:
    """Run every pinned exploration, on request the wide one too, and return the figures."""
    chosen = (*EXPLORATIONS, *CERTIFICATION) if wide else EXPLORATIONS
    return [figure(exploration, exploration.run()) for exploration in chosen]
