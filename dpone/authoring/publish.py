"""Publishing several files: new ones first, then edits, and the root last.

Promise: killed at any point, the next apply of the same plan completes it or refuses; an apply of
another plan removes exactly what the first one had created. A file that somebody else changed or
replaced meanwhile is theirs. Linearization point: the root's exchange, or its getting its name.
Source: ADR 0023, multi-file authoring apply.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NoReturn

from dpone.authoring.confined import ConfinedFiles, split
from dpone.authoring.fit import refusal
from dpone.authoring.fragments import Fragments, New
from dpone.authoring.leftovers import sides_beside
from dpone.authoring.receipts import find_receipt
from dpone.authoring.record import Place, unsettled
from dpone.authoring.survey import Survey, check_bounds, digest_of
from dpone.authoring.undo import Undo, all_beside, kept_before, tell_prior
from dpone.contracts.authoring import Kind, Status
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_authoring import (
    AuthoringError,
    ChangeStopped,
    RecoveryRequired,
    SourceChanged,
    SourceMissing,
    TransactionInProgress,
)
from dpone.contracts.publication import (
    Change,
    Concluded,
    Conclusion,
    FileOutcome,
    Publication,
    PublishOutcome,
)
from dpone.ports.files import FilesError, NameMissing


@dataclass(slots=True)
class _Work:
    """What one publication has done so far."""

    stack: ExitStack
    new: Fragments
    edited: list[Change] = field(default_factory=list)
    files: dict[str, FileOutcome] = field(default_factory=dict)
    prior: list[FileOutcome] = field(default_factory=list)

    def outcomes(self, plan: Publication) -> tuple[FileOutcome, ...]:
        """What became of each file of a plan that did not come to its end."""
        return tuple(
            self.files.get(change.path, FileOutcome(path=change.path, action="not_applied"))
            for change in plan.changes
        )


class Unpublished(Exception):
    """Publishing stopped: `error` is why, `outcome` is what was done and undone."""

    def __init__(self, error: DponeError, outcome: PublishOutcome) -> None:
        super().__init__(str(error))
        self.error = error
        self.outcome = outcome


class Publisher:
    """Publishes plans through confined changes of single files."""

    def __init__(self, confined: ConfinedFiles) -> None:
        self.confined = confined
        self.files = confined.files
        self.probe = confined.probe

    def publish(self, plan: Publication) -> PublishOutcome:
        """Put a plan in force, all of it or nothing.

        Raises an `AuthoringError` for what is refused before the first change; the tree is then
        as it was. Afterwards there is an outcome, or `Unpublished` with the error and an outcome.
        """
        check_bounds(plan)
        with ExitStack() as stack:
            work = _Work(stack, Fragments(self.files, self.probe, stack))
            undo = Undo(self.confined, work.files)
            survey = Survey(self.files, self.probe)
            try:
                self._take_over(plan, work)
                missing = survey.check(plan, work.files)
            except DponeError as error:
                self._refused(plan, work, error)
            if self._is_done(plan, work):
                return self._finished(plan, work)
            try:
                work.new.prepare(plan, missing, self.confined.nonces())
                self._create(plan, work)
                self._edit(plan, work)
                self._revalidate(plan, work)
                self._activate(plan, work)
            except (DponeError, FilesError) as error:
                self._undone(plan, work, undo, error)
            except Exception as error:
                # A defect of ours: what was done stays as the durable receipts say.
                stopped = ChangeStopped(kind=type(error).__name__, path=plan.root.path)
                raise Unpublished(stopped, self._stopped(plan, work, stopped)) from error
            return self._finished(plan, work)

    # -- what an earlier run left

    def _take_over(self, plan: Publication, work: _Work) -> None:
        """Conclude what a dead run left here: its new files go, unless its root is in force.

        The same plan then creates them again; another plan finds nothing of the first one.
        """
        self._recover(plan, work)
        for change in (*plan.edits, plan.root):
            self._conclude(change.path, work)
        # Of what stays, this plan's own files are told as such.
        own = {change.path for change in plan.changes}
        is_told = ("shared", "not_owned")
        work.prior = [
            file
            for file in work.prior
            if file.recovery_name or file.path not in own or file.reason not in is_told
        ]

    def conclude(self, path: str) -> Concluded | None:
        """Conclude a dead run's publication whose root is this file; None when there is none.

        `decided` of what is returned says what its new files came to: IN_FORCE, they stay under
        their root; WITHDRAW, those that were still the run's own are gone; LEAVE, somebody changed
        the root and they stay as they are. The items are every file that stays although the root
        does not stand on it, by path with the reason (`root_changed`, `not_owned`, `shared`), and
        every one of which bytes were kept under another name. Raises an `AuthoringError` for what
        cannot be concluded.
        """
        with ExitStack() as stack:
            work = _Work(stack, Fragments(self.files, self.probe, stack))
            try:
                decided = self._conclude(path, work)
            except DponeError as error:
                if work.prior:
                    tell_prior(error, work.prior)
                raise
            return None if decided is None else Concluded(work.prior, decided)

    def _conclude(self, path: str, work: _Work) -> Conclusion | None:
        """Conclude the publication whose receipt lies beside a file; None when there was none."""
        parent, leaf = split(path)
        try:
            folder = work.stack.enter_context(self.files.folder(parent))
            found = find_receipt(Place(folder, leaf, self.probe), self.confined.nonces())
        except NameMissing:
            return None
        except FilesError as error:
            raise refusal(error, path) from error
        if found is None:
            return None
        if isinstance(found, str):
            names = all_beside(path, found, *sides_beside(folder))
            raise RecoveryRequired(path=path, reason="receipt_invalid", recovery_name=names)
        work.stack.callback(found.record.close)
        # What became of its files is not what becomes of this plan's.
        became: dict[str, FileOutcome] = {}
        undo = Undo(self.confined, became)
        failed = None
        try:
            decided, prior = undo.conclude(found)
            work.prior += prior
            failed = next((issue for issue in prior if issue.action == "failed"), None)
        except FilesError as error:
            failed = FileOutcome(path=path, action="failed", reason=error.reason)
            work.prior += undo.kept
        work.prior += [file for file in became.values() if file.recovery_name or file.stays]
        if failed is not None:
            # Its receipt lies beside this root, whichever of its files could not be concluded.
            raise RecoveryRequired(
                path=failed.path,
                root=path,
                reason=failed.reason,
                recovery_name=failed.recovery_name or "none",
            )
        return decided

    def _recover(self, plan: Publication, work: _Work) -> None:
        for change in plan.changes:
            try:
                found = self.confined.recover_file_transaction(change.path)
            except SourceMissing:
                # Its folder is not there yet.
                continue
            if found.status is Status.RECOVERY_REQUIRED:
                raise RecoveryRequired(
                    path=change.path,
                    reason=found.reason,
                    recovery_name=all_beside(change.path, *found.names),
                    newer=found.newer,
                )
            if found.recovery_name:
                work.prior.append(_kept(change.path, found.recovery_name))

    def _is_done(self, plan: Publication, work: _Work) -> bool:
        return len(work.files) == len(plan.changes)

    # -- algorithm steps 2 to 4

    def _create(self, plan: Publication, work: _Work) -> None:
        for change in (*plan.fragments, *plan.edits):
            new = work.new.of(change)
            if new is not None:
                self._name(new, work)

    def _name(self, new: New, work: _Work) -> None:
        try:
            is_ours = work.new.name(new)
            if not is_ours:
                work.files[new.change.path] = FileOutcome(path=new.change.path, action="no_op")
        finally:
            if new.entry in work.new.named:
                work.files[new.change.path] = FileOutcome(path=new.change.path, action="create")

    def _edit(self, plan: Publication, work: _Work) -> None:
        for change in plan.edits:
            if change.path not in work.files:
                self._replace(change, work)

    def _replace(self, change: Change, work: _Work) -> None:
        outcome = self.confined.replace_file_if_digest(
            change.path, expected_sha256=change.before_sha256 or "", desired=change.after
        )
        parent, _ = split(change.path)
        kept = outcome.recovery_name
        name = f"{parent}/{kept}" if kept and parent else kept
        work.prior += [_kept(change.path, leaf) for leaf in outcome.also_kept]
        if outcome.status is Status.RECOVERY_REQUIRED:
            work.files[change.path] = FileOutcome(
                path=change.path,
                action="recovery_required",
                reason=outcome.reason,
                recovery_name=name,
            )
            raise RecoveryRequired(
                path=change.path,
                reason=outcome.reason,
                recovery_name=name or "none",
                newer=outcome.newer,
            )
        if not outcome.committed:
            work.files[change.path] = FileOutcome(
                path=change.path, action="preserved", reason=outcome.reason, recovery_name=name
            )
            raise SourceChanged(path=change.path)
        work.files[change.path] = FileOutcome(
            path=change.path,
            action="update" if outcome.changed else "no_op",
            reason="cleanup_required" if outcome.cleanup_required else outcome.reason,
            recovery_name=name,
        )
        if outcome.changed:
            work.edited.append(change)

    def _revalidate(self, plan: Publication, work: _Work) -> None:
        """Algorithm step 3: everything that the root will rely on is still what was planned."""
        owned = {entry.path: entry for entry in work.new.named}
        for change in (*plan.fragments, *plan.edits):
            with self.confined.place(change.path) as place:
                look = place.folder.look(place.leaf)
                entry = owned.get(change.path)
                is_same = look is not None and look.kind is Kind.FILE
                if is_same and entry is not None and look is not None:
                    is_same = look.identity == entry.identity
                if not is_same or digest_of(place) != change.after_sha256:
                    raise SourceChanged(path=change.path)
                if change.shared and entry is None:
                    work.new.rely_on(place)

    def _activate(self, plan: Publication, work: _Work) -> None:
        """Algorithm step 4: the root puts everything in force."""
        if plan.root.path in work.files:
            return
        if plan.root.is_new:
            new = work.new.of(plan.root)
            assert new is not None
            self._name(new, work)
        else:
            self._replace(plan.root, work)

    # -- the end

    def _finished(self, plan: Publication, work: _Work) -> PublishOutcome:
        issues = list(work.prior)
        # A root that a power cut may yet take back still needs the receipt of what it names.
        is_open = work.files[plan.root.path].reason == "cleanup_required"
        if work.new.receipt is not None and not is_open:
            try:
                work.new.receipt.settle()
            except FilesError as error:
                issues.append(_issue(plan.root.path, error.reason))
        files = tuple(work.files[change.path] for change in plan.changes)
        is_pending = any(f.reason == "cleanup_required" for f in files)
        is_changed = any(f.action != "no_op" for f in files)
        return PublishOutcome(
            status=Status.COMMITTED if is_changed else Status.NONE,
            plan_id=plan.plan_id,
            files=files,
            issues=tuple(issues),
            cleanup_required=is_pending or any(i.action == "failed" for i in issues),
            reason="committed" if is_changed else "already_identical",
        )

    def _stopped(self, plan: Publication, work: _Work, error: DponeError) -> PublishOutcome:
        return PublishOutcome(
            status=Status.RECOVERY_REQUIRED,
            plan_id=plan.plan_id,
            files=work.outcomes(plan),
            issues=tuple(work.prior),
            cleanup_required=True,
            reason=error.code,
        )

    def _undone(
        self, plan: Publication, work: _Work, undo: Undo, error: DponeError | FilesError
    ) -> NoReturn:
        """Algorithm steps 5 and 6: nothing of ours stays, unless the root may be in force."""
        shown = error if isinstance(error, DponeError) else refusal(error, plan.root.path)
        is_unknown = isinstance(shown, RecoveryRequired) or plan.root.path in {
            entry.path for entry in work.new.named
        }
        issues = [*work.prior, *kept_before(shown, plan.root.path)]
        if not is_unknown:
            if isinstance(shown, TransactionInProgress):
                # Whoever is at it may be about to use a folder that we made first.
                work.new.folders.clear()
            issues += undo.compensate(work.edited, work.new)
            if not isinstance(shown, TransactionInProgress):
                issues += self._left(plan)
        outcome = PublishOutcome(
            status=Status.RECOVERY_REQUIRED
            if is_unknown or any(i.action == "failed" for i in issues)
            else Status.ROLLED_BACK,
            plan_id=plan.plan_id,
            files=work.outcomes(plan),
            issues=tuple(issues),
            cleanup_required=is_unknown or any(i.action == "failed" for i in issues),
            reason=shown.code,
        )
        raise Unpublished(shown, outcome) from error

    def _refused(self, plan: Publication, work: _Work, error: DponeError) -> NoReturn:
        """Before the first change: what recovery kept or concluded is told beside the refusal."""
        if not work.prior:
            raise error
        is_open = isinstance(error, RecoveryRequired)
        outcome = PublishOutcome(
            status=Status.RECOVERY_REQUIRED if is_open else Status.ROLLED_BACK,
            plan_id=plan.plan_id,
            files=work.outcomes(plan),
            issues=tuple(work.prior),
            cleanup_required=is_open,
            reason=error.code,
        )
        raise Unpublished(tell_prior(error, work.prior), outcome) from error

    def _left(self, plan: Publication) -> list[FileOutcome]:
        """Journals and drafts that could not be cleared: the next run does, and is told of.

        Where nobody can look, one may be left. A receipt that stays is told by what stays with it.
        """
        found = []
        for change in (*plan.edits, plan.root):
            try:
                with self.confined.place(change.path) as place:
                    if any(place.folder.look(name) is not None for name in unsettled(place)):
                        found.append(_issue(change.path, "cleanup_required"))
            except SourceMissing:
                continue
            except AuthoringError as error:
                found.append(_issue(change.path, str(error.fields.get("reason", error.code))))
        return found


def _kept(path: str, leaf: str) -> FileOutcome:
    """Bytes that the recovery of an earlier run kept."""
    parent, _ = split(path)
    name = f"{parent}/{leaf}" if parent else leaf
    return FileOutcome(
        path=path, action="preserved", reason="earlier_bytes_kept", recovery_name=name
    )


def _issue(path: str, reason: str) -> FileOutcome:
    return FileOutcome(path=path, action="failed", reason=reason)
