"""The receipts of all operations: one closed file each, in a directory that only its owner enters.

Promise: a receipt is replaced whole and durable; one that is torn, foreign, or of another owner or
mode is named, left as it is, and blocks; our own unfinished temporaries are cleared; what file
systems put there by themselves is tolerated. Memory does not grow with their number.
Source: ADR 0043.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from dpone.contracts.authoring import Kind, Look
from dpone.contracts.cache_layout import RECEIPTS, is_tolerated, text_of
from dpone.contracts.effects import Effect
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_retention import ReceiptInvalid
from dpone.contracts.retention_receipt import (
    RECEIPT_BYTES_MAX,
    LegacyReceipt,
    Receipt,
    decode_receipt,
    encode_receipt,
    receipt_name,
)
from dpone.ports.cachefiles import CacheFiles, CacheFolder
from dpone.ports.files import FilesError, NameMissing, NameTaken
from dpone.ports.probe import Probe
from dpone.retention.store import Nonces, clear_temporaries, is_temporary, put, read

FILES_MAX = 10_000
TOTAL_BYTES_MAX = 64 * 1024 * 1024
WARN_AT = 0.9
_NAME = re.compile(r"sha256-[0-9a-f]{64}\.json")
_PRIVATE, _OTHERS = 0o700, 0o077


def is_receipt(name: str) -> bool:
    """Whether a name is one of a receipt."""
    return _NAME.fullmatch(name) is not None


class Receipts:
    """The receipt directory of one cache."""

    def __init__(self, files: CacheFiles, probe: Probe, nonces: Nonces) -> None:
        self.files = files
        self.probe = probe
        self.nonces = nonces
        self.count = 0
        self.bytes = 0

    # -- reading

    def find(self, operation_id: str) -> Receipt | LegacyReceipt | None:
        """The receipt of an operation. Raises `ReceiptInvalid`."""
        with self._folder() as folder:
            if folder is None:
                return None
            return self._read(folder, receipt_name(operation_id))

    def raw(self, operation_id: str) -> bytes | None:
        """The bytes of a receipt as they lie there, whoever owns the directory by now."""
        with self._folder(check=False) as folder:
            if folder is None:
                return None
            return read(folder, receipt_name(operation_id), RECEIPT_BYTES_MAX)

    def every(self, *, check: bool = True) -> Iterator[Receipt | LegacyReceipt]:
        """All receipts, one at a time; the whole inventory is checked.

        Without `check` owners and modes do not count: whoever may read them may list them. Raises
        `ReceiptInvalid` for the first file that is none.
        """
        self.count, self.bytes = 0, 0
        with self._folder(check=check) as folder:
            if folder is None:
                return
            for name, kind in folder.entries():
                if is_tolerated(name) or is_temporary(name, is_receipt):
                    continue
                if kind is not Kind.FILE or not is_receipt(name):
                    raise _invalid(name, "it is no receipt")
                found = self._read(folder, name, check=check)
                if found is not None:
                    self.count += 1
                    yield found

    def tolerated(self) -> list[str]:
        """Names that file systems put among the receipts by themselves."""
        with self._folder(check=False) as folder:
            if folder is None:
                return []
            return sorted(text_of(name) for name, _ in folder.entries() if is_tolerated(name))

    @property
    def is_nearly_full(self) -> bool:
        """Whether an archive is due, by what the last look at all of them showed."""
        return self.count >= FILES_MAX * WARN_AT or self.bytes >= TOTAL_BYTES_MAX * WARN_AT

    def _read(
        self, folder: CacheFolder, name: str, *, check: bool = True
    ) -> Receipt | LegacyReceipt | None:
        look = folder.look(name)
        if look is None:
            return None
        is_private = look.mode & _OTHERS == 0 and look.owner == self.files.user
        if look.kind is not Kind.FILE or (check and not is_private):
            raise _invalid(name, _fault(look, self.files.user))
        try:
            data = read(folder, name, RECEIPT_BYTES_MAX)
            if data is None:
                return None
            self.bytes += len(data)
            found = decode_receipt(data)
        except ContractInvalid as error:
            raise _invalid(name, str(error.fields["reason"])) from error
        except FilesError as error:
            raise _invalid(name, error.reason) from error
        if receipt_name(found.operation_id) != name:
            raise _invalid(name, "it is the receipt of another operation")
        return found

    @contextmanager
    def _folder(self, *, create: bool = False, check: bool = True) -> Iterator[CacheFolder | None]:
        """The open directory, checked by its descriptor; None when there is none."""
        with self.files.folder("") as root:
            if create and root.look(RECEIPTS) is None:
                make_private(root, RECEIPTS)
            try:
                opened = root.below(RECEIPTS)
                with opened as folder:
                    if check:
                        check_private(folder.itself(), RECEIPTS, self.files.user)
                    yield folder
            except NameMissing:
                yield None
            except FilesError as error:
                raise _invalid(RECEIPTS, error.reason) from error

    # -- writing

    def clear(self) -> int:
        """Remove our own unfinished temporaries."""
        with self._folder() as folder:
            if folder is None:
                return 0
            return clear_temporaries(folder, is_receipt, user=self.files.user, probe=self.probe)

    def save(self, receipt: Receipt | LegacyReceipt, effect: Effect) -> None:
        """Replace a receipt and have it durable; the directory is made for the first one.

        Raises `ReceiptInvalid` when it cannot be written.
        """
        name = receipt_name(receipt.operation_id)
        with self._folder(create=effect is Effect.RETENTION_BEGIN) as folder:
            if folder is None:
                raise _invalid(RECEIPTS, "the directory is gone")
            try:
                put(
                    folder,
                    name,
                    encode_receipt(receipt),
                    effect=effect,
                    probe=self.probe,
                    nonce=self.nonces(),
                )
            except FilesError as error:
                raise _invalid(name, error.reason) from error


def check_private(look: Look, name: str, user: int) -> None:
    """Refuse a directory of ours that others may enter. Setgid is tolerated."""
    if look.kind is not Kind.FOLDER or look.mode & 0o777 != _PRIVATE or look.owner != user:
        raise _invalid(name, _fault(look, user))


def make_private(root: CacheFolder, name: str) -> None:
    """Make a directory that only its owner enters, durably. Raises `FilesError`.

    It has its name only when it has its mode; what a crash left of an earlier attempt is used.
    """
    temporary = f"{name}.making"
    with suppress(NameTaken):
        root.make_folder(temporary)
    root.set_mode(temporary, _PRIVATE)
    root.move(temporary, name)
    root.sync()


def _fault(look: Look, user: int) -> str:
    if look.kind is Kind.LINK:
        return "it is a symbolic link"
    if look.owner != user:
        return f"it belongs to user {look.owner}, and {user} runs this"
    return f"its mode is {look.mode:04o}"


def _invalid(name: str, reason: str) -> ReceiptInvalid:
    shown = name if name == RECEIPTS else f"{RECEIPTS}/{text_of(name)}"
    return ReceiptInvalid(file=shown, reason=reason)
