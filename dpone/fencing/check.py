"""Comparing journal and fences: every divergence is reported, nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dpone.contracts.fence import Committed, Expired, Sealed, SealVerdict, Unknown, Verdict
from dpone.contracts.journal import COMMITTED, SETTLED, JournalEntry, State
from dpone.fencing.adopt import floor_of_entry, rows_of
from dpone.fencing.refuse import ANSWERED
from dpone.ports.journal import Journal
from dpone.ports.target import Target


class Finding(NamedTuple):
    """One row whose fence does not bear it out; `what` is a stable token."""

    operation_id: str
    state: str
    fence: str
    what: str


def check(
    journal: Journal, target_of: Callable[[JournalEntry], Target | None]
) -> tuple[int, list[Finding]]:
    """Ask the fence of every row that has a target; return how many were asked, and findings."""
    asked = 0
    findings: list[Finding] = []
    for entry in rows_of(journal):
        target = target_of(entry)
        if target is None:
            continue
        asked += 1
        answer = target.ask(entry.operation_id, floor_of_entry(entry))
        what = compare(entry, answer.verdict)
        closed = entry.reason == ANSWERED or isinstance(answer.verdict, Expired)
        moved = bool(entry.incarnation) and answer.incarnation != entry.incarnation
        if moved and not what and not closed:
            what = "incarnation_changed"
        if what:
            findings.append(
                Finding(entry.operation_id, entry.state, fence_word(answer.verdict), what)
            )
    return asked, findings


def compare(entry: JournalEntry, verdict: Verdict) -> str:
    """The token of a divergence, or '' when the fence bears the row out."""
    if isinstance(verdict, Unknown):
        return "fence_unknown"
    if isinstance(verdict, Expired):
        # The floor answers for it, whatever became of its row.
        return "" if entry.state in SETTLED else "operation_expired"
    shows = isinstance(verdict, Committed)
    if entry.state in COMMITTED and not shows:
        return "" if entry.reason == ANSWERED else "target_diverged"
    if entry.state is State.FAILED_PRE_COMMIT and shows:
        return "committed_after_failure"
    if entry.state not in COMMITTED and shows:
        return "commit_not_acknowledged"
    if entry.state is State.FAILED_PRE_COMMIT and not isinstance(verdict, Sealed):
        return "seal_missing"
    return ""


def fence_word(verdict: Verdict | SealVerdict) -> str:
    """One word for what a fence showed."""
    return type(verdict).__name__.lower()
