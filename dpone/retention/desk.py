"""The retention commands as one object: apply, receipts, acknowledge, archive.

Promise: without `apply` nothing is written; the reconcile lock is held from recovery to report.
Source: ADR 0043, step 1.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

from dpone.contracts.cache_layout import (
    ACKNOWLEDGEMENT,
    HISTORY,
    LOG,
    RECEIPTS,
    WAL,
)
from dpone.contracts.errors_cache import CacheUnreadable
from dpone.contracts.errors_retention import (
    ReceiptIncomplete,
    ReceiptInvalid,
    RecoveryInvalid,
    RecoveryJournalFailed,
    RetentionError,
)
from dpone.contracts.retention_archive import (
    ARCHIVE,
    AcknowledgeReport,
    ArchiveReport,
    ReceiptList,
    ReceiptRow,
)
from dpone.contracts.retention_drift import DRIFT
from dpone.contracts.retention_receipt import LegacyReceipt, Receipt
from dpone.ports.cachefiles import CacheFiles, CacheFolder
from dpone.ports.files import FilesError
from dpone.ports.probe import Probe, quiet
from dpone.retention.acknowledge import acknowledge, acknowledged_ids, restored, taken_over
from dpone.retention.apply import Applier
from dpone.retention.archive import Archive
from dpone.retention.cache import Document, marked
from dpone.retention.drift import note_drift
from dpone.retention.firm import make_firm
from dpone.retention.locks import Locks
from dpone.retention.receipts import Receipts
from dpone.retention.recover import STARTED
from dpone.retention.repair import faults, mend
from dpone.retention.request import Applied, Request
from dpone.retention.reviewing import CacheReviewer
from dpone.retention.store import Nonces, clear_temporaries
from dpone.retention.transact import Transactions, check_trash
from dpone.retention.wal import Wal

_CONTROL = (WAL, LOG, ACKNOWLEDGEMENT, HISTORY, DRIFT)


def random_nonce() -> str:
    """32 hexadecimal digits that nobody can guess."""
    return secrets.token_hex(16)


class RetentionDesk:
    """Works on one environment of one cache."""

    def __init__(
        self,
        files: CacheFiles,
        environment: str,
        *,
        probe: Probe = quiet,
        nonces: Nonces = random_nonce,
        reconcile_wait_s: float = 10.0,
        promotion_wait_s: float = 30.0,
    ) -> None:
        self.files = files
        self.environment = environment
        self.probe = probe
        self.nonces = nonces
        self.waits = {
            "reconcile_wait_s": reconcile_wait_s,
            "promotion_wait_s": promotion_wait_s,
        }
        self.store = Receipts(files, probe, nonces)
        self.archive = Archive(files, self.store, probe, nonces)

    def apply(
        self,
        request: Request,
        *,
        given: Iterable[str] = (),
        evidence: Iterable[Document] = (),
        ack_file: Document | None = None,
        told: Callable[[int, int], None] = lambda _done, _all: None,
    ) -> Applied:
        """Replay, resume or begin an operation. Raises a `RetentionError`."""
        with _typed(ReceiptInvalid, RECEIPTS), ExitStack() as held:
            root = held.enter_context(marked(self.files))
            locks = Locks(root, **self.waits)
            held.enter_context(locks.reconcile())
            check_trash(root, self.files.user, create=False)
            self._tidy(root)
            wal = held.enter_context(Wal(root, self.probe, self.nonces))
            reviewer = CacheReviewer(
                root,
                self.environment,
                given=given,
                evidence=evidence,
                ack_file=ack_file,
                user=self.files.user,
                locks=locks,
                probe=self.probe,
                nonces=self.nonces,
            )
            applier = Applier(
                request,
                reviewer=reviewer,
                store=self.store,
                archived=self.archive.find,
                wal=wal,
                transactions=Transactions(self.files, wal, self.probe, self.nonces),
                locks=locks,
                acknowledged=lambda: taken_over(root, wal, probe=self.probe, nonces=self.nonces),
                told=told,
            )
            with _told(applier):
                applied = applier.run()
            if applied.replayed and applied.receipt is not None:
                applied.seen_again = note_drift(
                    root, applied.receipt, probe=self.probe, nonces=self.nonces
                )
            return applied

    def _tidy(self, root: CacheFolder) -> None:
        """Step 2: what a dead process left is durable, and its temporaries are gone."""
        make_firm(root, self.environment)
        clear_temporaries(
            root, lambda leaf: leaf in _CONTROL, user=self.files.user, probe=self.probe
        )

    # -- receipts

    def receipts(self, *, repair: bool = False, apply: bool = False) -> ReceiptList:
        """List every operation, and what is wrong with the control directories."""
        with _typed(ReceiptInvalid, RECEIPTS):
            return self._receipts(repair and apply)

    def _receipts(self, is_repair: bool) -> ReceiptList:
        with ExitStack() as held:
            root = held.enter_context(marked(self.files))
            listed = faults(self.files)
            if is_repair:
                held.enter_context(Locks(root, **self.waits).reconcile())
                mend(self.files, listed, self.probe)
                listed = faults(self.files)
            rows, blocker = self._rows()
            stuck = self._stuck(Wal(root, self.probe, self.nonces))
        warnings: tuple[str, ...] = ()
        if self.store.is_nearly_full:
            warnings = (f"{self.store.count} receipts are kept; archive finished ones soon",)
        return ReceiptList(
            environment=self.environment,
            receipts=tuple(rows),
            tolerated=tuple(self.store.tolerated()) if not blocker else (),
            repairs=tuple(f"{fault.path}: {fault.words}" for fault in listed),
            applied=is_repair,
            stuck=stuck,
            blocker=blocker,
            warnings=warnings,
            exit_code=4 if blocker or listed else 0,
        )

    def _rows(self) -> tuple[list[ReceiptRow], str | None]:
        rows: list[ReceiptRow] = []
        try:
            # What was read before one that cannot be used is still told.
            rows.extend(_row(it, archived=False) for it in self.store.every(check=False))
            rows.extend(_row(it, archived=True) for it in self.archive.every())
        except ReceiptInvalid as error:
            return rows, f"{error.fields['file']}: {error.fields['reason']}"
        return rows, None

    def _stuck(self, wal: Wal) -> int:
        try:
            return sum(it.phase in STARTED for it in wal.load().live())
        except RecoveryInvalid:
            return 0

    def receipt(self, operation_id: str) -> bytes | None:
        """The bytes of one receipt, from the receipts or the archive."""
        with _typed(ReceiptInvalid, RECEIPTS):
            return self.store.raw(operation_id) or self.archive.raw(operation_id)

    # -- acknowledge and archive

    def acknowledge(self, *, apply: bool) -> AcknowledgeReport:
        """Say what was put back, and with `apply` record that it was seen."""
        with _typed(RecoveryInvalid, WAL), ExitStack() as held:
            root = held.enter_context(marked(self.files))
            if apply:
                held.enter_context(Locks(root, **self.waits).reconcile())
                self._tidy(root)
            wal = held.enter_context(Wal(root, self.probe, self.nonces)).load()
            known = acknowledged_ids(root, wal)
            waiting = restored(wal, known)
            if apply:
                acknowledge(root, wal, self.environment, probe=self.probe, nonces=self.nonces)
            return AcknowledgeReport(
                environment=self.environment,
                restored=tuple(
                    {
                        "deployment_id": it.deployment_id,
                        "transaction_id": it.transaction_id,
                        "path": it.original,
                    }
                    for it in waiting
                ),
                acknowledged=len(known) + (len(waiting) if apply else 0),
                applied=apply,
            )

    def archive_receipts(self, reviewed: str, *, apply: bool) -> ArchiveReport:
        """Say what would be archived, or move what was reviewed."""
        with _typed(ReceiptInvalid, ARCHIVE), ExitStack() as held:
            root = held.enter_context(marked(self.files))
            if apply:
                held.enter_context(Locks(root, **self.waits).reconcile())
                self._tidy(root)
            wal = held.enter_context(Wal(root, self.probe, self.nonces)).load()
            known = acknowledged_ids(root, wal)
            if apply:
                proposed = self.archive.move(reviewed, wal, known)
            else:
                proposed = self.archive.propose(wal, known)
        return ArchiveReport(
            environment=self.environment,
            archive_sha256=proposed.manifest.revision,
            receipts=len(proposed.manifest.receipts),
            transactions=len(proposed.manifest.transaction_ids),
            segments=proposed.segments,
            applied=apply,
        )


@contextmanager
def _typed(kind: type[RetentionError], file: str) -> Iterator[None]:
    """No refusal of the file system gets out without a code."""
    try:
        yield
    except FilesError as error:
        raise kind(file=error.leaf or file, reason=error.reason) from error


@contextmanager
def _told(applier: Applier) -> Iterator[None]:
    """The same for an apply, by how far it came."""
    try:
        yield
    except FilesError as error:
        leaf, reason = error.leaf or "the cache", error.reason
        if applier.stage == "reading":
            raise CacheUnreadable(path=leaf, reason=reason) from error
        if applier.stage == "closing":
            raise RecoveryJournalFailed(file=leaf, reason=reason) from error
        operation, words = applier.operation_id, f"{leaf}: {reason}"
        raise ReceiptIncomplete(operation_id=operation, reason=words) from error


def _row(receipt: Receipt | LegacyReceipt, *, archived: bool) -> ReceiptRow:
    actions = [item.action for item in receipt.items]
    return ReceiptRow(
        operation_id=receipt.operation_id,
        status=receipt.status,
        environment=receipt.environment,
        deleted=actions.count("deleted"),
        pending=actions.count("pending"),
        archived=archived,
    )
