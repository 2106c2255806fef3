"""`dpone airflow cache-retention-apply`: delete what was reviewed, once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpone.cli.cache_options import (
    CACHE_ROOT,
    CacheRootOption,
    EnvironmentOption,
    EvidenceOption,
    ProtectOption,
    cache_of,
    check_environment,
    documents,
)
from dpone.cli.session import Format, FormatOption, Session, printable, session_of

if TYPE_CHECKING:
    from dpone.contracts.retention_apply import ApplyReport
    from dpone.contracts.retention_plan import RetentionPlan
    from dpone.retention.desk import RetentionDesk
    from dpone.retention.request import Applied, Request


def apply_command(
    context: typer.Context,
    promoted_by: Annotated[str, typer.Option(help="Who applies.", show_default=False)],
    allowed_promoter: Annotated[
        list[str], typer.Option(help="Who may apply; repeatable.", show_default=False)
    ],
    cache_root: CacheRootOption = CACHE_ROOT,
    environment: EnvironmentOption = "dev",
    protect: ProtectOption = None,
    evidence: EvidenceOption = None,
    expected_plan_sha256: Annotated[str, typer.Option(help="The reviewed plan's digest.")] = "",
    review_id: Annotated[str, typer.Option(help="The review's UUID of version 4.")] = "",
    loader_ack_file: Annotated[
        Path | None, typer.Option(help="What the loader acknowledged.")
    ] = None,
    evidence_version: Annotated[str, typer.Option(help="v1, v2 or v3.")] = "v3",
    confirm_delete: Annotated[
        bool, typer.Option("--confirm-delete", help="Really delete.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Show each candidate as it is done, on stderr.")
    ] = False,
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Delete what a reviewed plan names, once; a retry resumes or returns the same receipt."""
    session = session_of(context, chosen)
    from dpone import wiring
    from dpone.contracts.retention_apply import check_version

    request = _request(
        environment, expected_plan_sha256, review_id, promoted_by, allowed_promoter, confirm_delete
    )
    check_version(evidence_version)
    desk = desk_of(session, cache_root, environment)
    applied = desk.apply(
        request,
        given=tuple(protect or ()),
        evidence=documents(evidence),
        ack_file=wiring.open_document(loader_ack_file) if loader_ack_file else None,
        told=_teller(session) if follow else _silent,
    )
    _finish(session, request, applied, evidence_version)


def _request(
    environment: str,
    plan_sha256: str,
    review_id: str,
    promoted_by: str,
    allowed: list[str],
    confirmed: bool,
) -> Request:
    """Everything that can be refused before the cache is opened."""
    from dpone.contracts import errors_retention as errors
    from dpone.contracts.cache_layout import is_digest, is_uuid4
    from dpone.retention.request import Request

    if not confirmed:
        raise errors.ConfirmationRequired
    if promoted_by not in allowed:
        raise errors.PromoterUnauthorized(promoted_by=promoted_by)
    if not is_digest(plan_sha256):
        reason = "--expected-plan-sha256 is missing" if not plan_sha256 else "it is no digest"
        raise errors.PlanRequired(reason=reason)
    if not review_id:
        raise errors.ReviewIdRequired
    if not is_uuid4(review_id):
        raise errors.ReviewIdInvalid(review_id=review_id)
    return Request(environment, plan_sha256, review_id, promoted_by)


def desk_of(session: Session, cache_root: str, environment: str) -> RetentionDesk:
    """The retention desk of an environment of a cache."""
    from dpone.retention.desk import RetentionDesk

    check_environment(environment)
    return RetentionDesk(cache_of(cache_root), environment, probe=session.probe)


def _teller(session: Session) -> Any:
    def told(done: int, every: int) -> None:
        session.tell(f"{done} of {every} candidates done")

    return told


def _silent(_done: int, _every: int) -> None:
    return


def _finish(session: Session, request: Request, applied: Applied, version: str) -> None:
    from dpone.contracts.errors_retention_apply import OperationUnfinished
    from dpone.contracts.retention_apply import report_of_receipt

    receipt = applied.receipt
    if receipt is None:
        assert applied.plan is not None
        report = _nothing_deleted(applied.plan, request, version)
        session.print(report, "Nothing was to be deleted.")
        return
    if receipt.status != "committed":
        first = receipt.pending[0]
        raise OperationUnfinished(
            count=len(receipt.pending),
            reason=first.reason,
            deleted=len(receipt.deleted_ids),
            operation_id=receipt.operation_id,
            path=first.path,
        )
    lines = [
        f"{len(receipt.deleted_ids)} deployments are deleted"
        + (" (done before; the receipt is the same)." if applied.replayed else "."),
        f"operation {receipt.operation_id}",
        f"receipt   {receipt.receipt_revision}",
    ]
    lines += [
        f"{item.action:8}{printable(item.path)}"
        for item in receipt.items
        if item.action == "deleted"
    ]
    lines += [f"seen again since: {deployment_id}" for deployment_id in applied.seen_again]
    if applied.stuck:
        lines.append(f"{applied.stuck} trees of earlier operations still lie in the trash.")
    session.print(report_of_receipt(receipt, version), "\n".join(lines))


def _nothing_deleted(plan: RetentionPlan, request: Request, version: str) -> ApplyReport:
    from dpone.contracts.retention_apply import AppliedItem, apply_report

    return apply_report(
        version,
        environment=plan.environment,
        promoted_by=request.promoted_by,
        current_deployment_id=plan.current_deployment_id,
        items=(
            AppliedItem(
                deployment_id=item.deployment_id,
                action="skipped",
                reason=item.reason,
                path=item.path,
                error_code=item.error_code,
            )
            for item in plan.items
        ),
    )
