"""What a fenced commit returns, and what the journal stores of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from dpone.contracts.journal import State


class How(StrEnum):
    """How this call came to its outcome."""

    COMMITTED = "committed"
    REPLAYED = "replayed"
    SETTLED = "settled"
    RESUMED = "resumed"


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The finished operation as everybody sees it; a replay returns the same one.

    `how` says what this very call did: it alone differs between the first answer and a replay.
    `attempt` and `attempt_id` name the attempt whose change the target holds.
    """

    operation_id: str
    state: State
    attempt: int
    attempt_id: str
    intent_digest: str
    result: dict[str, Any]
    how: How
    incarnation: str = ""
    notes: tuple[str, ...] = ()
    schema: str = "dpone.outcome.v1"
    exit_code: int = 0


class Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part of an outcome that the journal keeps and a replay returns."""

    epoch: int
    attempt_id: str
    intent_digest: str
    result: dict[str, Any] = {}
    asserted_by: str = ""
