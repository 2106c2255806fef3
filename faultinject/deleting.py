"""Kills a reviewed deletion at every point and every file-changing call, and runs it again.

One round: a copy of a template cache with three candidates (nested trees, one with an activation,
one rebuilt before the apply); a worker killed at a point; further runs of the same command until it
ends; one more that replays. A round is judged by the cache alone and by what the runs returned.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from dpone import wiring
from dpone.contracts.errors import DponeError
from dpone.contracts.retention_apply import report_of_receipt
from dpone.ports.probe import Probe
from dpone.retention.desk import RetentionDesk
from dpone.retention.materialize import Materializer, Preview
from dpone.retention.plan import Planner
from dpone.retention.request import Request
from faultinject.zygote import Ended, Zygote

APPLY = "faultinject.deleting:apply"
ENVIRONMENT = "dev"
REVIEW = "0f8fad5b-d9cb-469f-a165-70867728950e"
RUNS_MAX = 6
CONTROL = frozenset(
    {
        ".dpone-cache-layout.json",
        ".promotion.lock",
        ".reconcile.lock",
        ".retention-activation-history.v2.json",
        ".retention-apply-receipts",
        ".retention-recovery.json",
        ".retention-recovery.log",
        ".retention-trash",
        "activations",
        "current",
        "current-pointer-audit.jsonl",
        "current-pointer.json",
        "deployments",
        "releases",
        "status",
    }
)


def template(folder: Path, candidates: int = 3) -> dict[str, Any]:
    """A cache with candidates and what is current; returns the arguments of `apply`."""
    root = folder / "cache"
    numbers = iter(range(1, 1000))
    maker = Materializer(
        wiring.open_cache(root, create=True),
        nonces=lambda: str(UUID(int=next(numbers), version=4)),
        now=lambda: "2026-08-03T00:00:00+00:00",
    )
    made = []
    for number in range(candidates):
        made.append(maker.run(Preview(ENVIRONMENT, ("DAG__a",), str(number)), activate=False))
    ack = wiring.open_document(folder / "ack.json")
    maker.run(Preview(ENVIRONMENT, ("DAG__a",), "current"), activate=True, ack_file=ack)
    first, second = (report.deployment_id.replace(":", "-") for report in made[:2])
    deployments = root / "deployments" / ENVIRONMENT
    nested = deployments / first / "a" / "b"
    nested.mkdir(parents=True)
    (nested / "deep").write_bytes(b"x")
    (deployments / first / "a" / "link").symlink_to("/")
    shutil.copytree(deployments / second, root / "activations" / ENVIRONMENT / second)
    rebuilt = deployments / second
    shutil.copytree(rebuilt, folder / "again")
    shutil.rmtree(rebuilt)
    (folder / "again").rename(rebuilt)
    return {"root": str(root), "ack": str(folder / "ack.json"), "plan": plan_of(root)}


def plan_of(root: Path) -> str:
    """The digest of the plan as it is now."""
    files = wiring.open_cache(root)
    with files.folder("") as folder:
        planner = Planner(folder, ENVIRONMENT, user=files.user)
        found = planner.show(now=datetime(2026, 8, 4, tzinfo=UTC)).plan
    assert found is not None
    return found.sha256


def apply(args: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """The workload: one run of the command, as the command line makes it."""
    desk = RetentionDesk(wiring.open_cache(Path(args["root"])), ENVIRONMENT, probe=probe)
    request = Request(ENVIRONMENT, args["plan"], args.get("review", REVIEW), "somebody")
    try:
        done = desk.apply(request, ack_file=wiring.open_document(Path(args["ack"])))
    except DponeError as error:
        return {"exit_code": error.exit_code, "code": error.code, "words": str(error)}
    if done.receipt is None or done.receipt.status != "committed":
        return {"exit_code": 4, "code": "unfinished", "words": str(done.causes)}
    from dpone.contracts.codec import encode

    report = encode(report_of_receipt(done.receipt, "v3"))
    return {"exit_code": 0, "report": report, "replayed": done.replayed}


@dataclass(frozen=True, slots=True)
class Round:
    """What one round saw; `faults` is empty when it held."""

    first: str
    second: str
    hits: tuple[str, ...]
    exits: tuple[int, ...]
    report: str
    faults: tuple[str, ...] = field(default_factory=tuple)


class Deletions:
    """Runs rounds on copies of one template."""

    def __init__(self, zygote: Zygote, folder: Path, args: Mapping[str, Any]) -> None:
        self.zygote = zygote
        self.folder = folder
        self.args = dict(args)
        self.template = Path(args["root"])
        self._count = 0

    def fresh(self) -> dict[str, Any]:
        """A copy of the template; every inode in it is new."""
        self._count += 1
        place = self.folder / f"round-{self._count}"
        shutil.copytree(self.template, place, symlinks=True)
        return {**self.args, "root": str(place)}

    def points(self, first: str = "") -> list[str]:
        """The points of a run, or of the run after a kill at `first`."""
        args = self.fresh()
        if first:
            self.zygote.run(APPLY, args, point=first)
        trace = self.folder / f"trace-{self._count}"
        trace.touch()
        self.zygote.run(APPLY, args, trace=trace)
        shutil.rmtree(args["root"])
        return [json.loads(line)["point"] for line in trace.read_text().splitlines()]

    def round(self, first: str, second: str = "") -> Round:
        """Kill at `first`, kill the next run at `second`, then run to the end and replay."""
        args = self.fresh()
        runs = [self.zygote.run(APPLY, args, point=first)]
        if second:
            runs.append(self.zygote.run(APPLY, args, point=second))
        found = self.judged(args, runs, first, second)
        shutil.rmtree(args["root"])
        return found

    def judged(self, args: Mapping[str, Any], runs: list[Ended], first: str, second: str) -> Round:
        """Run to the end, replay, and look at what is left."""
        while not _is_done(runs[-1]) and len(runs) < RUNS_MAX:
            runs.append(self.zygote.run(APPLY, args))
        replay = self.zygote.run(APPLY, args)
        report = str((runs[-1].result or {}).get("report", ""))
        faults = list(faults_of(Path(args["root"])))
        if not _is_done(runs[-1]):
            faults.append(f"it did not end: {runs[-1].result}")
        if (replay.result or {}).get("report") != report:
            faults.append(f"the replay returned something else: {replay.result}")
        return Round(
            first=first,
            second=second,
            hits=tuple(
                point
                for point, run in zip((first, second), runs, strict=False)
                if point and run.hit(point)
            ),
            exits=tuple(run.exit_code for run in runs),
            report=report,
            faults=tuple(faults),
        )


def faults_of(root: Path) -> Iterator[str]:
    """What should not be there, or is missing, after a finished operation."""
    left = sorted(item.name for item in root.iterdir())
    for name in left:
        if name not in CONTROL:
            yield f"{name} was left"
    for name in ("deployments", "activations"):
        found = [item.name for item in (root / name / ENVIRONMENT).iterdir()]
        current = (root / "current").readlink().name
        if found != [current]:
            yield f"{name} holds {found}, not the current one alone"
    trash = root / ".retention-trash"
    if trash.exists() and any(trash.iterdir()):
        yield "the trash is not empty"
    receipts = list((root / ".retention-apply-receipts").iterdir())
    if len(receipts) != 1:
        yield f"there are {len(receipts)} receipts: {[item.name for item in receipts]}"
    if (root / ".retention-recovery.log").stat().st_size:
        yield "the log still knows something"


def _is_done(run: Ended) -> bool:
    return run.exit_code == 0 and run.result is not None and run.result["exit_code"] == 0
