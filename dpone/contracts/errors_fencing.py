"""Errors of the fenced commit; the lower-case token of each is its `reason`."""

from __future__ import annotations

from typing import ClassVar

from dpone.contracts.errors import (
    EXIT_CLOSED,
    EXIT_CONFLICT,
    EXIT_LATER,
    DponeError,
)


class FencingError(DponeError):
    """Base of the errors of the fenced commit; `reason` is the token of the protocol."""

    reason: ClassVar[str] = ""


class OperationInProgress(FencingError):
    """The lease of another attempt still runs."""

    code = "DPONE_TARGET_COMMIT_IN_PROGRESS"
    exit_code = EXIT_LATER
    reason = "operation_in_progress"
    happened = "Another attempt owns operation {operation_id} for {lease_s} more seconds."
    known = "Nothing was written; the operation is {state}."
    advice = "Try again later, or add --take-over when you know that the other attempt is gone."


class OwnershipLost(FencingError):
    """Another attempt owns the operation; this one stopped."""

    code = "DPONE_TARGET_COMMIT_OWNERSHIP_LOST"
    exit_code = EXIT_LATER
    reason = "ownership_lost"
    happened = "Another attempt owns operation {operation_id}; this attempt stopped."
    known = "This attempt wrote no state; the owner settles what the target holds."
    advice = "Run: dpone journal show {operation_id}"


class IntentMismatch(FencingError):
    """The same operation was asked to write something else."""

    code = "DPONE_TARGET_COMMIT_INTENT_MISMATCH"
    exit_code = EXIT_CONFLICT
    reason = "intent_mismatch"
    happened = (
        "Operation {operation_id} stands for intent {recorded}; this attempt brings {offered}."
    )
    known = "Nothing was written and nothing was skipped; the operation is {state}."
    advice = (
        "If the reload is wanted, say so: --revision {next_revision}; an operation that is not "
        "settled is settled first: dpone journal reconcile {operation_id}"
    )


class RevisionBlocked(FencingError):
    """An earlier revision of the same operation is not settled."""

    code = "DPONE_TARGET_COMMIT_REVISION_BLOCKED"
    exit_code = EXIT_CONFLICT
    reason = "revision_blocked"
    happened = "Revision {blocking} of this operation is {state}, so {revision} is refused."
    known = "Nothing was written."
    advice = (
        "An earlier revision is settled first: dpone journal reconcile {operation_id}, or "
        "resolve where it diverged; a later one supersedes this: ask for a new --revision."
    )


class TargetDiverged(FencingError):
    """The journal says committed and the target no longer shows it."""

    code = "DPONE_TARGET_COMMIT_DIVERGED"
    exit_code = EXIT_CLOSED
    reason = "target_diverged"
    happened = "The journal says {state}, but the fence of {operation_id} was found {fence}."
    known = "Nothing was loaded, no obligation ran; the row is marked and blocks."
    advice = (
        "Check first that the connection leads to the target of that load: any other looks like "
        "this. If it did not, name the right one; when dpone journal check then finds nothing, the "
        "answer accept-loss finds the load and only removes the mark. "
        "If the target was restored, answer with dpone journal resolve {operation_id} and "
        "--as accept-loss (keep the loss) or --as reload (load it again as a new revision), "
        "--expect-version {version}, --operator and --why."
    )


class CommitUnknown(FencingError):
    """Whether the target holds the change cannot be said."""

    code = "DPONE_TARGET_COMMIT_UNKNOWN"
    exit_code = EXIT_CLOSED
    reason = "commit_unknown"
    happened = "Whether the target holds operation {operation_id} cannot be proven: {seen}."
    known = "Nobody concluded anything; the rows may be there, or may still land."
    advice = (
        "Run the same command again when the holder is gone, or look: "
        "dpone journal explain {operation_id}"
    )


class CommitRejected(FencingError):
    """The target proved that it applied nothing, and the fence is sealed."""

    code = "DPONE_TARGET_COMMIT_REJECTED"
    exit_code = EXIT_CONFLICT
    reason = "rejected"
    happened = "The target refused operation {operation_id}: {cause}."
    known = "The target holds nothing of it; the operation is FAILED_PRE_COMMIT."
    advice = "Mend the cause and run the same command again."


