"""The first look at every path of a plan: what is to be created, and what refuses the whole of it.

Promise: nothing is written; whatever can be known beforehand is refused before the first change.
Source: ADR 0023, multi-file authoring apply, step 1.
"""

from __future__ import annotations

from dpone.authoring.confined import split
from dpone.authoring.fit import check_folder, check_target, refusal
from dpone.authoring.record import Place
from dpone.contracts.authoring import FILE_BYTES_MAX, Kind, sha256_of
from dpone.contracts.errors_authoring import (
    FileConflict,
    PathInvalid,
    PathUnsafe,
    PlanTooLarge,
    SourceChanged,
    SourceMissing,
)
from dpone.contracts.publication import (
    FILES_MAX,
    RECEIPT_BYTES_MAX,
    Change,
    FileOutcome,
    Publication,
    receipt_bytes,
)
from dpone.ports.files import Files, FilesError, NameMissing
from dpone.ports.probe import Probe


def check_bounds(plan: Publication) -> None:
    """Refuse a plan that no receipt may hold. Raises `PlanTooLarge`.

    A receipt that is longer than it may be read would be taken for none by whoever finds it.
    """
    reason = ""
    if len(plan.changes) > FILES_MAX:
        reason = f"more than {FILES_MAX} files at once"
    elif receipt_bytes(plan) > RECEIPT_BYTES_MAX:
        reason = f"the names of its new files take more than {RECEIPT_BYTES_MAX} bytes"
    if reason:
        raise PlanTooLarge(path=plan.root.path, reason=reason)


class Survey:
    """Looks at the files of a plan."""

    def __init__(self, files: Files, probe: Probe) -> None:
        self.files = files
        self.probe = probe

    def check(self, plan: Publication, said: dict[str, FileOutcome]) -> list[Change]:
        """Look at every path. Returns the files to create; `said` is told which are done.

        Raises an `AuthoringError` for a conflict, and for a place that is not fit.
        """
        return [change for change in plan.changes if self._is_missing(change, said)]

    def _is_missing(self, change: Change, said: dict[str, FileOutcome]) -> bool:
        """Whether the file is to be created; conflicts are raised."""
        parent, leaf = split(change.path)
        try:
            with self.files.folder(parent) as folder:
                place = Place(folder, leaf, self.probe)
                look = folder.look(leaf)
                if look is None:
                    return self._absent(change)
                if look.kind is not Kind.FILE:
                    raise PathUnsafe(path=change.path, reason=f"it is a {look.kind.value}")
                shown = digest_of(place)
                if shown == change.after_sha256:
                    said[change.path] = FileOutcome(path=change.path, action="no_op")
                    return False
                if change.is_new:
                    raise FileConflict(path=change.path)
                if shown != change.before_sha256:
                    raise SourceChanged(path=change.path)
                check_target(place, look)
                check_folder(place)
                return False
        except NameMissing:
            return self._absent(change)
        except FilesError as error:
            raise refusal(error, change.path) from error

    def _absent(self, change: Change) -> bool:
        # A file that was found right may have been an interrupted run's, and gone with it.
        if not change.is_new and change.before != change.after:
            raise SourceMissing(path=change.path)
        self._check_new(change.path)
        return True

    def _check_new(self, path: str) -> None:
        """Refuse a new file where names cannot be changed, or taken back safely."""
        parent, leaf = split(path)
        while True:
            try:
                with self.files.folder(parent) as folder:
                    check_folder(Place(folder, leaf, self.probe))
                    return
            except NameMissing as error:
                if not parent:
                    reason = "the project's folder is missing"
                    raise PathInvalid(path=path, reason=reason) from error
                parent, _, leaf = parent.rpartition("/")
            except FilesError as error:
                raise refusal(error, path) from error


def digest_of(place: Place) -> str:
    """The digest of what a name shows; empty when it shows nothing. Raises `FilesError`."""
    held = place.folder.hold(place.leaf)
    if held is None:
        return ""
    try:
        return sha256_of(held.read(FILE_BYTES_MAX))
    finally:
        held.close()
