"""Recovery of a journal of version 1, which an earlier release left.

It knew bytes only, so what bytes cannot decide is kept under a recovery name; the leaf works again
in either case. Source: ADR 0023, journal recovery.
"""

from __future__ import annotations

from dpone.authoring.record import Ledger
from dpone.authoring.retire import differs_from_target, newer_of
from dpone.contracts.authoring import (
    FILE_BYTES_MAX,
    ConfinedRecoveryOutcome,
    Kind,
    Proof,
    Status,
    sha256_of,
)
from dpone.contracts.effects import Effect
from dpone.contracts.recovery_rules import EarlierAction, decide_earlier
from dpone.contracts.transaction import JOURNAL_BYTES_MAX, EarlierTransaction, recovery_name
from dpone.ports.files import FilesError


def recover_earlier(ledger: Ledger, *, accept_unproven: bool) -> ConfinedRecoveryOutcome:
    """Finish, undo or keep. Raises `FilesError`."""
    journal = ledger.journal
    assert isinstance(journal, EarlierTransaction)
    target, side = _digest(ledger, journal.target_name), _digest(ledger, journal.exchange_name)
    action = decide_earlier(side, target, journal.expected_sha256, journal.desired_sha256)
    is_gone = side is None
    if action is EarlierAction.DISCARD:
        is_gone = _discard(ledger, journal.exchange_name, side or "", accept_unproven)
    kept = kept_name(ledger)
    newer = newer_of(ledger.place, journal.exchange_name, kept)
    if not is_gone:
        with ledger.place.probe(Effect.AUTHORING_SET_ASIDE):
            ledger.place.folder.move(journal.exchange_name, kept)
    name = kept if ledger.place.folder.look(kept) is not None else None
    ledger.place.sync()
    ledger.close()
    if action is EarlierAction.KEEP:
        return ConfinedRecoveryOutcome(
            found=True,
            status=Status.RECOVERY_REQUIRED,
            reason="kept" if target is not None else "kept_target_missing",
            recovery_name=name,
            newer=newer,
        )
    is_committed = target == journal.desired_sha256
    return ConfinedRecoveryOutcome(
        found=True,
        status=Status.COMMITTED if is_committed else Status.ROLLED_BACK,
        reason=_reason(target, is_committed=is_committed),
        recovery_name=name,
    )


def kept_name(ledger: Ledger) -> str:
    """Where bytes are kept: from the journal's own bytes, so that a run after a kill finds them."""
    return recovery_name(sha256_of(ledger.record.read(JOURNAL_BYTES_MAX))[:32])


def _reason(target: str | None, *, is_committed: bool) -> str:
    if is_committed:
        return "committed"
    return "source_missing" if target is None else "not_committed"


def _discard(ledger: Ledger, leaf: str, digest: str, accept_unproven: bool) -> bool:
    held = ledger.place.folder.hold(leaf)
    if held is None:
        return True
    try:
        proof = held.prove()
        is_free = proof is Proof.PROVEN or (proof is Proof.UNKNOWN and accept_unproven)
        if not is_free or sha256_of(held.read(FILE_BYTES_MAX)) != digest:
            return False
        if proof is Proof.PROVEN and not held.undisturbed():
            return False
        is_earlier = digest == ledger.journal.expected_sha256
        if is_earlier and differs_from_target(ledger.place, held):
            return False
        with ledger.place.probe(Effect.AUTHORING_DISCARD):
            ledger.place.folder.unlink(leaf)
        return True
    except FilesError:
        return False
    finally:
        held.close()


def _digest(ledger: Ledger, leaf: str) -> str | None:
    """None: absent; empty: cannot be read as a file."""
    look = ledger.place.folder.look(leaf)
    if look is None:
        return None
    if look.kind is not Kind.FILE:
        return ""
    try:
        held = ledger.place.folder.hold(leaf)
        if held is None:
            return None
        try:
            return sha256_of(held.read(FILE_BYTES_MAX))
        finally:
            held.close()
    except FilesError:
        return ""
