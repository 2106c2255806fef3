"""Errors of an apply that found its operation closed, drifted, obstructed or full."""

from __future__ import annotations

from dpone.contracts.errors import EXIT_CLOSED, EXIT_CONFLICT
from dpone.contracts.errors_retention import RetentionError


class OperationAborted(RetentionError):
    """The operation's receipt is closed without having deleted everything."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_OPERATION_ABORTED"
    exit_code = EXIT_CONFLICT
    happened = "The operation {operation_id} was closed: {reason}."
    known = "{deleted} of its deployments were deleted, and the receipt says which."
    advice = "Make a new plan, review it, and apply it with a new review id."


class CandidateObstructed(RetentionError):
    """A candidate could not be deleted to its end, so nothing was begun."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_CANDIDATE_OBSTRUCTED"
    exit_code = EXIT_CLOSED
    happened = "{path} cannot be deleted: {reason}, and {more} more obstacles."
    known = "Nothing was begun, and nothing was deleted."
    advice = "Unmount, or give to this user, what is named, and run the same command again."


class CapacityExhausted(RetentionError):
    """The receipts or the log have no room for the operation."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_CAPACITY_EXHAUSTED"
    exit_code = EXIT_CLOSED
    happened = "There is no room for this operation: {reason}."
    known = "Nothing was begun, and nothing was deleted."
    advice = "Run: dpone airflow cache-retention-archive --help"


class OperationUnfinished(RetentionError):
    """Some candidates could not be deleted; the receipt is still applying."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_OPERATION_UNFINISHED"
    exit_code = EXIT_CLOSED
    happened = "{count} of the candidates could not be deleted, the first because of {reason}."
    known = "{deleted} were deleted. The receipt of {operation_id} is still applying."
    advice = "Remove what is in the way of {path}, and run the same command again."


class TrashUnsafe(RetentionError):
    """The trash directory is not ours alone."""

    code = "DPONE_DEPLOYMENT_CACHE_GC_TRASH_UNSAFE"
    exit_code = EXIT_CLOSED
    happened = "{file} cannot be used: {reason}."
    known = "Nothing was begun, and nothing was deleted."
    advice = "Run: dpone airflow cache-retention-receipts --repair"
