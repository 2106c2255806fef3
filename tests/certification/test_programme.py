"""A small run of the real programme: its bundle is consistent, and a second one is the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from certification.__main__ import main
from certification.claims import UNVERIFIED
from certification.evidence import digests
from certification.flow_records import NOTHING_LOST, add
from certification.places import Resources
from certification.programme import Budget, Raw, run_kills, run_models, run_suites

SMALL = ["--quick", "--part", "kills", "--world", "sqlite", "--strategy", "append"]


@pytest.mark.kill
def test_a_run_writes_a_bundle_that_can_be_recomputed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = []
    for name in ("one", "two"):
        assert main([*SMALL, "--out", str(tmp_path / name)]) == 0
        folders += list((tmp_path / name).iterdir())
    assert [folder.name for folder in folders] == [folders[0].name] * 2
    assert main(["verify", str(folders[0])]) == 0
    assert digests(folders[0], timing=False) == digests(folders[1], timing=False)
    points = [json.loads(line) for line in (folders[0] / "points.jsonl").read_text().splitlines()]
    assert len(points) > 20
    assert {point["hit"] for point in points} == {True}
    made = json.loads((folders[0] / "claims.json").read_text())
    assert made["target/sqlite"]["status"] == UNVERIFIED
    assert "manifest sha256:" in capsys.readouterr().out


def test_nothing_is_invented_when_the_budget_is_used_up() -> None:
    raw, budget = Raw(), Budget(-1.0)
    with Resources() as resources:
        run_suites(raw, resources, budget, "no server")
        run_models(raw, budget, quick=False)
        run_kills(
            raw, resources, budget, "no server", quick=True, seed=0, chosen=("sqlite", "postgres")
        )
    assert raw.checks == raw.models == raw.rounds == []
    assert {gap["outcome"] for gap in raw.gaps} == {"inconclusive", "unverified"}
    assert raw.plans
    assert all(plan["cut"] for plan in raw.plans)


def test_a_long_run_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    raw = Raw()
    with raw.timed("first"):
        add(raw, "flow/one", "first", NOTHING_LOST, [])
        add(raw, "flow/two", "first", NOTHING_LOST, ["a byte is lost"])
    with pytest.raises(OSError, match="full"), raw.timed("second"):
        raise OSError("full")
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "first: 0 s, 1 of 2 judgements failed\nsecond: 0 s\n"


def test_verify_needs_one_bundle(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["verify"]) == 2
    assert main(["verify", str(tmp_path)]) == 1
    assert "usage" in capsys.readouterr().err
