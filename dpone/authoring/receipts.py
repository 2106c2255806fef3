"""Receipts of new files that outlive the process, one beside the root of each publication.

Promise: before a new file gets its name, its identity and digest are durable here; whoever finds a
receipt without a live owner knows which files were its own. Source: ADR 0023, multi-file authoring
apply, steps 2 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpone.authoring.aside import unfinished
from dpone.authoring.record import Place, drop_draft, is_named, unreadable
from dpone.contracts.effects import Effect
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_authoring import TransactionInProgress
from dpone.contracts.publication import (
    RECEIPT_BYTES_MAX,
    RECEIPT_PHASE_OFFSET,
    Receipt,
    decode_receipt,
    encode_receipt,
    receipt_name,
)
from dpone.contracts.transaction import draft_name, recovery_name
from dpone.ports.files import (
    AccessDenied,
    ChangedDuringRead,
    FilesError,
    FileTooLarge,
    LinkForbidden,
    NamelessUnsupported,
    NameMissing,
    NameTaken,
    NotRegular,
    Record,
)

_LOOKS_MAX = 5


@dataclass(slots=True)
class OpenReceipt:
    """A receipt whose record this process has locked.

    `durable` False: its name is not known to outlive a power cut, so nothing stands on it yet.
    """

    place: Place
    record: Record
    receipt: Receipt
    durable: bool = True

    def complete(self, receipt: Receipt) -> None:
        """Fill in the identities, then say that the files are complete. Raises `SyncFailed`."""
        data = encode_receipt(receipt)
        assert len(data) == len(encode_receipt(self.receipt))
        with self.place.probe(Effect.AUTHORING_PREPARE):
            self.record.patch(RECEIPT_PHASE_OFFSET + 1, data[RECEIPT_PHASE_OFFSET + 1 :])
            self.record.patch(RECEIPT_PHASE_OFFSET, data[RECEIPT_PHASE_OFFSET:][:1])
        self.receipt = receipt

    def settle(self) -> None:
        """Remove the receipt: the new files are the project's, or gone. Raises `FilesError`."""
        name = receipt_name(self.place.leaf, self.place.folder.name_bytes_max)
        with self.place.probe(Effect.AUTHORING_SETTLE):
            self.place.folder.unlink(name)
        # One that comes back after its first sync had failed names files without a name.
        if self.durable:
            self.place.sync()


def open_receipt(place: Place, receipt: Receipt) -> OpenReceipt:
    """Name a receipt, locked and complete. Raises `TransactionInProgress`, `FilesError`.

    Its name is durable only when the caller has synced the folder: what fails then is his to undo.
    """
    name = receipt_name(place.leaf, place.folder.name_bytes_max)
    data = encode_receipt(receipt)
    try:
        return OpenReceipt(place, _named(place, name, data), receipt, durable=False)
    except NameTaken:
        raise TransactionInProgress(path=place.path) from None


def _named(place: Place, name: str, data: bytes) -> Record:
    try:
        record = place.folder.stage_record(data)
    except NamelessUnsupported:
        return _named_by_draft(place, name, data)
    try:
        with place.probe(Effect.AUTHORING_RECEIPT):
            place.folder.link(record, name)
    except BaseException as error:
        if not is_named(place, name, record, error):
            record.close()
            raise
    return record


def _named_by_draft(place: Place, name: str, data: bytes) -> Record:
    draft = draft_name(name)
    with place.probe(Effect.AUTHORING_STAGE):
        record = place.folder.create_record(draft, data)
    try:
        with place.probe(Effect.AUTHORING_RECEIPT):
            place.folder.move(draft, name)
    except (NameTaken, NameMissing):
        drop_draft(place, record, draft)
        record.close()
        raise NameTaken(name) from None
    except BaseException as error:
        if not is_named(place, name, record, error):
            record.close()
            raise
    return record


def find_receipt(place: Place, nonce: str) -> OpenReceipt | str | None:
    """Lock the receipt that an earlier run left beside the root; None when there is none.

    A text is the recovery name under which something was kept that is no receipt, and no draft of
    one. Raises `TransactionInProgress` while its owner lives, `RecordUnreadable` when this user may
    not tell, `FilesError` when nobody can, `RecoveryRequired` when what was kept is not durable.
    """
    name = receipt_name(place.leaf, place.folder.name_bytes_max)
    if not _clear_draft(place, draft_name(name)):
        return _set_aside(place, draft_name(name), nonce)
    for _ in range(_LOOKS_MAX):
        try:
            record = place.folder.record(name)
            if record is None:
                return None
        except (LinkForbidden, NotRegular):
            return _set_aside(place, name, nonce)
        except AccessDenied as error:
            raise unreadable(place, name, error) from error
        if not record.lock():
            record.close()
            raise TransactionInProgress(path=place.path)
        shown = place.folder.look(name)
        if shown is None or shown.identity != record.look().identity:
            record.close()
            continue
        try:
            data = record.read(RECEIPT_BYTES_MAX)
            return OpenReceipt(place, record, decode_receipt(data, place.leaf))
        except (ContractInvalid, FileTooLarge):
            record.close()
            return _set_aside(place, name, nonce)
        except ChangedDuringRead as error:
            record.close()
            # Whoever writes to it now takes no lock of ours.
            raise TransactionInProgress(path=place.path) from error
        except FilesError:
            record.close()
            raise
    raise TransactionInProgress(path=place.path)


def _set_aside(place: Place, name: str, nonce: str) -> str:
    kept = recovery_name(nonce)
    with place.probe(Effect.AUTHORING_SET_ASIDE):
        place.folder.move(name, kept)
    try:
        place.sync()
    except FilesError as error:
        raise unfinished(place, error, kept) from error
    return kept


def _clear_draft(place: Place, draft: str) -> bool:
    """A receipt that its dead owner had not yet named speaks of files that have no name.

    False for what is no file: it would be in the way of every later draft.
    """
    try:
        record = place.folder.record(draft)
        if record is None:
            return True
    except (LinkForbidden, NotRegular):
        return False
    except AccessDenied as error:
        raise unreadable(place, draft, error) from error
    try:
        shown = place.folder.look(draft)
        is_dead = record.lock()
        if is_dead and shown is not None and shown.identity == record.look().identity:
            with place.probe(Effect.AUTHORING_DISCARD):
                place.folder.unlink(draft)
    finally:
        record.close()
    return True
