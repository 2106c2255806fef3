"""Turns plans and outcomes into what people and programs read.

Promise: what a report says of a file is what its outcome says; a diff is at most
`DIFF_CHARS_MAX` long and shows no value of a key that names a secret.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from dpone.contracts.authoring import Status
from dpone.contracts.authoring_report import (
    DIFF_CHARS_MAX,
    ChangeReport,
    Counters,
    UnitOfWork,
)
from dpone.contracts.errors import (
    EXIT_CLOSED,
    EXIT_DONE,
    EXIT_INTERNAL,
    DponeError,
)
from dpone.contracts.publication import Change, Publication, PublishOutcome
from dpone.contracts.run_report import ErrorReport

_SECRET = re.compile(
    r"(?i)((?:^|[^\w.-])[\w.-]*(?:password|passwd|secret|token|api_?key|private_key|dsn)"
    r"[\w.-]*[\"']?\s*[:=]\s*)(\S.*)$"
)
_CREDENTIALS = re.compile(r"(://[^/\s:@]*:)[^@/\s]+@")
_ACTIONS = {"create": "create", "update": "modify"}
_UNITS = {
    Status.NONE: "committed",
    Status.COMMITTED: "committed",
    Status.ROLLED_BACK: "rolled_back",
    Status.RECOVERY_REQUIRED: "recovery_required",
}


def planned(plan: Publication) -> tuple[ChangeReport, ...]:
    """The changes of a plan, each with its diff."""
    return tuple(_change(change, _planned_action(change)) for change in plan.changes)


def applied(plan: Publication, outcome: PublishOutcome) -> tuple[ChangeReport, ...]:
    """What became of each file of a plan."""
    became = {file.path: file for file in outcome.files}
    return tuple(
        _change(
            change,
            _ACTIONS.get(became[change.path].action, became[change.path].action),
            became[change.path].reason,
            became[change.path].recovery_name,
        )
        for change in plan.changes
    )


def is_no_op(plan: Publication) -> bool:
    """Whether everything is as the plan wants it."""
    return all(change.before == change.after for change in plan.changes)


def unit_of(outcome: PublishOutcome) -> UnitOfWork:
    """How the change as a whole ended."""
    return UnitOfWork(
        status=_UNITS[outcome.status],  # type: ignore[arg-type]
        recovery_artifacts=outcome.recovery_names,
        issues=tuple(f"{issue.path}: {issue.reason}" for issue in outcome.issues),
    )


def counters_of(outcome: PublishOutcome) -> Counters:
    """The counters of one change."""
    return Counters(**outcome.counters)


def exit_of(outcome: PublishOutcome, error: DponeError | None) -> int:
    """The exit code: nothing that waits for a person ends with 0."""
    if error is not None and error.exit_code == EXIT_INTERNAL:
        return EXIT_INTERNAL
    if outcome.cleanup_required or outcome.status is Status.RECOVERY_REQUIRED:
        return EXIT_CLOSED
    return error.exit_code if error is not None else EXIT_DONE


def error_report(error: DponeError) -> ErrorReport:
    """An error as part of a report."""
    return ErrorReport(**error.report())


def diff_of(path: str, before: bytes | None, after: bytes) -> str:
    """A unified diff for people: secrets struck out, cut at the bound."""
    if before == after:
        return ""
    old, new = _lines(before or b""), _lines(after)
    source = f"a/{path}" if before is not None else "/dev/null"
    lines = difflib.unified_diff(old, new, source, f"b/{path}", lineterm="")
    text = "\n".join(map(_redacted, lines))
    if len(text) > DIFF_CHARS_MAX:
        return text[:DIFF_CHARS_MAX] + "\n[cut]"
    return text


def _redacted(line: str) -> str:
    """The line without the value of a secret's key, and without a password in an address."""
    return _SECRET.sub(r"\1[redacted]", _CREDENTIALS.sub(r"\1[redacted]@", line))


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").splitlines()


def _planned_action(change: Change) -> str:
    if change.before == change.after:
        return "no_op"
    return "create" if change.is_new else "modify"


def _change(
    change: Change, action: str, message: str = "", recovery_name: str | None = None
) -> ChangeReport:
    return ChangeReport(
        action=action,
        path=change.path,
        before_sha256=change.before_sha256,
        after_sha256=change.after_sha256,
        unified_diff=diff_of(change.path, change.before, change.after),
        message=message,
        recovery_name=recovery_name,
    )


def words_of(changes: Sequence[ChangeReport]) -> str:
    """The changes for people: a line for each file, and the diffs."""
    width = max((len(change.action) for change in changes), default=0)
    lines: list[str] = []
    for change in changes:
        line = f"{change.action.ljust(width)}  {change.path}"
        if change.message and change.action not in ("create", "modify", "no_op"):
            line += f"  ({change.message})"
        if change.recovery_name:
            line += f"\n  earlier bytes kept: {change.recovery_name}"
        lines.append(line)
    diffs = [change.unified_diff for change in changes if change.unified_diff]
    return "\n".join([*lines, *diffs])
