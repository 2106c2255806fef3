"""The receipt: identity, closed fields, items, states that never go back, bounds, no secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone.contracts import retention_receipt as receipts
from dpone.contracts.cache_layout import durable
from dpone.contracts.canonical import digest
from dpone.contracts.codec import plain
from dpone.contracts.errors import ContractInvalid
from tests.retention.caches import number
from tests.retention.contracts.samples import (
    OPERATION,
    PLAN,
    REVIEW,
    item,
    legacy_receipt,
    receipt,
    sealed,
)


def refused(value: Any) -> str:
    with pytest.raises(ContractInvalid) as caught:
        receipts.decode_receipt(json.dumps(value).encode())
    return str(caught.value.fields["reason"])


def bent(**changes: Any) -> dict[str, Any]:
    return sealed(receipt(), "receipt_revision", **changes)


def test_the_operation_is_the_canonical_digest_of_what_was_reviewed() -> None:
    assert (
        digest(
            {
                "schema": "dpone.deployment-cache-retention-operation.v2",
                "environment": "dev",
                "reviewed_plan_sha256": PLAN,
                "review_id": REVIEW,
            }
        )
        == OPERATION
    )
    legacy = digest(
        {
            "schema": "dpone.deployment-cache-retention-operation.v1",
            "environment": "dev",
            "reviewed_plan_sha256": PLAN,
        }
    )
    assert receipts.legacy_operation_id("dev", PLAN) == legacy


def test_another_promoter_is_the_same_operation() -> None:
    assert receipt(promoted_by="someone").operation_id == receipt().operation_id


def test_the_revision_is_the_canonical_digest_of_the_rest() -> None:
    body = plain(receipt())
    revision = body.pop("receipt_revision")
    assert revision == digest(body)


def test_a_file_is_pretty_json_and_reads_back() -> None:
    made = receipt()
    data = receipts.encode_receipt(made)
    text = json.dumps(json.loads(data), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert data.decode() == text
    assert receipts.decode_receipt(data) == made


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"operation_id": number(9)}, "operation_id"),
        ({"review_id": REVIEW.upper()}, "review_id"),
        ({"review_id": "9be81f38-697b-1403-a60a-4b927284bb51"}, "review_id"),
        ({"status": "blocked"}, "status"),
        ({"status": "committed"}, "pending"),
        ({"status": "aborted"}, "pending"),
        ({"environment": ""}, "environment"),
        ({"environment": "x" * 129}, "environment"),
        ({"promoted_by": "x" * 513}, "promoted_by"),
        ({"items": []}, "items"),
        ({"reviewed_protected_deployment_ids": [number(2), number(1)]}, "sorted"),
        ({"reviewed_protected_deployment_ids": [number(1), number(1)]}, "sorted"),
        ({"current_deployment_id": "sha256:1"}, "current_deployment_id"),
        ({"reviewed_plan_sha256": number(1)[:-1] + "\n"}, "reviewed_plan_sha256"),
        ({"more": 1}, "more"),
    ],
)
def test_a_field_out_of_shape_is_refused(changes: dict[str, Any], word: str) -> None:
    assert word in refused(bent(**changes))


@pytest.mark.parametrize("name", sorted(plain(receipt())))
def test_every_field_is_needed(name: str) -> None:
    value = plain(receipt())
    del value[name]
    assert name in refused(value)


@pytest.mark.parametrize(
    ("items", "word"),
    [
        ([plain(item(2)), plain(item(2))], "unique"),
        ([plain(item(2)) | {"deployment_id": None}], "without an id"),
        ([plain(item(2)) | {"action": "kept"}], "action"),
        ([plain(item(2)) | {"path": ""}], "path"),
        ([plain(item(2)) | {"path": "x" * 4097}], "path"),
        ([plain(item(2)) | {"reason": "x" * 513}], "reason"),
        ([plain(item(2)) | {"error_code": "X" * 257}], "error_code"),
        ([plain(item(2)) | {"error_code": None}], "error_code"),
        ([plain(item(2)) | {"reason": receipts.CLOSED_BY_PLAN}], "not aborted"),
        ([plain(item(2)) | {"size": 1}], "size"),
    ],
)
def test_an_item_out_of_shape_is_refused(items: list[Any], word: str) -> None:
    assert word in refused(bent(items=items))


def test_a_changed_byte_is_a_wrong_revision() -> None:
    data = receipts.encode_receipt(receipt()).replace(b"local://dpone", b"local://other")
    with pytest.raises(ContractInvalid, match="receipt_revision"):
        receipts.decode_receipt(data)


def test_a_duplicate_key_is_refused() -> None:
    data = receipts.encode_receipt(receipt())
    twice = data.replace(b'"status": "applying"', b'"status": "applying",\n  "status": "applying"')
    with pytest.raises(ContractInvalid, match="duplicate"):
        receipts.decode_receipt(twice)


@pytest.mark.parametrize("data", [b"", b"\0" * 100, b"{", b"[]", b"null"])
def test_a_torn_file_is_refused(data: bytes) -> None:
    with pytest.raises(ContractInvalid):
        receipts.decode_receipt(data)


def test_an_oversized_file_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(ContractInvalid, match="more than"):
        receipts.decode_receipt(b" " * (receipts.RECEIPT_BYTES_MAX + 1))


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2",
        "token: abc",
        "postgresql://u:p@db/x",
        "https://user:pass@host",
        "jdbc:sqlserver://db",
        "-----BEGIN KEY-----",
        "Server=db;Database=x",
        "AKIAABCDEFGHIJKLMNOP",
    ],
)
def test_secrets_and_connections_are_refused_in_every_text(text: str) -> None:
    with pytest.raises(ContractInvalid, match="secret"):
        receipt(promoted_by=text)
    for field in ("reason", "path", "error_code"):
        items = [plain(item(2)) | {field: text}]
        assert "secret" in refused(bent(items=items))


@pytest.mark.parametrize("text", ["local://dpone", "https://ci.example.com/job/7", "team a/b"])
def test_an_ordinary_promoter_is_accepted(text: str) -> None:
    assert receipt(promoted_by=text).promoted_by == text


def test_progress_moves_the_named_items_only() -> None:
    after = receipts.advanced(receipt(), deleted=[number(2), number(1)], causes={number(3): "busy"})
    assert [(it.action, it.reason) for it in after.items] == [
        ("deleted", "unreferenced"),
        ("pending", "busy"),
        ("skipped", "current"),
    ]
    assert after.deleted_ids == (number(2),)
    assert after.operation_id == receipt().operation_id
    assert after.receipt_revision != receipt().receipt_revision


def test_a_commit_needs_every_item_ended() -> None:
    with pytest.raises(ContractInvalid, match="pending"):
        receipts.committed(receipt())
    done = receipts.advanced(receipt(), deleted=[number(2), number(3)])
    assert receipts.committed(done).status == "committed"


@pytest.mark.parametrize("reason", receipts.ABORT_REASONS)
def test_an_abort_keeps_what_was_deleted(reason: str) -> None:
    closed = receipts.aborted(receipts.advanced(receipt(), deleted=[number(2)]), reason)
    assert [(it.action, it.reason) for it in closed.items] == [
        ("deleted", "unreferenced"),
        ("skipped", reason),
        ("skipped", "current"),
    ]
    assert receipts.decode_receipt(receipts.encode_receipt(closed)) == closed


def test_nothing_leads_out_of_a_last_state() -> None:
    committed = receipts.committed(receipts.advanced(receipt(), deleted=[number(2), number(3)]))
    aborted = receipts.aborted(receipt(), receipts.CLOSED_BY_PLAN)
    for ended in (committed, aborted):
        for step in (
            lambda it: receipts.advanced(it, deleted=[]),
            receipts.committed,
            lambda it: receipts.aborted(it, receipts.LEGACY_WAL),
        ):
            with pytest.raises(ContractInvalid, match="for ever"):
                step(ended)


def test_an_unknown_reason_closes_nothing() -> None:
    with pytest.raises(ContractInvalid, match="reason"):
        receipts.aborted(receipt(), "because")


def test_version_1_is_read_and_closed() -> None:
    found = receipts.decode_receipt(json.dumps(legacy_receipt()).encode())
    assert isinstance(found, receipts.LegacyReceipt)
    closed = receipts.aborted(found, receipts.LEGACY_RECEIPT)
    assert isinstance(closed, receipts.LegacyReceipt)
    assert receipts.decode_receipt(durable(closed)) == closed


def test_version_1_with_another_operation_is_refused() -> None:
    value = sealed(legacy_receipt(), "receipt_revision", operation_id=OPERATION)
    assert "operation_id" in refused(value)


def test_the_final_size_bounds_every_last_state() -> None:
    made = receipt(*(item(value) for value in range(2, 60)))
    bound = receipts.final_bytes_max(made)
    ids = [number(value) for value in range(2, 60)]
    ended = [receipts.committed(receipts.advanced(made, deleted=ids))]
    ended += [receipts.aborted(made, reason) for reason in receipts.ABORT_REASONS]
    ended.append(receipts.advanced(made, causes=dict.fromkeys(ids, "x" * 500)))
    assert all(len(receipts.encode_receipt(it)) <= bound for it in ended)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


@given(st.sets(st.integers(2, 500), min_size=1, max_size=8), TEXT, st.data())
def test_any_receipt_reads_back(values: set[int], promoter: str, data: st.DataObject) -> None:
    try:
        made = receipt(*(item(value) for value in sorted(values)), promoted_by=promoter)
    except ContractInvalid:
        # By chance it looked like a secret.
        return
    gone = data.draw(st.sets(st.sampled_from(sorted(values))))
    after = receipts.advanced(made, deleted=[number(value) for value in gone])
    for it in (made, after):
        assert receipts.decode_receipt(receipts.encode_receipt(it)) == it
        body = plain(it)
        assert digest({k: v for k, v in body.items() if k != "receipt_revision"}) == (
            it.receipt_revision
        )
