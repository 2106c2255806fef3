"""Errors of a reviewed deletion: what was refused before or during it. Source: ADR 0043."""

from __future__ import annotations

from dpone.contracts.errors import (
    EXIT_CLOSED,
    EXIT_CONFLICT,
    EXIT_USAGE,
    DponeError,
)

_UNTOUCHED = "Nothing was deleted."
_NOTHING = "Nothing was read further or deleted."


class RetentionError(DponeError):
    """Base of all refusals of retention; paths in their fields are relative to the cache."""


class ConfirmationRequired(RetentionError):
    """The delete switch is missing."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_CONFIRMATION_REQUIRED"
    exit_code = EXIT_CLOSED
    happened = "Nothing is deleted without --confirm-delete."
    known = _UNTOUCHED
    advice = "Look at the plan once more, and add --confirm-delete."


class PlanRequired(RetentionError):
    """The digest of the reviewed plan is missing or malformed."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_PLAN_REQUIRED"
    exit_code = EXIT_USAGE
    happened = "No reviewed plan was named: {reason}."
    known = _UNTOUCHED
    advice = "Give the digest that the plan printed: --expected-plan-sha256 sha256:..."


class PlanChanged(RetentionError):
    """The cache no longer is what the reviewed plan saw."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_PLAN_CHANGED"
    exit_code = EXIT_CONFLICT
    happened = "The plan is now {found}, and {expected} was reviewed."
    known = _UNTOUCHED
    advice = (
        "Plan again, review the plan, and apply it with a new review id: dpone airflow "
        "cache-retention-plan"
    )


class ReviewIdRequired(RetentionError):
    """The review id is missing."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_REVIEW_ID_REQUIRED"
    exit_code = EXIT_USAGE
    happened = "A deletion needs the id of its review."
    known = _UNTOUCHED
    advice = "Whoever reviewed the plan makes one UUID of version 4 for it: --review-id"


class ReviewIdInvalid(RetentionError):
    """The review id is no canonical UUID of version 4."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_REVIEW_ID_INVALID"
    exit_code = EXIT_USAGE
    happened = "The review id {review_id} is no lower-case UUID of version 4."
    known = _UNTOUCHED
    advice = "Make one for this review: python -c 'import uuid; print(uuid.uuid4())'"


class AckRequired(RetentionError):
    """The loader's acknowledgement is missing."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_ACK_REQUIRED"
    exit_code = EXIT_USAGE
    happened = "No acknowledgement of the loader was given, or nothing is there: {reason}."
    known = _UNTOUCHED
    advice = "Give the file that the loader wrote: --loader-ack-file"


class AckInvalid(RetentionError):
    """The loader's acknowledgement does not confirm what is current."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_ACK_INVALID"
    exit_code = EXIT_CONFLICT
    happened = "The loader's acknowledgement cannot be relied on: {reason}."
    known = _UNTOUCHED
    advice = "Let the loader load what is current, and give its new acknowledgement."


class DesiredCheckpointRequired(RetentionError):
    """The checkpoint of the desired state is missing."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_DESIRED_CHECKPOINT_REQUIRED"
    exit_code = EXIT_CONFLICT
    happened = "There is no status/desired-state-checkpoint.json."
    known = _UNTOUCHED
    advice = "Reconcile the cache once, so that it says what is wanted, and apply again."


class DesiredCheckpointInvalid(RetentionError):
    """The checkpoint of the desired state is malformed."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_DESIRED_CHECKPOINT_INVALID"
    exit_code = EXIT_CLOSED
    happened = "status/desired-state-checkpoint.json is no checkpoint: {reason}."
    known = "Its bytes were left as they are; nothing was deleted."
    advice = "Reconcile the cache, which writes it anew, and apply again."


class DesiredCheckpointMismatch(RetentionError):
    """What is wanted, what is current and what was loaded disagree."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_DESIRED_CHECKPOINT_MISMATCH"
    exit_code = EXIT_CONFLICT
    happened = "The desired state and what is current differ in {field}."
    known = _UNTOUCHED
    advice = "Wait for the reconcile and the loader to agree, plan again, and review the plan."


class CurrentChanged(RetentionError):
    """Something else became current meanwhile."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_CURRENT_CHANGED"
    exit_code = EXIT_CONFLICT
    happened = "What is current changed during the operation: {reason}."
    known = "What had become current is intact; confirmed deletions are in the receipt."
    advice = (
        "Plan again, review the plan, and apply it with a new review id: dpone airflow "
        "cache-retention-plan"
    )


class PromotionAuditInvalid(RetentionError):
    """The promotion's audit disagrees with the pointer."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_PROMOTION_AUDIT_INVALID"
    exit_code = EXIT_CLOSED
    happened = "current-pointer-audit.jsonl does not end with what is current: {reason}."
    known = _UNTOUCHED
    advice = (
        "Find out who changed the pointer beside the audit; promote again, which appends to it."
    )


class EvidenceVersionInvalid(RetentionError):
    """The version of the evidence is unknown."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_EVIDENCE_VERSION_INVALID"
    exit_code = EXIT_USAGE
    happened = "There is no evidence version {version}."
    known = _UNTOUCHED
    advice = "Use --evidence-version v1, v2 or v3."


class EvidenceUnavailable(RetentionError):
    """Version 3 needs a committed receipt."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_V3_EVIDENCE_UNAVAILABLE"
    exit_code = EXIT_CLOSED
    happened = "A deletion cannot be shown as version 3 without: {missing}."
    known = "What was deleted stays deleted; no evidence was made up."
    advice = (
        "Apply again with the same plan and review id; an older operation has v1 or v2 "
        "evidence only."
    )


