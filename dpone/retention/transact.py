"""One occurrence from its name into the trash, and from the trash to nothing.

Promise: detaching compares device, inode and birth time under the promotion lock, and moves the
deployment and its activation by one rename each; from then on only the trash is touched, never a
canonical name; whatever comes back under the same name is another occurrence and stays, with the
activation that it finds there.
Source: ADR 0043, steps 14 and 15.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dpone.contracts.authoring import Kind, Look
from dpone.contracts.cache_layout import TRASH, activation_path, deployment_path, folder_name
from dpone.contracts.effects import Effect
from dpone.contracts.errors_retention_apply import TrashUnsafe
from dpone.contracts.retention_log import Occurrence, Place, Prepared
from dpone.contracts.retention_wal import Transaction, prepared
from dpone.ports.cachefiles import CacheFiles, CacheFolder, OtherFileSystem
from dpone.ports.files import FilesError, NameMissing, NameTaken
from dpone.ports.probe import Probe
from dpone.retention.receipts import make_private
from dpone.retention.scrub import Undeletable, scrub
from dpone.retention.store import Nonces
from dpone.retention.wal import Wal

_ACTIVATION = ".activation"
_SEALED = 0o555


class Drift(Exception):
    """What bears a canonical name is not the occurrence that was reviewed."""


class Transactions:
    """Moves and deletes occurrences. Writes the log, never a receipt."""

    def __init__(self, files: CacheFiles, wal: Wal, probe: Probe, nonces: Nonces) -> None:
        self.files = files
        self.wal = wal
        self.probe = probe
        self.nonces = nonces

    # -- step 10

    def prepare(self, environment: str, deployment_id: str, operation_id: str) -> Prepared | None:
        """The record of a candidate as it is now; None when it is not there."""
        original = deployment_path(environment, deployment_id)
        activation = activation_path(environment, deployment_id)
        root = self._look(original)
        if root is None or root.kind is not Kind.FOLDER:
            return None
        sealed = self._look(activation)
        occurrence = Occurrence(deployment=_place(root), activation=_place(sealed))  # type: ignore[arg-type]
        transaction = prepared(
            deployment_id=deployment_id,
            environment=environment,
            original_path=original,
            detached_path=f"{TRASH}/{folder_name(deployment_id)}.{self.nonces()}",
            activation_path=activation,
            device=root.device,
            inode=occurrence.deployment.inode,
            operation_id=operation_id,
        )
        return Prepared(transaction=transaction, occurrence=occurrence)

    # -- what is there

    def in_trash(self, transaction: Transaction) -> bool:
        """Whether the expected directory is in the trash, whatever the log says."""
        look = self._look(transaction.detached)
        return look is not None and self._is_expected(transaction, look)

    def is_gone(self, transaction: Transaction) -> bool:
        """Whether it has neither its name in the trash nor its own: another cleaner was there."""
        in_trash = self._look(transaction.detached)
        return in_trash is None and not self.is_at_its_name(transaction)

    def is_settled(self, transaction: Transaction) -> bool:
        """Whether its record says nothing that anybody still needs."""
        is_unmoved = transaction.phase == "prepared" and self.is_free(transaction.detached)
        return transaction.phase == "committed" or is_unmoved

    def was_put_back(self, transaction: Transaction) -> bool:
        """Whether it has its name again, also where a crash fell before the record of it."""
        is_moved = transaction.phase == "detached"
        return transaction.phase == "restored" or (is_moved and self.is_at_its_name(transaction))

    def is_at_its_name(self, transaction: Transaction) -> bool:
        """Whether the expected directory has its canonical name."""
        look = self._look(transaction.original)
        return look is not None and self._is_expected(transaction, look)

    def is_name_free(self, transaction: Transaction) -> bool:
        """Whether nothing at all, not even a broken link, bears the canonical name."""
        return self.is_free(transaction.original)

    def is_free(self, path: str) -> bool:
        """Whether nothing at all bears a name below the root."""
        return self._look(path) is None

    def _is_expected(self, transaction: Transaction, look: Look) -> bool:
        occurrence = self.wal.occurrence(transaction)
        if occurrence is None:
            # An earlier release knew device and inode only.
            inode = int(look.identity[:16], 16)
            wanted = (transaction.expected_device, transaction.expected_inode)
            return look.kind is Kind.FOLDER and (look.device, inode) == wanted
        return _is_place(look, occurrence.deployment)

    # -- step 15

    def detach(self, transaction: Transaction) -> None:
        """Move deployment and activation into the trash. The promotion lock is held.

        Raises `Drift` when another occurrence, or none, bears the name.
        """
        occurrence = self.wal.occurrence(transaction)
        if occurrence is None or not self.is_at_its_name(transaction):
            raise Drift(transaction.original)
        sealed = self._look(transaction.activation)
        if not _fits(sealed, occurrence.activation):
            raise Drift(transaction.activation)
        with self._trash() as trash:
            leaf = transaction.detached.rpartition("/")[2]
            with self.probe(Effect.RETENTION_DETACH):
                self._carry(transaction.original, trash, leaf)
            if not self.in_trash(transaction):
                self._put_back(transaction, trash, leaf)
            if occurrence.activation is not None:
                # Never the activation alone: recovery looks for the deployment.
                trash.sync()
                with self.probe(Effect.RETENTION_DETACH_ACTIVATION):
                    self._carry(transaction.activation, trash, leaf + _ACTIVATION)
            trash.sync()

    def _put_back(self, transaction: Transaction, trash: CacheFolder, leaf: str) -> None:
        """It was swapped between the look and the rename. Raises `Drift`."""
        parent, _, canonical = transaction.original.rpartition("/")
        with self.files.folder(parent) as folder, self.probe(Effect.RETENTION_RESTORE):
            trash.carry(leaf, folder, canonical)
            folder.sync()
        trash.sync()
        raise Drift(transaction.original)

    def finish_detach(self, transaction: Transaction) -> None:
        """A crash fell between the two renames: take the activation too, by identity.

        Where the name is taken again, whatever bears it may have been promoted with this very
        activation: it is left, and read-only as before. The promotion lock is held.
        """
        occurrence = self.wal.occurrence(transaction)
        if occurrence is None or occurrence.activation is None:
            return
        if not self.is_name_free(transaction):
            self._seal(transaction)
            return
        sealed = self._look(transaction.activation)
        if sealed is None or not _is_place(sealed, occurrence.activation):
            return
        with self._trash() as trash:
            leaf = transaction.detached.rpartition("/")[2] + _ACTIVATION
            with self.probe(Effect.RETENTION_DETACH_ACTIVATION):
                self._carry(transaction.activation, trash, leaf)
            trash.sync()

    def _carry(self, path: str, trash: CacheFolder, free: str) -> None:
        parent, _, leaf = path.rpartition("/")
        with self.files.folder(parent) as folder:
            # A directory gets another parent only when its owner may write to it.
            folder.unseal(leaf)
            folder.carry(leaf, trash, free)
            folder.sync()

    def delete(self, transaction: Transaction) -> Transaction:
        """Delete what is in the trash, and record it. Raises `Undeletable`."""
        if transaction.phase in ("prepared", "detached"):
            transaction = self.wal.move(transaction, "deletion_started")
        occurrence = self.wal.occurrence(transaction)
        leaf = transaction.detached.rpartition("/")[2]
        with self._trash() as trash:
            identity = self._identity(transaction, trash, leaf)
            with self.probe(Effect.RETENTION_SCRUB):
                scrub(trash, leaf, identity)
                if occurrence is not None and occurrence.activation is not None:
                    scrub(trash, leaf + _ACTIVATION, occurrence.activation.identity)
            try:
                trash.sync()
            except FilesError as error:
                raise Undeletable(error.reason) from error
        return self.wal.move(transaction, "deployment_deleted", "activation_deleted", "committed")

    def _identity(self, transaction: Transaction, trash: CacheFolder, leaf: str) -> str:
        occurrence = self.wal.occurrence(transaction)
        if occurrence is not None:
            return occurrence.deployment.identity
        look = trash.look(leaf)
        return look.identity if look is not None and self._is_expected(transaction, look) else ""

    # -- recovery

    def restore(self, transaction: Transaction, reason: str) -> bool:
        """Give an occurrence its name back; False when something else has it by now."""
        if transaction.phase == "prepared":
            # From here on the log says that it had been moved, whatever the names say.
            transaction = self.wal.move(transaction, "detached")
        with self._trash() as trash:
            leaf = transaction.detached.rpartition("/")[2]
            # The activation first: while the deployment is in the trash, a crash here is seen.
            pairs = (
                (leaf + _ACTIVATION, transaction.activation),
                (leaf, transaction.original),
            )
            for name, path in pairs:
                parent, _, canonical = path.rpartition("/")
                look = trash.look(name)
                if look is None:
                    continue
                if look.kind is Kind.FOLDER:
                    # A loss of power may have sealed it again.
                    trash.unseal(name)
                try:
                    with self.files.folder(parent) as folder, self.probe(Effect.RETENTION_RESTORE):
                        trash.carry(name, folder, canonical)
                        folder.sync()
                except NameTaken:
                    return False
            trash.sync()
        self._seal(transaction)
        self.wal.move(transaction, "restored", reason=reason)
        return True

    def _seal(self, transaction: Transaction) -> None:
        """An activation that has its name again is read-only again."""
        occurrence = self.wal.occurrence(transaction)
        if occurrence is None or occurrence.activation is None:
            return
        look = self._look(transaction.activation)
        if look is not None and look.identity == occurrence.activation.identity:
            parent, _, leaf = transaction.activation.rpartition("/")
            with self.files.folder(parent) as folder:
                folder.set_mode(leaf, _SEALED)

    # -- access

    def _look(self, path: str) -> Look | None:
        parent, _, leaf = path.rpartition("/")
        try:
            with self.files.folder(parent) as folder:
                return folder.look(leaf)
        except NameMissing:
            return None

    @contextmanager
    def _trash(self) -> Iterator[CacheFolder]:
        with self.files.folder("") as root:
            check_trash(root, self.files.user)
            with root.below(TRASH) as trash:
                yield trash


def check_trash(root: CacheFolder, user: int, *, create: bool = True) -> None:
    """Have the trash, and refuse one that others may enter. Raises `TrashUnsafe`."""
    look = root.look(TRASH)
    if look is None:
        if create:
            make_private(root, TRASH)
        return
    if look.kind is not Kind.FOLDER:
        raise TrashUnsafe(file=TRASH, reason="it is no directory")
    if look.mode & 0o777 != 0o700 or look.owner != user:
        raise TrashUnsafe(file=TRASH, reason=f"mode {look.mode:04o}, owner {look.owner}")


def reason_of(error: FilesError) -> str:
    """Why a rename failed, as a stable word."""
    return "other_file_system" if isinstance(error, OtherFileSystem) else error.reason


def _place(look: Look | None) -> Place | None:
    if look is None or look.kind is not Kind.FOLDER:
        return None
    return Place(device=look.device, identity=look.identity)


def _is_place(look: Look, place: Place) -> bool:
    return look.kind is Kind.FOLDER and (look.device, look.identity) == (
        place.device,
        place.identity,
    )


def _fits(look: Look | None, place: Place | None) -> bool:
    if look is None or place is None:
        return look is None and place is None
    return _is_place(look, place)
