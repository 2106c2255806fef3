"""Recovery of transactions: forward when authority is what it was, back when it is not.

Promise: what has begun to be deleted is deleted to its end; what was only detached rolls forward
for its own applying receipt, and otherwise gets its name back if that is free; nothing that bears a
canonical name is touched. A tree that cannot be deleted blocks nobody. Source: ADR 0043, step 2,
section recovery.
"""

from __future__ import annotations

from dpone.contracts.retention_receipt import RECOVERY_RESTORED
from dpone.contracts.retention_wal import ENDED, Transaction
from dpone.retention.locks import Locks
from dpone.retention.scrub import Undeletable
from dpone.retention.transact import Transactions
from dpone.retention.wal import Wal

STARTED = ("deletion_started", "deployment_deleted", "activation_deleted")


class Recovery:
    """Settles transactions that a dead process left."""

    def __init__(self, wal: Wal, transactions: Transactions, locks: Locks) -> None:
        self.wal = wal
        self.transactions = transactions
        self.locks = locks

    def settle(self, transaction: Transaction, *, forward: bool) -> None:
        """Bring a transaction to an end, or leave it `prepared` at its name.

        `forward`: authority and protection are those of its own applying receipt. A tree that
        cannot be deleted stays `deletion_started`.
        """
        if transaction.phase in ENDED or transaction.phase == "blocked":
            return
        if transaction.phase in STARTED:
            self._delete(transaction)
            return
        if not self.transactions.in_trash(transaction):
            self._settle_unknown(transaction)
            return
        if forward:
            self.roll_forward(transaction)
            return
        with self.locks.promotion():
            is_back = self.transactions.is_name_free(transaction) and self.transactions.restore(
                transaction, RECOVERY_RESTORED
            )
        if not is_back:
            self.roll_forward(transaction)

    def _settle_unknown(self, transaction: Transaction) -> None:
        """It is not in the trash: never moved, put back by hand, gone, or of another device now.

        What lies under its secret name in our own directory was moved there by us; where it cannot
        be proved to be the reviewed occurrence it gets its name back, and is never deleted.
        """
        if transaction.phase == "detached" and self.transactions.is_gone(transaction):
            self._delete(transaction)
            return
        is_moved = transaction.phase == "detached"
        if not is_moved and self.transactions.is_free(transaction.detached):
            return
        with self.locks.promotion():
            is_back = is_moved and self.transactions.is_at_its_name(transaction)
            if is_back or self.transactions.is_name_free(transaction):
                self.transactions.restore(transaction, RECOVERY_RESTORED)

    def roll_forward(self, transaction: Transaction) -> None:
        """Delete what is in the trash, its activation too unless something uses that by now."""
        with self.locks.promotion():
            self.transactions.finish_detach(transaction)
        self._delete(transaction)

    def idle(self, operation_id: str) -> list[Transaction]:
        """What the log need not know of other operations, once they do not apply."""
        every = self.wal.live()
        others = (it for it in every if it.operation_id != operation_id)
        return [it for it in others if self.transactions.is_settled(it)]

    @property
    def unsettled(self) -> int:
        """How many transactions stay; what is settled is forgotten before a receipt begins."""
        return sum(not self.transactions.is_settled(it) for it in self.wal.live())

    def retry_trash(self, operation_id: str) -> int:
        """Try again what other operations could not delete; return how many are still there."""
        stuck = 0
        for transaction in self.wal.open():
            if transaction.operation_id == operation_id or transaction.phase not in STARTED:
                continue
            stuck += not self._delete(transaction)
        return stuck

    def _delete(self, transaction: Transaction) -> bool:
        try:
            self.transactions.delete(transaction)
        except Undeletable:
            return False
        return True
