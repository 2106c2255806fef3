"""What earlier runs left in a folder for people to look at: kept bytes, and side files of nobody.

Promise: nothing is written, locked or followed, and a folder that cannot be read has no leftovers.
A side file whose journal or receipt waits is no leftover: recovery of its file, or of its root,
acts on it. One whose journal cannot be read may wait, and is not listed either.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from dpone.contracts.authoring import Kind
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.publication import RECEIPT_BYTES_MAX, parse_receipt
from dpone.contracts.transaction import JOURNAL_BYTES_MAX, parse_journal
from dpone.ports.files import AccessDenied, Files, FilesError, Folder, LinkForbidden, NotRegular

_NAMES_MAX = 100_000
_FOLDERS_MAX = 10_000
_KEPT = re.compile(r"\.dpone-recovery-[0-9a-f]{32}")
# The second and the third form are what an earlier release left: of an exchange, and of a removal.
_SIDE = re.compile(
    r"\.dpone-side-[0-9a-f]{32}(-[0-9]+)?|\..+\.dpone-(migrate|cas|authoring)-[0-9a-f]{16,24}"
    r"|\.dpone-rollback-[0-9a-f]{32}"
)
_PUBLISHED = re.compile(r"\.dpone-side-[0-9a-f]{32}-[0-9]+")
_JOURNAL = re.compile(r"\..+\.dpone-transaction\.json|\.dpone-[0-9a-f]{32}\.transaction\.json")
_RECEIPT = re.compile(r"\..+\.dpone-publish\.json|\.dpone-[0-9a-f]{32}\.publish\.json")
_SEALED = "*"
"""Stands for every side name: a record that could not be opened may know any of them."""


def leftovers(project_files: Files, folder: str) -> tuple[str, ...]:
    """The names in one folder (project-relative, empty for the root) that nothing waits for.

    Kept bytes (`.dpone-recovery-*`) and orphaned side files (`.dpone-side-*`), sorted.
    """
    names = _names(project_files, folder)
    kept = {name for name in names if _KEPT.fullmatch(name)}
    sides = {name for name in names if _SIDE.fullmatch(name)}
    return tuple(sorted(kept | _orphans(project_files, folder, names, sides)))


def sides_beside(folder: Folder) -> tuple[str, ...]:
    """The side files of an open folder that no readable record knows, sorted; never raises.

    Those of a journal that has just been set aside, or cannot be opened, are among them.
    """
    try:
        names = set(folder.names(_NAMES_MAX))
    except FilesError:
        return ()
    known = _known(folder, names, _JOURNAL, _of_journal)
    known |= _known(folder, names, _RECEIPT, _of_receipt)
    return tuple(sorted(name for name in names if _SIDE.fullmatch(name) and name not in known))


def _orphans(files: Files, folder: str, names: set[str], sides: set[str]) -> set[str]:
    if not sides:
        return set()
    known = _opened(files, folder, names, _JOURNAL, _of_journal)
    if any(_PUBLISHED.fullmatch(name) for name in sides):
        # A publication's receipt lies beside its root, which may be in any folder.
        known |= _receipts(files)
    return set() if _SEALED in known else sides - known


def _receipts(files: Files) -> set[str]:
    """The side names of every receipt of the project."""
    known: set[str] = set()
    todo, seen = [""], 0
    while todo and seen < _FOLDERS_MAX:
        path, seen = todo.pop(), seen + 1
        names = _names(files, path)
        known |= _opened(files, path, names, _RECEIPT, _of_receipt)
        todo += _below(files, path, names)
    return known


def _below(files: Files, path: str, names: set[str]) -> list[str]:
    """The folders in a folder; those of other tools, whose names begin with a dot, are left out."""
    try:
        with files.folder(path) as opened:
            shown = [(name, opened.look(name)) for name in names if not name.startswith(".")]
    except FilesError:
        return []
    found = [name for name, look in shown if look is not None and look.kind is Kind.FOLDER]
    return [f"{path}/{name}" if path else name for name in found]


def _names(files: Files, path: str) -> set[str]:
    try:
        with files.folder(path) as opened:
            return set(opened.names(_NAMES_MAX))
    except FilesError:
        return set()


def _opened(
    files: Files,
    path: str,
    names: set[str],
    shape: re.Pattern[str],
    of: Callable[[Folder, str], set[str]],
) -> set[str]:
    try:
        with files.folder(path) as opened:
            return _known(opened, names, shape, of)
    except FilesError:
        return set()


def _known(
    folder: Folder,
    names: set[str],
    shape: re.Pattern[str],
    of: Callable[[Folder, str], set[str]],
) -> set[str]:
    """The side names that the records of a folder know."""
    known: set[str] = set()
    for name in names:
        if shape.fullmatch(name):
            known |= of(folder, name)
    return known


def _of_journal(folder: Folder, name: str) -> set[str]:
    data = _read(folder, name, JOURNAL_BYTES_MAX)
    if data is None:
        return {_SEALED}
    try:
        found = parse_journal(data)
    except ContractInvalid:
        return set()
    return {found.exchange_name}


def _of_receipt(folder: Folder, name: str) -> set[str]:
    data = _read(folder, name, RECEIPT_BYTES_MAX)
    if data is None:
        return {_SEALED}
    try:
        return {entry.side for entry in parse_receipt(data).entries}
    except ContractInvalid:
        return set()


def _read(folder: Folder, name: str, bytes_max: int) -> bytes | None:
    """The bytes of a record; None when it cannot be opened, nothing when it is no record."""
    try:
        held = folder.hold(name)
    except (LinkForbidden, NotRegular):
        return b""
    except FilesError:
        return None
    if held is None:
        return b""
    try:
        return held.read(bytes_max)
    except AccessDenied:
        return None
    except FilesError:
        return b""
    finally:
        held.close()
