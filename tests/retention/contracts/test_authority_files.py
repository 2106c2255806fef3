"""Acknowledgements, checkpoint, history, pointer and marker: what is refused, what is carried."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dpone.contracts import activation_history as history
from dpone.contracts import cache_layout as layout
from dpone.contracts import current_pointer as pointers
from dpone.contracts import loader_ack, retention_ack
from dpone.contracts import retention_wal as wal
from dpone.contracts.codec import convert, decode, plain
from dpone.contracts.desired_state import CHECKPOINT_BYTES_MAX, decode_checkpoint
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_cache import ActivationHistoryConflict, ActivationHistoryFull
from dpone.contracts.published import json_schema
from tests.retention.caches import number
from tests.retention.contracts.samples import REVIEW, as_json, legacy_snapshot, sealed
from tests.retention.contracts.schemas import faults

OTHER = "11111111-2222-4333-8444-555555555555"
ACK: dict[str, Any] = {
    "schema": "dpone.airflow_loader_ack.v2",
    "release_id": number(1),
    "deployment_id": number(2),
    "airflow_index_sha256": number(3),
    "activation_id": REVIEW,
    "loaded_dag_ids": ["A", "B.c~d"],
    "skipped_dag_ids": [],
    "error_codes": [],
    "fatal": False,
    "acknowledged_at": "2026-08-03T00:00:00+00:00",
}
CHECKPOINT: dict[str, Any] = {
    "schema": "dpone.airflow-desired-state-checkpoint.v1",
    "environment": "dev",
    "observed_revision": "rev-1",
    "desired_state_sha256": number(1),
    "registry_scope_id": number(2),
    "release_id": number(3),
    "deployment_id": number(4),
    "airflow_index_sha256": number(5),
    "runtime_image_digest": number(6),
    "source_project": "team/project",
    "source_ref": "main",
    "source_git_sha": "3" * 40,
    "occurrence_id": REVIEW,
    "activation_id": REVIEW,
    "expected_dag_ids": ["DAG_a", "b"],
}
POINTER: dict[str, Any] = {
    "schema": "dpone.current-pointer.v1",
    "environment": "dev",
    "deployment_id": number(1),
    "release_id": number(2),
    "promoted_by": "someone",
    "promoted_at": "2026-08-03T00:00:00Z",
}


def data(value: Any) -> bytes:
    return json.dumps(value).encode()


def ack(**changes: Any) -> loader_ack.LoaderAck:
    found = loader_ack.decode_ack(data(ACK | changes))
    assert isinstance(found, loader_ack.LoaderAck)
    return found


# -- the loader's acknowledgement ------------------------------------------------------------------


def test_both_versions_are_read() -> None:
    first = {name: it for name, it in ACK.items() if name != "activation_id"}
    first["schema"] = "dpone.airflow_loader_ack.v1"
    assert isinstance(loader_ack.decode_ack(data(first)), loader_ack.EarlierLoaderAck)
    assert ack().incomplete == ""
    assert faults(first, json_schema("dpone.airflow_loader_ack.v1")) == []
    assert faults(ACK, json_schema("dpone.airflow_loader_ack.v2")) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "dpone.airflow_loader_ack.v3"},
        {"activation_id": "rogue"},
        {"activation_id": REVIEW.upper()},
        {"loaded_dag_ids": ["B", "A"]},
        {"loaded_dag_ids": ["A", "A"]},
        {"loaded_dag_ids": ["a b"]},
        {"loaded_dag_ids": [""]},
        {"loaded_dag_ids": ["A\n"]},
        {"skipped_dag_ids": ["A"]},
        {"skipped_dag_ids": ["Z", "Y"]},
        {"error_codes": ["OTHER"]},
        {"error_codes": ["DPONE_X", "DPONE_X"]},
        {"fatal": 0},
        {"fatal": "false"},
        {"acknowledged_at": "2026-08-03"},
        {"acknowledged_at": "2026-08-03T00:00:00"},
        {"acknowledged_at": "2026-13-03T00:00:00Z"},
        {"release_id": "sha256:" + "A" * 64},
        {"more": 1},
    ],
)
def test_an_acknowledgement_out_of_shape_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ContractInvalid):
        loader_ack.decode_ack(data(ACK | changes))


@pytest.mark.parametrize("name", sorted(ACK))
def test_every_field_of_an_acknowledgement_is_needed(name: str) -> None:
    with pytest.raises(ContractInvalid):
        loader_ack.decode_ack(data({key: it for key, it in ACK.items() if key != name}))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ACK)[:-1] + ', "fatal": false}',
        json.dumps(ACK).replace("false", "NaN"),
        json.dumps(ACK) + " " * loader_ack.ACK_BYTES_MAX,
        "[]",
        "",
    ],
)
def test_duplicates_odd_numbers_and_size_are_refused(text: str) -> None:
    with pytest.raises(ContractInvalid):
        loader_ack.decode_ack(text.encode())


@pytest.mark.parametrize(
    "changes",
    [{"fatal": True}, {"skipped_dag_ids": ["Z"]}, {"error_codes": ["DPONE_X"]}],
)
def test_what_was_not_wholly_loaded_says_so(changes: dict[str, Any]) -> None:
    assert ack(**changes).incomplete


# -- the checkpoint --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"environment": "Dev"},
        {"environment": "-dev"},
        {"environment": "d" * 65},
        {"observed_revision": ""},
        {"source_project": "alone"},
        {"source_project": "a//b"},
        {"source_git_sha": "3" * 41},
        {"source_ref": "x" * 257},
        {"occurrence_id": "x"},
        {"expected_dag_ids": []},
        {"expected_dag_ids": ["a", "a"]},
        {"expected_dag_ids": ["_a"]},
        {"expected_dag_ids": ["a" * 251]},
        {"runtime_image_digest": None},
        {"more": 1},
    ],
)
def test_a_checkpoint_out_of_shape_is_refused(changes: dict[str, Any]) -> None:
    schema = json_schema("dpone.airflow-desired-state-checkpoint.v1")
    assert faults(CHECKPOINT, schema) == []
    assert decode_checkpoint(data(CHECKPOINT)).environment == "dev"
    with pytest.raises(ContractInvalid):
        decode_checkpoint(data(CHECKPOINT | changes))
    assert faults(CHECKPOINT | changes, schema)


def test_an_oversized_checkpoint_is_refused() -> None:
    with pytest.raises(ContractInvalid, match="more than"):
        decode_checkpoint(data(CHECKPOINT) + b" " * CHECKPOINT_BYTES_MAX)


# -- the history -----------------------------------------------------------------------------------


def test_the_prospective_history_follows_from_its_inputs_alone() -> None:
    made = history.prospective_history(None, ack())
    assert made == history.prospective_history(None, ack())
    assert made.entries[REVIEW].verified_at == ACK["acknowledged_at"]
    assert history.decode_history(history.encode_history(made)) == made
    assert faults(as_json(made), json_schema("dpone.deployment-cache-activation-history.v2")) == []


def test_a_newer_time_of_the_same_activation_changes_nothing() -> None:
    made = history.prospective_history(None, ack())
    assert history.prospective_history(made, ack(acknowledged_at="2027-01-01T00:00:00Z")) is made


def test_another_activation_is_added() -> None:
    made = history.prospective_history(None, ack())
    more = history.prospective_history(made, ack(activation_id=OTHER))
    assert set(more.entries) == {REVIEW, OTHER}


def test_the_same_activation_with_other_content_is_a_conflict() -> None:
    made = history.prospective_history(None, ack())
    for changes in ({"deployment_id": number(9)}, {"loaded_dag_ids": ["A"]}):
        with pytest.raises(ActivationHistoryConflict):
            history.prospective_history(made, ack(**changes))


def test_of_version_1_only_the_digest_is_kept() -> None:
    made = history.prospective_history(None, ack(), legacy_sha256=number(9))
    assert [it.entry_sha256 for it in made.legacy_v1_diagnostics] == [number(9)]
    assert history.prospective_history(made, ack(), legacy_sha256=number(9)) is made


def test_a_full_history_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = history.prospective_history(None, ack())
    monkeypatch.setattr(history, "ENTRIES_MAX", 1)
    with pytest.raises(ActivationHistoryFull):
        history.prospective_history(made, ack(activation_id=OTHER))


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: entry | {"loaded_dag_ids": ["A", "A"]},
        lambda entry: entry | {"loaded_dag_ids": []},
        lambda entry: entry | {"loaded_dag_ids": ["a" * 251]},
        lambda entry: entry | {"verified_at": "yesterday"},
        lambda entry: entry | {"activation_id": OTHER},
        lambda entry: entry | {"secret": "x"},
    ],
)
def test_a_history_out_of_shape_is_refused(change: Any) -> None:
    made = history.prospective_history(None, ack())
    entries = {REVIEW: change(plain(made)["entries"][REVIEW])}
    with pytest.raises(ContractInvalid):
        history.decode_history(data(sealed(made, entries=entries)))
    with pytest.raises(ContractInvalid, match="revision"):
        history.decode_history(data(plain(made) | {"revision": number(1)}))


# -- the acknowledgement of a recovery -------------------------------------------------------------


def test_an_acknowledgement_is_cumulative_and_sorted() -> None:
    first = retention_ack.acknowledged("dev", [number(3), number(1)])
    both = retention_ack.acknowledged("dev", [number(2)], before=first)
    assert both.acknowledged_transaction_ids == (number(1), number(2), number(3))
    written = retention_ack.encode_acknowledgement(both)
    assert retention_ack.decode_acknowledgement(written) == both
    name = "dpone.deployment-cache-retention-recovery-ack.v2"
    assert faults(json.loads(written), json_schema(name)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"acknowledged_transaction_ids": [number(3), number(1)]},
        {"acknowledged_transaction_ids": [number(1), number(1)]},
        {"acknowledged_transaction_ids": ["x"]},
        {"journal_revision": number(1)},
        {"environment": ""},
    ],
)
def test_an_acknowledgement_of_recovery_out_of_shape_is_refused(changes: dict[str, Any]) -> None:
    good = retention_ack.acknowledged("dev", [number(1), number(3)])
    with pytest.raises(ContractInvalid):
        retention_ack.decode_acknowledgement(data(sealed(good, **changes)))
    with pytest.raises(ContractInvalid, match="revision"):
        retention_ack.decode_acknowledgement(data(plain(good) | {"revision": number(1)}))


def test_version_1_is_upgraded_only_for_exactly_its_snapshot() -> None:
    snapshot = convert(legacy_snapshot(2), wal.LegacyRecovery)
    other = convert(legacy_snapshot(3), wal.LegacyRecovery)
    body = {
        "schema": retention_ack.LEGACY_ACK_SCHEMA,
        "revision": "",
        "environment": "dev",
        "journal_revision": snapshot.revision,
        "restored_deployment_ids": [number(2)],
    }
    legacy = retention_ack.decode_acknowledgement(data(sealed(body)))
    assert isinstance(legacy, retention_ack.LegacyAcknowledgement)
    upgraded = retention_ack.upgraded(legacy, snapshot)
    assert upgraded is not None
    assert list(upgraded.acknowledged_transaction_ids) == list(wal.projected(snapshot).transactions)
    assert retention_ack.upgraded(legacy, other) is None
    less = convert(sealed(body, restored_deployment_ids=[]), retention_ack.LegacyAcknowledgement)
    assert retention_ack.upgraded(less, snapshot) is None


def test_an_oversized_acknowledgement_is_refused() -> None:
    with pytest.raises(ContractInvalid, match="more than"):
        retention_ack.decode_acknowledgement(b" " * (retention_ack.ACK_BYTES_MAX + 1))


# -- the pointer -----------------------------------------------------------------------------------


def test_a_pointer_carries_what_it_does_not_know() -> None:
    found = pointers.decode_pointer(data(POINTER | {"later": {"a": 1}, "current_path": "current"}))
    assert found.fields["later"] == {"a": 1}
    assert found.previous is None
    again = pointers.pointed(found.pointer, found.fields)
    assert again.fields == found.fields


@pytest.mark.parametrize(
    "changes",
    [
        {"deployment_id": "x"},
        {"activation_id": "x"},
        {"activation_id": None},
        {"previous_deployment_id": "x"},
        {"promoted_at": "now"},
        {"promoted_by": ""},
        {"schema": "dpone.current-pointer.v2"},
    ],
)
def test_a_pointer_out_of_shape_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ContractInvalid):
        pointers.decode_pointer(data(POINTER | changes))


def test_the_last_line_of_an_audit_is_its_last_event() -> None:
    lines = data(POINTER) + b"\n" + data(POINTER | {"environment": "later"}) + b"\n"
    assert pointers.last_event(lines).pointer.environment == "later"
    for torn in (b"", lines[:-1], lines + b"\n", lines + b"{"):
        with pytest.raises(ContractInvalid):
            pointers.last_event(torn)


# -- the layout ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        {"layout": "generations"},
        {"version": 1},
        {"schema": "dpone.airflow-cache-layout.v2"},
        {"more": 1},
    ],
)
def test_another_layout_is_refused(value: dict[str, Any]) -> None:
    good = plain(layout.LayoutMarker())
    assert decode(data(good), layout.LayoutMarker) == layout.LayoutMarker()
    with pytest.raises(ContractInvalid):
        decode(data(good | value), layout.LayoutMarker)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain", "plain"),
        ("schön", "schön"),
        ("bad\udcff", "bad\\xff"),
        ("bad\\xff", "bad\\\\xff"),
    ],
)
def test_a_name_has_a_text_without_loss(name: str, text: str) -> None:
    assert layout.text_of(name) == text


@pytest.mark.parametrize(
    ("given", "resolved", "is_unsafe"),
    [
        ("", "/w", True),
        (".", "/w", True),
        ("/", "/", True),
        ("~/cache", "/w/~/cache", True),
        ("/people/me", "/people/me", True),
        ("/people", "/people", True),
        ("../cache", "/cache", True),
        ("a/../b", "/w/b", True),
        ("/w", "/w", True),
        ("cache", "/w/cache", False),
        ("./cache", "/w/cache", False),
        ("/srv/cache", "/srv/cache", False),
        ("/people/me/cache", "/people/me/cache", False),
    ],
)
def test_a_root_is_unsafe_or_not(given: str, resolved: str, is_unsafe: bool) -> None:
    assert bool(layout.unsafe_root(given, resolved, "/w", "/people/me")) is is_unsafe
