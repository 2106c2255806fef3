"""An operator's answer to what the protocol cannot prove.

Promise: a conclusive fence overrides the operator; `not-committed` is written only after a won
seal; who answered, when and why stays in the history for ever. Source: ADR 0022, "when a target
outcome cannot be proven, recovery is manual and fail-closed".
"""

from __future__ import annotations

from enum import StrEnum

from dpone.contracts.codec import encode, replaced
from dpone.contracts.effects import Effect
from dpone.contracts.errors_fencing import (
    AnswerRefused,
    OperationNotFound,
    VersionConflict,
)
from dpone.contracts.fence import Committed, Floor, Sealed, Unknown
from dpone.contracts.fence_rules import EPOCH_FINAL
from dpone.contracts.journal import IN_DOUBT, VOID_ATTEMPT, Event, JournalEntry, Note, Reason
from dpone.contracts.outcome import Stored
from dpone.fencing.check import fence_word
from dpone.fencing.commit import Committer
from dpone.fencing.reconcile import unit_of
from dpone.fencing.refuse import ANSWERED


class Assertion(StrEnum):
    """What an operator may say."""

    COMMITTED = "committed"
    NOT_COMMITTED = "not-committed"
    ACCEPT_LOSS = "accept-loss"
    RELOAD = "reload"


def resolve(
    by: Committer,
    operation_id: str,
    assertion: Assertion,
    *,
    expect_version: int,
    operator: str,
    why: str,
    floor: Floor | None = None,
) -> JournalEntry:
    """Record the answer, after asking and sealing; return the row.

    `committed` and `not-committed` answer a row in COMMITTING or COMMIT_UNKNOWN; `accept-loss`
    and `reload` a diverged one. Raises `AnswerRefused` when fence or state contradict it.
    """
    entry = by.journal.read(operation_id)
    if entry is None:
        raise OperationNotFound(operation_id=operation_id)
    if entry.version != expect_version:
        raise VersionConflict(
            operation_id=operation_id, found=entry.version, expected=expect_version
        )
    if not operator.strip() or not why.strip():
        raise _refused(entry, assertion, "an operator and a reason are required")
    said = {"operator": operator, "why": why, "answer": assertion.value}
    if assertion in (Assertion.ACCEPT_LOSS, Assertion.RELOAD):
        return _answer_divergence(by, entry, assertion, said, floor)
    if entry.state not in IN_DOUBT or entry.diverged:
        raise _refused(entry, assertion, "only an operation in doubt takes it")
    return _answer_doubt(by, entry, assertion, said, floor)


def _answer_divergence(
    by: Committer,
    entry: JournalEntry,
    assertion: Assertion,
    said: dict[str, str],
    floor: Floor | None,
) -> JournalEntry:
    """Close the revision for ever with a final seal, then record the answer.

    A late session of the lost commit could otherwise still land, and a journal that is lost
    later would let the key load again. A fence that shows the commit after all heals the row.
    """
    if not entry.diverged or entry.reason == ANSWERED:
        raise _refused(entry, assertion, "the row is not marked as diverged")
    answer = by.reconciler.ask(entry.operation_id, floor, entry)
    if isinstance(answer.verdict, Committed):
        return by.ledger.move(
            entry,
            Effect.FENCING_RESOLVE,
            (Note.HEALED, {**said, "incarnation": answer.incarnation}),
            diverged="",
            incarnation=answer.incarnation,
            attempt_id=by.new_attempt_id(),
        )
    incarnation = answer.incarnation
    if not incarnation:
        with by.probe(Effect.FENCING_FENCE):
            incarnation = by.target.install()
    final = replaced(
        unit_of(entry, floor),
        epoch=EPOCH_FINAL,
        attempt_id=VOID_ATTEMPT,
        incarnation=incarnation,
    )
    with by.probe(Effect.FENCING_SEAL):
        sealed = by.target.seal(final)
    if not (isinstance(sealed, Sealed) and sealed.attempt_id == VOID_ATTEMPT):
        raise _refused(entry, assertion, f"the final seal was not won: {fence_word(sealed)}")
    note = Note.LOSS_ACCEPTED if assertion is Assertion.ACCEPT_LOSS else Note.RELOAD_ORDERED
    return by.ledger.move(
        entry,
        Effect.FENCING_RESOLVE,
        (note, said),
        diverged=assertion.value,
        reason=ANSWERED,
        attempt_id=by.new_attempt_id(),
    )


def _answer_doubt(
    by: Committer,
    entry: JournalEntry,
    assertion: Assertion,
    said: dict[str, str],
    floor: Floor | None,
) -> JournalEntry:
    """Ask and seal first: what the fence proves is written, whatever the operator said."""
    answer = by.reconciler.ask(entry.operation_id, floor, entry)
    if isinstance(answer.verdict, Committed):
        return by.finish_unobliged(by.reconciler.accept(entry, answer.verdict.receipt))
    by.reconciler.check_incarnation(entry, answer)
    taken = by.reconciler.take_over(entry, answer.verdict)
    sealed = by.reconciler.seal_own(taken, floor)
    if isinstance(sealed, Committed):
        return by.finish_unobliged(by.reconciler.accept(taken, sealed.receipt))
    if isinstance(sealed, Sealed):
        return by.reconciler.conclude_sealed(taken, Reason.OPERATOR, **said)
    assert isinstance(sealed, Unknown)  # the other verdicts raised in seal_own
    if assertion is Assertion.NOT_COMMITTED:
        raise _refused(taken, assertion, f"the seal was not won: {sealed.cause}")
    stored = Stored(
        epoch=entry.attempt,
        attempt_id=entry.attempt_id,
        intent_digest=entry.intent_digest,
        asserted_by=said["operator"],
    )
    asserted = by.ledger.move(
        taken,
        Effect.FENCING_RESOLVE,
        (Event.OPERATOR_COMMITTED, {**said, "seen": sealed.cause}),
        outcome=encode(stored),
        # The operator's process ends here and holds nobody up.
        reason=Reason.OPERATOR.value,
    )
    # No step runs, and nothing is COMPLETE, before the fence bears the assertion out.
    return asserted


def _refused(entry: JournalEntry, assertion: Assertion, why: str) -> AnswerRefused:
    return AnswerRefused(
        operation_id=entry.operation_id, answer=assertion.value, why=why, state=entry.state
    )
