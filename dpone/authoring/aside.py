"""What bears a record's name and is no record: moved to a recovery name, so the file works again.

Promise: a rename touches no byte and overwrites nothing; what was moved is named whatever fails
afterwards. Source: ADR 0023, journal recovery.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dpone.authoring.leftovers import sides_beside
from dpone.authoring.record import Place
from dpone.contracts.authoring import ConfinedRecoveryOutcome, Status
from dpone.contracts.effects import Effect
from dpone.contracts.errors_authoring import RecoveryRequired
from dpone.contracts.transaction import recovery_name
from dpone.ports.files import FilesError, NameMissing
from dpone.ports.probe import Probe


class Acted:
    """Passes effects on, and knows whether one of them may have changed what a name shows."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.has_acted = False

    @contextmanager
    def __call__(self, effect: Effect, /) -> Iterator[None]:
        """Around one effect; a sync alone changes nothing that can be seen."""
        self.has_acted = self.has_acted or effect is not Effect.AUTHORING_SYNC
        with self.probe(effect):
            yield


def set_record_aside(place: Place, name: str, nonce: str) -> ConfinedRecoveryOutcome:
    """Keep what is no journal of this leaf, or no draft of one, under a recovery name.

    A journal may have named a side file with earlier bytes, which then is named by nothing but us;
    a draft names nothing that exists. Raises `RecoveryRequired` when the move is not durable.
    """
    kept = recovery_name(nonce)
    try:
        with place.probe(Effect.AUTHORING_SET_ASIDE):
            place.folder.move(name, kept)
    except NameMissing:
        return ConfinedRecoveryOutcome(found=False)
    is_journal = name == place.journal
    sides = sides_beside(place.folder) if is_journal else ()
    try:
        place.sync()
    except FilesError as error:
        raise unfinished(place, error, kept, *sides) from error
    return ConfinedRecoveryOutcome(
        found=True,
        status=Status.RECOVERY_REQUIRED,
        reason="journal_invalid" if is_journal else "draft_invalid",
        recovery_name=kept,
        sides=sides,
    )


def unfinished(place: Place, error: FilesError, *names: str) -> RecoveryRequired:
    """The refusal for a recovery that had begun to act; `names` are siblings that hold bytes.

    What is said of a change that was refused beforehand is not true any more.
    """
    told = place.told(*names)
    return RecoveryRequired(path=place.path, reason=error.reason, recovery_name=told)