class CommitBusy(FencingError):
    """The target aborted the unit for a passing reason, more often than we retry."""

    code = "DPONE_TARGET_COMMIT_BUSY"
    exit_code = EXIT_LATER
    reason = "busy"
    happened = "The target aborted operation {operation_id} {tries} times: {cause}."
    known = "The target holds nothing of it; the operation is FAILED_PRE_COMMIT."
    advice = "Run the same command again later."


class OperationExpired(FencingError):
    """The operation lies below the route's floor."""

    code = "DPONE_TARGET_COMMIT_EXPIRED"
    exit_code = EXIT_CONFLICT
    reason = "operation_expired"
    happened = "Operation {operation_id} lies below the floor {floor} of its route."
    known = "Nothing was loaded; its details were pruned long ago."
    advice = "If it must be loaded again, use a route of its own."


class ObligationFailed(FencingError):
    """The target committed; a step after the commit did not finish."""

    code = "DPONE_TARGET_COMMIT_INCOMPLETE"
    exit_code = EXIT_CLOSED
    reason = "committed_incomplete"
    happened = "The target holds operation {operation_id}, but the step {step} failed: {cause}."
    known = "The rows are committed once; the operation is COMMITTED_INCOMPLETE."
    advice = "Run the same command again: it continues at {step} and loads nothing."


class CommitUnfinished(FencingError):
    """The target committed; then journal or target stopped answering."""

    code = "DPONE_TARGET_COMMIT_UNFINISHED"
    exit_code = EXIT_LATER
    reason = "committed_unfinished"
    happened = "The target holds operation {operation_id}; what followed was cut short: {cause}."
    known = "The rows are committed once; the journal may not say so yet."
    advice = "Run the same command again: it settles from the fence and loads nothing."


class OperationDiscarded(FencingError):
    """An operator closed the operation; its rows are not loaded under this identity."""

    code = "DPONE_TARGET_COMMIT_ANSWERED"
    exit_code = EXIT_CONFLICT
    reason = "operator_answered"
    happened = "An operator answered operation {operation_id} with {answer}."
    known = "Nothing was loaded under this revision."
    advice = "If the rows are wanted, say so: --revision {next_revision}"


class IncarnationChanged(FencingError):
    """The target is not the one for which the operation began."""

    code = "DPONE_TARGET_COMMIT_INCARNATION"
    exit_code = EXIT_CLOSED
    reason = "incarnation_changed"
    happened = "The target is {seen}; operation {operation_id} began in {expected}."
    known = "Nothing was written to the target."
    advice = (
        "After a failover, a move or a loss of the target, stop the workers, review, and run "
        "dpone journal adopt with --target, --operator, --why and --apply."
    )


class TargetUnreachable(FencingError):
    """The target did not answer, so nothing is concluded."""

    code = "DPONE_TARGET_UNREACHABLE"
    exit_code = EXIT_LATER
    reason = "target_unreachable"
    happened = "The {target} target did not answer: {cause}."
    known = "Nothing was written by this attempt."
    advice = "Run the same command again when the target answers."


class TargetHeld(FencingError):
    """Another process holds the target, so nothing is concluded."""

    code = "DPONE_TARGET_HELD"
    exit_code = EXIT_LATER
    reason = "target_held"
    happened = "The {target} target is held by another process: {cause}."
    known = "Nothing was written by this attempt."
    advice = "Run the same command again when that process is gone."


class TargetPrivilege(FencingError):
    """The fence tables cannot be made or used with these privileges."""

    code = "DPONE_TARGET_PRIVILEGE"
    exit_code = EXIT_CLOSED
    reason = "target_privilege"
    happened = "The {target} target refused what the fence needs: {cause}."
    known = "Nothing was written to the target."
    advice = "Ask its owner to run: {statement}"


class TargetReadOnly(FencingError):
    """The target cannot be written."""

    code = "DPONE_TARGET_READ_ONLY"
    exit_code = EXIT_CLOSED
    reason = "target_read_only"
    happened = "The {target} target is read-only: {cause}."
    known = "Nothing was written to the target."
    advice = "Make the target writable for this user and run the same command again."


