"""Recovery of one leaf: reads what is there, asks the table, acts, and looks again.

Promise: killed anywhere inside itself, the next run finds a row of the same table; nobody's bytes
lose their last name; a kept name never blocks the leaf. It looks at one journal and the names in
it, and never scans. Linearization point: none of its own; it finishes or undoes an exchange.
Source: ADR 0023, journal recovery.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from dpone.authoring.aside import Acted, set_record_aside, unfinished
from dpone.authoring.record import Ledger, Malformed, Place, find
from dpone.authoring.retire import Retired, newer_of, retire, set_aside
from dpone.contracts.authoring import (
    FILE_BYTES_MAX,
    ConfinedRecoveryOutcome,
    Status,
    sha256_of,
)
from dpone.contracts.effects import Effect
from dpone.contracts.recovery_rules import Side, Target, decide
from dpone.contracts.transaction import PHASE_OFFSET, EarlierTransaction, Phase
from dpone.ports.files import (
    ChangedDuringRead,
    FilesError,
    Folder,
    NameMissing,
    NameTaken,
)

_ROUNDS_MAX = 12


@dataclass(frozen=True, slots=True)
class Rules:
    """How far recovery may go.

    `accept_unproven`: somebody vouches that nobody edits, where the kernel cannot tell.
    `by_hand`: what cannot be read may be moved too. `nonce` names what is set aside of a journal
    that cannot be read.
    """

    accept_unproven: bool = False
    by_hand: bool = False
    nonce: str = ""


def recover(place: Place, rules: Rules) -> ConfinedRecoveryOutcome:
    """Finish or undo what an earlier run left at this leaf.

    Raises `TransactionInProgress` while its owner lives, `RecordUnreadable` when this user cannot
    tell, `FilesError` when nothing can be read, and `RecoveryRequired` when it failed half-way.
    """
    try:
        ledger = find(place)
    except Malformed as error:
        return set_record_aside(place, error.name, rules.nonce)
    if ledger is None:
        return ConfinedRecoveryOutcome(found=False)
    acted = Acted(place.probe)
    ledger.place = Place(place.folder, place.leaf, acted)
    try:
        # What a crash has left may not yet be durable; nothing is decided on it before.
        place.sync()
        if isinstance(ledger.journal, EarlierTransaction):
            from dpone.authoring.earlier import recover_earlier

            return recover_earlier(ledger, accept_unproven=rules.accept_unproven)
        # Its last phase may have been written and not yet be durable when its owner died.
        ledger.record.patch(PHASE_OFFSET, str(int(ledger.phase)).encode())
        return settle(ledger, rules)
    except FilesError as error:
        if not acted.has_acted:
            raise
        raise unfinished(place, error, *_kept(ledger)) from error
    finally:
        ledger.record.close()


def _kept(ledger: Ledger) -> Iterator[str]:
    """The names under which bytes that are not ours lie now, as far as that can be told."""
    journal, folder = ledger.journal, ledger.place.folder
    with suppress(FilesError):
        if isinstance(journal, EarlierTransaction):
            from dpone.authoring.earlier import kept_name

            names = [journal.exchange_name, kept_name(ledger)]
        elif side_of(ledger) is Side.OURS:
            names = [journal.recovery_name]
        else:
            names = [journal.exchange_name, journal.recovery_name]
        yield from [name for name in names if folder.look(name) is not None]


def side_of(ledger: Ledger) -> Side:
    """What the side name shows; nothing is changed."""
    return _Recovery(ledger, Rules()).side()


def settle(ledger: Ledger, rules: Rules) -> ConfinedRecoveryOutcome:
    """Act by the table until the journal is gone or nothing more may be touched."""
    worker = _Recovery(ledger, rules)
    for _ in range(_ROUNDS_MAX):
        done = worker.step()
        if done is not None:
            return done
    return worker.stuck("names_keep_changing")


class _Recovery:
    """One recovery; each step is one action of the table."""

    def __init__(self, ledger: Ledger, rules: Rules) -> None:
        self.ledger = ledger
        self.place = ledger.place
        self.folder: Folder = ledger.place.folder
        self.rules = rules

    def step(self) -> ConfinedRecoveryOutcome | None:
        """Read, decide, act; None: look again."""
        phase = self.ledger.phase
        side, target = self.side(), self.target()
        action = decide(phase, side, target, by_hand=self.rules.by_hand)
        return getattr(self, f"_{action.value}")(target)  # type: ignore[no-any-return]

    # -- what is there

    def side(self) -> Side:
        """What the side name shows."""
        journal = self.ledger.current
        known = {
            journal.expected_identity: (journal.expected_sha256, Side.EARLIER),
            journal.desired_identity: (journal.desired_sha256, Side.OURS),
        }
        shown = self._shown(journal.exchange_name)
        if shown is None:
            return Side.ABSENT
        identity, found = shown
        if found is None:
            return Side.OPAQUE
        digest, verdict = known.get(identity, ("", Side.OTHER))
        return verdict if digest and found == digest else Side.OTHER

    def target(self) -> Target:
        """What the authoritative name shows."""
        journal = self.ledger.current
        shown = self._shown(self.place.leaf)
        if shown is None:
            return Target.ABSENT
        identity, found = shown
        if found is None:
            return Target.OPAQUE
        is_ours = identity == journal.desired_identity and found == journal.desired_sha256
        return Target.OURS if is_ours else Target.OTHER

    def _shown(self, leaf: str) -> tuple[str, str | None] | None:
        """Identity and digest of what bears a name; None when nothing does.

        The digest is empty while the file changes as we read, and None when it cannot be read.
        """
        try:
            held = self.folder.hold(leaf)
        except FilesError:
            return "", None
        if held is None:
            return None
        try:
            return held.look().identity, sha256_of(held.read(FILE_BYTES_MAX))
        except ChangedDuringRead:
            return "", ""
        except FilesError:
            return "", None
        finally:
            held.close()

    def stuck(self, reason: str) -> ConfinedRecoveryOutcome:
        """Nothing more may be touched; the side file, if any, is what to look at."""
        name = self.ledger.current.exchange_name
        return ConfinedRecoveryOutcome(
            found=True,
            status=Status.RECOVERY_REQUIRED,
            reason=reason,
            recovery_name=name if self.folder.look(name) is not None else None,
            cleanup_required=True,
        )

    # -- the actions

    def _touch_nothing(self, _: Target) -> ConfinedRecoveryOutcome:
        return self.stuck("unsafe_path")

    def _drop_side(self, target: Target) -> ConfinedRecoveryOutcome:
        if self.side() is Side.OPAQUE:
            # By hand only: what is no side file of ours moves, and is not dropped.
            return self._keep(target)
        self._drop(self.ledger.current.exchange_name)
        return self._close(target)

    def _close(self, target: Target) -> ConfinedRecoveryOutcome:
        self.ledger.close()
        return self._not_committed(target)

    def _close_committed(self, target: Target) -> ConfinedRecoveryOutcome:
        self.ledger.close()
        return self._committed(target)

    def _discard_earlier(self, target: Target) -> ConfinedRecoveryOutcome | None:
        return self._retire_earlier(target, commit=False)

    def _commit(self, target: Target) -> ConfinedRecoveryOutcome | None:
        return self._retire_earlier(target, commit=True)

    def _retire_earlier(self, target: Target, *, commit: bool) -> ConfinedRecoveryOutcome | None:
        journal = self.ledger.current
        became = retire(
            self.ledger,
            journal.expected_identity,
            journal.expected_sha256,
            accept_unproven=self.rules.accept_unproven,
            before=self._say_committed if commit else None,
        )
        if became is Retired.DIFFERS:
            return None
        if became is Retired.UNPROVEN:
            return self._keep_committed(target)
        self.place.sync()
        self.ledger.close()
        return self._committed(target, kept=became is Retired.RESCUED)

    def _say_committed(self) -> None:
        self.ledger.enter(Phase.COMMITTED, Effect.AUTHORING_COMMIT)

    def _keep_committed(self, target: Target) -> ConfinedRecoveryOutcome:
        if not set_aside(self.ledger):
            return self.stuck("recovery_name_taken")
        self.ledger.close()
        return self._committed(target, kept=True)

    def _finish_keeping(self, target: Target) -> ConfinedRecoveryOutcome:
        return self._keep(target)

    def _keep_earlier(self, target: Target) -> ConfinedRecoveryOutcome:
        kept = self._keep(target)
        if kept.cleanup_required:
            return kept
        return self._committed(target, kept=True)

    def _keep(self, target: Target) -> ConfinedRecoveryOutcome:
        if self.ledger.phase != Phase.KEPT:
            self.ledger.enter(Phase.KEPT, Effect.AUTHORING_KEEP)
        journal = self.ledger.current
        newer = newer_of(self.place, journal.exchange_name, journal.recovery_name)
        if not set_aside(self.ledger):
            return self.stuck("recovery_name_taken")
        self.ledger.close()
        name = journal.recovery_name
        return ConfinedRecoveryOutcome(
            found=True,
            status=Status.RECOVERY_REQUIRED,
            reason="kept" if target is not Target.ABSENT else "kept_target_missing",
            recovery_name=name if self.folder.look(name) is not None else None,
            newer=newer,
        )

    def _exchange_back(self, _: Target) -> None:
        if self.ledger.phase == Phase.PREPARED:
            self.ledger.enter(Phase.ROLLING_BACK, Effect.AUTHORING_ROLL_BACK)
        try:
            with self.place.probe(Effect.AUTHORING_EXCHANGE_BACK):
                self.folder.exchange(self.place.leaf, self.ledger.current.exchange_name)
        except NameMissing:
            return
        self.place.sync()

    def _discard_ours(self, target: Target) -> ConfinedRecoveryOutcome | None:
        journal = self.ledger.current
        became = retire(
            self.ledger,
            journal.desired_identity,
            journal.desired_sha256,
            accept_unproven=self.rules.accept_unproven,
        )
        if became is Retired.DIFFERS:
            return None
        if became is Retired.UNPROVEN and not set_aside(self.ledger):
            return self.stuck("recovery_name_taken")
        self.place.sync()
        self.ledger.close()
        return self._not_committed(target, kept=became is not Retired.GONE)

    # -- removal of a file that we created

    def _removed(self, target: Target) -> ConfinedRecoveryOutcome:
        self.ledger.close()
        reason = "removed" if target is Target.ABSENT else "not_owned"
        look = self.folder.look(self.place.leaf)
        if look is not None and look.identity == self.ledger.current.expected_identity:
            reason = "not_committed"
        return ConfinedRecoveryOutcome(
            found=True,
            status=Status.ROLLED_BACK,
            reason=reason,
            recovery_name=self._kept_name(kept=False),
        )

    def _discard_removed(self, target: Target) -> ConfinedRecoveryOutcome | None:
        journal = self.ledger.current
        became = retire(
            self.ledger,
            journal.expected_identity,
            journal.expected_sha256,
            accept_unproven=self.rules.accept_unproven,
        )
        if became is Retired.DIFFERS:
            return None
        if became is Retired.UNPROVEN and not set_aside(self.ledger):
            return self.stuck("recovery_name_taken")
        self.place.sync()
        self.ledger.close()
        name = None if became is Retired.GONE else journal.recovery_name
        return ConfinedRecoveryOutcome(
            found=True,
            status=Status.ROLLED_BACK,
            reason="removed" if name is None else "kept",
            recovery_name=name,
        )

    def _put_back(self, _: Target) -> None:
        try:
            with self.place.probe(Effect.AUTHORING_PUT_BACK):
                self.folder.move(self.ledger.current.exchange_name, self.place.leaf)
        except (NameTaken, NameMissing):
            return
        self.place.sync()

    # -- words for what happened

    def _expected(self) -> tuple[str, str]:
        journal = self.ledger.current
        return journal.expected_identity, journal.expected_sha256

    def _drop(self, leaf: str) -> None:
        try:
            with self.place.probe(Effect.AUTHORING_DISCARD):
                self.folder.unlink(leaf)
        except NameMissing:
            return
        self.place.sync()

    def _committed(self, target: Target, *, kept: bool = False) -> ConfinedRecoveryOutcome:
        return ConfinedRecoveryOutcome(
            found=True,
            status=Status.COMMITTED,
            reason="committed",
            recovery_name=self._kept_name(kept=kept),
            changed_since=target is not Target.OURS,
        )

    def _kept_name(self, *, kept: bool) -> str | None:
        """The recovery name, also when an earlier run had moved bytes there and died."""
        name = self.ledger.current.recovery_name
        return name if kept or self.folder.look(name) is not None else None

    def _not_committed(self, target: Target, *, kept: bool = False) -> ConfinedRecoveryOutcome:
        look = self.folder.look(self.place.leaf)
        if look is None or target is Target.ABSENT:
            reason = "source_missing"
        elif self.ledger.phase == Phase.ROLLING_BACK:
            # The inode may be the expected one, written to in place.
            reason = "source_changed"
        elif self._shown(self.place.leaf) == self._expected():
            reason = "not_committed"
        else:
            reason = "source_changed"
        return ConfinedRecoveryOutcome(
            found=True,
            status=Status.ROLLED_BACK,
            reason=reason,
            recovery_name=self._kept_name(kept=kept),
        )
