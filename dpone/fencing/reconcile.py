"""What every attempt does before it touches a target: ask, compare, seal, settle.

Source: ADR 0022, decision 5. Promise: when `settle` returns, the fence shows the change,
or it is sealed against every earlier attempt, or nobody concluded anything and an error says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from dpone.contracts.codec import encode
from dpone.contracts.effects import Effect
from dpone.contracts.errors_fencing import (
    CommitUnknown,
    IncarnationChanged,
    IntentMismatch,
    JournalUnavailable,
    OperationDiscarded,
    OperationExpired,
    OperationInProgress,
    OwnershipLost,
    TargetDiverged,
    TargetHeld,
    TargetUnreachable,
)
from dpone.contracts.fence import (
    Answer,
    Committed,
    Expired,
    Floor,
    Foreign,
    Receipt,
    Sealed,
    SealVerdict,
    Unit,
    Unknown,
    Verdict,
)
from dpone.contracts.fence_rules import BROKEN
from dpone.contracts.journal import IN_DOUBT, VOID_ATTEMPT, Event, JournalEntry, Note, Reason, State
from dpone.contracts.outcome import Stored
from dpone.fencing.ledger import Ledger, Move
from dpone.ports.liveness import Liveness
from dpone.ports.target import Target

SESSIONS_MAX = 64


class Reconciler:
    """Settles what is known of one operation, against its target's fence."""

    def __init__(
        self,
        ledger: Ledger,
        target: Target,
        liveness: Liveness,
        new_attempt_id: Callable[[], str],
    ) -> None:
        self.ledger = ledger
        self.target = target
        self.liveness = liveness
        self.new_attempt_id = new_attempt_id

    # -- asking --------------------------------------------------------------------------------

    def ask(self, operation_id: str, floor: Floor | None, entry: JournalEntry | None) -> Answer:
        """Ask the fence. Raises when nothing can be concluded or the operation expired.

        A target that is held by somebody lets only operations in doubt go on: those take over
        and contend, everybody else comes back later.
        """
        answer = self.target.ask(operation_id, floor)
        verdict = answer.verdict
        if isinstance(verdict, Expired):
            raise OperationExpired(operation_id=operation_id, floor=verdict.floor)
        if isinstance(verdict, Unknown):
            in_doubt = entry is not None and entry.state in IN_DOUBT
            if verdict == BROKEN and not in_doubt:
                raise CommitUnknown(operation_id=operation_id, seen=verdict.cause)
            if not (verdict.held and in_doubt):
                self._nothing_concluded(verdict)
        return answer

    def check_intent(
        self,
        intent_digest: str,
        entry: JournalEntry | None,
        verdict: Verdict,
        next_revision: int,
    ) -> None:
        """Rule 2: another intent under the same operation is refused, whoever recorded it."""
        if entry is not None and entry.diverged:
            return
        recorded, operation_id = "", ""
        if isinstance(verdict, Committed):
            # A row shortened long ago keeps no intent; the journal's tombstone does.
            known = entry.intent_digest if entry is not None else ""
            recorded = verdict.receipt.intent_digest or known
            operation_id = verdict.receipt.operation_id
        elif entry is not None and entry.state is not State.FAILED_PRE_COMMIT:
            recorded, operation_id = entry.intent_digest, entry.operation_id
        if recorded and recorded != intent_digest:
            raise IntentMismatch(
                operation_id=operation_id,
                recorded=recorded,
                offered=intent_digest,
                state=entry.state if entry else "committed in the target",
                next_revision=next_revision,
            )

    def check_lease(self, entry: JournalEntry, take_over: bool) -> None:
        """Rule 4: a running lease is a courtesy that a proven death or an order ends."""
        if entry.lease_left_ms <= 0 or take_over:
            return
        if entry.owner is not None and self.liveness.proven_dead(entry.owner):
            return
        raise OperationInProgress(
            operation_id=entry.operation_id,
            lease_s=-(-entry.lease_left_ms // 1000),
            state=entry.state,
        )

    def check_incarnation(self, entry: JournalEntry, answer: Answer) -> None:
        """An unfinished operation goes on only in the target in which it began."""
        if is_elsewhere(entry, answer):
            raise IncarnationChanged(
                operation_id=entry.operation_id,
                expected=entry.incarnation or "a target without a fence",
                seen=answer.incarnation or "without a fence",
            )

    # -- settling ------------------------------------------------------------------------------

    def settle(
        self, entry: JournalEntry, answer: Answer, floor: Floor | None = None
    ) -> JournalEntry:
        """Bring an unfinished row to TARGET_COMMITTED or FAILED_PRE_COMMIT, or raise.

        `entry` is in PREPARING, PREPARED, COMMITTING or COMMIT_UNKNOWN.
        """
        verdict = answer.verdict
        if isinstance(verdict, Committed):
            return self.accept(entry, verdict.receipt)
        taken = self.take_over(entry, verdict)
        sealed = self.contend(taken, floor)
        if isinstance(sealed, Committed):
            return self.accept(taken, sealed.receipt)
        return self.conclude_sealed(taken, Reason.RECONCILED)

    def take_over(
        self, entry: JournalEntry, verdict: Verdict, intent_digest: str = ""
    ) -> JournalEntry:
        """Own the row under a fresh attempt id, with an epoch above journal and fence.

        A new attempt may bring another intent, which is recorded here: one that dies before its
        change, or waits for its seal in vain, leaves a row that its own retry still fits. The
        history keeps the intent of the attempt before.
        """
        event = Event.NEW_ATTEMPT if entry.state is State.FAILED_PRE_COMMIT else Event.TAKEN_OVER
        intent_digest = intent_digest or entry.intent_digest
        detail = {"from_attempt": entry.attempt_id, **_replacing(entry, intent_digest)}
        return self.move_held(
            entry,
            Effect.FENCING_TAKE_OVER,
            (event, detail),
            attempt=next_epoch(entry, verdict),
            attempt_id=self.new_attempt_id(),
            owner=self.liveness.me(),
            reason="",
            intent_digest=intent_digest,
        )

    def move_held(
        self, entry: JournalEntry, effect: Effect, *moves: Move, **changes: Any
    ) -> JournalEntry:
        """Move a row that an open unit of its attempt may hold, journal and target being one.

        Where the wait for it ends in vain, that session is ended by proven identity, as for a seal.
        """
        try:
            return self.ledger.move(entry, effect, *moves, **changes)
        except JournalUnavailable:
            one = bool(self.target.store) and self.target.store == self.ledger.journal.store
            if not one or not self.target.end_sessions(entry.operation_id, [entry.attempt_id]):
                raise
        return self.ledger.move(entry, effect, *moves, **changes)

    def seal_own(
        self, entry: JournalEntry, floor: Floor | None = None
    ) -> Committed | Sealed | Unknown:
        """Seal the key for the attempt that owns `entry`. Raises for a lost contest."""
        with self.ledger.probe(Effect.FENCING_SEAL):
            verdict = self.target.seal(unit_of(entry, floor))
        if isinstance(verdict, Foreign):
            raise IncarnationChanged(
                operation_id=entry.operation_id,
                expected=entry.incarnation,
                seen=verdict.incarnation,
            )
        if isinstance(verdict, Expired):
            raise OperationExpired(operation_id=entry.operation_id, floor=verdict.floor)
        check_final(entry.operation_id, entry.revision, verdict)
        mine = (entry.attempt, entry.attempt_id)
        if isinstance(verdict, Sealed) and (verdict.epoch, verdict.attempt_id) != mine:
            raise OwnershipLost(operation_id=entry.operation_id)
        return verdict

    def conclude_sealed(self, entry: JournalEntry, reason: Reason, **detail: str) -> JournalEntry:
        """Write FAILED_PRE_COMMIT: only ever called after a seal has won."""
        return self.ledger.move(
            entry,
            Effect.FENCING_CONCLUDE,
            (Event.FENCE_SEALED, {"reason": reason.value, **detail}),
            reason=reason.value,
        )

    def accept(self, entry: JournalEntry, receipt: Receipt, *more: Move) -> JournalEntry:
        """Write TARGET_COMMITTED because the fence shows the change."""
        intent_digest = receipt.intent_digest or entry.intent_digest
        detail = {"epoch": receipt.epoch, **_replacing(entry, intent_digest)}
        moves: list[Move] = [(Event.FENCE_SHOWS_COMMITTED, detail)]
        if receipt.attempt_id != entry.attempt_id:
            moves.append((Note.FOREIGN_RECEIPT, {"attempt_id": receipt.attempt_id}))
        return self.ledger.move(
            entry,
            Effect.FENCING_SETTLE,
            *moves,
            *more,
            attempt_id=self.new_attempt_id(),
            owner=self.liveness.me(),
            outcome=stored_text(receipt),
            intent_digest=intent_digest,
            reason="",
        )

    def check_still_committed(self, entry: JournalEntry, answer: Answer) -> None:
        """Rules 3 and 7: a committed row whose fence is gone is marked and blocks.

        Unless the row is COMPLETE, the fence must also lie in the same incarnation. What an
        operator asserted is no exception: no step runs before the fence bears it out.
        """
        moved = bool(entry.incarnation) and answer.incarnation != entry.incarnation
        if isinstance(answer.verdict, Committed) and not (
            moved and entry.state is not State.COMPLETE
        ):
            return
        fence = _fence_word(answer)
        if not entry.diverged:
            entry = self.ledger.move(
                entry,
                Effect.FENCING_DIVERGE,
                (Note.DIVERGED, {"fence": fence, "incarnation": answer.incarnation}),
                diverged=fence,
                attempt_id=self.new_attempt_id(),
            )
        raise TargetDiverged(
            operation_id=entry.operation_id,
            state=entry.state,
            fence=fence,
            version=entry.version,
        )

    # -- contending ----------------------------------------------------------------------------

    def contend(self, taken: JournalEntry, floor: Floor | None = None) -> Committed | Sealed:
        """Seal for a taken row. Raises when the contest stays undecided."""
        verdict = self.seal_hard(taken, self._earlier_attempts(taken), floor)
        if not isinstance(verdict, Unknown):
            return verdict
        if taken.state is State.COMMIT_UNKNOWN and verdict.held:
            raise CommitUnknown(operation_id=taken.operation_id, seen=verdict.cause)
        self._nothing_concluded(verdict)

    def seal_hard(
        self, entry: JournalEntry, attempt_ids: Sequence[str], floor: Floor | None = None
    ) -> Committed | Sealed | Unknown:
        """Seal; where it times out, end these attempts' sessions by name and seal again."""
        verdict = self.seal_own(entry, floor)
        held = isinstance(verdict, Unknown) and verdict.held
        if held and self.target.end_sessions(entry.operation_id, attempt_ids):
            verdict = self.seal_own(entry, floor)
        return verdict

    def _earlier_attempts(self, entry: JournalEntry) -> list[str]:
        rows = self.ledger.journal.history(entry.operation_id)[-SESSIONS_MAX:]
        return sorted({row.attempt_id for row in rows} - {entry.attempt_id})

    def _nothing_concluded(self, verdict: Unknown) -> NoReturn:
        kind = TargetHeld if verdict.held else TargetUnreachable
        raise kind(target=self.target.name, cause=verdict.cause)


def check_final(operation_id: str, revision: int, verdict: Verdict | SealVerdict) -> None:
    """A final seal admits nobody: an operator closed this revision. Raises `OperationDiscarded`."""
    if isinstance(verdict, Sealed) and verdict.attempt_id == VOID_ATTEMPT:
        raise OperationDiscarded(
            operation_id=operation_id, answer="a final seal", next_revision=revision + 1
        )


def is_elsewhere(entry: JournalEntry, answer: Answer) -> bool:
    """Whether the target that answered is another than the one to which the row is bound.

    A target without a fence is another one too: it admits nobody who comes with a seal to make.
    One that did not answer tells nothing.
    """
    if isinstance(answer.verdict, Unknown) and not answer.incarnation:
        return False
    return not answer.incarnation or entry.incarnation != answer.incarnation


def _replacing(entry: JournalEntry, intent_digest: str) -> dict[str, str]:
    """For the history: the intent that the row loses to another one."""
    changed = intent_digest != entry.intent_digest
    return {"from_intent": entry.intent_digest, "intent": intent_digest} if changed else {}


def next_epoch(entry: JournalEntry, verdict: Verdict) -> int:
    """max(journal, fence) + 1."""
    fence = verdict.epoch if isinstance(verdict, Sealed) else 0
    return max(entry.attempt, fence) + 1


def _fence_word(answer: Answer) -> str:
    if isinstance(answer.verdict, Committed):
        return "committed in another incarnation"
    return "sealed" if isinstance(answer.verdict, Sealed) else "absent"


def unit_of(entry: JournalEntry, floor: Floor | None = None) -> Unit:
    """The unit that speaks for the attempt that owns `entry`."""
    return Unit(
        operation_id=entry.operation_id,
        epoch=entry.attempt,
        attempt_id=entry.attempt_id,
        intent_digest=entry.intent_digest,
        incarnation=entry.incarnation,
        floor=floor,
    )


def stored_text(receipt: Receipt) -> str:
    """The stored outcome of a receipt, as the journal keeps it."""
    return encode(
        Stored(
            epoch=receipt.epoch,
            attempt_id=receipt.attempt_id,
            intent_digest=receipt.intent_digest,
            result=receipt.result,
        )
    )
