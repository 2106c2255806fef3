"""One operation in words: what is known, from what evidence, what is not, what to run. Pure."""

from __future__ import annotations

from dpone.contracts.codec import decode
from dpone.contracts.fence import Absent, Answer, Committed, Expired, Sealed
from dpone.contracts.journal import COMMITTED, IN_DOUBT, HistoryRow, JournalEntry, State
from dpone.contracts.journal_report import Explanation
from dpone.contracts.outcome import Stored
from dpone.fencing.check import compare, fence_word
from dpone.fencing.reconcile import is_elsewhere

_STATES = {
    State.PREPARING: "An attempt took the operation and has not begun to write.",
    State.PREPARED: "An attempt took the operation, sealed the key, and has not begun to write.",
    State.COMMITTING: "An attempt began to write; the journal has no word of the end.",
    State.COMMIT_UNKNOWN: "An attempt began to write and its answer was lost.",
    State.TARGET_COMMITTED: "The target committed; steps after the commit are open.",
    State.COMMITTED_INCOMPLETE: "The target committed; a step after the commit failed.",
    State.COMPLETE: "The operation is finished; a retry returns its outcome and writes nothing.",
    State.FAILED_PRE_COMMIT: "The last attempt ended without a commit, and its key is sealed.",
}


def explain(entry: JournalEntry, history: list[HistoryRow], answer: Answer | None) -> Explanation:
    """Put together what journal and fence say. `answer` is None when no target is at hand."""
    known = [_STATES[entry.state]]
    evidence = [f"journal: {entry.state} at version {entry.version}, attempt {entry.attempt}"]
    if history:
        last = history[-1]
        evidence.append(f"journal: last event {last.event} by attempt {last.attempt_id}")
    lost = answer is not None and compare(entry, answer.verdict) == "target_diverged"
    if lost or entry.diverged:
        known = ["The journal says that the target holds the change; its fence does not show it."]
    elif entry.outcome and not entry.pruned:
        stored = decode(entry.outcome, Stored)
        known.append(_committed_by(stored))
    if entry.pruned:
        known.append("Its details were pruned; that it was loaded is kept for ever.")
    unknown = []
    if answer is None:
        unknown.append("What the target's fence shows: no target was asked.")
    else:
        if isinstance(answer.verdict, Committed) and entry.state not in COMMITTED:
            known.append("The target holds the change all the same: its fence shows the commit.")
        evidence.append(f"fence: {fence_word(answer.verdict)} in {answer.incarnation or '-'}")
        unknown.extend(_unknown(entry, answer))
    if entry.diverged:
        known.append(f"The row is marked as diverged: {entry.diverged}.")
    return Explanation(
        operation_id=entry.operation_id,
        state=entry.state,
        fence=fence_word(answer.verdict) if answer else "not asked",
        known=tuple(known),
        evidence=tuple(evidence),
        unknown=tuple(unknown),
        next=tuple(_next(entry, answer)),
    )


def _committed_by(stored: Stored) -> str:
    if stored.asserted_by:
        return f"That it is committed was asserted by {stored.asserted_by}."
    rows = stored.result.get("rows_written")
    counted = f", {rows} rows" if isinstance(rows, int) else ""
    return f"The target holds the change of attempt {stored.epoch}{counted}."


def _unknown(entry: JournalEntry, answer: Answer) -> list[str]:
    verdict = answer.verdict
    if isinstance(verdict, Committed | Sealed | Expired):
        return []
    if isinstance(verdict, Absent):
        if entry.state in IN_DOUBT:
            return ["Whether the change can still land: an absent fence proves nothing."]
        return []
    return [f"What became of the change: {verdict.cause}."]


def _is_stranded(entry: JournalEntry, answer: Answer) -> bool:
    """Whether a run would refuse to go on in the target as it is now."""
    shown = entry.state in COMMITTED or isinstance(answer.verdict, Committed | Expired)
    return not shown and is_elsewhere(entry, answer)


def _next(entry: JournalEntry, answer: Answer | None) -> list[str]:
    ident = entry.operation_id
    look = f"--expect-version {entry.version} --operator NAME --why REASON"
    if entry.reason == "answered":
        return [f"If the rows are wanted: dpone run <manifest> --revision {entry.revision + 1}"]
    if entry.diverged:
        return [
            f"dpone journal resolve {ident} --as accept-loss {look}",
            f"dpone journal resolve {ident} --as reload {look}",
        ]
    if answer is not None and compare(entry, answer.verdict) == "target_diverged":
        return [
            "Run the load again: it marks the row and says what it lacks.",
            "dpone journal check",
        ]
    if entry.state is State.COMPLETE:
        return ["Nothing."]
    if answer is not None and _is_stranded(entry, answer):
        return [
            "It began in another target than the one that answers. Stop the workers, then run:",
            "dpone journal adopt --target --operator NAME --why REASON --apply",
        ]
    if entry.state in IN_DOUBT:
        return [f"dpone journal reconcile {ident}", "or run the same dpone run again"]
    if entry.state in COMMITTED:
        return ["Run the same dpone run again: it finishes the open steps and loads nothing."]
    return ["Run the same dpone run again."]
