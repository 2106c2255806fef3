"""The Python interface of authoring: changes of single files that people also edit.

Source: ADR 0023, commands and calls. Everything here composes what `dpone.wiring` joins; nothing
here decides.
"""

from __future__ import annotations

from pathlib import Path

from dpone import wiring
from dpone.contracts.authoring import (
    ConfinedRecoveryOutcome,
    ConfinedReplaceOutcome,
    ConfinedRollbackOutcome,
    OwnedFile,
)


def replace_file_if_digest(
    root: Path,
    path: str,
    *,
    expected_sha256: str,
    desired: bytes,
    accept_unproven: bool = False,
) -> ConfinedReplaceOutcome:
    """Replace the file at `path` (relative to `root`) if its SHA-256 is `expected_sha256`.

    The name is never absent: it shows the earlier bytes, then `desired` (at most 4 MiB). Raises a
    `DponeError` with a stable code for everything that is refused beforehand; after the exchange
    there is an outcome, whatever happens. `accept_unproven` vouches that nobody edits where the
    system cannot tell; without it the earlier bytes are kept there, and the outcome names them.
    """
    desk = wiring.authoring_desk(root, accept_unproven=accept_unproven)
    return desk.confined.replace_file_if_digest(
        path, expected_sha256=expected_sha256, desired=desired
    )


def owned_file(root: Path, path: str, *, expected_sha256: str) -> OwnedFile:
    """The receipt of a file that this program has made, for `remove_file_if_owned`.

    It is taken from the file's descriptor, and stands for this very file: one that is made anew
    under the name is another, also with the same bytes. Raises a `DponeError` with a stable code
    when `path` shows other bytes than those of `expected_sha256`, or no plain file.
    """
    return wiring.authoring_desk(root).confined.owned_file(path, expected_sha256=expected_sha256)


def remove_file_if_owned(
    root: Path, owned: OwnedFile, *, accept_unproven: bool = False
) -> ConfinedRollbackOutcome:
    """Remove the very file of a receipt; whatever else bears its name keeps it.

    `owned_file` gives the receipt, which may be kept as JSON. Raises a `DponeError` with a stable
    code for what is refused beforehand.
    """
    desk = wiring.authoring_desk(root, accept_unproven=accept_unproven)
    return desk.confined.remove_file_if_owned(owned)


def recover_file_transaction(
    root: Path, path: str, *, by_hand: bool = False, accept_unproven: bool = False
) -> ConfinedRecoveryOutcome:
    """Finish or undo what an interrupted change of `path` left; idempotent.

    `by_hand` also moves aside what cannot be read, such as a link or a pipe. Raises a
    `DponeError` while another process is changing the file (exit code 3).
    """
    desk = wiring.authoring_desk(root, accept_unproven=accept_unproven)
    return desk.confined.recover_file_transaction(path, by_hand=by_hand)
