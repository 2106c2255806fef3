"""Authority: everything that must agree, each disagreement as its own error."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dpone import wiring
from dpone.contracts import errors_cache as cached
from dpone.contracts import errors_retention as errors
from dpone.contracts.activation_history import encode_history
from dpone.contracts.errors_retention import RetentionError
from dpone.retention.authority import read_authority
from tests.retention.caches import CANDIDATES, CURRENT, Cache, number, removed

OTHER = "11111111-2222-4333-8444-555555555555"
CHECKPOINT = "status/desired-state-checkpoint.json"


def refused(cache: Cache, kind: type[RetentionError]) -> str:
    with pytest.raises(kind) as caught:
        cache.authority()
    assert caught.type is kind
    return str(caught.value)


def test_the_earlier_cache_has_authority_although_its_ack_is_older(cache: Cache) -> None:
    found = cache.authority()
    assert found.current.deployment_id == CURRENT
    pointer = found.current.pointed.pointer
    assert found.ack.acknowledged_at < pointer.promoted_at
    assert found.present_history is None
    assert list(found.history.entries) == [pointer.activation_id]


def test_a_newer_time_of_the_acknowledgement_changes_nothing(cache: Cache) -> None:
    before = cache.authority().digest
    cache.edit_ack(acknowledged_at="2027-01-01T00:00:00+00:00")
    assert cache.authority().digest == before


def test_any_other_change_changes_the_digest(cache: Cache) -> None:
    before = cache.authority().digest
    cache.edit(CHECKPOINT, observed_revision="rev-2")
    changed = cache.authority().digest
    cache.edit("current-pointer.json", source_commit="abc")
    audit = cache.root / "current-pointer-audit.jsonl"
    pointer = json.loads((cache.root / "current-pointer.json").read_text())
    audit.write_text(audit.read_text() + json.dumps(pointer) + "\n")
    assert len({before, changed, cache.authority().digest}) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"fatal": True},
        {"skipped_dag_ids": ["Z"]},
        {"error_codes": ["DPONE_X"]},
        {"activation_id": OTHER},
        {"activation_id": "rogue"},
        {"deployment_id": number(1)},
        {"release_id": number(1)},
        {"airflow_index_sha256": number(1)},
        {"schema": "dpone.airflow_loader_ack.v1"},
        {"more": 1},
    ],
)
def test_an_acknowledgement_that_does_not_confirm_is_invalid(
    cache: Cache, changes: dict[str, Any]
) -> None:
    cache.edit_ack(**changes)
    refused(cache, errors.AckInvalid)


def test_version_1_of_the_acknowledgement_is_not_enough(cache: Cache) -> None:
    value = json.loads(cache.ack.read_text()) | {"schema": "dpone.airflow_loader_ack.v1"}
    del value["activation_id"]
    cache.ack.write_text(json.dumps(value))
    assert "version 1" in refused(cache, errors.AckInvalid)


def test_without_an_acknowledgement_there_is_no_authority(cache: Cache) -> None:
    cache.ack.unlink()
    refused(cache, errors.AckRequired)
    with cache.opened() as root, pytest.raises(errors.AckRequired):
        read_authority(root, "dev", None)
    cache.ack.mkdir()
    refused(cache, errors.AckInvalid)


@pytest.mark.parametrize(
    "changes",
    [
        {"environment": "prod"},
        {"release_id": number(1)},
        {"deployment_id": number(1)},
        {"activation_id": OTHER},
        {"occurrence_id": OTHER},
        {"airflow_index_sha256": number(1)},
        {"expected_dag_ids": ["DAG__bench__cache__refresh", "more"]},
    ],
)
def test_a_checkpoint_that_disagrees_is_a_mismatch(cache: Cache, changes: dict[str, Any]) -> None:
    cache.edit(CHECKPOINT, **changes)
    refused(cache, errors.DesiredCheckpointMismatch)


def test_a_missing_and_a_malformed_checkpoint_are_told_apart(cache: Cache) -> None:
    file = cache.root / CHECKPOINT
    file.write_text("{")
    refused(cache, errors.DesiredCheckpointInvalid)
    file.unlink()
    refused(cache, errors.DesiredCheckpointRequired)


@pytest.mark.parametrize("how", ["missing", "torn", "other", "empty"])
def test_an_audit_that_does_not_end_with_the_pointer_is_invalid(cache: Cache, how: str) -> None:
    audit = cache.root / "current-pointer-audit.jsonl"
    text = audit.read_text()
    if how == "missing":
        audit.unlink()
    else:
        later = text.replace("local://dpone", "local://other")
        audit.write_text({"torn": text[:-1], "other": text + later, "empty": ""}[how])
    refused(cache, errors.PromotionAuditInvalid)


def _other_link(cache: Cache) -> None:
    (cache.root / "current").unlink()
    (cache.root / "current").symlink_to(f"activations/dev/{CANDIDATES[0].replace(':', '-')}")


def _plain_link(cache: Cache) -> None:
    (cache.root / "current").unlink()
    (cache.root / "current").mkdir()


def _no_link(cache: Cache) -> None:
    (cache.root / "current").unlink()


def _no_pointer(cache: Cache) -> None:
    (cache.root / "current-pointer.json").unlink()


def _in_activation(name: str, change: Callable[[bytes], bytes | None]) -> Callable[[Cache], None]:
    def apply(cache: Cache) -> None:
        file = cache.activation(CURRENT) / name
        file.parent.chmod(0o755)
        changed = change(file.read_bytes())
        file.unlink()
        if changed is not None:
            file.write_bytes(changed)

    return apply


def _release(cache: Cache) -> None:
    (spec,) = cache.root.glob("releases/*/dags/*")
    spec.chmod(0o644)
    spec.write_text("{}")


def _no_release(cache: Cache) -> None:
    (folder,) = cache.root.glob("releases/*")
    removed(folder)


@pytest.mark.parametrize(
    "change",
    [
        _other_link,
        _plain_link,
        _no_link,
        _no_pointer,
        _in_activation("_SUCCESS", lambda _: None),
        _in_activation("deployment.json", lambda _: None),
        _in_activation("deployment.json", lambda _: b"{"),
        _in_activation("deployment.json", lambda data: data.replace(b"preview", b"other")),
        _in_activation("airflow-index.json", lambda _: None),
        _in_activation(
            "airflow-index.json",
            lambda data: data.replace(CURRENT.encode(), CANDIDATES[0].encode()),
        ),
        _release,
        _no_release,
    ],
)
def test_a_current_state_that_disagrees_needs_recovery_in_plan_and_apply(
    cache: Cache, change: Callable[[Cache], None]
) -> None:
    change(cache)
    refused(cache, cached.PointerRecoveryRequired)
    said = cache.plan()
    assert (said.code, said.report["code"]) == (4, "DPONE_DEPLOYMENT_CACHE_RECOVERY_REQUIRED")


@pytest.mark.parametrize("data", [b"", b"\0" * 20, b"{}", b'{"schema": 1}'])
def test_a_malformed_pointer_blocks_and_keeps_its_bytes(cache: Cache, data: bytes) -> None:
    file = cache.root / "current-pointer.json"
    file.write_bytes(data)
    refused(cache, cached.PointerRecoveryBlocked)
    assert cache.plan().report["code"] == "DPONE_DEPLOYMENT_CACHE_RECOVERY_BLOCKED"
    assert file.read_bytes() == data


def test_another_environment_is_told(cache: Cache) -> None:
    with cache.opened() as root, pytest.raises(cached.CacheEnvironmentMismatch):
        read_authority(root, "prod", wiring.open_document(cache.ack))


def test_a_changed_index_is_no_longer_what_was_loaded(cache: Cache) -> None:
    _in_activation("airflow-index.json", lambda data: data + b"\n")(cache)
    refused(cache, errors.AckInvalid)


# -- history ---------------------------------------------------------------------------------------


def test_a_history_that_knows_the_activation_otherwise_is_a_conflict(cache: Cache) -> None:
    file = cache.root / ".retention-activation-history.v2.json"
    file.write_bytes(encode_history(cache.authority().history))
    assert cache.authority().history == cache.authority().present_history
    cache.edit_ack(loaded_dag_ids=["Other"])
    cache.edit(CHECKPOINT, expected_dag_ids=["Other"])
    refused(cache, cached.ActivationHistoryConflict)


def test_a_malformed_history_blocks(cache: Cache) -> None:
    (cache.root / ".retention-activation-history.v2.json").write_text("{}")
    refused(cache, cached.ActivationHistoryInvalid)


def test_of_the_legacy_history_no_content_is_copied(cache: Cache) -> None:
    (cache.root / ".retention-activation-history.json").write_text('{"token": "hunter2"}')
    history = cache.authority().history
    assert len(history.legacy_v1_diagnostics) == 1
    assert b"hunter2" not in encode_history(history)
