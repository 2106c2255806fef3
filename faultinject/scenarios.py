"""Scenarios that reach every declared effect, so that each of its two points can be killed.

A scenario sets its scene, runs one command under a probe that kills, runs the command again until
it has its say, and is judged by target and journal. Together the scenarios reach every effect of
the fenced commit; `declared` says which those are, and whoever runs them compares.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpone.contracts.effects_about import ABOUT
from faultinject import operators, workloads
from faultinject.matrix import FENCED, World, fresh
from faultinject.operators import entry_of
from faultinject.zygote import Zygote

OPERATE = "faultinject.operators:operate"
DIVERGED = "DPONE_TARGET_COMMIT_DIVERGED"
ANSWERED = "DPONE_TARGET_COMMIT_ANSWERED"
EXPIRED = "DPONE_TARGET_COMMIT_EXPIRED"
REFUSED = "DPONE_JOURNAL_ANSWER_REFUSED"
RERUNS_MAX = 3

Args = Mapping[str, Any]


@dataclass(frozen=True)
class Scenario:
    """`effects` are those for whose sake it exists; `fine` are the codes that end its reruns."""

    name: str
    effects: tuple[str, ...]
    scene: Callable[[Zygote, Args], None]
    judge: Callable[[Zygote, Args], list[str]]
    workload: str = FENCED
    more: Mapping[str, Any] = field(default_factory=dict)
    fine: tuple[str, ...] = ("",)


def declared(flow: str = "fencing") -> set[str]:
    """Both points of every declared effect of a flow, without their number."""
    effects = [effect.value for effect, about in ABOUT.items() if about.flow == flow]
    return {f"{effect}:{side}" for effect in effects for side in ("before", "after")}


def points(zygote: Zygote, world: World, scenario: Scenario, *, all_points: bool) -> list[str]:
    """The points that the scenario's command passes: all, or those of its own effects."""
    with fresh(world, {"strategy": "append"}) as args:
        scenario.scene(zygote, args)
        trace = Path(args["folder"]) / "trace"
        trace.touch()
        zygote.run(scenario.workload, {**args, **scenario.more}, trace=trace)
        passed = [json.loads(line)["point"] for line in trace.read_text().splitlines()]
    return [name for name in passed if all_points or name.partition(":")[0] in scenario.effects]


def play(zygote: Zygote, world: World, scenario: Scenario, point: str) -> list[str]:
    """Kill the scenario's command at `point` and run it again; return the faults."""
    with fresh(world, {"strategy": "append"}) as args:
        scenario.scene(zygote, args)
        given = {**args, **scenario.more}
        killed = zygote.run(scenario.workload, given, point=point)
        faults = [] if killed.killed and killed.hit(point) else ["armed and not hit"]
        said: Any = None
        for _ in range(RERUNS_MAX):
            said = zygote.run(scenario.workload, given).result
            if said is not None and said["code"] in scenario.fine:
                break
        else:
            faults.append(f"the command answered {said}")
        faults += scenario.judge(zygote, args)
        return [f"{scenario.name} {point}: {fault}" for fault in faults]


# -- scenes ----------------------------------------------------------------------------------------


def nothing(zygote: Zygote, args: Args) -> None:
    """A fresh world."""


def load(zygote: Zygote, args: Args) -> None:
    """One finished load."""
    ended = zygote.run(FENCED, args)
    assert ended.exit_code == 0, ended.result


def killed_at(point: str) -> Callable[[Zygote, Args], None]:
    """A load that was killed at `point`."""

    def scene(zygote: Zygote, args: Args) -> None:
        ended = zygote.run(FENCED, args, point=point)
        assert ended.killed, ended.result
        assert ended.hit(point)

    return scene


