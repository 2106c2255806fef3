"""The authoring commands as one object: plan, report, apply, report.

Promise: without `apply` nothing is written at all; with it the report says what happened, whatever
happened. The command line and programs use the same object. Source: ADR 0023, public contract.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpone.authoring import report
from dpone.authoring.confined import ConfinedFiles
from dpone.authoring.draft import Draft
from dpone.authoring.migrate import Migration, plan_migration
from dpone.authoring.publish import Publisher, Unpublished
from dpone.authoring.reading import Tree
from dpone.authoring.scaffold import Scaffold
from dpone.authoring.undo import beside
from dpone.contracts.authoring import ConfinedRecoveryOutcome, Status, sha256_of
from dpone.contracts.authoring_report import (
    AuthoringReport,
    ChangeReport,
    Counters,
    FormReport,
    MigrationReport,
    RecoveryReport,
    UnitOfWork,
    WorkloadDetails,
)
from dpone.contracts.errors import EXIT_CLOSED, EXIT_DONE, DponeError
from dpone.contracts.errors_authoring import SourceMissing
from dpone.contracts.publication import Publication
from dpone.contracts.run_report import ErrorReport
from dpone.ports.documents import Documents
from dpone.ports.files import Files
from dpone.ports.probe import Probe, quiet

_ZERO = Counters()


@dataclass(frozen=True, slots=True)
class _Ended:
    """A plan after its apply, or before it."""

    status: str
    changes: tuple[ChangeReport, ...]
    unit: UnitOfWork
    counters: Counters = _ZERO
    errors: tuple[ErrorReport, ...] = ()
    exit_code: int = EXIT_DONE


class Desk:
    """Plans and applies changes of one project."""

    def __init__(
        self,
        files: Files,
        documents: Documents,
        *,
        probe: Probe = quiet,
        accept_unproven: bool = False,
    ) -> None:
        self.confined = ConfinedFiles(files, probe=probe, accept_unproven=accept_unproven)
        self.documents = documents
        self.tree = Tree(self.confined)
        self.scaffold = Scaffold(self.tree, documents)

    def run(
        self,
        command: str,
        draft: Draft,
        *,
        apply: bool,
        next_commands: tuple[str, ...] = (),
        details: WorkloadDetails | None = None,
    ) -> AuthoringReport:
        """Report a plan, or apply it and report that.

        Raises a `DponeError` for what is refused before the first change.
        """
        plan = draft.publication()
        ended = self._ended(plan, apply=apply)
        return AuthoringReport(
            command=command,
            mode="apply" if apply else "plan",
            status=ended.status,
            passed=ended.exit_code == EXIT_DONE,
            plan_id=plan.plan_id,
            changes=ended.changes,
            unit_of_work=ended.unit,
            counters=ended.counters,
            warnings=(*draft.warnings, *self._pending(plan, apply=apply)),
            errors=ended.errors,
            next_commands=next_commands,
            details=details,
            exit_code=ended.exit_code,
        )

    def migrate(self, path: str, to: str, *, declared: str, apply: bool) -> MigrationReport:
        """Plan or apply a migration between authoring forms."""
        migration = plan_migration(self.tree, self.documents, path, to, declared)
        plan = migration.draft.publication()
        ended = self._ended(plan, apply=apply)
        return MigrationReport(
            passed=ended.exit_code == EXIT_DONE,
            mode="apply" if apply else "plan",
            status=ended.status,
            plan_id=plan.plan_id,
            source=_form(migration, is_source=True),
            target=_form(migration, is_source=False),
            changes=ended.changes,
            retained_files=migration.retained,
            warnings=(*migration.draft.warnings, *self._pending(plan, apply=apply)),
            errors=ended.errors,
            unit_of_work=ended.unit,
            counters=ended.counters,
            exit_code=ended.exit_code,
        )

    def recover(self, path: str, *, apply: bool, by_hand: bool) -> RecoveryReport:
        """Say whether a change of a file is pending, or finish it."""
        if not apply:
            is_pending = self.tree.is_pending(path)
            return RecoveryReport(
                path=path, mode="plan", status="pending" if is_pending else "none"
            )
        try:
            found = self.confined.recover_file_transaction(path, by_hand=by_hand)
        except SourceMissing:
            # Its folder is not there, so nothing can wait in it.
            found = ConfinedRecoveryOutcome(found=False)
        # What the root shows decides, so its own change comes first.
        is_stuck = found.cleanup_required
        concluded = None if is_stuck else Publisher(self.confined).conclude(path)
        if concluded is not None and not found.found:
            # Its new files are the project's, or gone, by what the root shows.
            found = ConfinedRecoveryOutcome(
                found=True, status=Status.ROLLED_BACK, reason="publication_concluded"
            )
        is_open = found.status is Status.RECOVERY_REQUIRED
        return RecoveryReport(
            path=path,
            mode="apply",
            status=found.status.value,
            reason=found.reason,
            recovery_name=beside(path, found.recovery_name),
            changed_since=found.changed_since,
            newer=found.newer,
            cleanup_required=found.cleanup_required,
            kept=tuple(f.recovery_name for f in concluded or () if f.recovery_name),
            counters=Counters(
                rolled_back=int(found.status is Status.ROLLED_BACK),
                recovery_required=int(is_open),
            ),
            exit_code=EXIT_CLOSED if is_open or found.cleanup_required else EXIT_DONE,
        )

    def _ended(self, plan: Publication, *, apply: bool) -> _Ended:
        if not apply:
            status = "no_op" if report.is_no_op(plan) else "ready"
            return _Ended(status, report.planned(plan), UnitOfWork(status="not_started"))
        error: DponeError | None = None
        try:
            outcome = Publisher(self.confined).publish(plan)
        except Unpublished as stopped:
            error, outcome = stopped.error, stopped.outcome
        statuses = {Status.NONE: "no_op", Status.COMMITTED: "applied"}
        return _Ended(
            status=statuses.get(outcome.status, outcome.status.value),
            changes=report.applied(plan, outcome),
            unit=report.unit_of(outcome),
            counters=report.counters_of(outcome),
            errors=() if error is None else (report.error_report(error),),
            exit_code=report.exit_of(outcome, error),
        )

    def _pending(self, plan: Publication, *, apply: bool) -> tuple[str, ...]:
        """A plan says that something waits for recovery, and leaves it alone."""
        if apply:
            return ()
        return tuple(
            f"an interrupted change of {change.path} waits: apply recovers it first"
            for change in plan.changes
            if self.tree.is_pending(change.path)
        )


def _form(migration: Migration, *, is_source: bool) -> FormReport:
    side = migration.source if is_source else migration.target
    return FormReport(
        mode=side.form,
        semantic_fingerprint=migration.fingerprint,
        path=side.path,
        sha256=sha256_of(side.root.encode()),
    )
