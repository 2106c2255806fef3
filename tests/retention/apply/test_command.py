"""The apply command: what it refuses before it looks, what it needs, and what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone import wiring
from dpone.contracts.published import json_schema
from dpone.ports import files
from faultinject.deletion_files import WatchedCache, failing_at
from faultinject.deletion_worlds import REVIEW, World
from tests.retention.apply.boundaries import ABORTED, stopped
from tests.retention.caches import Said, call, number
from tests.retention.contracts.schemas import faults

GC = "DPONE_DEPLOYMENT_CACHE_GC_"
APPLY = "dpone.deployment-cache-retention-apply."


def applied(made: World, plan: str, *more: str, without: str = "", **changes: str) -> Said:
    """Run the command; `without` leaves an option out, `changes` give others another value."""
    options = {
        "--cache-root": str(made.root),
        "--expected-plan-sha256": plan,
        "--review-id": REVIEW,
        "--promoted-by": "me",
        "--allowed-promoter": "me",
        "--loader-ack-file": str(made.ack),
        "--format": "json",
    }
    options |= {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    words = [word for name, value in options.items() if name != without for word in (name, value)]
    if without != "--confirm-delete":
        words.append("--confirm-delete")
    return call("airflow", "cache-retention-apply", *words, *more)


def untouched(made: World) -> bool:
    """Whether nothing of retention was made and every candidate has its name."""
    control = [path.name for path in made.root.iterdir() if path.name.startswith(".retention")]
    return control == [] and made.there() == list(made.candidates)


@pytest.mark.parametrize(
    ("without", "changes", "exit_code", "code"),
    [
        ("--confirm-delete", {}, 4, f"{GC}CONFIRMATION_REQUIRED"),
        ("", {"promoted_by": "him"}, 4, "DPONE_CURRENT_POINTER_PROMOTER_UNAUTHORIZED"),
        ("", {"allowed_promoter": "m"}, 4, "DPONE_CURRENT_POINTER_PROMOTER_UNAUTHORIZED"),
        ("--expected-plan-sha256", {}, 2, f"{GC}PLAN_REQUIRED"),
        ("", {"expected_plan_sha256": "sha256:1"}, 2, f"{GC}PLAN_REQUIRED"),
        ("", {"expected_plan_sha256": number(1)}, 1, f"{GC}PLAN_CHANGED"),
        ("--review-id", {}, 2, f"{GC}REVIEW_ID_REQUIRED"),
        ("", {"review_id": "mine"}, 2, f"{GC}REVIEW_ID_INVALID"),
        ("", {"review_id": REVIEW.upper()}, 2, f"{GC}REVIEW_ID_INVALID"),
        ("", {"review_id": REVIEW.replace("-4", "-1", 1)}, 2, f"{GC}REVIEW_ID_INVALID"),
        ("", {"evidence_version": "v4"}, 2, f"{GC}EVIDENCE_VERSION_INVALID"),
        ("--loader-ack-file", {}, 2, f"{GC}ACK_REQUIRED"),
        ("", {"protect_deployment_id": "sha256:1"}, 2, "DPONE_DEPLOYMENT_ID_INVALID"),
        ("", {}, 0, ""),
    ],
)
def test_what_an_apply_needs_is_refused_without_it(
    made: World, without: str, changes: dict[str, str], exit_code: int, code: str
) -> None:
    said = applied(made, made.plan().sha256, without=without, **changes)
    assert (said.code, said.report.get("code", "")) == (exit_code, code)
    assert untouched(made) is bool(code)


def test_what_looks_like_a_connection_names_no_promoter(made: World) -> None:
    text = "postgresql://me:hunter2@db/x"
    said = applied(made, made.plan().sha256, promoted_by=text, allowed_promoter=text)
    assert said.code == 4
    assert "hunter2" not in said.out + said.err
    assert untouched(made)


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
@pytest.mark.parametrize("how", ["no acknowledgement", "fatal", "no checkpoint", "no review"])
def test_an_older_evidence_version_relaxes_nothing(made: World, version: str, how: str) -> None:
    plan = made.plan().sha256
    without = {"no acknowledgement": "--loader-ack-file", "no review": "--review-id"}.get(how, "")
    if how == "fatal":
        made.edit_ack(fatal=True)
    elif how == "no checkpoint":
        (made.root / "status/desired-state-checkpoint.json").unlink()
    said = applied(made, plan, without=without, evidence_version=version)
    wanted = {
        "no acknowledgement": (2, f"{GC}ACK_REQUIRED"),
        "fatal": (1, f"{GC}ACK_INVALID"),
        "no checkpoint": (1, f"{GC}DESIRED_CHECKPOINT_REQUIRED"),
        "no review": (2, f"{GC}REVIEW_ID_REQUIRED"),
    }
    assert (said.code, said.report["code"]) == wanted[how]
    assert untouched(made)


def test_the_evidence_is_version_3_unless_another_is_asked_for(made: World) -> None:
    plan = made.plan().sha256
    report = applied(made, plan).report
    assert report["schema"] == f"{APPLY}v3"
    receipt = made.receipt(plan)
    assert receipt is not None
    assert (report["receipt_revision"], report["transaction_status"]) == (
        receipt.receipt_revision,
        "committed",
    )


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
def test_what_is_printed_satisfies_its_published_schema(made: World, version: str) -> None:
    report = applied(made, made.plan().sha256, evidence_version=version).report
    assert report["deleted_deployment_ids"] == list(made.candidates)
    assert faults(report, json_schema(APPLY + version)) == []
    nothing = applied(made, made.plan().sha256, evidence_version=version).report
    assert nothing["deleted_deployment_ids"] == []
    assert faults(nothing, json_schema(APPLY + version)) == []


def test_with_nothing_to_delete_nothing_is_made(made: World) -> None:
    words = [word for it in made.candidates for word in ("--protect-deployment-id", it)]
    plan = made.plan(given=made.candidates).sha256
    said = applied(made, plan, *words)
    assert (said.code, said.report["deleted_deployment_ids"]) == (0, [])
    assert "operation_id" not in said.report
    assert untouched(made)


def test_what_was_deleted_before_there_were_receipts_is_told_as_the_plan_finds_it(
    made: World,
) -> None:
    plan = made.plan().sha256
    for deployment_id in made.candidates:
        for path in made.deployment(deployment_id).iterdir():
            path.unlink()
        made.deployment(deployment_id).rmdir()
    said = applied(made, plan)
    assert (said.code, said.report["code"]) == (1, f"{GC}PLAN_CHANGED")
    fresh = applied(made, made.plan().sha256)
    assert (fresh.code, fresh.report["deleted_deployment_ids"]) == (0, [])
    assert "receipt_revision" not in fresh.report
    assert not made.receipts.exists()


def test_an_unfinished_run_prints_no_evidence_but_what_is_left(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = made.plan().sha256
    leaf = made.deployment(made.candidates[1]).name
    watch = failing_at("unlink", files.AccessDenied, f".retention-trash/{leaf}")
    with monkeypatch.context() as patched:
        patched.setattr(wiring, "open_cache", lambda root, **_: WatchedCache(Path(root), watch))
        said = applied(made, plan)
    assert (said.code, said.report["code"]) == (4, f"{GC}OPERATION_UNFINISHED")
    assert "deleted_deployment_ids" not in said.report
    assert leaf in said.report["fields"]["path"]
    assert said.report["fields"]["deleted"] == "2"
    assert applied(made, plan).code == 0


def test_progress_is_told_beside_the_one_object_that_is_printed(made: World) -> None:
    said = applied(made, made.plan().sha256, "--follow")
    assert said.report["deleted_deployment_ids"] == list(made.candidates)
    assert len(said.out.splitlines()) == 1
    assert said.err.splitlines() == [f"{number} of 3 candidates done" for number in (1, 2, 3)]


def test_a_cache_without_a_marker_or_of_another_name_is_not_applied_to(made: World) -> None:
    plan = made.plan().sha256
    said = applied(made, plan, cache_root=str(made.root.parent / "cachee"))
    assert (said.code, said.report["code"]) == (2, "DPONE_DEPLOYMENT_CACHE_ROOT_NOT_FOUND")
    (made.root / ".dpone-cache-layout.json").unlink()
    said = applied(made, plan)
    assert (said.code, said.report["code"]) == (4, "DPONE_DEPLOYMENT_CACHE_LAYOUT_NOT_FOUND")
    assert untouched(made)


# -- the other commands


def desk(made: World, command: str, *more: str) -> Said:
    where = ("--cache-root", made.root, "--format", "json")
    return call("airflow", f"cache-retention-{command}", *where, *more)


@pytest.fixture
def restored(made: World) -> World:
    """A cache with an aborted receipt, something that was put back, and open modes."""
    plan = made.plan().sha256
    stopped(made, plan, "detached")
    made.activate("yet another")
    assert made.apply(plan).code == ABORTED
    made.receipts.chmod(0o755)
    return made


REPORTS = {
    ("receipts", "--repair"): ("receipts.v1", 4),
    ("acknowledge",): ("acknowledge.v1", 0),
    ("archive",): ("archive-report.v1", 0),
}


@pytest.mark.parametrize("words", REPORTS)
def test_without_apply_a_command_says_what_it_would_do_and_writes_nothing(
    restored: World, words: tuple[str, ...]
) -> None:
    name, exit_code = REPORTS[words]
    if words[0] == "archive":
        restored.receipts.chmod(0o700)
    before = _snapshot(restored.root)
    said = desk(restored, *words)
    assert said.code == exit_code
    assert said.report["applied"] is False
    assert _snapshot(restored.root) == before
    assert faults(said.report, json_schema(f"dpone.deployment-cache-retention-{name}")) == []


def _snapshot(root: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in [root, *root.rglob("*")]
    }


def test_an_archive_step_needs_the_digest_that_was_reviewed(restored: World) -> None:
    restored.receipts.chmod(0o700)
    for words in ((), ("--expected-archive-sha256", "sha256:1")):
        said = desk(restored, "archive", "--apply", *words)
        assert (said.code, said.report["code"]) == (2, f"{GC}PLAN_REQUIRED")
    said = desk(restored, "archive", "--apply", "--expected-archive-sha256", number(1))
    assert (said.code, said.report["code"]) == (1, f"{GC}PLAN_CHANGED")
    assert len(list(restored.receipts.iterdir())) == 1


@pytest.mark.parametrize("command", ["receipts", "acknowledge", "archive"])
@pytest.mark.parametrize("root", ["", ".", "/", "~", "../cache"])
def test_a_wrong_root_is_refused_by_every_command(
    made: World, monkeypatch: pytest.MonkeyPatch, command: str, root: str
) -> None:
    work = made.root.parent / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    words = ("--cache-root", root, "--format", "json")
    said = call("airflow", f"cache-retention-{command}", *words)
    assert (said.code, said.report["code"]) == (4, "DPONE_DEPLOYMENT_CACHE_ROOT_UNSAFE")


def test_each_receipt_is_printed_as_it_lies_there(made: World) -> None:
    plan = made.plan().sha256
    ended = made.apply(plan)
    assert ended.receipt is not None
    said = desk(made, "receipts", "--operation", ended.receipt.operation_id)
    assert (said.code, said.out.encode()) == (0, made.raw(plan))
