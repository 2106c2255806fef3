"""What a plan reads: files and names of the project, through the same confined door.

Promise: nothing is written, nothing is followed out of the project, and a pending transaction is
reported and left alone. Source: ADR 0023, commands and calls.
"""

from __future__ import annotations

import unicodedata

from dpone.authoring.confined import ConfinedFiles, split
from dpone.authoring.fit import refusal
from dpone.contracts.authoring import FILE_BYTES_MAX
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_authoring import FileUnreadable, FolderReadOnly, SourceMissing
from dpone.contracts.errors_project import FolderUnreadable, NameCollision
from dpone.contracts.publication import decode_receipt, receipt_name
from dpone.ports.files import AccessDenied, FilesError, NameMissing

NAMES_MAX = 100_000


class Tree:
    """The project as a plan sees it."""

    def __init__(self, confined: ConfinedFiles) -> None:
        self.confined = confined
        self.files = confined.files

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None when there is none. Raises an `AuthoringError`."""
        try:
            with self.confined.place(path) as place:
                try:
                    held = place.folder.hold(place.leaf)
                except AccessDenied as error:
                    # The file's own name can be looked at, unless its folder is closed.
                    place.folder.look(place.leaf)
                    raise FileUnreadable(path=path, reason=error.reason) from error
                if held is None:
                    return None
                try:
                    return held.read(FILE_BYTES_MAX)
                finally:
                    held.close()
        except SourceMissing:
            return None
        except FolderReadOnly as error:
            raise unreadable(error, path) from error
        except FilesError as error:
            raise refusal(error, path) from error

    def is_there(self, path: str) -> bool:
        """Whether anything bears the name."""
        try:
            with self.confined.place(path) as place:
                return place.folder.look(place.leaf) is not None
        except SourceMissing:
            return False
        except FolderReadOnly as error:
            raise unreadable(error, path) from error

    def is_pending(self, path: str) -> bool:
        """Whether an interrupted change of the file waits for recovery."""
        try:
            return self.confined.pending(path)
        except SourceMissing:
            return False
        except FolderReadOnly as error:
            raise unreadable(error, path) from error

    def receipt(self, root: str) -> str | None:
        """The durable receipt beside a root, while there is one and it can be seen."""
        folder, leaf = split(root)
        try:
            with self.confined.place(root) as place:
                name = receipt_name(leaf, place.folder.name_bytes_max)
                is_there = place.folder.look(name) is not None
        except (DponeError, FilesError):
            return None
        return (f"{folder}/{name}" if folder else name) if is_there else None

    def earlier(self, root: str) -> tuple[str, ...]:
        """The new files of the interrupted publication that waits beside a root."""
        folder, leaf = split(root)
        try:
            with self.confined.place(root) as place:
                name = receipt_name(leaf, place.folder.name_bytes_max)
            data = self.read(f"{folder}/{name}" if folder else name)
            return tuple(entry.path for entry in decode_receipt(data or b"", leaf).entries)
        except (DponeError, UnicodeError):
            return ()

    def check_name(self, path: str) -> None:
        """Refuse a new name that collides with an existing one, part by part.

        Raises `NameCollision`: case folding and normalization make some names one.
        """
        parent = ""
        for part in path.split("/"):
            try:
                with self.files.folder(parent) as folder:
                    for name in folder.names(NAMES_MAX):
                        if name != part and folded(name) == folded(part):
                            other = f"{parent}/{name}" if parent else name
                            raise NameCollision(path=path, other=other)
            except NameMissing:
                return
            except AccessDenied as error:
                raise FolderUnreadable(path=path, reason=error.reason) from error
            except FilesError as error:
                if error.reason == "file_too_large":
                    raise FileUnreadable(path=parent, reason=f"over {NAMES_MAX} names") from error
                raise refusal(error, path) from error
            parent = f"{parent}/{part}" if parent else part


def unreadable(error: FolderReadOnly, path: str) -> FolderUnreadable:
    """Who only reads is told that he may not read, not what a change would need."""
    return FolderUnreadable(path=path, reason=error.fields.get("reason", "access_denied"))


def folded(name: str) -> str:
    """The name as a case-insensitive, normalizing file system compares it."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def parent_of(path: str) -> str:
    """The folder of a path."""
    return split(path)[0]
