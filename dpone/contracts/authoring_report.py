"""What the authoring commands print for machines: one closed, versioned object each.

Promise: paths are project-relative, diffs are bounded, and values that look like secrets are
struck out of them. Source: ADR 0023, commands and calls; the shapes in use.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from dpone.contracts.run_report import ErrorReport

DIFF_CHARS_MAX = 16 * 1024


class ChangeReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One file: `action` is create, modify, no_op or what became of it in an apply."""

    action: str
    path: str
    before_sha256: str | None
    after_sha256: str
    unified_diff: str = ""
    message: str = ""
    recovery_name: str | None = None


class FileReport(ChangeReport, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One file in the answers of `dpone init` and `dpone catalog`; `diff` repeats `unified_diff`.

    Programs that read the older `dpone workload init` look for that name.
    """

    diff: str = ""


class UnitOfWork(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the change as a whole ended.

    `issues`: what could not be undone or cleared. `stays`: files of an earlier, interrupted change
    that nobody may take away but a person.
    """

    status: Literal["not_started", "committed", "rolled_back", "recovery_required"]
    recovery_artifacts: tuple[str, ...] = ()
    issues: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()


class Counters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The three counters that metrics distinguish."""

    committed_cleanup_required: int = 0
    rolled_back: int = 0
    recovery_required: int = 0


class WorkloadDetails(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `dpone init workload` planned, by name.

    The last four repeat fields of the answer, where programs that read the older
    `dpone workload init` look for them.
    """

    layout: str
    domain: str
    workload_id: str
    dag_id: str | None
    workload_set: str
    manifest: str
    validation: dict[str, str]
    mode: Literal["plan", "apply"] = "plan"
    next_commands: tuple[str, ...] = ()
    rollback_journal: str | None = None
    unit_of_work: UnitOfWork = UnitOfWork(status="not_started")


class AuthoringReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A plan or a receipt of `dpone init` and `dpone catalog apply`.

    `status`: ready, no_op, applied, rolled_back or recovery_required; what is refused before a plan
    is an error report instead. `rollback_journal` names the durable receipt while it is there.
    """

    command: str
    mode: Literal["plan", "apply"]
    status: str
    passed: bool
    plan_id: str
    changes: tuple[FileReport, ...]
    unit_of_work: UnitOfWork
    counters: Counters = Counters()
    warnings: tuple[str, ...] = ()
    errors: tuple[ErrorReport, ...] = ()
    next_commands: tuple[str, ...] = ()
    details: WorkloadDetails | None = None
    rollback_journal: str | None = None
    exit_code: int = 0
    schema: str = "dpone.authoring-report.v1"


class FormReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One side of a migration: its form, its meaning, and its root where there is one."""

    mode: str
    semantic_fingerprint: str
    path: str | None = None
    sha256: str | None = None


class MigrationReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A plan or a receipt of `dpone authoring migrate`.

    `status`: ready, no_op, applied, rolled_back or recovery_required; what is refused before a plan
    is an error report instead.
    """

    passed: bool
    mode: Literal["plan", "apply"]
    status: str
    plan_id: str
    source: FormReport
    target: FormReport
    changes: tuple[ChangeReport, ...]
    retained_files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    errors: tuple[ErrorReport, ...] = ()
    unit_of_work: UnitOfWork = UnitOfWork(status="not_started")
    counters: Counters = Counters()
    exit_code: int = 0
    kind: str = "authoring_migration"
    schema: str = "dpone.authoring-migration.v1"


class RecoveryReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `dpone authoring recover` found, and with `--apply` did.

    `status`: none, pending, committed, rolled_back, left (somebody changed the root since) or
    recovery_required. Of the other files of an interrupted publication, `kept` names what was kept
    and `stays` what was left where it is. `leftovers` lie in the file's folder, and nothing waits
    for them: a person may look at them, or delete them. All names are project-relative.
    """

    path: str
    mode: Literal["plan", "apply"]
    status: str
    reason: str = ""
    recovery_name: str | None = None
    kept: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    changed_since: bool = False
    newer: str = ""
    cleanup_required: bool = False
    counters: Counters = Counters()
    exit_code: int = 0
    schema: str = "dpone.authoring-recovery.v1"
