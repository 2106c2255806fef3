"""Turns plans and outcomes into what people and programs read.

Promise: what a report says of a file is what its outcome says; a diff is at most
`DIFF_CHARS_MAX` long and shows no value of a key that names a secret.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from dpone.contracts.authoring import Status
from dpone.contracts.authoring_report import (
    DIFF_CHARS_MAX,
    ChangeReport,
    Counters,
    FileReport,
    UnitOfWork,
)
from dpone.contracts.codec import plain
from dpone.contracts.errors import (
    EXIT_CLOSED,
    EXIT_DONE,
    EXIT_INTERNAL,
    DponeError,
)
from dpone.contracts.publication import Change, FileOutcome, Publication, PublishOutcome
from dpone.contracts.run_report import ErrorReport

_SECRET = re.compile(
    r"(?i)((?:^|[^\w.-])[\w.-]*(?:password|passwd|secret|token|api_?key|private_key|dsn)"
    r"[\w.-]*[\"']?\s*[:=]\s*)(\S.*)$"
)
_CREDENTIALS = re.compile(r"(://[^/\s:@]*:)[^@/\s]+@")
_ACTIONS = {"create": "create", "update": "modify"}
_DONE = ("create", "update", "recovery_required", "failed")
_STAYS = ("root_changed", "not_owned", "shared")
_UNTOUCHED = ("No file was changed.", "This run wrote nothing.")
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


def in_use(changes: Iterable[ChangeReport]) -> tuple[FileReport, ...]:
    """The changes with the diff under both of its names."""
    return tuple(FileReport(**plain(change), diff=change.unified_diff) for change in changes)


def is_no_op(plan: Publication) -> bool:
    """Whether everything is as the plan wants it."""
    return all(change.before == change.after for change in plan.changes)


def unit_of(outcome: PublishOutcome, prior: Sequence[FileOutcome] = ()) -> UnitOfWork:
    """How the change as a whole ended; `prior` is what concluding an earlier one came to."""
    issues = (*prior, *outcome.issues)
    kept = (*(file.recovery_name for file in prior), *outcome.recovery_names)
    return UnitOfWork(
        status=_UNITS[outcome.status],  # type: ignore[arg-type]
        recovery_artifacts=tuple(dict.fromkeys(name for name in kept if name)),
        issues=tuple(f"{item.path}: {item.reason}" for item in issues if item.action == "failed"),
        stays=staying(issues),
    )


def staying(files: Iterable[FileOutcome]) -> tuple[str, ...]:
    """The files of an interrupted change that were left where they are, sorted."""
    return tuple(sorted({file.path for file in files if file.stays and file.reason in _STAYS}))


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


def error_report(error: DponeError, outcome: PublishOutcome) -> ErrorReport:
    """An error as part of a report; what it says of the whole tree follows the outcome."""
    fields = error.report()
    known = error.fill(error.sentences()[1])
    if known in _UNTOUCHED:
        # What the error says of an interrupted change that came before stays beside it.
        fields["known"] = fields["known"].replace(known, _known(outcome) or known, 1)
    return ErrorReport(**fields)


def _known(outcome: PublishOutcome) -> str:
    """What of this run is in the tree; empty when it had changed nothing."""
    failed = {issue.path for issue in outcome.issues if issue.action == "failed"}
    there = [file.path for file in outcome.files if file.action in _DONE or file.path in failed]
    there += sorted(failed - set(there))
    if there:
        return f"Changed by this run, and not undone: {', '.join(there)}."
    if any(file.action == "rolled_back" for file in outcome.files):
        return "What this run had changed is undone."
    return ""


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
