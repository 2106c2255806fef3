"""The public contracts by name, for `dpone schema`; each is imported when it is asked for."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "dpone.airflow-cache-layout.v1": ("cache_layout", "LayoutMarker"),
    "dpone.airflow-cache-materialize.v1": ("deployment_set", "MaterializeReport"),
    "dpone.airflow-desired-state-checkpoint.v1": ("desired_state", "DesiredStateCheckpoint"),
    "dpone.airflow-run.v1": ("airflow_report", "AirflowRun"),
    "dpone.airflow_loader_ack.v1": ("loader_ack", "EarlierLoaderAck"),
    "dpone.airflow_loader_ack.v2": ("loader_ack", "LoaderAck"),
    "dpone.authoring-migration.v1": ("authoring_report", "MigrationReport"),
    "dpone.authoring-publish.v1": ("publication", "Receipt"),
    "dpone.authoring-recovery.v1": ("authoring_report", "RecoveryReport"),
    "dpone.authoring-report.v1": ("authoring_report", "AuthoringReport"),
    "dpone.domain-catalog.v1": ("catalog", "DomainCatalog"),
    "dpone.domain-ownership.v1": ("catalog", "DomainOwnership"),
    "dpone.workload-set.v1": ("catalog", "WorkloadSet"),
    "dpone.confined-file-transaction": ("transaction", "Transaction"),
    "dpone.current-pointer.v1": ("current_pointer", "CurrentPointer"),
    "dpone.deployment-cache-activation-history.v2": ("activation_history", "ActivationHistory"),
    "dpone.deployment-cache-retention-apply-receipt.v1": ("retention_receipt", "LegacyReceipt"),
    "dpone.deployment-cache-retention-apply-receipt.v2": ("retention_receipt", "Receipt"),
    "dpone.deployment-cache-retention-apply.v1": ("retention_apply", "ApplyV1"),
    "dpone.deployment-cache-retention-apply.v2": ("retention_apply", "ApplyV2"),
    "dpone.deployment-cache-retention-apply.v3": ("retention_apply", "ApplyV3"),
    "dpone.deployment-cache-retention-acknowledge.v1": ("retention_archive", "AcknowledgeReport"),
    "dpone.deployment-cache-retention-archive.v1": ("retention_archive", "ArchiveManifest"),
    "dpone.deployment-cache-retention-archive-report.v1": ("retention_archive", "ArchiveReport"),
    "dpone.deployment-cache-retention-drift.v1": ("retention_drift", "Drift"),
    "dpone.deployment-cache-retention-log.v1": ("retention_log", "Batch"),
    "dpone.deployment-cache-retention-receipts.v1": ("retention_archive", "ReceiptList"),
    "dpone.deployment-cache-retention-plan.v1": ("retention_plan", "RetentionPlan"),
    "dpone.deployment-cache-retention-recovery-ack.v1": ("retention_ack", "LegacyAcknowledgement"),
    "dpone.deployment-cache-retention-recovery-ack.v2": ("retention_ack", "Acknowledgement"),
    "dpone.deployment-cache-retention-recovery.v1": ("retention_wal", "LegacyRecovery"),
    "dpone.deployment-cache-retention-recovery.v2": ("retention_wal", "Recovery"),
    "dpone.error.v1": ("run_report", "ErrorReport"),
    "dpone.outcome.v1": ("outcome", "Outcome"),
    "dpone.project.v1": ("project", "ProjectSpec"),
    "dpone.route.v1": ("route", "RouteManifest"),
    "dpone.route-check.v1": ("run_report", "RouteCheck"),
    "dpone.route-explanation.v1": ("run_report", "RouteExplanation"),
    "dpone.run-plan.v1": ("run_report", "RunPlan"),
    "dpone.journal-check.v1": ("journal_report", "JournalCheck"),
    "dpone.journal-count.v1": ("journal_report", "JournalCount"),
    "dpone.journal-entry.v1": ("journal", "JournalEntry"),
    "dpone.journal-explain.v1": ("journal_report", "Explanation"),
    "dpone.journal-list.v1": ("journal_report", "JournalList"),
    "dpone.journal-show.v1": ("journal_report", "JournalShow"),
    "dpone.native_transfer.target_commit_guard.v1": ("checkpoint", "Guard"),
    "dpone.operation.v1": ("identity", "Identity"),
    "dpone.partition-checkpoint.v1": ("checkpoint", "Checkpoint"),
    "dpone.receipt.v1": ("fence", "Receipt"),
    "dpone.run-report.v1": ("run_report", "RunReport"),
    "dpone.schema-list.v1": ("run_report", "SchemaList"),
}
# Rules between fields, which a struct cannot say, are added by functions of the contract's module.
_SCHEMAS = {
    "dpone.current-pointer.v1": ("current_pointer", "pointer_schema"),
    "dpone.deployment-cache-retention-apply-receipt.v1": ("retention_receipt", "receipt_schema"),
    "dpone.deployment-cache-retention-apply-receipt.v2": ("retention_receipt", "receipt_schema"),
    "dpone.deployment-cache-retention-apply.v1": ("retention_apply", "apply_schema"),
    "dpone.deployment-cache-retention-apply.v2": ("retention_apply", "apply_schema"),
    "dpone.deployment-cache-retention-apply.v3": ("retention_apply", "apply_schema"),
    "dpone.deployment-cache-retention-plan.v1": ("retention_plan", "plan_schema"),
    "dpone.deployment-cache-retention-recovery.v1": ("retention_wal", "recovery_schema"),
    "dpone.deployment-cache-retention-recovery.v2": ("retention_wal", "recovery_schema"),
}
NAMES = tuple(_HOMES)


def contract(name: str) -> type[Any]:
    """Return the closed struct of a contract. Raises `KeyError` for a name that is none."""
    module, struct = _HOMES[name]
    found: type[Any] = getattr(importlib.import_module(f"dpone.contracts.{module}"), struct)
    return found


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a contract. Raises `KeyError` for a name that is none."""
    kind = contract(name)
    if name in _SCHEMAS:
        module, function = _SCHEMAS[name]
        rules = getattr(importlib.import_module(f"dpone.contracts.{module}"), function)
        own: dict[str, Any] = rules(name)
        return own
    if name == "dpone.route.v1":
        from dpone.contracts.route import route_schema

        return route_schema()
    from dpone.contracts.codec import schema_of

    schema = schema_of(kind)
    body = schema["$defs"][kind.__name__]
    if "schema" in body["properties"]:
        # What is printed always names its contract, although the decoder knows the default.
        body["properties"]["schema"] = {"const": name}
        body["required"] = sorted({*body.get("required", []), "schema"})
    return schema
