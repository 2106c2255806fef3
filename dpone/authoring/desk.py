"""The authoring commands as one object: plan, report, apply, report.

Promise: without `apply` nothing is written at all; with it the report says what happened, whatever
happened. The command line and programs use the same object. Source: ADR 0023, commands and calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from dpone.authoring import report
from dpone.authoring.confined import ConfinedFiles, split
from dpone.authoring.draft import Draft
from dpone.authoring.leftovers import leftovers
from dpone.authoring.migrate import Migration, plan_migration
from dpone.authoring.publish import Publisher, Unpublished
from dpone.authoring.reading import Tree
from dpone.authoring.scaffold import Scaffold
from dpone.authoring.survey import check_bounds
from dpone.authoring.undo import all_beside, beside, tell_prior
from dpone.contracts.authoring import Status, sha256_of
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
from dpone.contracts.codec import replaced
from dpone.contracts.errors import EXIT_CLOSED, EXIT_DONE, DponeError
from dpone.contracts.errors_authoring import RecoveryRequired
from dpone.contracts.errors_project import EarlierChangeWaits, NothingNamed
from dpone.contracts.publication import Conclusion, FileOutcome, Publication
from dpone.contracts.run_report import ErrorReport
from dpone.ports.documents import Documents
from dpone.ports.files import Files
from dpone.ports.probe import Probe, quiet

Drafted = TypeVar("Drafted", Draft, Migration)

_ZERO = Counters()
_DECIDED = {
    Conclusion.IN_FORCE: Status.COMMITTED.value,
    Conclusion.WITHDRAW: Status.ROLLED_BACK.value,
    Conclusion.LEAVE: "left",
}


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
        # What concluding an earlier change, before anything was planned, left or kept.
        self.prior: list[FileOutcome] = []

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
        mode: Literal["plan", "apply"] = "apply" if apply else "plan"
        receipt = self.tree.receipt(plan.root.path)
        if details is not None:
            details = replaced(
                details,
                mode=mode,
                next_commands=next_commands,
                rollback_journal=receipt,
                unit_of_work=ended.unit,
            )
        return AuthoringReport(
            command=command,
            mode=mode,
            status=ended.status,
            passed=ended.exit_code == EXIT_DONE,
            plan_id=plan.plan_id,
            changes=report.in_use(ended.changes),
            unit_of_work=ended.unit,
            counters=ended.counters,
            warnings=(*draft.warnings, *self._pending(plan, apply=apply)),
            errors=ended.errors,
            next_commands=next_commands,
            details=details,
            rollback_journal=receipt,
            exit_code=ended.exit_code,
        )

    def migrate(self, path: str, to: str, *, declared: str, apply: bool) -> MigrationReport:
        """Plan or apply a migration between authoring forms."""
        migration = self.drafted(
            lambda: plan_migration(self.tree, self.documents, path, to, declared), apply=apply
        )
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

    def drafted(self, make: Callable[[], Drafted], *, apply: bool) -> Drafted:
        """What `make` plans; a file of an interrupted change in its way is concluded first.

        Raises what `make` raises, and without `apply` `EarlierChangeWaits` for such a file.
        """
        try:
            return make()
        except EarlierChangeWaits as error:
            root = str(error.fields["root"])
            if not apply:
                raise
        # What the root shows decides, so its own change comes first.
        found = self.confined.recover_file_transaction(root)
        names = tuple(beside(root, name) for name in found.names)
        if found.status is Status.RECOVERY_REQUIRED or found.cleanup_required:
            shown = all_beside(root, *found.names)
            raise RecoveryRequired(
                path=root, reason=found.reason, recovery_name=shown, newer=found.newer
            )
        self.prior += (_kept(root, name) for name in names if name)
        try:
            self.prior += Publisher(self.confined).conclude(root) or ()
            return make()
        except DponeError as error:
            tell_prior(error, self.prior)
            raise

    def recover(self, path: str, *, apply: bool, by_hand: bool) -> RecoveryReport:
        """Say whether a change of a file is pending, or finish it.

        Raises `NothingNamed` for a name that nothing bears and no interrupted change left.
        """
        is_pending = self.tree.is_pending(path)
        if not is_pending and not self.is_known(path):
            names = ", ".join(self._leftovers(path)) or "nothing"
            raise NothingNamed(path=path, leftovers=names)
        if apply:
            return self._recovered(path, by_hand=by_hand)
        return RecoveryReport(
            path=path,
            mode="plan",
            status="pending" if is_pending else "none",
            leftovers=self._leftovers(path),
        )

    def is_known(self, path: str) -> bool:
        """Whether something bears the name, or an interrupted change of it waits."""
        return self.tree.is_there(path) or self.tree.is_pending(path)

    def _recovered(self, path: str, *, by_hand: bool) -> RecoveryReport:
        found = self.confined.recover_file_transaction(path, by_hand=by_hand)
        # What the root shows decides, so its own change comes first.
        is_stuck = found.cleanup_required
        try:
            concluded = None if is_stuck else Publisher(self.confined).conclude(path)
        except DponeError as error:
            if found.found:
                error.after(kept=filter(None, (beside(path, name) for name in found.names)))
            raise
        status, reason = found.status.value, found.reason
        if concluded is not None and not found.found:
            # Its new files are the project's, or gone, by what the root shows.
            status, reason = _DECIDED[concluded.decided], "publication_concluded"
        is_open = found.status is Status.RECOVERY_REQUIRED
        kept = [beside(path, name) for name in found.sides]
        kept += [file.recovery_name for file in concluded or ()]
        return RecoveryReport(
            path=path,
            mode="apply",
            status=status,
            reason=reason,
            recovery_name=beside(path, found.recovery_name),
            changed_since=found.changed_since,
            newer=found.newer,
            cleanup_required=found.cleanup_required,
            kept=tuple(name for name in kept if name),
            stays=report.staying(concluded or ()),
            leftovers=self._leftovers(path),
            counters=Counters(
                rolled_back=int(status == Status.ROLLED_BACK.value),
                recovery_required=int(is_open),
            ),
            exit_code=EXIT_CLOSED if is_open or found.cleanup_required else EXIT_DONE,
        )

    def _leftovers(self, path: str) -> tuple[str, ...]:
        folder, _ = split(path)
        names = leftovers(self.confined.files, folder)
        return tuple(f"{folder}/{name}" if folder else name for name in names)

    def _ended(self, plan: Publication, *, apply: bool) -> _Ended:
        check_bounds(plan)
        if not apply:
            status = "no_op" if report.is_no_op(plan) else "ready"
            return _Ended(status, report.planned(plan), UnitOfWork(status="not_started"))
        error: DponeError | None = None
        try:
            outcome = Publisher(self.confined).publish(plan)
        except Unpublished as stopped:
            error, outcome = stopped.error, stopped.outcome
        except DponeError as refused:
            if self.prior:
                tell_prior(refused, self.prior)
            raise
        statuses = {Status.NONE: "no_op", Status.COMMITTED: "applied"}
        return _Ended(
            status=statuses.get(outcome.status, outcome.status.value),
            changes=report.applied(plan, outcome),
            unit=report.unit_of(outcome, self.prior),
            counters=report.counters_of(outcome),
            errors=() if error is None else (report.error_report(error, outcome),),
            exit_code=report.exit_of(outcome, error),
        )

    def _pending(self, plan: Publication, *, apply: bool) -> tuple[str, ...]:
        """A plan says that something waits for recovery, and leaves it alone."""
        if apply:
            return ()
        return tuple(
            f"an interrupted change of {change.path} waits: apply recovers it first, as does "
            f"dpone authoring recover {change.path} --apply"
            for change in plan.changes
            if self.tree.is_pending(change.path)
        )


def _kept(path: str, name: str) -> FileOutcome:
    return FileOutcome(
        path=path, action="preserved", reason="earlier_bytes_kept", recovery_name=name
    )


def _form(migration: Migration, *, is_source: bool) -> FormReport:
    side = migration.source if is_source else migration.target
    return FormReport(
        mode=side.form,
        semantic_fingerprint=migration.fingerprint,
        path=side.path,
        sha256=sha256_of(side.root.encode()),
    )
