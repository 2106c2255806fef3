"""Public report A24: a committed target that cannot be opened is not a failed load."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from dpone.contracts.errors import DponeError
from faultinject.matrix import FENCED, World, fresh
from faultinject.operators import do, entry_of
from faultinject.scenarios import expect
from faultinject.workloads import change_of, operation_of
from faultinject.zygote import Zygote
from tests.cases.desk import APPEND, committer, said

POINT = "fencing.commit:after#1"
IN_DOUBT = ("COMMITTING", "COMMIT_UNKNOWN")


def stays_in_doubt(zygote: Zygote, args: dict[str, Any]) -> None:
    """Load, settle and load again: exit 4, a code of the target, a next step; never failed."""
    for ended in (zygote.run(FENCED, args), zygote.run(FENCED, {**args, "take_over": True})):
        assert ended.exit_code == 4, ended.result
        check_state(args)
    assert do("settle", args)["exit_code"] == 4
    check_state(args)
    with committer(args) as by, pytest.raises(DponeError) as caught:
        by.commit(operation_of(args), change_of("append", "p"), take_over=True)
    report = caught.value.report()
    assert report["exit_code"] == 4
    assert report["code"] in ("DPONE_TARGET_INVALID", "DPONE_TARGET_COMMIT_UNKNOWN")
    assert "target" in report["happened"]
    assert report["next"].split()[0] in ("Check", "Restore", "Run", "Look")
    check_state(args)


def check_state(args: dict[str, Any]) -> None:
    """The row is in doubt."""
    row = entry_of(args)
    assert row is not None
    assert row.state in IN_DOUBT


@pytest.mark.parametrize("world", ["duckdb", "sqlite"], indirect=True)
def test_a24_a_target_that_cannot_be_opened_is_not_a_failed_load(
    zygote: Zygote, world: World
) -> None:
    with fresh(world, APPEND) as args:
        killed = zygote.run(FENCED, args, point=POINT)
        assert killed.killed
        assert killed.hit(POINT)
        place = Path(args["target"].partition(":")[2])
        kept = {path: path.read_bytes() for path in place.parent.glob("target*")}
        for path, data in kept.items():
            path.write_bytes(b"\xff" * len(data))
        stays_in_doubt(zygote, args)
        for path, data in kept.items():
            path.write_bytes(data)
        assert said(zygote, args, take_over=True) == "settled"
        assert expect(args, 1, state="COMPLETE") == []


@pytest.mark.parametrize("world", ["duckdb"], indirect=True)
def test_a24_a_log_that_cannot_be_replayed_is_not_a_failed_load(
    zygote: Zygote, world: World
) -> None:
    with fresh(world, APPEND) as args:
        assert said(zygote, args, part="earlier") == "committed"
        assert zygote.run(FENCED, args, point=POINT).killed
        place = Path(args["target"].partition(":")[2])
        log = place.with_name(place.name + ".wal")
        kept = place.with_name("kept")
        shutil.copyfile(log, kept)
        data = bytearray(log.read_bytes())
        data[len(data) // 2] ^= 0xFF
        log.write_bytes(data)
        stays_in_doubt(zygote, args)
        shutil.copyfile(kept, log)
        kept.unlink()
        assert said(zygote, args, take_over=True) == "settled"
        assert expect(args, 1, state="COMPLETE") == []
