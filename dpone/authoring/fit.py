"""Whether a file and its directory are fit for a change, each refusal with a code of its own.

Promise: everything that can be known beforehand is refused before anything is written.
Source: ADR 0023, step 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dpone.authoring.record import Place
from dpone.contracts import errors_authoring as errors
from dpone.contracts.authoring import Kind, Look
from dpone.ports import files

_WRITE_BITS = 0o222

_Refusal = Callable[..., errors.AuthoringError]
_REFUSALS: dict[type[files.FilesError], _Refusal] = {
    files.NameMissing: errors.SourceMissing,
    files.NameTaken: errors.FileConflict,
    files.LinkForbidden: errors.PathUnsafe,
    files.NotRegular: errors.PathUnsafe,
    files.NotAFolder: errors.PathInvalid,
    files.NameInvalid: errors.PathInvalid,
    files.FileTooLarge: errors.FileUnreadable,
    files.ChangedDuringRead: errors.SourceChanged,
    files.AccessDenied: errors.FolderReadOnly,
    files.StorageFull: errors.StorageExhausted,
    files.NameBusy: errors.TargetMountPoint,
    files.ExchangeUnsupported: errors.AtomicExchangeUnsupported,
    files.SyncFailed: errors.SyncRefused,
    files.OwnershipLost: errors.OwnershipNotPreservable,
}


@contextmanager
def refusal_of(place: Place) -> Iterator[None]:
    """Turn a `FilesError` of the block into the refusal that a person reads."""
    try:
        yield
    except files.FilesError as error:
        raise refusal(error, place.path) from error


def refusal(error: files.FilesError, path: str) -> errors.AuthoringError:
    """The refusal for a failed file operation on `path`."""
    kind = _REFUSALS.get(type(error), errors.WriteFailed)
    *on_the_way, leaf = path.split("/")
    is_place = isinstance(error, files.LinkForbidden | files.NotAFolder)
    if is_place and error.leaf in on_the_way and error.leaf != leaf:
        # It is not the file itself that stands in the way.
        return kind(path=path, reason=error.reason, part=error.leaf)
    return kind(path=path, reason=error.reason)


def check_target(place: Place, look: Look) -> None:
    """Refuse a file that an exchange would harm. Raises an `AuthoringError`."""
    if look.kind is not Kind.FILE:
        raise errors.PathUnsafe(path=place.path, reason="not_regular_file")
    if look.links == 0:
        # A save by rename has just taken its name.
        raise errors.SourceChanged(path=place.path)
    if look.links != 1:
        raise errors.TargetHardLinked(path=place.path)
    if not look.mode & _WRITE_BITS:
        raise errors.TargetReadOnly(path=place.path)


def check_folder(place: Place) -> None:
    """Refuse a directory in which a change would fail for sure. Raises an `AuthoringError`."""
    reason = place.folder.fitness(place.leaf)
    if reason == files.NameBusy.reason:
        raise errors.TargetMountPoint(path=place.path)
    if reason == files.ExchangeUnsupported.reason or place.folder.certified() is False:
        raise errors.AtomicExchangeUnsupported(path=place.path)
    if reason == files.OwnershipLost.reason:
        raise errors.OwnershipNotPreservable(path=place.path)
    if reason:
        raise errors.FolderReadOnly(path=place.path, reason=reason)
