"""The ordered apply of a reviewed plan: begin, delete each candidate, commit; or resume, or replay.

Promise: one operation id per reviewed plan and review id; nothing is deleted without an applying
receipt, and nothing twice; the receipt never leads the log; a committed receipt never changes.
Linearization point of a deletion: the rename into the trash. Source: ADR 0043, steps 1 to 18.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

from dpone.contracts import retention_receipt as receipts
from dpone.contracts.activation_history import ActivationHistory
from dpone.contracts.cache_layout import deployment_path
from dpone.contracts.effects import Effect
from dpone.contracts.errors_retention import (
    CurrentChanged,
    IncompleteOperation,
    PlanChanged,
    RecoveryInvalid,
    RecoveryJournalFailed,
    RetentionError,
)
from dpone.contracts.errors_retention_apply import OperationAborted
from dpone.contracts.retention_log import Intent
from dpone.contracts.retention_plan import RetentionPlan
from dpone.contracts.retention_receipt import LegacyReceipt, Receipt, ReceiptItem
from dpone.contracts.retention_wal import Transaction
from dpone.ports.files import FilesError
from dpone.retention.locks import Locks
from dpone.retention.receipts import Receipts
from dpone.retention.recover import Recovery
from dpone.retention.request import Applied, Request, Reviewer
from dpone.retention.scrub import Undeletable
from dpone.retention.transact import Drift, Transactions, reason_of
from dpone.retention.wal import Wal

PROGRESS_MAX = 60
R = TypeVar("R", Receipt, LegacyReceipt)
Others = Mapping[str, Receipt | LegacyReceipt]


class Applier:
    """Applies one request. The reconcile lock is held."""

    def __init__(
        self,
        request: Request,
        *,
        reviewer: Reviewer,
        store: Receipts,
        archived: Callable[[str], Receipt | None],
        wal: Wal,
        transactions: Transactions,
        locks: Locks,
        acknowledged: Callable[[], frozenset[str]] = frozenset,
        told: Callable[[int, int], None] = lambda _done, _all: None,
    ) -> None:
        self.request = request
        self.operation_id = request.operation_id
        self.reviewer = reviewer
        self.store = store
        self.archived = archived
        self.wal = wal
        self.transactions = transactions
        self.locks = locks
        self.recovery = Recovery(wal, transactions, locks)
        self.acknowledged = acknowledged
        self.told = told
        self.signature = ""
        # How far it came: `reading`, `closing` what is unfinished, or `begun`.
        self.stage = "reading"

    def run(self) -> Applied:
        """Replay, resume or begin. Raises a `RetentionError`; see its exit code."""
        self.store.clear()
        found = self.store.find(self.operation_id) or self.archived(self.operation_id)
        if isinstance(found, Receipt):
            if found.status != "applying":
                self._forget_finished(found)
            if found.status == "committed":
                return Applied(found, replayed=True)
            if found.status == "aborted":
                raise _aborted(found)
        self.wal.load()
        others = self._others()
        if isinstance(found, Receipt):
            for other in others.values():
                if isinstance(other, Receipt):
                    raise IncompleteOperation(operation_id=other.operation_id)
                self._abort(other, receipts.LEGACY_RECEIPT)
            return self._resume(found)
        return self._begin(others)

    def _forget_finished(self, receipt: Receipt) -> None:
        """A run that died after its end was durable may have left its transactions in the log.

        A log that cannot be read keeps nobody from an outcome that is told.
        """
        with suppress(RecoveryInvalid, RecoveryJournalFailed):
            own = self.wal.load().live(receipt.operation_id)
            self.wal.forget(it for it in own if self.transactions.is_settled(it))
            if self.wal.is_idle:
                self.wal.compact()

    def _others(self) -> dict[str, Receipt | LegacyReceipt]:
        """Step 2: other operations that have not ended."""
        return {
            receipt.operation_id: receipt
            for receipt in self.store.every()
            if receipt.status == "applying" and receipt.operation_id != self.operation_id
        }

    # -- a new operation

    def _begin(self, others: Others) -> Applied:
        self.signature = self.reviewer.signature()
        plan, closes = self._reviewed_plan(others)
        if not plan.delete_candidates:
            if closes:
                self._prepare(plan, closes, others)
            self._close(others, closes)
            return Applied(None, plan, stuck=self.recovery.retry_trash(self.operation_id))
        self.reviewer.check()
        self.reviewer.inspect(plan)
        _, history = self.reviewer.history()
        receipt = self._receipt(plan, history)
        self._check_capacity(receipt)
        self.stage = "closing"
        self._prepare(plan, closes, others)
        self._close(others, closes)
        self.stage = "begun"
        with self.locks.promotion():
            try:
                self._same_authority(receipt)
            except _Drifted as drift:
                raise CurrentChanged(reason=drift.reason) from drift
            self.store.save(receipt, Effect.RETENTION_BEGIN)
        self.reviewer.save_history(history)
        return self._delete_all(receipt)

    def _reviewed_plan(self, others: Others) -> tuple[RetentionPlan, tuple[tuple[str, str], ...]]:
        """Step 9. A run that died after its intent has settled some of what the plan named."""
        intent = self.wal.intent(self.operation_id)
        if intent is not None and intent.plan_sha256 == self.request.plan_sha256:
            closes, recovery = intent.closes, intent.recovery_revision
            # What went on since is not what was reviewed.
            if unnamed := [it for it in others if (it, others[it].receipt_revision) not in closes]:
                raise IncompleteOperation(operation_id=min(unnamed))
        else:
            closes = tuple(
                (operation, others[operation].receipt_revision) for operation in sorted(others)
            )
            recovery = self.wal.revision(
                outside=self.operation_id, acknowledged=self.acknowledged()
            )
        plan = self.reviewer.plan(recovery, closes)
        if intent is not None and plan.sha256 != self.request.plan_sha256:
            plan = self.reviewer.plan(recovery, closes, self._put_back(closes))
        if plan.sha256 != self.request.plan_sha256:
            if others:
                raise IncompleteOperation(operation_id=min(others))
            raise PlanChanged(found=plan.sha256, expected=self.request.plan_sha256)
        return plan, closes

    def _put_back(self, closes: Iterable[tuple[str, str]]) -> frozenset[str]:
        """What the run that died gave its name back, which the reviewed plan could not see."""
        closed = {operation for operation, _ in closes}
        return frozenset(
            it.deployment_id
            for it in self.wal.live()
            if it.operation_id in closed and self.transactions.was_put_back(it)
        )

    def _receipt(self, plan: RetentionPlan, history: ActivationHistory) -> Receipt:
        return receipts.begun(
            environment=self.request.environment,
            promoted_by=self.request.promoted_by,
            current_deployment_id=plan.current_deployment_id,
            plan_sha256=self.request.plan_sha256,
            review_id=self.request.review_id,
            protected_ids=plan.protected_deployment_ids,
            recovery_revision=plan.recovery,
            history_revision=history.revision,
            items=tuple(
                ReceiptItem(
                    deployment_id=item.deployment_id,
                    action="pending" if item.action == "delete" else "skipped",
                    reason=item.reason,
                    path=item.path,
                    error_code=item.error_code,
                )
                for item in plan.items
            ),
        )

    def _check_capacity(self, receipt: Receipt) -> None:
        from dpone.retention.capacity import check_capacity

        check_capacity(receipt, self.store, self.recovery.unsettled)

    def _prepare(
        self, plan: RetentionPlan, closes: tuple[tuple[str, str], ...], others: Others
    ) -> None:
        """Step 10: the occurrence of every candidate, in one record.

        The same record forgets what others prepared who never began.
        """
        self.wal.shorten()
        prepared = []
        for deployment_id in plan.delete_candidates:
            record = self.transactions.prepare(
                self.request.environment, deployment_id, self.operation_id
            )
            if record is None:
                raise PlanChanged(found="another", expected=self.request.plan_sha256)
            prepared.append(record)
        intent = Intent(
            operation_id=self.operation_id,
            plan_sha256=self.request.plan_sha256,
            recovery_revision=plan.recovery,
            closes=closes,
        )
        idle = self.recovery.idle(self.operation_id)
        never_began = (it for it in idle if it.operation_id not in {None, *others})
        self.wal.prepare(intent, prepared, never_began)

    def _close(self, others: Others, closes: tuple[tuple[str, str], ...]) -> None:
        """Settle and abort what the reviewed plan closes; what has no receipt settles too."""
        for operation, _ in closes:
            receipt = others.get(operation)
            if isinstance(receipt, Receipt):
                self._abort(receipt, receipts.CLOSED_BY_PLAN)
            elif receipt is not None:
                self._abort(receipt, receipts.LEGACY_RECEIPT)
        for transaction in self.wal.open():
            if transaction.operation_id != self.operation_id:
                self.recovery.settle(transaction, forward=False)
        # Nobody who could still need these is applying any more.
        self.wal.forget(self.recovery.idle(self.operation_id))

    # -- resuming

    def _resume(self, receipt: Receipt) -> Applied:
        """Steps 6, 8 and 11."""
        self.stage = "begun"
        self.signature = self.reviewer.signature()
        reason = self._drift(receipt) or self._came_back(receipt)
        if reason:
            raise _aborted(self._abort(receipt, reason))
        present, prospective = self.reviewer.history()
        if present is None or present.revision != receipt.activation_history_revision:
            if prospective.revision != receipt.activation_history_revision:
                raise _aborted(self._abort(receipt, receipts.AUTHORITY_CHANGED))
            self.reviewer.save_history(prospective)
        return self._delete_all(receipt)

    def _drift(self, receipt: Receipt) -> str:
        """Why the receipt may not go on; empty when authority is what was reviewed."""
        try:
            self.reviewer.check()
        except RetentionError as error:
            if error.exit_code != 1:
                raise
            return receipts.AUTHORITY_CHANGED
        protected = self.reviewer.protected()
        pending = {item.deployment_id for item in receipt.pending}
        if pending & set(protected):
            return receipts.BECAME_PROTECTED
        same = self.reviewer.current() == receipt.current_deployment_id
        if not same or protected != receipt.reviewed_protected_deployment_ids:
            return receipts.AUTHORITY_CHANGED
        return ""

    def _came_back(self, receipt: Receipt) -> str:
        """Step 14, of what the receipt calls deleted: something bears its name again."""
        names = (deployment_path(receipt.environment, it) for it in receipt.deleted_ids)
        is_back = any(not self.transactions.is_free(path) for path in names)
        return receipts.OCCURRENCE_CHANGED if is_back else ""

    def _same_authority(self, receipt: Receipt) -> None:
        """Every acquisition of the promotion lock reads again. Raises `_Drifted`."""
        signature = self.reviewer.signature()
        if signature == self.signature:
            return
        reason = self._drift(receipt)
        if reason:
            raise _Drifted(reason)
        self.signature = signature

    # -- steps 12 to 18

    def _delete_all(self, receipt: Receipt) -> Applied:
        by_id = {it.deployment_id: it for it in self.wal.live(self.operation_id)}
        pending = receipt.pending
        every = max(1, -(-len(pending) // PROGRESS_MAX))
        deleted: list[str] = []
        causes: dict[str, str] = {}
        for number, item in enumerate(pending, 1):
            assert item.deployment_id is not None
            transaction = by_id.get(item.deployment_id)
            try:
                if transaction is None:
                    raise _Drifted(self._unknown())
                self._delete(receipt, transaction)
                deleted.append(item.deployment_id)
                # Step 14: what came back under the name is another occurrence.
                if number < len(pending) and not self.transactions.is_name_free(transaction):
                    raise _Drifted(receipts.OCCURRENCE_CHANGED)
            except _Drifted as drift:
                raise _aborted(self._abort(receipt, drift.reason)) from drift
            except Undeletable as error:
                causes[item.deployment_id] = error.reason
            if number % every == 0 and number < len(pending):
                receipt = self._advance(receipt, deleted, causes)
            self.told(number, len(pending))
        return self._finish(receipt, deleted, causes)

    def _delete(self, receipt: Receipt, transaction: Transaction) -> None:
        """Steps 13 to 15. Raises `_Drifted`, `Undeletable`."""
        if transaction.phase == "committed":
            return
        if transaction.phase in ("restored", "blocked"):
            raise _Drifted(receipts.RECOVERY_RESTORED)
        if transaction.phase in ("prepared", "detached"):
            with self.locks.promotion():
                self._same_authority(receipt)
                self._detach(transaction)
                # What is in the trash counts as detached without this record too.
                transaction = self.wal.move(transaction, "detached", forced=False)
        self.transactions.delete(transaction)

    def _detach(self, transaction: Transaction) -> None:
        is_there = self.transactions.in_trash(transaction)
        if is_there or (transaction.phase == "detached" and self.transactions.is_gone(transaction)):
            self.transactions.finish_detach(transaction)
            return
        try:
            self.transactions.detach(transaction)
        except Drift as error:
            raise _Drifted(receipts.OCCURRENCE_CHANGED) from error
        except FilesError as error:
            raise Undeletable(reason_of(error)) from error

    def _advance(self, receipt: Receipt, deleted: list[str], causes: Mapping[str, str]) -> Receipt:
        """Step 16: the receipt after the log."""
        receipt = receipts.advanced(receipt, deleted=deleted, causes=causes)
        self.store.save(receipt, Effect.RETENTION_PROGRESS)
        return receipt

    def _finish(self, receipt: Receipt, deleted: list[str], causes: dict[str, str]) -> Applied:
        """Step 17: commit, then let the log forget."""
        receipt = receipts.advanced(receipt, deleted=deleted, causes=causes)
        if receipt.pending:
            self.store.save(receipt, Effect.RETENTION_PROGRESS)
            return Applied(receipt, causes=causes)
        receipt = receipts.committed(receipt)
        self.store.save(receipt, Effect.RETENTION_COMMIT)
        self.wal.forget(self.wal.live(self.operation_id))
        stuck = self.recovery.retry_trash(self.operation_id)
        self.wal.compact()
        return Applied(receipt, stuck=stuck)

    def _unknown(self) -> str:
        """Why a pending item has no transaction of its own."""
        is_legacy = any(it.operation_id is None for it in self.wal.open())
        return receipts.LEGACY_WAL if is_legacy else receipts.OCCURRENCE_CHANGED

    def _abort(self, receipt: R, reason: str) -> R:
        """Settle every tree, absorb what the log confirmed, close, and only then forget."""
        own = self.wal.live(receipt.operation_id)
        for transaction in own:
            self.recovery.settle(transaction, forward=False)
        own = self.wal.live(receipt.operation_id)
        committed = [it.deployment_id for it in own if it.phase == "committed"]
        closed = receipts.aborted(receipts.advanced(receipt, deleted=committed), reason)
        self.store.save(closed, Effect.RETENTION_ABORT)
        self.wal.forget(it for it in own if self.transactions.is_settled(it))
        return closed


class _Drifted(Exception):
    """Authority, protection or occurrence is not what was reviewed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _aborted(receipt: Receipt) -> OperationAborted:
    reasons = [item.reason for item in receipt.items if item.reason in receipts.ABORT_REASONS]
    return OperationAborted(
        operation_id=receipt.operation_id,
        reason=reasons[0] if reasons else "closed",
        deleted=len(receipt.deleted_ids),
    )
