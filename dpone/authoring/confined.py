"""The three confined changes of single files, as ADR 0023 names them.

Promise: paths are project-relative and followed by descriptor; refusals raise an `AuthoringError`
with a stable code and leave the file as it was; outcomes say what the world did.
Source: ADR 0023, commands and calls.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dpone.authoring.fit import refusal
from dpone.authoring.record import Place, pending
from dpone.authoring.recover import Rules, recover
from dpone.authoring.remove import owned_file, remove
from dpone.authoring.replace import Nonces, Replacement
from dpone.contracts.authoring import (
    FILE_BYTES_MAX,
    ConfinedRecoveryOutcome,
    ConfinedReplaceOutcome,
    ConfinedRollbackOutcome,
    OwnedFile,
)
from dpone.contracts.errors_authoring import DigestInvalid, FileUnreadable, PathInvalid
from dpone.contracts.publication import PATH_CHARS_MAX
from dpone.ports.files import Files, FilesError
from dpone.ports.probe import Probe, quiet

_DIGEST = re.compile(r"[0-9a-f]{64}")


def random_nonce() -> str:
    """32 hexadecimal digits that nobody can guess."""
    return secrets.token_hex(16)


class ConfinedFiles:
    """Changes of single files below one project root.

    `accept_unproven`: somebody vouches that nobody edits, where the kernel cannot tell; without
    it earlier bytes are kept under a recovery name there.
    """

    def __init__(
        self,
        files: Files,
        *,
        probe: Probe = quiet,
        nonces: Nonces = random_nonce,
        accept_unproven: bool = False,
    ) -> None:
        self.files = files
        self.probe = probe
        self.nonces = nonces
        self.accept_unproven = accept_unproven

    def replace_file_if_digest(
        self, path: str, *, expected_sha256: str, desired: bytes
    ) -> ConfinedReplaceOutcome:
        """Replace a file whose digest is `expected_sha256` with `desired`.

        Raises an `AuthoringError` for all that is refused before the exchange.
        """
        _check_digest(path, expected_sha256)
        if len(desired) > FILE_BYTES_MAX:
            raise FileUnreadable(path=path, reason=f"more than {FILE_BYTES_MAX} bytes")
        with self.place(path) as place:
            change = Replacement(place, self.nonces, accept_unproven=self.accept_unproven)
            return change.run(expected_sha256, desired)

    def owned_file(self, path: str, *, expected_sha256: str) -> OwnedFile:
        """The receipt of a file whose digest is `expected_sha256`."""
        _check_digest(path, expected_sha256)
        with self.place(path) as place:
            return owned_file(place, path, expected_sha256)

    def remove_file_if_owned(self, owned: OwnedFile) -> ConfinedRollbackOutcome:
        """Remove the very file of a receipt, and nothing else that bears its name."""
        with self.place(owned.path) as place:
            return remove(place, owned, self.nonces, accept_unproven=self.accept_unproven)

    def recover_file_transaction(
        self, path: str, *, by_hand: bool = False
    ) -> ConfinedRecoveryOutcome:
        """Finish or undo what an earlier run left at this file.

        `by_hand`: also move what cannot be read, so that the file can be changed again.
        """
        with self.place(path) as place:
            rules = Rules(
                accept_unproven=self.accept_unproven, by_hand=by_hand, nonce=self.nonces()
            )
            try:
                return recover(place, rules)
            except FilesError as error:
                raise refusal(error, path) from error

    def pending(self, path: str) -> bool:
        """Whether a transaction of this file waits for recovery; nothing is changed."""
        with self.place(path) as place:
            return pending(place)

    @contextmanager
    def place(self, path: str) -> Iterator[Place]:
        """The open folder of a path. Raises `PathInvalid`, `PathUnsafe`."""
        parent, leaf = split(path)
        try:
            opened = self.files.folder(parent)
            with opened as folder:
                if len(leaf.encode()) > folder.name_bytes_max:
                    raise PathInvalid(path=path, reason="its name is too long")
                yield Place(folder, leaf, self.probe)
        except FilesError as error:
            raise refusal(error, path) from error


def _check_digest(path: str, expected_sha256: str) -> None:
    if not _DIGEST.fullmatch(expected_sha256):
        raise DigestInvalid(path=path)


def split(path: str) -> tuple[str, str]:
    """The folder and the leaf of a project-relative path. Raises `PathInvalid`."""
    reason = _fault(path)
    if reason:
        raise PathInvalid(path=path, reason=reason)
    parent, _, leaf = path.rpartition("/")
    return parent, leaf


_FAULTS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("it is empty", lambda path: not path),
    ("it is too long", lambda path: len(path) > PATH_CHARS_MAX),
    ("it is absolute", lambda path: path.startswith("/")),
    ("it leaves the project", lambda path: ".." in path.split("/")),
    ("it has an empty part", lambda path: not all(path.split("/")) or "." in path.split("/")),
    ("it holds a control character", lambda path: any(ord(letter) < 32 for letter in path)),
)


def _fault(path: str) -> str:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return "it is not UTF-8"
    return next((reason for reason, holds in _FAULTS if holds(path)), "")
