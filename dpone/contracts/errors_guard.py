"""Errors of the interim guard; their public codes are older than the fence."""

from __future__ import annotations

from dpone.contracts.errors import EXIT_CLOSED
from dpone.contracts.errors_fencing import FencingError

_COMPARE = (
    "Compare the target with the source by hand. If all rows are there: "
    "dpone journal resolve {partition} --guard --as committed --expect-version 0 "
    '--operator YOU --why "..."; if none is, the same with --as not-committed.'
)


class GuardUnresolved(FencingError):
    """A guard of an earlier run blocks the route."""

    code = "native_transfer_manual_reconciliation_required"
    exit_code = EXIT_CLOSED
    reason = "guard_unresolved"
    happened = "The guard of partition {partition} is {phase}: an earlier run may have written."
    known = "The target was not touched by this run; this connector has no fence to ask."
    advice = _COMPARE


class GuardInvalid(FencingError):
    """A guard is malformed, unknown or does not fit its checkpoint."""

    code = "native_transfer_target_commit_guard_invalid"
    exit_code = EXIT_CLOSED
    reason = "guard_invalid"
    happened = "The guard of partition {partition} cannot be read: {why}."
    known = "The target was not touched by this run."
    advice = "Restore the checkpoint from a copy of the journal, or answer it. " + _COMPARE


class GuardNotArmed(FencingError):
    """A guard was to be closed that had not been armed."""

    code = "native_transfer_target_commit_guard_not_armed"
    exit_code = EXIT_CLOSED
    reason = "guard_not_armed"
    happened = "The guard of partition {partition} was not armed."
    known = "The target was not touched under this guard."
    advice = "Report this with the output of: dpone journal list"


class GuardOutcomeUnknown(FencingError):
    """A target without a fence failed while it was being written."""

    code = "DPONE_GUARD_COMMIT_UNKNOWN"
    exit_code = EXIT_CLOSED
    reason = "target_outcome_unknown"
    happened = "The target failed at the {boundary} boundary of partition {partition}: {cause}."
    known = "It may hold all, some or none of the rows; the guard blocks a retry."
    advice = _COMPARE
