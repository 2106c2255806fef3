"""A worker is killed around every file-changing system call it makes, then run again."""

from __future__ import annotations

import platform
from collections import Counter
from pathlib import Path

import pytest

from faultinject import workloads, worlds
from faultinject.matrix import FENCED, World, fresh
from faultinject.sweeps import sweep
from faultinject.syscalls import SyscallsUnsupported, require
from faultinject.zygote import Zygote

pytestmark = pytest.mark.kill

KINDS: dict[str, World] = {"sqlite": worlds.sqlite, "duckdb": worlds.duckdb}
# A load makes at least this many such calls in its target alone.
CALLS_MIN = {"sqlite": 20, "duckdb": 10}
JOURNAL_CALLS_MIN = 30


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_killed_around_every_file_changing_call_loads_once(
    zygotes: list[Zygote], kind: str
) -> None:
    done = sweep(zygotes, KINDS[kind], "merge")
    assert [entry for entry in done if entry.faults] == []
    # The proof of each kill is the signal that ended the worker at the wanted stop.
    killed = [entry.seen.killed_at for entry in done if entry.seen.killed_at]
    sides = Counter(
        (side, target.startswith("target")) for side, _, target in map(str.split, killed)
    )
    for side in ("before", "after"):
        assert sides[side, True] >= CALLS_MIN[kind]
        assert sides[side, False] >= JOURNAL_CALLS_MIN


def test_an_untraced_end_changes_nothing(zygote: Zygote) -> None:
    with fresh(worlds.duckdb, {"strategy": "append"}) as args:
        seen = zygote.run_to_syscall(FENCED, args, Path(args["folder"]), 0)
        assert (seen.exit_code, seen.killed_at) == (0, "")
        # The engine's own threads were followed too.
        assert seen.threads > 2
        assert workloads.mutations(args["target"]) == 1
        names = {stop.split(" ")[1] for stop in seen.stops}
        assert {"pwrite64", "fdatasync", "unlink", "openat", "mkdir"} <= names


def test_another_machine_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(SyscallsUnsupported, match="x86-64 only, not for Linux on aarch64"):
        require()
