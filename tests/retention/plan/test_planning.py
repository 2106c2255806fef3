"""The plan: what it names, why, and that it changes nothing whatever it finds."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dpone.contracts import retention_receipt as receipts
from dpone.contracts.canonical import digest
from dpone.contracts.codec import decode
from dpone.contracts.published import json_schema
from dpone.contracts.retention_log import encode_record
from dpone.contracts.retention_plan import RetentionPlan
from dpone.contracts.retention_wal import encode_snapshot
from tests.retention.caches import CANDIDATES, CURRENT, Cache, earlier, number, removed
from tests.retention.contracts.samples import item, prepared, receipt, snapshot, transaction
from tests.retention.contracts.schemas import faults

PLAN = json_schema("dpone.deployment-cache-retention-plan.v1")
# Pinned: computed from the bytes of the cache alone, wherever it lies.
GOLDEN = "sha256:f71d5774e680e85ccf2ff05f934b0b89f1f6e1d082be0727c2a53f08681c1f95"
GOLDEN_AUTHORITY = "sha256:5daac4bb479b36d28c197bb2b687369361ff6a76d938f72828f713c3b44a742b"
GOLDEN_HISTORY = "sha256:87269aec8763d5b571354ee6fd3af4a62128bd342eb37a39a5951c61658fc2b1"
GOLDEN_RECEIPTS = (
    "sha256:c48f63aac2742b18d07ace678d02a20b6659d24540107f3bccd95bbbab37a290",
    "sha256:53c3bd798d34cf19e974f981d901f3307e165ae72946c94b51aa85081ef2a006",
)
REVIEW = "9be81f38-697b-4403-a60a-4b927284bb51"


def actions(report: Any) -> dict[str, tuple[str, str]]:
    return {
        it["deployment_id"] or it["path"]: (it["action"], it["reason"]) for it in report["items"]
    }


def test_the_earlier_releases_cache_has_its_pinned_plan(cache: Cache) -> None:
    said = cache.plan()
    assert (said.code, said.err) == (0, "")
    report = said.report
    assert report["plan_sha256"] == GOLDEN
    assert report["delete_candidates"] == sorted(CANDIDATES)
    assert actions(report) == {
        CURRENT: ("protect", "current"),
        **dict.fromkeys(CANDIDATES, ("delete", "unreferenced")),
    }
    assert report["protected_deployment_ids"] == [CURRENT]


def test_authority_and_history_of_the_earlier_cache_are_pinned(cache: Cache) -> None:
    authority = cache.authority()
    assert authority.digest == GOLDEN_AUTHORITY
    assert authority.history.revision == GOLDEN_HISTORY


def test_the_receipt_over_the_earlier_cache_follows_from_its_plan(cache: Cache) -> None:
    report = cache.plan().report
    made = receipts.begun(
        environment="dev",
        promoted_by="local://dpone",
        current_deployment_id=CURRENT,
        plan_sha256=report["plan_sha256"],
        review_id=REVIEW,
        protected_ids=report["protected_deployment_ids"],
        recovery_revision=None,
        history_revision=GOLDEN_HISTORY,
        items=[
            receipts.ReceiptItem(
                deployment_id=it["deployment_id"],
                action="pending" if it["action"] == "delete" else "skipped",
                reason=it["reason"],
                path=it["path"],
            )
            for it in report["items"]
        ],
    )
    assert (made.operation_id, made.receipt_revision) == GOLDEN_RECEIPTS


def test_what_is_printed_is_what_was_digested(cache: Cache) -> None:
    report = cache.plan("--protect-deployment-id", CANDIDATES[0]).report
    assert faults(report, PLAN) == []
    assert decode(json.dumps(report), RetentionPlan).sha256 == report["plan_sha256"]
    assert digest({k: v for k, v in report.items() if k != "plan_sha256"}) == report["plan_sha256"]


def test_the_plan_does_not_depend_on_where_the_cache_lies(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b" / "c"
    second.mkdir(parents=True)
    first.mkdir()
    assert earlier(first).plan().out == earlier(second).plan().out


def test_a_plan_changes_nothing(cache: Cache) -> None:
    before = cache.snapshot()
    assert cache.plan().code == 0
    assert cache.table().code == 0
    assert cache.snapshot() == before


def test_the_table_says_why_and_how_to_go_on(cache: Cache) -> None:
    said = cache.table("--protect-deployment-id", CANDIDATES[0])
    assert said.code == 0
    rows = [line.split() for line in said.out.splitlines()]
    assert ["delete", "unreferenced", CANDIDATES[1], "1.2", "KiB"] in rows
    assert ["protect", "current", CURRENT, "-", "current"] in rows
    assert ["protect", "retention_evidence", CANDIDATES[0], "-", "named"] in rows
    assert "2 to delete (2.5 KiB), 2 protected, 0 in quarantine" in said.out
    digest_line = next(line for line in said.out.splitlines() if line.startswith("plan "))
    command = said.out.splitlines()[-1]
    assert command.startswith("dpone airflow cache-retention-apply --cache-root ")
    assert f"--expected-plan-sha256 {digest_line.split()[1]}" in command
    assert '--review-id "$REVIEW_ID"' in command
    assert f"--protect-deployment-id {CANDIDATES[0]}" in command


def test_with_nothing_to_delete_there_is_no_command(cache: Cache) -> None:
    more = [word for it in CANDIDATES for word in ("--protect-deployment-id", it)]
    said = cache.table(*more)
    assert said.code == 0
    assert said.out.splitlines()[-1] == "There is nothing to delete."


def test_the_rollback_target_is_protected(cache: Cache) -> None:
    for path in ("current-pointer.json",):
        cache.edit(path, previous_deployment_id=CANDIDATES[2])
    report = cache.plan().report
    assert actions(report)[CANDIDATES[2]] == ("protect", "retention_evidence")
    assert CANDIDATES[2] in report["protected_deployment_ids"]
    assert "rollback target" in cache.table().out


# -- quarantine ------------------------------------------------------------------------------------


def broken(cache: Cache, name: str) -> tuple[str, str, str, str | None]:
    """Break the first candidate; returns its key, reason, and code, and its id."""
    place = cache.deployment(CANDIDATES[0])
    found: dict[str, tuple[str, str]] = {
        "no marker": ("incomplete", "DPONE_DEPLOYMENT_UNFINISHED"),
        "no set": ("incomplete", "DPONE_DEPLOYMENT_SET_NOT_FOUND"),
        "no index": ("incomplete", "DPONE_AIRFLOW_INDEX_NOT_FOUND"),
        "no release": ("incomplete", "DPONE_RELEASE_NOT_FOUND"),
        "torn set": ("invalid", "DPONE_DEPLOYMENT_SET_INVALID"),
        "other id": ("invalid", "DPONE_DEPLOYMENT_SET_INVALID"),
        "linked set": ("invalid", "DPONE_DEPLOYMENT_SET_INVALID"),
        "other index": ("invalid", "DPONE_AIRFLOW_INDEX_INVALID"),
        "symlink": ("invalid", "DPONE_DEPLOYMENT_SYMLINK"),
        "file": ("invalid", "DPONE_DEPLOYMENT_NOT_A_DIRECTORY"),
        "bad name": ("invalid", "DPONE_DEPLOYMENT_NAME_INVALID"),
        "bytes": ("invalid", "DPONE_DEPLOYMENT_NAME_INVALID"),
    }
    index = place / "airflow-index.json"
    if name == "no marker":
        (place / "_SUCCESS").unlink()
    elif name == "no set":
        (place / "deployment.json").unlink()
    elif name == "no index":
        index.unlink()
    elif name == "no release":
        body = json.loads((place / "deployment.json").read_text()) | {"release_ref": number(4)}
        del body["deployment_id"]
        made = digest(body)
        place = place.rename(cache.deployment(made))
        (place / "deployment.json").write_text(json.dumps(body | {"deployment_id": made}))
        more = {"deployment_id": made, "release_id": number(4)}
        text = json.dumps(json.loads((place / "airflow-index.json").read_text()) | more)
        (place / "airflow-index.json").write_text(text)
        return made, *found[name], made
    elif name == "torn set":
        (place / "deployment.json").write_bytes(b"{")
    elif name == "other id":
        text = (place / "deployment.json").read_text().replace('"preview"', '"preview2"')
        (place / "deployment.json").write_text(text)
    elif name == "linked set":
        (place / "deployment.json").rename(place / "real.json")
        (place / "deployment.json").symlink_to("real.json")
    elif name == "other index":
        index.write_text(index.read_text().replace(CANDIDATES[0], CANDIDATES[1]))
    elif name == "symlink":
        outside = cache.root.parent / "outside"
        place.rename(outside)
        place.symlink_to(outside)
    elif name == "file":
        removed(place)
        place.write_text("x")
    else:
        leaf = b"bad\xff" if name == "bytes" else b"sha256-0"
        place.rename(place.parent / os.fsdecode(leaf))
        text = "bad\\xff" if name == "bytes" else "sha256-0"
        return f"deployments/dev/{text}", *found[name], None
    return CANDIDATES[0], *found[name], CANDIDATES[0]


@pytest.mark.parametrize(
    "name",
    [
        "no marker",
        "no set",
        "no index",
        "no release",
        "torn set",
        "other id",
        "linked set",
        "other index",
        "symlink",
        "file",
        "bad name",
        "bytes",
    ],
)
def test_what_is_no_whole_deployment_is_left_in_quarantine(cache: Cache, name: str) -> None:
    key, reason, code, deployment_id = broken(cache, name)
    report = cache.plan().report
    assert faults(report, PLAN) == []
    found = {it["deployment_id"] or it["path"]: it for it in report["items"]}[key]
    assert (found["action"], found["reason"], found["error_code"]) == ("quarantine", reason, code)
    assert found["deployment_id"] == deployment_id
    assert report["delete_candidates"] == sorted(CANDIDATES[1:])
    assert code in cache.table().out


@pytest.mark.parametrize(
    "name",
    ["lost+found", ".nfs0001", ".snapshot", ".DS_Store", f".sha256-{'a' * 64}.restore"],
)
def test_names_of_file_systems_and_unfinished_runs_are_told_and_bind_nothing(
    cache: Cache, name: str
) -> None:
    (cache.root / "deployments" / "dev" / name).mkdir()
    assert cache.plan().report["plan_sha256"] == GOLDEN
    assert f"{name} is left alone" in cache.table().out


# -- what earlier operations left ------------------------------------------------------------------


def test_live_transactions_are_bound_and_phases_are_not(cache: Cache) -> None:
    wal = cache.root / ".retention-recovery.json"
    wal.write_bytes(encode_snapshot(snapshot(transaction(9, "detached"))))
    first = cache.plan().report
    assert first["recovery_revision"].startswith("sha256:")
    assert first["plan_sha256"] != GOLDEN
    wal.write_bytes(encode_snapshot(snapshot(transaction(9, "deletion_started"))))
    assert cache.plan().report == first
    wal.write_bytes(encode_snapshot(snapshot()))
    assert cache.plan().report["plan_sha256"] == GOLDEN


def test_the_log_is_read_and_its_torn_end_is_left(cache: Cache) -> None:
    log = cache.root / ".retention-recovery.log"
    log.write_bytes(encode_record(prepared(9)) + b"\0\0\0")
    assert "recovery_revision" in cache.plan().report
    assert log.read_bytes() == encode_record(prepared(9)) + b"\0\0\0"


def stored(cache: Cache, made: receipts.Receipt) -> Path:
    folder = cache.root / ".retention-apply-receipts"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / receipts.receipt_name(made.operation_id)
    path.write_bytes(receipts.encode_receipt(made))
    path.chmod(0o600)
    return path


def test_an_operation_that_has_not_ended_is_named_with_its_revision(cache: Cache) -> None:
    made = receipt(item(2))
    stored(cache, made)
    report = cache.plan().report
    assert report["closes"] == [
        {"operation_id": made.operation_id, "receipt_revision": made.receipt_revision}
    ]
    assert faults(report, PLAN) == []
    assert f"{made.operation_id} has not ended" in cache.table().out


def test_an_ended_operation_is_not_named(cache: Cache) -> None:
    stored(cache, receipts.aborted(receipt(item(2)), receipts.CLOSED_BY_PLAN))
    assert cache.plan().report["plan_sha256"] == GOLDEN


@pytest.mark.parametrize(
    ("path", "data", "code"),
    [
        (".retention-recovery.json", b"", "DPONE_DEPLOYMENT_CACHE_GC_RECOVERY_INVALID"),
        (".retention-recovery.json", b"\0" * 64, "DPONE_DEPLOYMENT_CACHE_GC_RECOVERY_INVALID"),
        (
            ".retention-recovery.log",
            b"\0\0\0\4abcdtext" + encode_record(prepared(9)),
            "DPONE_DEPLOYMENT_CACHE_GC_RECOVERY_INVALID",
        ),
        (
            ".retention-apply-receipts/notes.txt",
            b"x",
            "DPONE_DEPLOYMENT_CACHE_GC_RECEIPT_INVALID",
        ),
        (
            f".retention-apply-receipts/sha256-{'1' * 64}.json",
            b"",
            "DPONE_DEPLOYMENT_CACHE_GC_RECEIPT_INVALID",
        ),
    ],
)
def test_corrupt_control_state_is_a_named_blocker_beside_the_table(
    cache: Cache, path: str, data: bytes, code: str
) -> None:
    file = cache.root / path
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.write_bytes(data)
    before = cache.snapshot()
    said = cache.plan()
    assert (said.code, said.report["code"]) == (4, code)
    assert said.report["fields"]["file"] == path
    text = cache.table()
    assert (text.code, text.out.count("delete  ")) == (4, 3)
    assert "plan sha256" not in text.out
    assert "cache-retention-apply" not in text.out
    assert cache.snapshot() == before


def test_a_receipt_under_another_name_is_a_blocker(cache: Cache) -> None:
    path = stored(cache, receipt(item(2)))
    path.rename(path.with_name(f"sha256-{'2' * 64}.json"))
    assert cache.plan().report["code"] == "DPONE_DEPLOYMENT_CACHE_GC_RECEIPT_INVALID"


def test_many_receipts_are_told_early(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpone.retention.plan.RECEIPTS_EARLY", 1)
    stored(cache, receipts.aborted(receipt(item(2)), receipts.CLOSED_BY_PLAN))
    assert "cache-retention-archive" in cache.table().out


# -- bounds ----------------------------------------------------------------------------------------


def test_what_does_not_fit_is_left_for_a_next_plan(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpone.retention.plan.ITEMS_MAX", 3)
    report = cache.plan().report
    assert report["delete_candidates"] == sorted(CANDIDATES)[:2]
    assert actions(report)[CURRENT] == ("protect", "current")
    assert "1 more candidates are left for a next plan" in cache.table().out
    monkeypatch.setattr("dpone.retention.plan.ITEMS_MAX", 1)
    assert cache.plan().report["code"] == "DPONE_DEPLOYMENT_CACHE_INVENTORY_FULL"
