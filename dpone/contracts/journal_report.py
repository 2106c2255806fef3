"""What `dpone journal` prints for programs: one closed object per command."""

from __future__ import annotations

from typing import Any

import msgspec


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One operation in a list; times are ISO 8601 in UTC."""

    operation_id: str
    route: str
    partition: str
    revision: int
    state: str
    version: int
    attempt: int
    answered: bool
    diverged: str
    pruned: bool
    updated_at: str


class JournalList(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A page of operations; `next` is the cursor of the following page, or empty."""

    schema: str = "dpone.journal-list.v1"
    operations: tuple[Listed, ...]
    next: str


class Happened(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One row of the history."""

    version: int
    event: str
    source: str
    target: str
    attempt: int
    attempt_id: str
    at: str
    detail: dict[str, Any]


class JournalShow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One operation with its history; also what a command that changed it prints."""

    schema: str = "dpone.journal-show.v1"
    operation: Listed
    identity: dict[str, Any]
    intent_digest: str
    incarnation: str
    outcome: dict[str, Any]
    obligations: tuple[str, ...]
    done: tuple[str, ...]
    history: tuple[Happened, ...]
    exit_code: int = 0


class Explanation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is known of one operation, from what evidence, what is not, and what to run."""

    schema: str = "dpone.journal-explain.v1"
    operation_id: str
    state: str
    fence: str
    known: tuple[str, ...]
    evidence: tuple[str, ...]
    unknown: tuple[str, ...]
    next: tuple[str, ...]


class Found(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One divergence."""

    operation_id: str
    state: str
    fence: str
    what: str


class JournalCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Journal and fences compared; `exit_code` is 0 without findings and 4 with some."""

    schema: str = "dpone.journal-check.v1"
    asked: int
    findings: tuple[Found, ...]
    exit_code: int


class JournalCount(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `adopt` and `prune` did, by name; `planned` when nothing was written."""

    schema: str = "dpone.journal-count.v1"
    command: str
    planned: bool
    counts: dict[str, int]