class TargetInvalid(FencingError):
    """The target exists but is not what its kind says."""

    code = "DPONE_TARGET_INVALID"
    exit_code = EXIT_CLOSED
    reason = "target_invalid"
    happened = "The {target} target cannot be used: {cause}."
    known = "Nothing was written to the target."
    advice = "Check that the manifest names the right file, server or table."


class TargetAuthentication(FencingError):
    """The target's server refused the credentials."""

    code = "DPONE_TARGET_AUTHENTICATION"
    exit_code = EXIT_CLOSED
    reason = "target_authentication"
    happened = "The {target} server refused the credentials of connection {connection}."
    known = "Nothing was written."
    advice = "Mend the connection {connection} and run the same command again."


class ProtocolTooOld(FencingError):
    """Journal or fence were written by a newer protocol version."""

    code = "DPONE_PROTOCOL_TOO_OLD"
    exit_code = EXIT_CLOSED
    reason = "protocol_too_old"
    happened = "The {place} is at protocol version {found}; this program writes {ours}."
    known = "Nothing was written."
    advice = "Upgrade dpone on this machine; the upgrade page says how to drain old workers."


class JournalUnavailable(FencingError):
    """The journal could not be read or written."""

    code = "DPONE_JOURNAL_UNAVAILABLE"
    exit_code = EXIT_LATER
    reason = "journal_unavailable"
    happened = "The journal did not answer: {cause}."
    known = "{known}"
    advice = "Run the same command again when the journal answers: it settles from the fence."


class JournalInvalid(FencingError):
    """The journal's bytes are not a journal; they were left as they are."""

    code = "DPONE_JOURNAL_INVALID"
    exit_code = EXIT_CLOSED
    reason = "journal_invalid"
    happened = "The journal cannot be used: {cause}."
    known = "Its bytes were left untouched."
    advice = "Mend its place, or restore a copy; then see the runbook: journal restored."


class JournalNetworkFilesystem(FencingError):
    """A SQLite journal on a network file system would corrupt silently."""

    code = "DPONE_JOURNAL_NETWORK_FILESYSTEM"
    exit_code = EXIT_CLOSED
    reason = "network_filesystem"
    happened = "The SQLite journal lies on {filesystem}, whose locks cannot be trusted."
    known = "Nothing was written."
    advice = "Put the journal on a local disk, or use PostgreSQL when machines share it."


class OperationNotFound(FencingError):
    """The journal has no such operation."""

    code = "DPONE_JOURNAL_NOT_FOUND"
    exit_code = EXIT_CONFLICT
    reason = "operation_not_found"
    happened = "The journal has no operation {operation_id}."
    known = "Nothing was written."
    advice = "Run: dpone journal list"


class VersionConflict(FencingError):
    """The row changed since the operator looked at it."""

    code = "DPONE_JOURNAL_VERSION_CONFLICT"
    exit_code = EXIT_CONFLICT
    reason = "version_conflict"
    happened = "Operation {operation_id} is at version {found}, not {expected}."
    known = "Nothing was written."
    advice = "Look again: dpone journal show {operation_id}"


class AnswerRefused(FencingError):
    """What the operator asserts contradicts the fence or needs proof that is not there."""

    code = "DPONE_JOURNAL_ANSWER_REFUSED"
    exit_code = EXIT_CLOSED
    reason = "answer_refused"
    happened = "The answer {answer} was refused for operation {operation_id}: {why}."
    known = "The operation is {state}."
    advice = "Run: dpone journal explain {operation_id}"


class TransactionControl(FencingError):
    """A change tried to end or to leave the transaction that holds the fence."""

    code = "DPONE_CHANGE_TRANSACTION_CONTROL"
    exit_code = EXIT_CONFLICT
    reason = "transaction_control"
    happened = "The change tried to run {statement} inside the fenced transaction."
    known = "The statement did not run; fence and data commit together or not at all."
    advice = "Leave begin, commit and rollback to dpone."


class ChangeNotRun(FencingError):
    """A change returned something that would have to be run, so that it wrote nothing."""

    code = "DPONE_CHANGE_NOT_RUN"
    exit_code = EXIT_CONFLICT
    reason = "change_not_run"
    happened = "The change returned {kind}, which nobody runs: its own code wrote nothing."
    known = "Nothing was committed."
    advice = "Give a plain function that has written when it returns; acommit awaits a coroutine."
