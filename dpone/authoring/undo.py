"""Undoing a publication: compensations in reverse, none of which stops the others.

Promise: only files of a receipt are removed and only our own bytes are put back; each failure is
recorded and the rest still runs. Source: ADR 0023, multi-file authoring apply, steps 5 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from dpone.authoring.confined import ConfinedFiles, split
from dpone.authoring.fragments import Fragments
from dpone.authoring.receipts import OpenReceipt
from dpone.authoring.record import Place
from dpone.authoring.remove import standing
from dpone.authoring.survey import digest_of
from dpone.contracts.authoring import FILE_BYTES_MAX, Kind, Status, sha256_of
from dpone.contracts.effects import Effect
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_authoring import RecoveryRequired, SourceChanged, SourceMissing
from dpone.contracts.publication import (
    Change,
    Conclusion,
    Entry,
    FileOutcome,
    Receipt,
    conclude,
)
from dpone.contracts.transaction import recovery_name
from dpone.ports.files import FilesError, NameMissing

_KEPT = "earlier_bytes_kept"


class Undo:
    """Compensates for what a publication did. `files` is told what became of each path."""

    def __init__(self, confined: ConfinedFiles, files: dict[str, FileOutcome]) -> None:
        self.confined = confined
        self.files = files
        self.issues: list[FileOutcome] = []
        # What the recovery of single files kept on the way.
        self.kept: list[FileOutcome] = []

    def compensate(self, edited: list[Change], new: Fragments) -> list[FileOutcome]:
        """Put edits back, remove new files and empty folders; return what failed."""
        for change in reversed(edited):
            self._attempt(change.path, partial(self._put_back, change))
        if new.receipt is not None:
            self._withdraw(new.receipt.receipt)
        for path in reversed(new.folders):
            self._attempt(path, partial(self._remove_folder, path))
        if new.receipt is not None and not self.issues:
            self._attempt(new.receipt.place.path, new.receipt.settle)
        return [*self.kept, *self.issues]

    def conclude(self, found: OpenReceipt) -> tuple[Conclusion, list[FileOutcome]]:
        """Conclude what a dead process left; return what was decided, and what failed or stays.

        What it left may not yet be durable; nothing is decided on it before.
        """
        receipt = found.receipt
        stays: list[FileOutcome] = []
        for entry in reversed(receipt.entries):
            self._attempt(entry.path, partial(self._settle_names, entry))
            self._attempt(entry.path, partial(self._drop_side, entry, receipt.phase))
        shown = self._root_digest(found.place)
        action = conclude(shown, receipt.before_sha256, receipt.after_sha256)
        if action is Conclusion.WITHDRAW:
            self._withdraw(receipt)
        elif action is Conclusion.LEAVE:
            stays = [
                FileOutcome(path=entry.path, action="preserved", reason="root_changed")
                for entry in receipt.entries
            ]
        if not self.issues:
            self._attempt(found.place.path, found.settle)
        self.issues, issues = [], self.issues
        return action, [*stays, *self.kept, *issues]

    def _withdraw(self, receipt: Receipt) -> None:
        for entry in reversed(receipt.entries):
            self._attempt(entry.path, partial(self._drop_side, entry, receipt.phase))
            self._attempt(entry.path, partial(self._leave if entry.shared else self._remove, entry))

    def _leave(self, entry: Entry) -> None:
        """Say of a file that others may stand on that it stays; one that is not there is not."""
        try:
            with self.confined.place(entry.path) as place:
                shown = place.folder.look(place.leaf)
        except SourceMissing:
            return
        if shown is not None:
            is_own = shown.identity == entry.identity
            self._tell(entry.path, "preserved", "shared" if is_own else "not_owned")

    def _settle_names(self, entry: Entry) -> None:
        """Have durable what an earlier recovery did here, before the receipt that knows it goes."""
        try:
            with self.confined.place(entry.path) as place:
                place.sync()
        except SourceMissing:
            return

    def _attempt(self, path: str, step: Callable[[], None]) -> None:
        try:
            step()
        except DponeError as error:
            self.issues.append(FileOutcome(path=path, action="failed", reason=error.code))
            self.kept += kept_before(error, path)
        except FilesError as error:
            self.issues.append(FileOutcome(path=path, action="failed", reason=error.reason))

    def _put_back(self, change: Change) -> None:
        assert change.before is not None
        try:
            outcome = self.confined.replace_file_if_digest(
                change.path, expected_sha256=change.after_sha256, desired=change.before
            )
        except (SourceChanged, SourceMissing) as error:
            self._tell(change.path, "preserved", error.code)
            self.kept += kept_before(error, change.path)
            return
        self.kept += _also(change.path, outcome.also_kept)
        name = beside(change.path, outcome.recovery_name)
        if outcome.committed:
            self._tell(change.path, "rolled_back", outcome.reason, name)
        elif outcome.status is Status.ROLLED_BACK:
            self._tell(change.path, "preserved", outcome.reason, name)
        else:
            self._tell(change.path, "recovery_required", outcome.reason, name)
        if outcome.cleanup_required:
            self.issues.append(
                FileOutcome(
                    path=change.path, action="failed", reason=outcome.reason, recovery_name=name
                )
            )

    def _remove(self, entry: Entry) -> None:
        try:
            outcome = self.confined.remove_file_if_owned(entry.owned())
        except SourceMissing:
            return
        self.kept += _also(entry.path, outcome.also_kept)
        name = beside(entry.path, outcome.recovery_name)
        if outcome.removed or (outcome.reason == "missing" and name):
            self._tell(entry.path, "rolled_back", outcome.reason, name)
        elif outcome.reason == "not_owned":
            self._tell(entry.path, "preserved", outcome.reason, name)
        elif outcome.cleanup_required:
            # It is on its way: its own journal tells the next run how far.
            self._tell(entry.path, "failed", outcome.reason, name)
        elif name:
            # Two files of others met here; both stay.
            self._tell(entry.path, "preserved", outcome.reason, name)
        elif outcome.reason != "missing":
            self._put_off(entry, outcome.reason)
        if outcome.cleanup_required:
            self.issues.append(
                FileOutcome(
                    path=entry.path, action="failed", reason=outcome.reason, recovery_name=name
                )
            )

    def _put_off(self, entry: Entry, reason: str) -> None:
        """Say of a file that was on its way and got its name back whether it still has to go.

        Somebody wrote to it meanwhile, or it could not be read under its other name: in that case
        the receipt stays, and so does what it says of the file.
        """
        with self.confined.place(entry.path) as place:
            shown = standing(place, entry.owned())
        if shown == "not_owned":
            self._tell(entry.path, "preserved", shown)
        elif not shown:
            self._tell(entry.path, "failed", reason)
            self.issues.append(FileOutcome(path=entry.path, action="failed", reason=reason))

    def _drop_side(self, entry: Entry, phase: int) -> None:
        """Remove a side file, or keep it under a recovery name when somebody wrote to it.

        What is no file there is somebody's, and is kept as well: it would be in the way for ever.
        A power cut can take the rename to its own name back, and leave what was written since. An
        incomplete one never had another name, and holds nobody's bytes.
        """
        parent, leaf = split(entry.path)
        try:
            with self.confined.files.folder(parent) as folder:
                shown = folder.look(entry.side)
                if shown is None:
                    return
                is_file = shown.kind is Kind.FILE
                place = Place(folder, leaf, self.confined.probe)
                if is_file and (phase == 0 or _is_entry(place, entry)):
                    with place.probe(Effect.AUTHORING_DISCARD):
                        folder.unlink(entry.side)
                else:
                    name = recovery_name(self.confined.nonces())
                    with place.probe(Effect.AUTHORING_SET_ASIDE):
                        folder.move(entry.side, name)
                    self._tell(entry.path, "preserved", "side_file_changed", place.beside(name))
                place.sync()
        except NameMissing:
            return

    def _remove_folder(self, path: str) -> None:
        parent, leaf = split(path)
        with self.confined.files.folder(parent) as folder:
            with self.confined.probe(Effect.AUTHORING_WITHDRAW):
                folder.remove_folder(leaf)
            Place(folder, leaf, self.confined.probe).sync()

    def _root_digest(self, place: Place) -> str | None:
        """Empty: absent, as a root that was to be created. None: cannot be read."""
        look = place.folder.look(place.leaf)
        if look is None:
            return ""
        if look.kind is not Kind.FILE:
            return None
        try:
            return digest_of(place)
        except FilesError:
            return None

    def _tell(self, path: str, action: str, reason: str, name: str | None = None) -> None:
        self.files[path] = FileOutcome(path=path, action=action, reason=reason, recovery_name=name)


def _is_entry(place: Place, entry: Entry) -> bool:
    """Whether the side name shows the very file of an entry, unchanged."""
    held = place.folder.hold(entry.side)
    if held is None:
        return False
    try:
        is_same = held.look().identity == entry.identity
        return is_same and sha256_of(held.read(FILE_BYTES_MAX)) == entry.sha256
    finally:
        held.close()


def kept_before(error: DponeError, path: str) -> list[FileOutcome]:
    """What a refused change of a single file had kept; its names are in the error alone."""
    names = list(error.kept)
    if isinstance(error, RecoveryRequired):
        names += str(error.fields.get("recovery_name", "none")).split(", ")
    return [
        FileOutcome(path=path, action="preserved", reason=_KEPT, recovery_name=name)
        for name in dict.fromkeys(names)
        # A field that was cut short ends no name.
        if name and name != "none" and not name.endswith("…")
    ]


def tell_prior(error: DponeError, prior: Sequence[FileOutcome]) -> DponeError:
    """Say in the error what concluding an interrupted change kept, and what it left."""
    return error.after(
        kept=(file.recovery_name for file in prior if file.recovery_name),
        left=(file.path for file in prior if file.stays and not file.recovery_name),
    )


def _also(path: str, leaves: Iterable[str]) -> list[FileOutcome]:
    """Bytes that the recovery of an earlier change kept before this one."""
    return [
        FileOutcome(path=path, action="preserved", reason=_KEPT, recovery_name=beside(path, leaf))
        for leaf in leaves
    ]


def beside(path: str, leaf: str | None) -> str | None:
    """The project-relative path of a sibling of `path`."""
    parent, _ = split(path)
    return f"{parent}/{leaf}" if leaf and parent else leaf


def all_beside(path: str, *leaves: str | None) -> str:
    """The project-relative paths of siblings for a message; `none` when there are none."""
    return ", ".join(name for leaf in leaves if (name := beside(path, leaf))) or "none"
