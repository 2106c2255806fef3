"""Taking the name from bytes that are not needed, when nobody can still be writing to them.

Promise: a name is unlinked only while the kernel shows that nobody has the inode open for writing,
and whoever tries meanwhile is held up and seen. Whatever cannot be proven keeps a name. Not
promised: an `open` that is still in flight at the last check. Source: ADR 0023, steps 7
and 8; the read lease of Linux.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum

from dpone.authoring.record import Ledger, Place
from dpone.contracts.authoring import FILE_BYTES_MAX, Proof, sha256_of
from dpone.contracts.effects import Effect
from dpone.contracts.transaction import Phase
from dpone.ports.files import (
    ChangedDuringRead,
    FilesError,
    FileTooLarge,
    Held,
    NameMissing,
    NameTaken,
)

_QUIET_WAIT_S = 1.0
_QUIET_POLL_S = 0.01


class Retired(StrEnum):
    """What became of the bytes."""

    GONE = "gone"
    RESCUED = "rescued"
    """Written to after its name was gone; a copy has the recovery name."""
    DIFFERS = "differs"
    """Not the inode and digest that were named; nothing was done."""
    UNPROVEN = "unproven"
    """Right, and somebody may still write to it or has changed its mode, owner or other attributes
    since they were copied; nothing was unlinked."""


def retire(
    ledger: Ledger,
    identity: str,
    digest: str,
    *,
    accept_unproven: bool,
    before: Callable[[], None] | None = None,
) -> Retired:
    """Unlink the side file if it is this inode with this digest and provably quiet.

    `before` is called when inode and digest are right, with the proof held, and before anything
    is unlinked. Raises `FilesError`.
    """
    place, name = ledger.place, ledger.current.exchange_name
    held = place.folder.hold(name)
    if held is None:
        return Retired.DIFFERS
    try:
        proof = held.prove()
        if held.look().identity != identity or _digest(held) != digest:
            return Retired.DIFFERS
        if before is not None:
            before()
        is_free = proof is Proof.PROVEN or (proof is Proof.UNKNOWN and accept_unproven)
        if not is_free or (proof is Proof.PROVEN and not held.undisturbed()):
            return Retired.UNPROVEN
        if ledger.phase is not Phase.REMOVING and _is_marked(ledger, held):
            return Retired.UNPROVEN
        with place.probe(Effect.AUTHORING_DISCARD):
            place.folder.unlink(name)
        if proof is Proof.PROVEN and not held.undisturbed():
            return _rescue(ledger, held, digest)
        return Retired.GONE
    finally:
        held.close()


def set_aside(ledger: Ledger) -> bool:
    """Move the side file to the recovery name, and sync; False when that name is taken.

    Nothing is ever overwritten, and a rename touches no byte of what it moves.
    """
    place, journal = ledger.place, ledger.current
    try:
        with place.probe(Effect.AUTHORING_SET_ASIDE):
            place.folder.move(journal.exchange_name, journal.recovery_name)
    except NameTaken:
        return False
    except NameMissing:
        # An earlier run had moved it, or its owner took it away.
        return True
    place.sync()
    return True


def newer_of(place: Place, *names: str) -> str:
    """Which of two versions was written later, by their own times: `target`, or `recovery`.

    The other one bears the first of the names that is there; empty when there are no two.
    """
    found = (place.folder.look(name) for name in names)
    other = next((look for look in found if look is not None), None)
    target = place.folder.look(place.leaf)
    if other is None or target is None:
        return ""
    return "recovery" if other.modified_ns > target.modified_ns else "target"


def _is_marked(ledger: Ledger, held: Held) -> bool:
    """Whether the side file has attributes that the target will not show when it is gone.

    The process that made the exchange knows what it copied. Another one compares with what the
    target shows: somebody may have changed either, and the side file then keeps what he meant.
    """
    if ledger.given is not None:
        return held.attributes() != ledger.given
    journal = ledger.current
    if held.look().identity != journal.expected_identity:
        # Our own file, which was never shown for longer than an exchange and its way back.
        return False
    return differs_from_target(ledger.place, held)


def differs_from_target(place: Place, held: Held) -> bool:
    """Whether a file has other attributes than what bears the authoritative name, if anything."""
    try:
        target = place.folder.hold(place.leaf)
    except FilesError:
        # Nothing that could be compared with.
        return True
    if target is None:
        return False
    try:
        return held.attributes() != target.attributes()
    finally:
        target.close()


def _digest(held: Held) -> str:
    try:
        return sha256_of(held.read(FILE_BYTES_MAX))
    except (ChangedDuringRead, FileTooLarge):
        return ""


def _settled(held: Held, deadline: float) -> bytes:
    """The bytes when two reads agree, at the latest some time after the deadline.

    Raises `ChangedDuringRead` when somebody never stops writing.
    """
    while True:
        try:
            return held.read(FILE_BYTES_MAX)
        except ChangedDuringRead:
            if time.monotonic() > deadline + _QUIET_WAIT_S:
                raise
            time.sleep(_QUIET_POLL_S)


def _rescue(ledger: Ledger, held: Held, digest: str) -> Retired:
    """Somebody opened the file while its name went: let him write, and keep what he wrote."""
    held.release()
    deadline = time.monotonic() + _QUIET_WAIT_S
    while held.prove() is not Proof.PROVEN and time.monotonic() < deadline:
        time.sleep(_QUIET_POLL_S)
    data = _settled(held, deadline)
    if sha256_of(data) == digest:
        return Retired.GONE
    place, name = ledger.place, ledger.current.recovery_name
    # Else a power cut could keep both names, and the side file could not be set aside.
    place.sync()
    try:
        staged = place.folder.stage(data, held)
        with place.probe(Effect.AUTHORING_RESCUE):
            place.folder.link(staged, name)
    except FilesError:
        with place.probe(Effect.AUTHORING_RESCUE):
            staged = place.folder.create(name, data, held)
    staged.close()
    # Every caller syncs next.
    return Retired.RESCUED
