"""The fenced commit: an orchestrator may retry it as often as it likes.

Promise: the target holds the change once or not at all, and the returned outcome or the raised
error says which; a retry of a finished operation reads one journal row and one fence row and
sends no write. Not promised: that the change itself is quick, or that its rows are right.
Linearization point: the target's own commit of change and fence, `Effect.FENCING_COMMIT`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from dpone.contracts.codec import replaced
from dpone.contracts.effects import Effect
from dpone.contracts.errors_fencing import (
    CommitBusy,
    CommitRejected,
    CommitUnknown,
    IncarnationChanged,
    OperationExpired,
    OwnershipLost,
    TargetHeld,
)
from dpone.contracts.fence import (
    Absent,
    Already,
    Answer,
    Committed,
    Expired,
    Fenced,
    Foreign,
    Receipt,
    Rejected,
    Unknown,
)
from dpone.contracts.identity import Operation
from dpone.contracts.journal import (
    COMMITTED,
    SETTLED,
    Event,
    JournalEntry,
    Note,
    Reason,
    State,
)
from dpone.contracts.outcome import How, Outcome
from dpone.fencing.ledger import Ledger, Move, plan, same_write
from dpone.fencing.obligations import Obligation, after_commit, meet
from dpone.fencing.reconcile import Reconciler, check_final, stored_text, unit_of
from dpone.fencing.refuse import check_answered, check_revisions
from dpone.fencing.replay import outcome_of, replay
from dpone.ports.journal import Journal
from dpone.ports.liveness import Liveness
from dpone.ports.probe import Probe, quiet
from dpone.ports.target import Change, Target

LEASE_S = 60.0
TRIES_MAX = 3

Covering = Callable[[str, str], AbstractContextManager[None]]
"""Keeps the lease of (operation_id, attempt_id) alive while the change runs."""


def new_attempt_id() -> str:
    """A fresh attempt id: UUIDv4."""
    return str(uuid.uuid4())


def _uncovered(operation_id: str, attempt_id: str) -> AbstractContextManager[None]:
    return nullcontext()


class Committer:
    """Commits operations to one target under one journal.

    `replayable` changes may be called again in the same process after a definite abort; others
    (a one-shot iterator) are called once and the retry is left to the orchestrator.
    """

    def __init__(
        self,
        journal: Journal,
        target: Target,
        liveness: Liveness,
        *,
        probe: Probe = quiet,
        lease_s: float = LEASE_S,
        covering: Covering = _uncovered,
        attempt_ids: Callable[[], str] = new_attempt_id,
    ) -> None:
        self.journal = journal
        self.target = target
        self.liveness = liveness
        self.probe = probe
        self.covering = covering
        self.ledger = Ledger(journal, probe, lease_s)
        self.reconciler = Reconciler(self.ledger, target, liveness, attempt_ids)
        self.new_attempt_id = attempt_ids

    def commit(
        self,
        operation: Operation,
        change: Change,
        *,
        obligations: Sequence[Obligation] = (),
        take_over: bool = False,
        replayable: bool = False,
    ) -> Outcome:
        """Make the target hold `change` once; return the finished operation.

        Raises a `FencingError` otherwise: its exit code says whether to retry (3), decide (1)
        or look (4). After `CommitRejected` the caller's own exception is its `__cause__`.
        """
        attempt = _Attempt(self, operation, change, obligations, take_over, replayable)
        return attempt.run()

    @property
    def joint(self) -> bool:
        """Whether journal and target are one database, so that one commit serves both."""
        store = self.target.store
        return bool(store) and store == self.journal.store

    def finish_unobliged(self, entry: JournalEntry) -> JournalEntry:
        """Write COMPLETE for a committed row none of whose steps is open; return the row."""
        if entry.state is State.COMPLETE or set(entry.obligations) - set(entry.done):
            return entry
        return self.ledger.move(entry, Effect.FENCING_COMPLETE, (Event.OBLIGATIONS_MET, {}))


class _Attempt:
    """One call of `commit`."""

    def __init__(
        self,
        committer: Committer,
        operation: Operation,
        change: Change,
        obligations: Sequence[Obligation],
        take_over: bool,
        replayable: bool,
    ) -> None:
        self.by = committer
        self.ledger = committer.ledger
        self.reconciler = committer.reconciler
        self.operation = operation
        self.operation_id = operation.operation_id
        self.intent_digest = operation.intent_digest
        self.floor = operation.floor
        self.change = change
        self.obligations = obligations
        self.take_over = take_over
        self.tries_left = TRIES_MAX if replayable else 1

    # -- the whole -----------------------------------------------------------------------------

    def run(self) -> Outcome:
        rows = self.by.journal.family(self.operation.family)
        own = next((row for row in rows if row.revision == self.operation.revision), None)
        answer = self.reconciler.ask(self.operation_id, self.floor, own)
        newest = max((row.revision for row in rows), default=self.operation.revision)
        self.reconciler.check_intent(self.intent_digest, own, answer.verdict, newest + 1)
        if own is None or own.state is State.FAILED_PRE_COMMIT:
            check_revisions(self.operation.revision, rows)
        if own is None:
            return self._first(answer)
        check_answered(own)
        if own.state is State.COMPLETE:
            return replay(self.reconciler, own, answer)
        if own.state not in SETTLED:
            self.reconciler.check_lease(own, self.take_over)
        if own.state in COMMITTED:
            # A committed row in another incarnation diverged: nothing runs for it.
            return self._resume(own, answer)
        self.reconciler.check_incarnation(own, answer)
        return self._again(own, answer)

    def _first(self, answer: Answer) -> Outcome:
        """No journal entry: begin, unless the fence already shows the change."""
        incarnation = answer.incarnation
        if not incarnation:
            with self.by.probe(Effect.FENCING_FENCE):
                incarnation = self.by.target.install()
        verdict = answer.verdict
        entry = self._new_entry(incarnation)
        if isinstance(verdict, Committed):
            return self._first_already(entry, verdict.receipt)
        if isinstance(verdict, Absent):
            ready: tuple[Move, ...] = ((Event.FENCE_READY, {}), (Event.COMMIT_STARTED, {}))
            return self._attempt(self.ledger.begin(entry, *ready))
        assert not isinstance(verdict, Unknown | Expired)  # ask raised
        check_final(self.operation_id, self.operation.revision, verdict)
        epoch = verdict.epoch + 1
        begun = self.ledger.begin(replaced(entry, attempt=epoch))
        return self._seal_and_attempt(begun)

    def _first_already(self, entry: JournalEntry, receipt: Receipt) -> Outcome:
        """A lost or restored journal: the fence is the authority."""
        known = replaced(
            entry,
            attempt=receipt.epoch,
            outcome=stored_text(receipt),
            # What was loaded, not what is offered; a row shortened long ago does not say.
            intent_digest=receipt.intent_digest,
        )
        settled = self.ledger.begin(
            known,
            (Event.FENCE_SHOWS_COMMITTED, {"epoch": receipt.epoch}),
            (Note.FOREIGN_RECEIPT, {"attempt_id": receipt.attempt_id}),
        )
        return self._finish(settled, How.SETTLED)

    def _again(self, own: JournalEntry, answer: Answer) -> Outcome:
        """An earlier attempt left the row unfinished or sealed."""
        if isinstance(answer.verdict, Committed):
            return self._finish(self.reconciler.accept(own, answer.verdict.receipt), How.SETTLED)
        if own.state in (State.COMMITTING, State.COMMIT_UNKNOWN):
            own = self.reconciler.settle(own, answer, self.floor)
            if own.state in COMMITTED:
                return self._finish(own, How.SETTLED)
        taken = self.reconciler.take_over(own, answer.verdict, self.intent_digest)
        return self._seal_and_attempt(taken)

    def _seal_and_attempt(self, taken: JournalEntry) -> Outcome:
        verdict = self.reconciler.contend(taken, self.floor)
        if isinstance(verdict, Committed):
            return self._finish(self.reconciler.accept(taken, verdict.receipt), How.SETTLED)
        started = self.ledger.move(
            taken,
            Effect.FENCING_INTENT,
            (Event.FENCE_READY, {"epoch": taken.attempt}),
            (Event.COMMIT_STARTED, {}),
            intent_digest=self.intent_digest,
            obligations=tuple(step.name for step in self.obligations),
        )
        return self._attempt(started)

    # -- the attempt itself --------------------------------------------------------------------

    def _attempt(self, entry: JournalEntry) -> Outcome:
        """Commit to the target; `entry` is COMMITTING and ours."""
        self.tries_left -= 1
        joined: list[JournalEntry] = []
        also = self._joining(entry, joined) if self.by.joint else None
        with self.by.covering(self.operation_id, entry.attempt_id):
            verdict = self.by.target.commit(unit_of(entry, self.floor), self.change, also)
        if isinstance(verdict, Committed):
            with after_commit(self.operation_id):
                return self._acknowledge(entry, verdict.receipt, joined)
        if isinstance(verdict, Already):
            settled = self.reconciler.accept(entry, verdict.receipt)
            return self._finish(settled, How.SETTLED)
        if isinstance(verdict, Fenced):
            raise OwnershipLost(operation_id=self.operation_id)
        if isinstance(verdict, Rejected):
            return self._rejected(entry, verdict)
        return self._unknown(entry, verdict, joined)

    def _joining(
        self, entry: JournalEntry, joined: list[JournalEntry]
    ) -> Callable[[Any, Receipt], bool]:
        """Journal and target are one database: the acknowledgement commits with the change."""

        def also(transaction: Any, receipt: Receipt) -> bool:
            after, steps = plan(entry, self._acknowledged(), outcome=stored_text(receipt))
            joined[:] = [after]
            return self.by.journal.advance_within(transaction, entry, after, steps)

        return also

    def _acknowledged(self) -> tuple[Move, ...]:
        """What one journal write says after the commit: without open steps it is all over."""
        if self.obligations:
            return ((Event.COMMIT_ACKNOWLEDGED, {}),)
        return ((Event.COMMIT_ACKNOWLEDGED, {}), (Event.OBLIGATIONS_MET, {}))

    def _acknowledge(
        self, entry: JournalEntry, receipt: Receipt, joined: list[JournalEntry]
    ) -> Outcome:
        if joined:
            entry = joined[0]
        else:
            entry = self.ledger.move(
                entry,
                Effect.FENCING_ACKNOWLEDGE,
                *self._acknowledged(),
                outcome=stored_text(receipt),
            )
        if entry.state is not State.COMPLETE:
            # Steps are due: the target may have been restored since the answer came.
            answer = self.reconciler.ask(self.operation_id, self.floor, entry)
            self.reconciler.check_still_committed(entry, answer)
        return self._finish(entry, How.COMMITTED)

    def _rejected(self, entry: JournalEntry, verdict: Rejected) -> Outcome:
        """Proof that our unit applied nothing; only a won seal makes it FAILED_PRE_COMMIT."""
        if verdict.held:
            # The unit never began, and a seal would wait for the same holder.
            raise TargetHeld(target=self.by.target.name, cause=verdict.cause) from verdict.error
        seal = self.reconciler.seal_hard(entry, [entry.attempt_id], self.floor)
        if isinstance(seal, Committed):
            return self._finish(self.reconciler.accept(entry, seal.receipt), How.SETTLED)
        if isinstance(seal, Unknown):
            self.ledger.move(
                entry,
                Effect.FENCING_CONCLUDE,
                (Event.ANSWER_LOST, {"cause": seal.cause}),
                reason="unsealed",
            )
            raise CommitUnknown(operation_id=self.operation_id, seen=seal.cause) from verdict.error
        failed = self.reconciler.conclude_sealed(entry, Reason.REJECTED, cause=verdict.cause)
        if verdict.transient and self.tries_left > 0:
            return self._seal_and_attempt(self.reconciler.take_over(failed, seal))
        kind = CommitBusy if verdict.transient else CommitRejected
        raise kind(
            operation_id=self.operation_id, cause=verdict.cause, tries=failed.attempt
        ) from verdict.error

    def _unknown(
        self,
        entry: JournalEntry,
        verdict: Unknown | Expired | Foreign,
        joined: list[JournalEntry],
    ) -> Outcome:
        """The answer was lost: ask and contend at once, so that doubt ends where it can."""
        if joined:
            current = self.by.journal.read(self.operation_id)
            if current is not None and same_write(current, joined[0]):
                return self._finish(joined[0], How.SETTLED)
        cause = verdict.cause if isinstance(verdict, Unknown) else "refused by the target"
        lost = self.reconciler.move_held(
            entry, Effect.FENCING_CONCLUDE, (Event.ANSWER_LOST, {"cause": cause}), reason="lost"
        )
        if isinstance(verdict, Expired):
            raise OperationExpired(operation_id=self.operation_id, floor=verdict.floor)
        if isinstance(verdict, Foreign):
            raise IncarnationChanged(
                operation_id=self.operation_id,
                expected=entry.incarnation,
                seen=verdict.incarnation,
            )
        answer = self.reconciler.ask(self.operation_id, self.floor, lost)
        settled = self.reconciler.settle(lost, answer, self.floor)
        if settled.state in COMMITTED:
            return self._finish(settled, How.SETTLED)
        if self.tries_left > 0:
            taken = self.reconciler.take_over(settled, answer.verdict)
            return self._seal_and_attempt(taken)
        raise CommitBusy(operation_id=self.operation_id, cause=cause, tries=settled.attempt)

    # -- after the commit ----------------------------------------------------------------------

    def _resume(self, own: JournalEntry, answer: Answer) -> Outcome:
        """TARGET_COMMITTED or COMMITTED_INCOMPLETE: only the unfinished obligations are left."""
        self.reconciler.check_still_committed(own, answer)
        owned = self.ledger.move(
            own,
            Effect.FENCING_SETTLE,
            (Note.RESUMED, {"from_attempt": own.attempt_id}),
            attempt_id=self.by.new_attempt_id(),
            owner=self.by.liveness.me(),
        )
        return self._finish(owned, How.RESUMED)

    def _finish(self, entry: JournalEntry, how: How) -> Outcome:
        if entry.state is State.COMPLETE:
            return outcome_of(entry, how)
        with after_commit(self.operation_id):
            entry = meet(self.ledger, entry, self.obligations, lambda row: outcome_of(row, how))
        return outcome_of(entry, how)

    def _new_entry(self, incarnation: str) -> JournalEntry:
        operation = self.operation
        return JournalEntry(
            operation_id=self.operation_id,
            identity=operation.identity_text(),
            family=operation.family,
            route=operation.route,
            partition=operation.partition_text(),
            revision=operation.revision,
            position=operation.position,
            state=State.PREPARING,
            version=0,
            attempt=1,
            attempt_id=self.by.new_attempt_id(),
            intent_digest=self.intent_digest,
            incarnation=incarnation,
            obligations=tuple(step.name for step in self.obligations),
            owner=self.by.liveness.me(),
        )
