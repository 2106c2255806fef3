"""One run of a reviewed deletion in a forked child that a point may kill."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpone.ports.probe import Probe
from faultinject.deletion_worlds import World

APPLY = "tests.stateful.deletion_child:apply"


def apply(args: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """The command, by the world that it is run in; `said` is how it ended."""
    world = World(Path(args["root"]), Path(args["ack"]), tuple(args["candidates"]), "")
    ended = world.apply(args["plan"], args["review"], probe=probe)
    return {"exit_code": ended.exit_code, "said": ended.code}