def lose(args: Args) -> None:
    """Bring the target back to how it was before the load, fence included."""
    connection = workloads.connect(args["target"])
    for table in ("dpone_fence", "audit", "loaded"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute(workloads.SETUP[-1])
    connection.close()


def move(args: Args) -> None:
    """Make the target another incarnation that holds the same rows."""
    kind, _, place = args["target"].partition(":")
    if kind != "postgres":
        shutil.copyfile(place, place + ".moved")
        Path(place + ".moved").replace(place)
        return
    connection = workloads.connect(args["target"])
    connection.execute("UPDATE dpone_fence_meta SET value = 'moved' WHERE key = 'incarnation'")
    connection.close()


def lost(zygote: Zygote, args: Args) -> None:
    """A finished load that the target lost."""
    load(zygote, args)
    lose(args)


def marked(zygote: Zygote, args: Args) -> None:
    """A load that the target lost, marked as diverged."""
    lost(zygote, args)
    assert (zygote.run(FENCED, args).result or {})["code"] == DIVERGED


def moved(zygote: Zygote, args: Args) -> None:
    """A finished load in a target that was moved."""
    load(zygote, args)
    move(args)


def low(zygote: Zygote, args: Args) -> None:
    """A finished load with a place in an ordered partition."""
    load(zygote, {**args, "position": "1"})


# -- judgements ------------------------------------------------------------------------------------


def expect(args: Args, mutations: int, **row: Any) -> list[str]:
    """Faults of the number of mutations and of fields of the journal's row."""
    faults = []
    count = workloads.mutations(args["target"])
    if count != mutations:
        faults.append(f"{count} mutations, not {mutations}")
    entry = entry_of(args)
    for name, value in row.items():
        seen = getattr(entry, name, None)
        if seen != value:
            faults.append(f"{name} is {seen!r}, not {value!r}")
    return faults


def says(zygote: Zygote, args: Args, code: str, how: str = "", **more: Any) -> list[str]:
    """Faults of what a load answers now."""
    result = zygote.run(FENCED, {**args, **more}).result or {}
    seen = result.get("code"), result.get("outcome", {}).get("how", "")
    return [] if seen == (code, how) else [f"a load answers {result}, not {(code, how)}"]


def once(zygote: Zygote, args: Args) -> list[str]:
    """A load ends, and the target holds it once."""
    zygote.run(FENCED, args)
    return [*expect(args, 1, state="COMPLETE"), *says(zygote, args, "", "replayed")]


def blocked(zygote: Zygote, args: Args) -> list[str]:
    """The row is marked and nothing is loaded."""
    return [*says(zygote, args, DIVERGED), *expect(args, 0, state="COMPLETE", diverged="absent")]


def closed(zygote: Zygote, args: Args) -> list[str]:
    """The revision is closed for ever, and the next one loads once."""
    faults = [*expect(args, 0, reason="answered"), *says(zygote, args, ANSWERED)]
    faults += says(zygote, args, "", "committed", revision=2)
    return [*faults, *says(zygote, args, "", "replayed", revision=2), *expect(args, 1)]


def pruned(zygote: Zygote, args: Args) -> list[str]:
    """The entry is a tombstone that still answers."""
    return [*says(zygote, args, "", "replayed"), *expect(args, 1, state="COMPLETE", pruned=True)]


def expired(zygote: Zygote, args: Args) -> list[str]:
    """Below the floor nobody loads, with a journal or without."""
    faults = says(zygote, args, EXPIRED, position="1")
    empty = {**args, "journal": args["journal"] + "2"} if "sqlite:" in args["journal"] else args
    return [*faults, *says(zygote, empty, EXPIRED, position="1"), *expect(args, 1)]


def bound(zygote: Zygote, args: Args) -> list[str]:
    """The row belongs to the target as it is now."""
    found = operators.do("check", args)["said"]["findings"]
    faults = [] if found == [] else [f"check finds {found}"]
    return [*faults, *says(zygote, args, "", "replayed"), *expect(args, 1, state="COMPLETE")]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "load",
        (
            "fencing.fence",
            "fencing.intent",
            "fencing.claim",
            "fencing.change",
            "fencing.commit",
            "fencing.acknowledge",
            "fencing.obligation",
            "fencing.complete",
        ),
        nothing,
        once,
        more={"obligations": ["checkpoint", "evidence"]},
    ),
    Scenario(
        "recover",
        ("fencing.take_over", "fencing.seal", "fencing.conclude"),
        killed_at("fencing.change:after#1"),
        once,
    ),
    Scenario("settle", ("fencing.settle",), killed_at("fencing.commit:after#1"), once),
    Scenario(
        "reject",
        ("fencing.seal", "fencing.conclude"),
        nothing,
        once,
        more={"statements": ["INSERT INTO nowhere VALUES (1)"]},
        fine=("DPONE_TARGET_COMMIT_REJECTED",),
    ),
    Scenario("diverge", ("fencing.diverge",), lost, blocked, fine=(DIVERGED,)),
    Scenario(
        "accept the loss",
        ("fencing.resolve", "fencing.seal"),
        marked,
        closed,
        OPERATE,
        {"command": "resolve", "answer": "accept-loss"},
        ("", REFUSED),
    ),
    Scenario(
        "reload",
        ("fencing.resolve",),
        marked,
        closed,
        OPERATE,
        {"command": "resolve", "answer": "reload"},
        ("", REFUSED),
    ),
    Scenario(
        "answer a doubt",
        ("fencing.conclude",),
        killed_at("fencing.commit:before#1"),
        once,
        OPERATE,
        {"command": "resolve", "answer": "not-committed"},
        ("", REFUSED),
    ),
    Scenario(
        "adopt a journal",
        ("fencing.adopt",),
        killed_at("fencing.intent:after#1"),
        once,
        OPERATE,
        {"command": "adopt_journal"},
    ),
    Scenario("rebind", ("fencing.rebind",), moved, bound, OPERATE, {"command": "adopt_target"}),
    Scenario(
        "prune", ("fencing.shorten", "fencing.prune"), load, pruned, OPERATE, {"command": "prune"}
    ),
    Scenario(
        "floor", ("fencing.floor",), low, expired, OPERATE, {"command": "floor", "floor": "2"}
    ),
)


def plan(
    zygote: Zygote, world: World, *, all_points: bool = False
) -> Iterator[tuple[Scenario, str]]:
    """Every scenario with every point that it is to be killed at."""
    for scenario in SCENARIOS:
        for point in points(zygote, world, scenario, all_points=all_points):
            yield scenario, point
