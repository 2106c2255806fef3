"""A plan for people: a table with reasons and sizes, notes, and the command that applies it.

Promise: it says nothing that the plan does not; what a shell would obey is quoted. Source:
ADR 0043.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dpone.contracts.retention_plan import RetentionPlan
from dpone.retention.plan import Planned, Row

_ORDER = {"delete": 0, "protect": 1, "quarantine": 2}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024
SHOWN_MAX = 1000


def rows_of(planned: Planned) -> list[tuple[str, ...]]:
    """The table, its head first: what is deleted, then what is protected, then quarantine."""
    ordered = sorted(planned.rows, key=lambda row: _ORDER[row.item.action])
    shown = [_cells(row) for row in ordered[:SHOWN_MAX]]
    return [("action", "reason", "deployment", "reclaims", "because"), *shown]


def _cells(row: Row) -> tuple[str, ...]:
    item = row.item
    size = size_words(row.size) if item.action == "delete" else "-"
    return item.action, item.reason, item.deployment_id or item.path, size, row.why


def summary_of(planned: Planned) -> list[str]:
    """What the table comes to, the plan's digest, and the notes."""
    counts = dict.fromkeys(_ORDER, 0)
    for row in planned.rows:
        counts[row.item.action] += 1
    lines = [
        f"{counts['delete']} to delete ({size_words(planned.reclaimed_bytes)}), "
        f"{counts['protect']} protected, {counts['quarantine']} in quarantine"
    ]
    if len(planned.rows) > SHOWN_MAX:
        lines.append(f"the first {SHOWN_MAX} are shown; all of them: --format json")
    lines += [f"note: {warning}" for warning in planned.warnings]
    if planned.plan is not None:
        lines.append(f"plan {planned.plan.sha256}")
    return lines


def apply_command(
    plan: RetentionPlan, *, cache_root: str, given: Sequence[str], evidence: Sequence[str]
) -> str:
    """The command that applies a plan; the reviewer puts in the review id, one new UUID."""
    words = ["dpone", "airflow", "cache-retention-apply"]
    words += ["--cache-root", cache_root, "--environment", plan.environment]
    for deployment_id in given:
        words += ["--protect-deployment-id", deployment_id]
    for file in evidence:
        words += ["--evidence-file", file]
    words += ["--expected-plan-sha256", plan.sha256]
    quoted = " ".join(shlex.quote(word) for word in words)
    return (
        f'{quoted} --review-id "$REVIEW_ID" --promoted-by "$PROMOTER"'
        ' --allowed-promoter "$PROMOTER" --loader-ack-file "$LOADER_ACK_FILE"'
        " --evidence-version v3 --confirm-delete"
    )


def size_words(size: int) -> str:
    """Bytes for people."""
    value, unit = float(size), 0
    while value >= _STEP and unit < len(_UNITS) - 1:
        value, unit = value / _STEP, unit + 1
    return f"{size} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"
