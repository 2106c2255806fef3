"""The plan and the evidence of an apply: exact fields, rules between fields, versions."""

from __future__ import annotations

from typing import Any

import pytest

from dpone.contracts import retention_apply as evidence
from dpone.contracts import retention_receipt as receipts
from dpone.contracts.canonical import digest
from dpone.contracts.codec import convert
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_retention import EvidenceUnavailable, EvidenceVersionInvalid
from dpone.contracts.published import json_schema
from dpone.contracts.retention_plan import Closing, PlanItem, RetentionPlan, plan_of
from tests.retention.caches import number
from tests.retention.contracts.samples import as_json, item, legacy_receipt, receipt, sealed
from tests.retention.contracts.schemas import faults

COMMON = {
    "schema",
    "environment",
    "promoted_by",
    "current_deployment_id",
    "items",
    "deleted_deployment_ids",
    "skipped_deployment_ids",
}
KEYS = {
    "v1": COMMON,
    "v2": COMMON | {"reviewed_plan_sha256", "activation_history_revision"},
    "v3": COMMON
    | {
        "reviewed_plan_sha256",
        "activation_history_revision",
        "operation_id",
        "review_id",
        "receipt_revision",
        "transaction_status",
    },
}


def planned(value: int, action: str, reason: str) -> PlanItem:
    return PlanItem(
        deployment_id=number(value),
        action=action,  # type: ignore[arg-type]
        reason=reason,  # type: ignore[arg-type]
        path=f"deployments/dev/sha256-{value:064x}",
    )


ITEMS = (
    planned(3, "delete", "unreferenced"),
    planned(1, "protect", "current"),
    PlanItem(
        deployment_id=None,
        action="quarantine",
        reason="invalid",
        path="deployments/dev/x",
        error_code="DPONE_DEPLOYMENT_NAME_INVALID",
    ),
    planned(2, "protect", "retention_evidence"),
)


def plan(**changes: Any) -> RetentionPlan:
    given: dict[str, Any] = {
        "environment": "dev",
        "current_deployment_id": number(1),
        "protected_ids": [number(2), number(1)],
        "items": ITEMS,
    }
    return plan_of(**{**given, **changes})


def schema_faults(name: str, value: Any) -> list[str]:
    schema = json_schema(f"dpone.deployment-cache-{name}")
    return faults(value, schema)


# -- plan ------------------------------------------------------------------------------------------


def test_a_plan_is_sorted_and_carries_its_canonical_digest() -> None:
    body = as_json(plan())
    assert body.pop("plan_sha256") == digest(body)
    assert [it["path"][-1] for it in body["items"]] == ["x", "1", "2", "3"]
    assert body["delete_candidates"] == [number(3)]
    assert body["protected_deployment_ids"] == [number(1), number(2)]


def test_a_plan_without_log_and_operations_has_exactly_the_historical_keys() -> None:
    assert set(as_json(plan())) == {
        "schema",
        "environment",
        "current_deployment_id",
        "protected_deployment_ids",
        "items",
        "delete_candidates",
        "plan_sha256",
    }


def test_log_and_unended_operations_are_bound_by_the_digest() -> None:
    closing = Closing(operation_id=number(8), receipt_revision=number(9))
    plans = [
        plan(),
        plan(recovery_revision=number(7)),
        plan(closes=[closing]),
        plan(closes=[Closing(operation_id=number(8), receipt_revision=number(10))]),
    ]
    assert len({it.sha256 for it in plans}) == len(plans)
    assert plans[2].closings == (closing,)
    assert plans[1].recovery == number(7)
    assert [schema_faults("retention-plan.v1", as_json(it)) for it in plans] == [[], [], [], []]


def test_everything_that_was_reviewed_is_bound_by_the_digest() -> None:
    plans = [
        plan(),
        plan(environment="prod"),
        plan(current_deployment_id=None),
        # The same candidates, protected otherwise: what stays is reviewed too.
        plan(protected_ids=[number(1), number(2), number(9)]),
        plan(items=(*ITEMS, planned(4, "delete", "unreferenced"))),
        plan(items=[it for it in ITEMS if it.deployment_id is not None]),
        plan(items=[it for it in ITEMS if it.deployment_id != number(3)]),
    ]
    assert len({it.sha256 for it in plans}) == len(plans)
    assert plan(items=reversed(ITEMS)).sha256 == plan().sha256


@pytest.mark.parametrize(
    "changes",
    [
        {"items": [as_json(planned(3, "delete", "unreferenced")) | {"reason": "current"}]},
        {"items": [as_json(planned(3, "delete", "unreferenced")) | {"deployment_id": None}]},
        {"items": [as_json(planned(3, "delete", "unreferenced")) | {"error_code": "X"}]},
        {"items": [as_json(planned(1, "protect", "current")) | {"reason": "invalid"}]},
        {"current_deployment_id": "x"},
        {"closes": []},
        {"recovery_revision": None},
    ],
)
def test_a_plan_out_of_shape_is_refused_by_codec_and_schema(changes: dict[str, Any]) -> None:
    value = sealed(plan(), "plan_sha256", **changes)
    with pytest.raises(ContractInvalid):
        convert(value, RetentionPlan)
    assert schema_faults("retention-plan.v1", value)


