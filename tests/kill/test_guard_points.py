"""A load under the guard is killed at every point: it blocks, and never writes twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faultinject import worlds
from faultinject.matrix import fresh
from faultinject.operators import answer_guard
from faultinject.rivals import code_of, how_of
from faultinject.scenarios import declared
from faultinject.zygote import Zygote

pytestmark = pytest.mark.kill

GUARDED = "faultinject.operators:guarded"
UNRESOLVED = "native_transfer_manual_reconciliation_required"
ROWS = ["p,0", "p,1", "p,2"]
# What the next run says, and the rows that are there before an operator answers.
POINTS: dict[str, tuple[str, list[str]]] = {
    "guard.arm:before#1": ("committed", ROWS),
    "guard.arm:after#1": (UNRESOLVED, []),
    "guard.mutate:before#1": (UNRESOLVED, []),
    "guard.mutate:after#1": (UNRESOLVED, ROWS),
    "guard.close:before#1": (UNRESOLVED, ROWS),
    "guard.close:after#1": ("replayed", ROWS),
}


def written(args: dict[str, Any]) -> list[str]:
    path = Path(args["folder"]) / "out" / "rows.csv"
    return path.read_text().splitlines() if path.exists() else []


def test_every_declared_point_of_the_guard_is_passed_by_a_load(zygote: Zygote) -> None:
    with fresh(worlds.sqlite, {"strategy": "append", "part": "p"}) as args:
        trace = Path(args["folder"]) / "trace"
        trace.touch()
        zygote.run(GUARDED, args, trace=trace)
        passed = [json.loads(line)["point"] for line in trace.read_text().splitlines()]
    assert passed == list(POINTS)
    assert {point.partition("#")[0] for point in passed} == declared("guard")


@pytest.mark.parametrize("point", POINTS)
def test_a_guarded_load_killed_at_a_point_never_writes_twice(zygote: Zygote, point: str) -> None:
    says, there = POINTS[point]
    with fresh(worlds.sqlite, {"strategy": "append", "part": "p"}) as args:
        killed = zygote.run(GUARDED, args, point=point)
        assert killed.killed
        assert killed.hit(point)
        again = zygote.run(GUARDED, args)
        assert (code_of(again) or how_of(again)) == says, again.result
        assert written(args) == there
        if says == UNRESOLVED:
            assert again.exit_code == 4
            # Another partition of the same tables is blocked too: nobody can tell them apart.
            assert zygote.run(GUARDED, {**args, "part": "q"}).exit_code == 4
            assert answer_guard(args, committed=bool(there)) == 1
            answered = zygote.run(GUARDED, args)
            assert how_of(answered) == ("replayed" if there else "committed")
        assert written(args) == ROWS
