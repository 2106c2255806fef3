"""Compare-and-replace of one file that people also edit.

Promise: the authoritative name is never absent through our action; whatever any program wrote that
the kernel could show us keeps a name; what the outcome says is true. Linearization point: the
exchange of the file's name with the side name. Not promised: an `open` for writing that is still
in flight at the last check. Source: ADR 0023, compare and replace.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from dpone.authoring.fit import check_folder, check_target, refusal_of
from dpone.authoring.record import Ledger, Place, begin
from dpone.authoring.recover import Rules, recover, settle, side_of
from dpone.authoring.rehearse import rehearse
from dpone.contracts.authoring import (
    FILE_BYTES_MAX,
    ConfinedRecoveryOutcome,
    ConfinedReplaceOutcome,
    Look,
    Status,
    sha256_of,
)
from dpone.contracts.effects import Effect
from dpone.contracts.errors_authoring import (
    AtomicExchangeUnsupported,
    AuthoringError,
    RecoveryRequired,
    SourceChanged,
    SourceMissing,
)
from dpone.contracts.recovery_rules import Side
from dpone.contracts.transaction import (
    NO_IDENTITY,
    SCHEMA,
    Phase,
    Transaction,
    recovery_name,
    side_name,
)
from dpone.ports.files import (
    ExchangeUnsupported,
    FilesError,
    Held,
    NamelessUnsupported,
    Staged,
    SyncFailed,
)

Nonces = Callable[[], str]


class Replacement:
    """One compare-and-replace of one leaf; used once."""

    def __init__(self, place: Place, nonces: Nonces, *, accept_unproven: bool = False) -> None:
        self.place = place
        self.folder = place.folder
        self.nonces = nonces
        self.accept_unproven = accept_unproven

    def run(self, expected_sha256: str, desired: bytes) -> ConfinedReplaceOutcome:
        """Replace the file if its digest is `expected_sha256`.

        Raises an `AuthoringError` for everything that is refused before the exchange; the file is
        then as it was. After the exchange there is an outcome, whatever happens.
        """
        found = self._recover_pending()
        earlier = found.recovery_name
        try:
            outcome = self._held(expected_sha256, desired, earlier)
        except AuthoringError as error:
            if found.found:
                error.after(kept=(self.place.beside(name) for name in found.names))
            raise
        if earlier is None:
            return outcome
        fields = {name: getattr(outcome, name) for name in outcome.__struct_fields__}
        if outcome.recovery_name is None:
            return ConfinedReplaceOutcome(**{**fields, "recovery_name": earlier})
        return ConfinedReplaceOutcome(**{**fields, "also_kept": (earlier,)})

    def _held(
        self, expected_sha256: str, desired: bytes, earlier: str | None
    ) -> ConfinedReplaceOutcome:
        """Replace what the name shows. `earlier`: where the recovery before it kept bytes."""
        with refusal_of(self.place):
            held = self.folder.hold(self.place.leaf)
        if held is None and earlier:
            raise RecoveryRequired(
                path=self.place.path,
                reason="kept_target_missing",
                recovery_name=self.place.told(earlier),
            )
        if held is None:
            raise SourceMissing(path=self.place.path)
        try:
            return self._compare(held, expected_sha256, desired)
        finally:
            held.close()

    def _recover_pending(self) -> ConfinedRecoveryOutcome:
        """Algorithm step 2: nothing new is begun beside something ambiguous."""
        rules = Rules(accept_unproven=self.accept_unproven, nonce=self.nonces())
        with refusal_of(self.place):
            found = recover(self.place, rules)
        if found.found and found.status is Status.RECOVERY_REQUIRED:
            raise RecoveryRequired(
                path=self.place.path,
                reason=found.reason,
                recovery_name=self.place.told(*found.names),
                newer=found.newer,
            )
        return found

    def _compare(self, held: Held, expected: str, desired: bytes) -> ConfinedReplaceOutcome:
        """Algorithm steps 3 and 4."""
        with refusal_of(self.place):
            shown = sha256_of(held.read(FILE_BYTES_MAX))
            if shown == sha256_of(desired):
                return ConfinedReplaceOutcome(
                    status=Status.COMMITTED, changed=False, reason="already_identical"
                )
            if shown != expected:
                raise SourceChanged(path=self.place.path)
            earlier = held.look()
            check_target(self.place, earlier)
            check_folder(self.place)
            staged = self._stage(desired, held)
            # The identity that the exchange will find: in an overlay it is new by now.
            earlier = earlier._replace(identity=held.look().identity)
        try:
            return self._transact(staged, held, earlier, expected, desired)
        finally:
            if staged is not None:
                staged.close()

    def _stage(self, desired: bytes, held: Held) -> Staged | None:
        try:
            return self.folder.stage(desired, held)
        except NamelessUnsupported:
            return None

    def _transact(
        self, staged: Staged | None, held: Held, earlier: Look, expected: str, desired: bytes
    ) -> ConfinedReplaceOutcome:
        nonce = self.nonces()
        journal = Transaction(
            phase=int(Phase.PREPARED if staged is not None else Phase.STAGING),
            schema=SCHEMA,
            version=2,
            target_name=self.place.leaf,
            exchange_name=side_name(nonce),
            recovery_name=recovery_name(nonce),
            expected_sha256=expected,
            desired_sha256=sha256_of(desired),
            expected_identity=earlier.identity,
            desired_identity=staged.look().identity if staged is not None else NO_IDENTITY,
            nonce=nonce,
        )
        with refusal_of(self.place):
            ledger = begin(self.place, journal)
        try:
            refused = self._prepare(ledger, staged, held, desired)
            if refused is not None:
                self._abandon(ledger)
                raise refused
            return self._exchange(ledger, held)
        finally:
            ledger.record.close()

    def _prepare(
        self, ledger: Ledger, staged: Staged | None, held: Held, desired: bytes
    ) -> Exception | None:
        """Algorithm step 5: the journal first, then the side file that it names."""
        try:
            with refusal_of(self.place):
                self.place.sync()
                rehearse(ledger)
                if staged is not None:
                    ledger.given = staged.attributes()
                    with self.place.probe(Effect.AUTHORING_SIDE):
                        self.folder.link(staged, ledger.current.exchange_name)
                else:
                    self._stage_by_name(ledger, held, desired)
                # No sync here: whether the side name or the exchange survives a power cut, the
                # journal knows both names, and the next sync covers them together.
        except Exception as error:  # noqa: BLE001 - whatever it was, the journal must not stay
            return error
        return None

    def _stage_by_name(self, ledger: Ledger, held: Held, desired: bytes) -> None:
        """Without nameless files: the name is in the journal before the file is there."""
        with self.place.probe(Effect.AUTHORING_STAGE):
            side = self.folder.create(ledger.current.exchange_name, desired, held)
        identity, ledger.given = side.look().identity, side.attributes()
        side.close()
        ledger.identify(identity)
        ledger.enter(Phase.PREPARED, Effect.AUTHORING_PREPARE)

    def _abandon(self, ledger: Ledger) -> None:
        """Clear what was prepared; what cannot be cleared now is left to recovery."""
        with suppress(FilesError):
            settle(ledger, Rules(accept_unproven=True))

    def _exchange(self, ledger: Ledger, held: Held) -> ConfinedReplaceOutcome:
        """Algorithm steps 6 to 9. Whatever the call returned: look."""
        side, leaf = ledger.current.exchange_name, self.place.leaf
        failure: FilesError | None = None
        try:
            with self.place.probe(Effect.AUTHORING_EXCHANGE):
                self.folder.exchange(leaf, side)
        except FilesError as error:
            failure = error
        durable = False
        try:
            if failure is None and self.folder.look(side) is None:
                # A file system that reports success and drops a file: one version may be gone.
                self.folder.certify(False)
                return ConfinedReplaceOutcome(
                    status=Status.RECOVERY_REQUIRED, reason="exchange_lied", cleanup_required=True
                )
            durable = self._synced(ledger)
            if not durable and failure is None and side_of(ledger) is Side.EARLIER:
                # A power cut may yet undo the exchange: everything it would need stays.
                return ConfinedReplaceOutcome(
                    status=Status.COMMITTED,
                    cleanup_required=True,
                    durable=False,
                    reason=SyncFailed.reason,
                )
            if failure is None and held.attributes() != ledger.given:
                # Somebody changed mode, owner or label after they had been copied.
                self._roll_back(ledger)
            # What never had the target's name cannot be open in somebody's editor.
            is_clean = failure is not None and side_of(ledger) is Side.OURS
            accepted = self.accept_unproven or is_clean
            found = settle(ledger, Rules(accept_unproven=accepted, by_hand=True))
        except FilesError as error:
            return self._unfinished(ledger, held, error, durable=durable)
        return self._outcome(found, failure, durable=durable)

    def _synced(self, ledger: Ledger) -> bool:
        try:
            self.place.sync()
        except FilesError:
            return False
        ledger.rehearsed = False
        return True

    def _roll_back(self, ledger: Ledger) -> None:
        shown = self.folder.look(self.place.leaf)
        if shown is None or shown.identity != ledger.current.desired_identity:
            return
        ledger.enter(Phase.ROLLING_BACK, Effect.AUTHORING_ROLL_BACK)
        with self.place.probe(Effect.AUTHORING_EXCHANGE_BACK):
            self.folder.exchange(self.place.leaf, ledger.current.exchange_name)
        self.place.sync()

    def _unfinished(
        self, ledger: Ledger, held: Held, error: FilesError, *, durable: bool
    ) -> ConfinedReplaceOutcome:
        """Clearing up failed. Committed or not is told by what is there, never assumed."""
        try:
            shown = self.folder.look(self.place.leaf)
            side = self.folder.look(ledger.current.exchange_name)
        except FilesError:
            # Not even a look: the journal stays, and recovery will tell.
            return ConfinedReplaceOutcome(
                status=Status.RECOVERY_REQUIRED,
                cleanup_required=True,
                durable=durable,
                reason=error.reason,
            )
        is_ours = shown is not None and shown.identity == ledger.current.desired_identity
        is_named = side is not None and side.identity == ledger.current.expected_identity
        is_committed = ledger.phase == Phase.COMMITTED or (
            is_ours and (side is None or (is_named and self._is_expected(ledger, held)))
        )
        if is_committed:
            return ConfinedReplaceOutcome(
                status=Status.COMMITTED,
                cleanup_required=True,
                durable=durable,
                recovery_name=self._kept(ledger),
                reason=error.reason,
            )
        return ConfinedReplaceOutcome(
            status=Status.RECOVERY_REQUIRED,
            cleanup_required=True,
            durable=durable,
            recovery_name=ledger.current.exchange_name if side is not None else self._kept(ledger),
            reason=error.reason,
        )

    def _kept(self, ledger: Ledger) -> str | None:
        name = ledger.current.recovery_name
        with suppress(FilesError):
            return name if self.folder.look(name) is not None else None
        return None

    def _is_expected(self, ledger: Ledger, held: Held) -> bool:
        try:
            return sha256_of(held.read(FILE_BYTES_MAX)) == ledger.current.expected_sha256
        except FilesError:
            return False

    def _outcome(
        self, found: ConfinedRecoveryOutcome, failure: FilesError | None, *, durable: bool
    ) -> ConfinedReplaceOutcome:
        if found.status is Status.ROLLED_BACK and isinstance(failure, ExchangeUnsupported):
            self.folder.certify(False)
            raise AtomicExchangeUnsupported(path=self.place.path) from failure
        if found.status is Status.ROLLED_BACK and found.reason == "not_committed":
            if failure is None:
                self.folder.certify(False)
                raise AtomicExchangeUnsupported(path=self.place.path)
            with refusal_of(self.place):
                raise failure
        reason = found.reason
        if found.status is Status.COMMITTED and found.recovery_name:
            reason = "committed_earlier_bytes_kept"
        return ConfinedReplaceOutcome(
            status=found.status,
            changed=found.status is Status.COMMITTED,
            cleanup_required=found.cleanup_required
            or (not durable and found.status is Status.COMMITTED),
            durable=durable,
            recovery_name=found.recovery_name,
            reason=reason,
            newer=found.newer,
        )