@pytest.mark.parametrize(
    "changes",
    [
        {"delete_candidates": []},
        {"delete_candidates": [number(3), number(3)]},
        {"protected_deployment_ids": [number(2), number(1)]},
        {"protected_deployment_ids": [number(1), number(3)]},
        {"items": list(reversed(as_json(plan())["items"]))},
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ContractInvalid):
        convert(sealed(plan(), "plan_sha256", **changes), RetentionPlan)


def test_a_plan_whose_digest_is_another_is_refused() -> None:
    with pytest.raises(ContractInvalid, match="plan_sha256"):
        convert(as_json(plan()) | {"environment": "prod"}, RetentionPlan)


def test_a_reader_of_plans_carries_unknown_fields() -> None:
    body = as_json(plan()) | {"later": 1}
    del body["plan_sha256"]
    assert convert(body, RetentionPlan).environment == "dev"


# -- evidence --------------------------------------------------------------------------------------


def committed() -> receipts.Receipt:
    return receipts.committed(receipts.advanced(receipt(), deleted=[number(2), number(3)]))


@pytest.mark.parametrize("version", evidence.VERSIONS)
def test_a_deletion_has_exactly_the_historical_keys(version: str) -> None:
    value = as_json(evidence.report_of_receipt(committed(), version))
    assert set(value) == KEYS[version]
    assert value["deleted_deployment_ids"] == [number(2), number(3)]
    assert value["skipped_deployment_ids"] == [number(1)]
    assert schema_faults(f"retention-apply.{version}", value) == []


@pytest.mark.parametrize("version", evidence.VERSIONS)
def test_without_a_deletion_the_receipts_fields_are_left_out(version: str) -> None:
    kept = evidence.AppliedItem(
        deployment_id=number(1), action="skipped", reason="current", path="deployments/dev/x"
    )
    value = as_json(
        evidence.apply_report(
            version,
            environment="dev",
            promoted_by="someone",
            current_deployment_id=number(1),
            items=[kept],
            receipt_fields={"operation_id": number(1)},
        )
    )
    assert set(value) == COMMON
    assert schema_faults(f"retention-apply.{version}", value) == []


def test_version_3_without_a_receipt_names_what_is_missing() -> None:
    gone = evidence.AppliedItem(
        deployment_id=number(2), action="deleted", reason="unreferenced", path="deployments/dev/x"
    )
    with pytest.raises(EvidenceUnavailable) as caught:
        evidence.apply_report(
            "v3",
            environment="dev",
            promoted_by="someone",
            current_deployment_id=number(1),
            items=[gone],
            receipt_fields={"reviewed_plan_sha256": number(1), "review_id": None},
        )
    assert caught.value.fields["missing"] == (
        "activation_history_revision, operation_id, review_id, receipt_revision, transaction_status"
    )


def test_a_committed_receipt_of_version_1_is_no_evidence_of_version_3() -> None:
    value = legacy_receipt("committed", "deleted")
    found = convert(value, receipts.LegacyReceipt)
    assert set(as_json(evidence.report_of_receipt(found, "v2"))) == KEYS["v2"]
    with pytest.raises(EvidenceUnavailable, match="review_id"):
        evidence.report_of_receipt(found, "v3")


def test_an_unended_receipt_is_no_evidence() -> None:
    with pytest.raises(ContractInvalid):
        evidence.report_of_receipt(receipt(), "v3")
    partly = receipt(item(2), item(1, "skipped", "current"))
    after = receipts.advanced(partly, deleted=[number(2)])
    with pytest.raises(EvidenceUnavailable, match="transaction_status"):
        evidence.report_of_receipt(after, "v3")


@pytest.mark.parametrize("version", ["", "v4", "V3", "3"])
def test_an_unknown_version_is_refused(version: str) -> None:
    with pytest.raises(EvidenceVersionInvalid):
        evidence.report_of_receipt(committed(), version)


@pytest.mark.parametrize("name", sorted(KEYS["v3"] - COMMON))
def test_strict_version_3_needs_each_field_with_a_deletion_and_none_without(name: str) -> None:
    value = as_json(evidence.report_of_receipt(committed(), "v3"))
    less = {key: it for key, it in value.items() if key != name}
    with pytest.raises(ContractInvalid, match=name):
        convert(less, evidence.ApplyV3)
    assert schema_faults("retention-apply.v3", less)
    no_op = {key: it for key, it in value.items() if key in COMMON}
    no_op |= {"items": [], "deleted_deployment_ids": [], "skipped_deployment_ids": []}
    assert schema_faults("retention-apply.v3", no_op) == []
    more = no_op | {name: value[name]}
    with pytest.raises(ContractInvalid, match=name):
        convert(more, evidence.ApplyV3)
    assert schema_faults("retention-apply.v3", more)


@pytest.mark.parametrize(
    "changes",
    [
        {"deployment_id": None},
        {"reason": "current"},
        {"action": "pending"},
        {"error_code": "OTHER_CODE"},
        {"path": ""},
        {"more": 1},
    ],
)
@pytest.mark.parametrize("version", ["v2", "v3"])
def test_an_item_of_evidence_out_of_shape_is_refused(version: str, changes: dict[str, Any]) -> None:
    value = as_json(evidence.report_of_receipt(committed(), version))
    value["items"][0] |= changes
    with pytest.raises(ContractInvalid):
        convert(value, evidence._KINDS[version])
    assert schema_faults(f"retention-apply.{version}", value)


def test_the_authoritative_field_is_marked() -> None:
    for version in ("v2", "v3"):
        body = json_schema(f"dpone.deployment-cache-retention-apply.{version}")
        kind = body["$defs"][f"Apply{version.upper()}"]
        assert kind["properties"]["items"]["x-dpone-authoritative-field"] == "items"
