"""The cache that the published release wrote: planned, applied, replayed, also after a move."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultinject.deletion_worlds import REVIEW, World
from tests.retention.apply.boundaries import ABORTED, stopped
from tests.retention.caches import CANDIDATES, CURRENT, Cache, Said, call, earlier


def _apply(cache: Cache, plan: str, version: str = "v3", review: str = REVIEW) -> Said:
    return call(
        *("airflow", "cache-retention-apply", "--cache-root", cache.root),
        *("--expected-plan-sha256", plan, "--review-id", review, "--confirm-delete"),
        *("--promoted-by", "me", "--allowed-promoter", "me", "--loader-ack-file", cache.ack),
        *("--evidence-version", version, "--format", "json"),
    )


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
def test_it_is_planned_applied_and_replayed_also_after_a_move(tmp_path: Path, version: str) -> None:
    cache = earlier(tmp_path)
    plan = cache.plan().report["plan_sha256"]
    first = _apply(cache, plan, version)
    assert first.code == 0
    assert first.report["deleted_deployment_ids"] == list(CANDIDATES)
    assert first.report["schema"].endswith(version)
    assert ("receipt_revision" in first.report) == (version == "v3")
    assert _apply(cache, plan, version).out == first.out
    moved = Cache(tmp_path / "elsewhere", cache.ack)
    cache.root.rename(moved.root)
    assert _apply(moved, plan, version).out == first.out
    assert moved.plan().report["delete_candidates"] == []
    assert moved.activation(CURRENT).exists()


def test_the_printed_apply_command_names_everything_but_the_review(tmp_path: Path) -> None:
    cache = earlier(tmp_path)
    table = cache.table()
    plan = cache.plan().report["plan_sha256"]
    assert f"--expected-plan-sha256 {plan}" in table.out
    assert "--confirm-delete" in table.out


def test_an_unfinished_apply_has_no_evidence_and_another_exit_code(tmp_path: Path) -> None:
    cache = earlier(tmp_path)
    plan = cache.plan().report["plan_sha256"]
    made = World(cache.root, cache.ack, CANDIDATES, CURRENT)
    stopped(made, plan, "committed")
    cache.edit_ack(fatal=True)
    said = _apply(cache, plan)
    assert (said.code, said.report["code"]) == (1, ABORTED)
    assert "deleted_deployment_ids" not in json.loads(said.out)


def test_a_log_that_is_gone_confirms_nothing_more(tmp_path: Path) -> None:
    cache = earlier(tmp_path)
    plan = cache.plan().report["plan_sha256"]
    made = World(cache.root, cache.ack, CANDIDATES, CURRENT)
    stopped(made, plan, "progress")
    made.log.unlink()
    assert made.apply(plan).code == ABORTED
    receipt = made.receipt(plan)
    assert receipt is not None
    assert receipt.deleted_ids == CANDIDATES[:1]
    assert made.there() == list(CANDIDATES[1:])
