"""Removal of a file that this library created, and of nothing else.

Promise: only the inode of the receipt, with the receipt's bytes, loses its name for good; whatever
else bears the name keeps it or gets it back. Linearization point: the rename into quarantine. Not
promised: that a rival's file put there between the look and the rename keeps its name throughout;
it gets it back within the same run, or the next. Source: ADR 0023, created-file rollback.
"""

from __future__ import annotations

from contextlib import suppress

from dpone.authoring.fit import refusal_of
from dpone.authoring.record import Ledger, Place, begin
from dpone.authoring.recover import Rules, recover, settle
from dpone.authoring.replace import Nonces
from dpone.contracts.authoring import (
    FILE_BYTES_MAX,
    ConfinedRollbackOutcome,
    Kind,
    OwnedFile,
    Status,
    sha256_of,
)
from dpone.contracts.effects import Effect
from dpone.contracts.errors_authoring import (
    AuthoringError,
    RecoveryRequired,
    SourceChanged,
    SourceMissing,
)
from dpone.contracts.transaction import (
    NO_DIGEST,
    NO_IDENTITY,
    SCHEMA,
    Phase,
    Transaction,
    recovery_name,
    side_name,
)
from dpone.ports.files import FilesError, NameMissing


def remove(
    place: Place, owned: OwnedFile, nonces: Nonces, *, accept_unproven: bool = False
) -> ConfinedRollbackOutcome:
    """Remove the file of a receipt. Raises an `AuthoringError` before anything is changed."""
    rules = Rules(accept_unproven=accept_unproven, by_hand=True, nonce=nonces())
    with refusal_of(place):
        found = recover(place, Rules(accept_unproven=accept_unproven, nonce=rules.nonce))
    if found.status is Status.RECOVERY_REQUIRED:
        raise RecoveryRequired(
            path=place.path,
            reason=found.reason,
            recovery_name=place.told(*found.names),
            newer=found.newer,
        )
    try:
        done = _removed(place, owned, rules, nonces())
    except AuthoringError as error:
        if found.found:
            error.after(kept=(place.beside(name) for name in found.names))
        raise
    if found.recovery_name is None:
        return done
    fields = {name: getattr(done, name) for name in done.__struct_fields__}
    if done.recovery_name is None:
        return ConfinedRollbackOutcome(**{**fields, "recovery_name": found.recovery_name})
    return ConfinedRollbackOutcome(**{**fields, "also_kept": (found.recovery_name,)})


def _removed(place: Place, owned: OwnedFile, rules: Rules, nonce: str) -> ConfinedRollbackOutcome:
    """Remove what the name shows, if it is the receipt's file."""
    reason = standing(place, owned)
    if reason:
        return ConfinedRollbackOutcome(removed=False, reason=reason)
    with refusal_of(place):
        ledger = begin(place, _journal(place, owned, nonce))
    try:
        with refusal_of(place):
            place.sync()
        try:
            with place.probe(Effect.AUTHORING_QUARANTINE):
                place.folder.move(place.leaf, side_name(nonce))
        except NameMissing:
            pass
        done = settle(ledger, rules)
    except FilesError as error:
        return ConfinedRollbackOutcome(
            removed=False,
            reason=error.reason,
            recovery_name=_kept(ledger),
            cleanup_required=True,
        )
    finally:
        ledger.record.close()
    return ConfinedRollbackOutcome(
        removed=done.reason in ("removed", "kept") and done.status is Status.ROLLED_BACK,
        reason=done.reason,
        recovery_name=done.recovery_name,
        cleanup_required=done.cleanup_required,
        newer=done.newer,
    )


def _kept(ledger: Ledger) -> str | None:
    name = ledger.current.recovery_name
    with suppress(FilesError):
        return name if ledger.place.folder.look(name) is not None else None
    return None


def standing(place: Place, owned: OwnedFile) -> str:
    """Why the name does not show the receipt's file; empty when it does."""
    look = place.folder.look(place.leaf)
    if look is None:
        return "missing"
    if look.kind is not Kind.FILE or (look.identity, look.size) != (owned.identity, owned.size):
        return "not_owned"
    with refusal_of(place):
        held = place.folder.hold(place.leaf)
        if held is None:
            return "missing"
        try:
            is_same = sha256_of(held.read(FILE_BYTES_MAX)) == owned.sha256
        finally:
            held.close()
    return "" if is_same else "not_owned"


def owned_file(place: Place, path: str, expected_sha256: str) -> OwnedFile:
    """The receipt of a file that shows these bytes, from its descriptor.

    Raises `SourceMissing`, `SourceChanged`, and a refusal for what is no plain file.
    """
    with refusal_of(place):
        held = place.folder.hold(place.leaf)
        if held is None:
            raise SourceMissing(path=path)
        try:
            look, data = held.look(), held.read(FILE_BYTES_MAX)
        finally:
            held.close()
    if sha256_of(data) != expected_sha256:
        raise SourceChanged(path=path)
    return OwnedFile(
        path=path,
        device=look.device,
        identity=look.identity,
        size=len(data),
        sha256=expected_sha256,
    )


def _journal(place: Place, owned: OwnedFile, nonce: str) -> Transaction:
    return Transaction(
        phase=int(Phase.REMOVING),
        schema=SCHEMA,
        version=2,
        target_name=place.leaf,
        exchange_name=side_name(nonce),
        recovery_name=recovery_name(nonce),
        expected_sha256=owned.sha256,
        desired_sha256=NO_DIGEST,
        expected_identity=owned.identity,
        desired_identity=NO_IDENTITY,
        nonce=nonce,
    )
