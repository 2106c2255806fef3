"""The write-ahead log of retention: a snapshot that is public, and an append-only log over it.

Promise: a record is durable when its append returned, or with the next one; an older log over a
newer snapshot changes nothing; a torn end is cut before the first append and never by a reader;
after a failed write this process does not use the log again. Source: ADR 0043.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dpone.contracts.cache_layout import ENTRIES_MAX, LOG, WAL
from dpone.contracts.effects import Effect
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_retention import RecoveryInvalid, RecoveryJournalFailed
from dpone.contracts.retention_log import (
    LOG_BYTES_MAX,
    Decoded,
    Intent,
    Moved,
    Occurrence,
    Prepared,
    Record,
    Replayed,
    Tombstone,
    decode_log,
    encode_batch,
    encode_record,
    replay,
)
from dpone.contracts.retention_wal import (
    ENDED,
    SNAPSHOT_BYTES_MAX,
    LegacyRecovery,
    Transaction,
    decode_snapshot,
    encode_snapshot,
    projected,
    recovery_revision,
    snapshot_of,
)
from dpone.ports.cachefiles import CacheFolder, Log
from dpone.ports.files import FilesError
from dpone.ports.probe import Probe
from dpone.retention.store import Nonces, put, read

# Where a log is written anew before more is appended; one operation fits behind it.
LONG = LOG_BYTES_MAX // 4


class Wal:
    """What the log of one cache says. Made by `load`; written by the holder of the lock alone."""

    def __init__(self, root: CacheFolder, probe: Probe, nonces: Nonces) -> None:
        self.root = root
        self.probe = probe
        self.nonces = nonces
        self.state = Replayed({}, {}, {}, {})
        self.legacy: LegacyRecovery | None = None
        self._log: Log | None = None
        self._size = 0
        self._torn_at: int | None = None

    def load(self) -> Wal:
        """Read snapshot and log; nothing is changed. Raises `RecoveryInvalid`."""
        snapshot = self._snapshot()
        decoded = self._records()
        self.state = replay(snapshot, decoded.records)
        self._torn_at = decoded.good_size if decoded.torn else None
        self._size = decoded.good_size
        return self

    def _snapshot(self) -> Mapping[str, Transaction]:
        try:
            data = read(self.root, WAL, SNAPSHOT_BYTES_MAX)
            if data is None:
                return {}
            found = decode_snapshot(data)
        except (ContractInvalid, FilesError) as error:
            raise RecoveryInvalid(file=WAL, reason=_why(error)) from error
        if isinstance(found, LegacyRecovery):
            self.legacy = found
            return projected(found).transactions
        return found.transactions

    def _records(self) -> Decoded:
        try:
            log = self.root.log(LOG, create=False)
            if log is None:
                return Decoded((), 0, False)
            try:
                return decode_log(log.read(LOG_BYTES_MAX))
            finally:
                log.close()
        except FilesError as error:
            raise RecoveryInvalid(file=LOG, reason=_why(error)) from error

    # -- what it says

    def live(self, operation_id: str | None = None) -> list[Transaction]:
        """The transactions, or those of one operation, in the order in which they were prepared."""
        every = self.state.transactions.values()
        return [it for it in every if operation_id is None or it.operation_id == operation_id]

    def open(self) -> list[Transaction]:
        """The transactions that have not come to an end."""
        return [it for it in self.live() if it.phase not in ENDED]

    def revision(
        self, *, outside: str | None = None, acknowledged: frozenset[str] = frozenset()
    ) -> str | None:
        """What a plan binds of the log: what is unfinished, or put back and not acknowledged.

        What is committed says nothing that a receipt does not say; it is forgotten at leisure.
        """
        bound = (
            it
            for it in self.live()
            if it.phase != "committed" and it.transaction_id not in acknowledged
        )
        return recovery_revision(bound, outside=outside)

    def occurrence(self, transaction: Transaction) -> Occurrence | None:
        """Which directories it is about; None when an earlier release prepared it."""
        return self.state.occurrences.get(transaction.transaction_id)

    def intent(self, operation_id: str) -> Intent | None:
        """What an operation was about to do."""
        return self.state.intents.get(operation_id)

    # -- writing

    def __enter__(self) -> Wal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def prepare(
        self, intent: Intent, prepared: Iterable[Prepared], idle: Iterable[Transaction] = ()
    ) -> None:
        """Step 10: the intent and every candidate, in one record that forgets what is idle.

        An earlier batch of the same operation authorised nothing and is forgotten too.
        """
        stale = [it for it in self.live(intent.operation_id) if it.phase == "prepared"]
        listed: list[Record] = [*_tombstones((*stale, *idle)), intent, *prepared]
        self._append(encode_batch(listed), listed, Effect.RETENTION_INTENT)

    def move(
        self, transaction: Transaction, *phases: str, reason: str = "", forced: bool = True
    ) -> Transaction:
        """Record that a transaction came to a phase, or through several; return it.

        What is not `forced` is durable with the next record; until then a loss of power may take it
        back.
        """
        records: list[Record] = []
        for phase in phases:
            fields = {"transaction_id": transaction.transaction_id, "phase": phase}
            records.append(Moved(**fields, reason=reason) if reason else Moved(**fields))  # type: ignore[arg-type]
        data = encode_record(records[0]) if len(records) == 1 else encode_batch(records)
        self._append(data, records, Effect.RETENTION_PHASE, forced=forced)
        return self.state.transactions[transaction.transaction_id]

    def forget(self, transactions: Iterable[Transaction]) -> None:
        """Step 17: a tombstone for transactions whose receipt is durably at its end."""
        for record in _tombstones(transactions):
            self._append(encode_record(record), (record,), Effect.RETENTION_PRUNE)

    def shorten(self) -> None:
        """The same as `compact` when the log is long: begins that end early add up.

        Every intent stays: a run that died behind its own has closed others already, and its plan
        must not become another.
        """
        if self._size > LONG:
            self.compact(every_intent=True)

    def compact(self, *, every_intent: bool = False) -> None:
        """Write the snapshot, then begin the log anew with what only the log knows.

        The log repeats every transaction whose occurrence it knows, so that a snapshot of less,
        where there are more than it may hold, loses nothing.
        """
        intents = tuple(self.state.intents.values())
        keep: list[Record] = []
        for it in self.live():
            occurrence = self.occurrence(it)
            if occurrence is not None:
                keep.append(Prepared(transaction=it, occurrence=occurrence))
        open_operations = {it.operation_id for it in self.live()}
        keep += [it for it in intents if every_intent or it.operation_id in open_operations]
        try:
            put(
                self.root,
                WAL,
                encode_snapshot(snapshot_of(self._shown())),
                effect=Effect.RETENTION_COMPACT,
                probe=self.probe,
                nonce=self.nonces(),
            )
            self.__exit__()
            put(
                self.root,
                LOG,
                _frames(keep),
                effect=Effect.RETENTION_COMPACT,
                probe=self.probe,
                nonce=self.nonces(),
            )
        except FilesError as error:
            raise RecoveryJournalFailed(file=WAL, reason=_why(error)) from error
        self.load()

    def _shown(self) -> dict[str, Transaction]:
        """As many transactions as a snapshot holds; first those that only a snapshot knows."""
        every = self.state.transactions
        if len(every) <= ENTRIES_MAX:
            return every
        ordered = sorted(every, key=self.state.occurrences.__contains__)
        return {identity: every[identity] for identity in ordered[:ENTRIES_MAX]}

    @property
    def is_idle(self) -> bool:
        """Whether the log holds records of which none is needed any more."""
        return self._size > 0 and not self.state.transactions

    def _append(
        self, data: bytes, records: Iterable[Record], effect: Effect, *, forced: bool = True
    ) -> None:
        try:
            if self._log is None:
                self._log = self.root.log(LOG, create=True)
                assert self._log is not None
                self._cut(self._log)
                self.root.sync()
            with self.probe(effect):
                self._log.append(data, forced=forced)
        except FilesError as error:
            raise RecoveryJournalFailed(file=LOG, reason=_why(error)) from error
        self._size += len(data)
        self._apply(records)

    def _cut(self, log: Log) -> None:
        if self._torn_at is not None:
            with self.probe(Effect.RETENTION_CUT):
                log.cut(self._torn_at)
            self._torn_at = None

    def _apply(self, records: Iterable[Record]) -> None:
        """The same as reading it again, at the cost of these records alone."""
        state = self.state
        for record in records:
            if isinstance(record, Intent):
                state.intents[record.operation_id] = record
            elif isinstance(record, Prepared):
                identity = record.transaction.transaction_id
                state.transactions[identity] = record.transaction
                state.occurrences[identity] = record.occurrence
            elif isinstance(record, Tombstone):
                for identity in record.transaction_ids:
                    state.transactions.pop(identity, None)
                    state.occurrences.pop(identity, None)
                    state.reasons.pop(identity, None)
            else:
                _moved(state, record)


def _frames(records: list[Record]) -> bytes:
    """The records in as many frames as their number needs; the file is replaced whole."""
    starts = range(0, len(records), ENTRIES_MAX)
    return b"".join(encode_batch(records[start : start + ENTRIES_MAX]) for start in starts)


def _tombstones(transactions: Iterable[Transaction]) -> list[Tombstone]:
    ids = tuple(it.transaction_id for it in transactions)
    starts = range(0, len(ids), ENTRIES_MAX)
    return [Tombstone(transaction_ids=ids[start : start + ENTRIES_MAX]) for start in starts]


def _moved(state: Replayed, record: Moved) -> None:
    from dpone.contracts.retention_wal import in_phase

    identity = record.transaction_id
    state.transactions[identity] = in_phase(state.transactions[identity], record.phase)
    if isinstance(record.reason, str):
        state.reasons[identity] = record.reason
    else:
        state.reasons.pop(identity, None)


def _why(error: Exception) -> str:
    if isinstance(error, FilesError):
        return error.reason
    return str(getattr(error, "fields", {}).get("reason", "unreadable"))