class IncompleteOperation(RetentionError):
    """Another operation has not ended."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_INCOMPLETE_OPERATION"
    exit_code = EXIT_CONFLICT
    happened = "The operation {operation_id} is still applying."
    known = _UNTOUCHED
    advice = "Repeat its command, or plan again: the plan names what its apply closes."


class ReceiptInvalid(RetentionError):
    """A receipt, or the directory of receipts, cannot be relied on."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_RECEIPT_INVALID"
    exit_code = EXIT_CLOSED
    happened = "{file} cannot be used: {reason}."
    known = "Its bytes were left as they are; nothing was deleted."
    advice = (
        "Move it out of the cache and keep it, or restore it; look: dpone airflow cache-"
        "retention-receipts"
    )


class ReceiptIncomplete(RetentionError):
    """The receipt is not in its last state."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_RECEIPT_INCOMPLETE"
    exit_code = EXIT_CLOSED
    happened = "The receipt of {operation_id} still has pending items: {reason}."
    known = "What the receipt calls deleted is deleted."
    advice = "Repeat the same command; it goes on where it stopped."


class RecoveryInvalid(RetentionError):
    """The recovery log cannot be relied on."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_RECOVERY_INVALID"
    exit_code = EXIT_CLOSED
    happened = "{file} cannot be used: {reason}."
    known = "Its bytes were left as they are; nothing was deleted. Reading commands still work."
    advice = "Copy the file, and follow the runbook on a corrupt recovery log."


class RecoveryJournalFailed(RetentionError):
    """The recovery log could not be written."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_RECOVERY_JOURNAL_FAILED"
    exit_code = EXIT_CLOSED
    happened = "{file} could not be written durably: {reason}."
    known = "What was confirmed before stays so; the rest is unknown until the next apply."
    advice = "Make room or repair the volume, and repeat the same command."


class RetentionRecoveryRequired(RetentionError):
    """Something was put back, and needs a fresh review."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_RECOVERY_REQUIRED"
    exit_code = EXIT_CONFLICT
    happened = "{count} deployments were put back at their names."
    known = "They are intact; their operation is closed and keeps its confirmed outcomes."
    advice = (
        "Plan again, review the plan, and apply it with a new review id: dpone airflow "
        "cache-retention-plan"
    )


class PathEscape(RetentionError):
    """A candidate leads out of the cache."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_PATH_ESCAPE"
    exit_code = EXIT_CLOSED
    happened = "{path} does not lie in the cache."
    known = _UNTOUCHED
    advice = "Find out who made it; it is never deleted by retention."


class PathChanged(RetentionError):
    """A candidate is no longer what was validated."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_PATH_CHANGED"
    exit_code = EXIT_CONFLICT
    happened = "{path} is not the directory that was validated: {reason}."
    known = "What stands there now is intact."
    advice = (
        "Plan again, review the plan, and apply it with a new review id: dpone airflow "
        "cache-retention-plan"
    )


class DetachFailed(RetentionError):
    """A candidate could not be moved to the trash."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_DETACH_FAILED"
    exit_code = EXIT_CLOSED
    happened = "{path} could not be moved: {reason}."
    known = "It is intact at its name; the receipt keeps it as pending."
    advice = "Remove the cause, and repeat the same command."


class DeleteFailed(RetentionError):
    """A detached candidate could not be deleted."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_DELETE_FAILED"
    exit_code = EXIT_CLOSED
    happened = "{path} could not be deleted: {reason}."
    known = "It is in the trash, never half at its name; the receipt keeps it as pending."
    advice = "Remove the cause, and repeat the same command."


class CandidateInvalid(RetentionError):
    """A candidate is no valid deployment."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_VALIDATION_FAILED"
    exit_code = EXIT_CONFLICT
    happened = "{path} cannot be validated: {reason}."
    known = _UNTOUCHED
    advice = (
        "Plan again, review the plan, and apply it with a new review id: dpone airflow "
        "cache-retention-plan"
    )


class DeploymentIdInvalid(RetentionError):
    """A deployment id is malformed."""

    code = "DPONE_DEPLOYMENT_ID_INVALID"
    exit_code = EXIT_USAGE
    happened = "{deployment_id} is no deployment id{place}."
    known = _NOTHING
    advice = "An id is sha256: and 64 lower-case hexadecimal digits."


class EvidenceIdNotFound(RetentionError):
    """An evidence file names no deployment."""

    code = "DPONE_DEPLOYMENT_CACHE_EVIDENCE_DEPLOYMENT_ID_NOT_FOUND"
    exit_code = EXIT_CONFLICT
    happened = "The evidence file {file} protects nothing: it holds no deployment id."
    known = _NOTHING
    advice = "Give the right file, or leave it out."


class EvidenceUnreadable(RetentionError):
    """An evidence file cannot be read."""

    code = "DPONE_DEPLOYMENT_CACHE_EVIDENCE_INVALID"
    exit_code = EXIT_CONFLICT
    happened = "The evidence file {file} cannot be used: {reason}."
    known = _NOTHING
    advice = "Give a JSON file of at most 8 MiB, 64 levels and 100,000 values."


class PromoterUnauthorized(RetentionError):
    """The promoter is not on the list."""

    code = "DPONE_CURRENT_POINTER_PROMOTER_UNAUTHORIZED"
    exit_code = EXIT_CLOSED
    happened = "{promoted_by} is not among the allowed promoters."
    known = _UNTOUCHED
    advice = "Let an allowed promoter apply, or add it: --allowed-promoter"
