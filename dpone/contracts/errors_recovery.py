"""Errors of the recovery commands."""

from __future__ import annotations

from dpone.contracts.errors import EXIT_CONFLICT, EXIT_USAGE
from dpone.contracts.errors_fencing import FencingError


class FloorBlocked(FencingError):
    """An operation below the wanted floor is not settled."""

    code = "DPONE_JOURNAL_FLOOR_BLOCKED"
    exit_code = EXIT_CONFLICT
    reason = "floor_blocked"
    happened = "Operation {operation_id} lies below the wanted floor and is {state}."
    known = "The floor was not raised; nothing was removed."
    advice = "Settle it first: dpone journal reconcile {operation_id}"


class OperationAmbiguous(FencingError):
    """The beginning of an id fits several operations."""

    code = "DPONE_JOURNAL_AMBIGUOUS"
    exit_code = EXIT_CONFLICT
    reason = "operation_ambiguous"
    happened = "{given} is the beginning of {count} operations."
    known = "Nothing was written."
    advice = "Give more of the id: dpone journal list"


class TargetNotNamed(FencingError):
    """The operation does not say where its target is."""

    code = "DPONE_JOURNAL_TARGET_UNKNOWN"
    exit_code = EXIT_CONFLICT
    reason = "target_unknown"
    happened = "Operation {operation_id} names no target that this project can open."
    known = "Nothing was written."
    advice = "Use dpone.reconcile with the target that the program opened."


class AnswerUnknown(FencingError):
    """The answer is none of those that an operator may give."""

    code = "DPONE_JOURNAL_ANSWER_UNKNOWN"
    exit_code = EXIT_USAGE
    reason = "answer_unknown"
    happened = "{answer} is no answer; known are: {known_answers}."
    known = "Nothing was written."
    advice = "Choose one of them with --as."


class FloorInvalid(FencingError):
    """A floor that would make no sense; it could never be lowered again."""

    code = "DPONE_JOURNAL_FLOOR_INVALID"
    exit_code = EXIT_USAGE
    reason = "floor_invalid"
    happened = "The floor cannot be raised: {why}."
    known = "Nothing was written."
    advice = "Name an ordered route with --route, and a position like those of its partitions."
