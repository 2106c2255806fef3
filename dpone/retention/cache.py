"""A cache as it lies on disk: its marker, its control files, and what earlier operations left.

Promise: nothing is written; no link is followed; a directory without our marker is read no further.
What cannot be relied on is a typed error that names the file. Source: ADR 0043.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from dpone.contracts import cache_layout as layout
from dpone.contracts.codec import decode
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_cache import (
    CacheLayoutInvalid,
    CacheLayoutMissing,
    CacheRootMissing,
    CacheUnreadable,
)
from dpone.contracts.errors_retention import ReceiptInvalid
from dpone.contracts.retention_log import Replayed
from dpone.contracts.retention_plan import Closing
from dpone.contracts.retention_receipt import (
    RECEIPT_BYTES_MAX,
    LegacyReceipt,
    Receipt,
    decode_receipt,
    receipt_name,
)
from dpone.ports.cachefiles import CacheFiles, CacheFolder
from dpone.ports.files import FilesError, NameMissing
from dpone.ports.probe import quiet
from dpone.retention.receipts import is_receipt
from dpone.retention.store import is_temporary, read
from dpone.retention.wal import Wal


class Document(NamedTuple):
    """A file outside of the cache that somebody named: the folder it lies in, and its name."""

    files: CacheFiles
    leaf: str

    def read(self, bytes_max: int) -> bytes | None:
        """Its bytes as they are now; None when nothing is there. Raises `FilesError`."""
        try:
            with self.files.folder("") as folder:
                return read(folder, self.leaf, bytes_max)
        except NameMissing:
            return None


@contextmanager
def marked(files: CacheFiles) -> Iterator[CacheFolder]:
    """The open root of a cache that carries our marker.

    Raises `CacheRootMissing`, `CacheLayoutMissing`, `CacheLayoutInvalid`, `CacheUnreadable`.
    """
    with ExitStack() as held:
        try:
            root = held.enter_context(files.folder(""))
        except NameMissing:
            raise CacheRootMissing(root="that was given") from None
        except FilesError as error:
            raise CacheUnreadable(path="the cache root", reason=error.reason) from error
        check_marker(root)
        yield root


def check_marker(root: CacheFolder) -> None:
    """Refuse a directory that is no cache of ours, before anything else is looked at."""
    data = file_at(root, layout.MARKER, layout.MARKER_BYTES_MAX)
    if data is None:
        raise CacheLayoutMissing
    try:
        decode(data, layout.LayoutMarker, bytes_max=layout.MARKER_BYTES_MAX)
    except ContractInvalid as error:
        raise CacheLayoutInvalid(reason=error.fields["reason"]) from error
    for name in layout.EARLIER_LAYOUT:
        if root.look(name) is not None:
            raise CacheLayoutInvalid(reason=f"it holds {name}, which is of an earlier layout")


def file_at(root: CacheFolder, path: str, bytes_max: int) -> bytes | None:
    """The bytes of a file below the root; None when there is none. Raises `CacheUnreadable`."""
    folder, _, leaf = path.rpartition("/")
    try:
        with below(root, folder) as opened:
            return read(opened, leaf, bytes_max)
    except NameMissing:
        return None
    except FilesError as error:
        raise CacheUnreadable(path=path, reason=error.reason) from error


@contextmanager
def below(root: CacheFolder, path: str) -> Iterator[CacheFolder]:
    """Open a directory below the root part by part. Raises `FilesError`."""
    with ExitStack() as held:
        folder = root
        for part in path.split("/") if path else []:
            folder = held.enter_context(folder.below(part))
        yield folder


# -- what earlier operations left ------------------------------------------------------------------


def read_recovery(root: CacheFolder) -> Replayed:
    """The recovery snapshot with its log, as they stand. Raises `RecoveryInvalid`.

    A torn end of the log is passed over and left as it is.
    """
    return Wal(root, quiet, str).load().state


class Receipts(NamedTuple):
    """What the directory of receipts holds: how many, their bytes, and which have not ended."""

    number: int
    size: int
    applying: tuple[Receipt | LegacyReceipt, ...]

    @property
    def closes(self) -> tuple[Closing, ...]:
        """The operations that have not ended, as a plan names them."""
        return tuple(
            Closing(operation_id=it.operation_id, receipt_revision=it.receipt_revision)
            for it in self.applying
        )


def read_receipts(root: CacheFolder) -> Receipts:
    """Look at every receipt, one at a time. Raises `ReceiptInvalid`."""
    count = size = 0
    applying: list[Receipt | LegacyReceipt] = []
    try:
        with root.below(layout.RECEIPTS) as folder:
            for name, _ in folder.entries():
                if layout.is_tolerated(name) or is_temporary(name, is_receipt):
                    continue
                found = _receipt(folder, name)
                if found is None:
                    continue
                receipt, length = found
                count += 1
                size += length
                if receipt.status == "applying":
                    applying.append(receipt)
    except NameMissing:
        return Receipts(0, 0, ())
    except FilesError as error:
        raise ReceiptInvalid(file=layout.RECEIPTS, reason=error.reason) from error
    return Receipts(count, size, tuple(applying))


def _receipt(folder: CacheFolder, name: str) -> tuple[Receipt | LegacyReceipt, int] | None:
    """A receipt and its length; None when it was archived meanwhile."""
    file = f"{layout.RECEIPTS}/{layout.text_of(name)}"
    if not is_receipt(name):
        raise ReceiptInvalid(file=file, reason="its name is no receipt's")
    try:
        data = read(folder, name, RECEIPT_BYTES_MAX)
        if data is None:
            return None
        receipt = decode_receipt(data)
    except ContractInvalid as error:
        raise ReceiptInvalid(file=file, reason=error.fields["reason"]) from error
    except FilesError as error:
        raise ReceiptInvalid(file=file, reason=error.reason) from error
    if receipt_name(receipt.operation_id) != name:
        raise ReceiptInvalid(file=file, reason="it is another operation's")
    return receipt, len(data)
