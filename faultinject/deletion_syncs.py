"""Every sync of the deletion, found in its source, and each one left out in turn.

A site is a call of `sync()` on a directory or a log, by module, function and place in the function;
a replaced control file has a site for each effect that writes one, an append one for what it says.
A site whose loss nobody notices is one too many, or the judge is blind.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from dpone.contracts.cache_layout import LOG, RECEIPTS, TRASH
from dpone.contracts.retention_archive import ARCHIVE
from dpone.contracts.retention_log import Moved, Tombstone
from faultinject.authoring_inodes import Inode
from faultinject.deletion_memory import MemoryCacheFolder, MemoryLog

PACKAGE = "dpone.retention"
MODULES = ("archive", "firm", "receipts", "store", "transact", "wal")
REPLACED = (
    "retention.begin",
    "retention.history",
    "retention.progress",
    "retention.commit",
    "retention.abort",
    "retention.compact snapshot",
    "retention.compact log",
    "retention.acknowledge",
    "retention.archive",
    "retention.drift",
)
APPENDED = (
    "prepared",
    "detached",
    "deletion_started",
    "committed",
    "restored",
    "tombstone",
)
PUT, FIRM = "store.put#1", "firm.make_firm#2"
FIRM_PATHS = ("deployments", "activations", TRASH, RECEIPTS, ARCHIVE, "")
BYTES = ("bytes of a control file", "bytes of a cut", "a mode")


def sites() -> tuple[str, ...]:
    """Every site, by its name."""
    found: list[str] = []
    for stem in MODULES:
        found += [name for name, _ in _lines(stem) if name not in (PUT, FIRM)]
    found += [f"{PUT} {effect}" for effect in REPLACED]
    found += [f"{FIRM} {path or 'root'}" for path in FIRM_PATHS]
    return (*found, *(f"append {said}" for said in APPENDED), *BYTES)


def _lines(stem: str) -> list[tuple[str, int]]:
    """The sites of one module, with their lines in the source."""
    found: list[tuple[str, int]] = []
    module = importlib.import_module(f"{PACKAGE}.{stem}")
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.FunctionDef):
            calls = [it for it in ast.walk(node) if isinstance(it, ast.Call) and _is_sync(it)]
            lines = sorted(it.lineno for it in calls)
            found += [(f"{stem}.{node.name}#{n}", line) for n, line in enumerate(lines, 1)]
    return found


def _is_sync(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "sync"


@contextmanager
def left_out(site: str) -> Iterator[list[str]]:
    """Run a block without one sync; the list holds one entry for each time it was due."""
    due: list[str] = []
    with ExitStack() as stack:
        if site in BYTES or site.startswith("append "):
            stack.enter_context(_bytes_left_out(site, due))
        else:
            stack.enter_context(_call_left_out(site, due))
        yield due


@contextmanager
def _call_left_out(site: str, due: list[str]) -> Iterator[None]:
    name, _, effect = site.partition(" ")
    stem = name.partition(".")[0]
    line = dict(_lines(stem))[name]

    def is_it(frame: Any) -> bool:
        if (frame.f_globals.get("__name__"), frame.f_lineno) != (f"{PACKAGE}.{stem}", line):
            return False
        return not effect or _effect_of(frame) == effect

    folder_sync, log_sync = MemoryCacheFolder.sync, MemoryLog.sync

    def folder(self: MemoryCacheFolder) -> None:
        if is_it(sys._getframe(1)):
            due.append(site)
        else:
            folder_sync(self)

    def log(self: MemoryLog) -> None:
        if is_it(sys._getframe(1)):
            due.append(site)
        else:
            log_sync(self)

    with _set(MemoryCacheFolder, "sync", folder), _set(MemoryLog, "sync", log):
        yield


def _effect_of(frame: Any) -> str:
    """What the replaced file is written for, or which directory is made firm."""
    if "path" in frame.f_locals:
        return str(frame.f_locals["path"]).partition("/")[0] or "root"
    effect, leaf = str(frame.f_locals["effect"].value), frame.f_locals["leaf"]
    if effect != "retention.compact":
        return effect
    return f"{effect} {'log' if leaf == LOG else 'snapshot'}"


@contextmanager
def _bytes_left_out(site: str, due: list[str]) -> Iterator[None]:
    folder_force, log_force = MemoryCacheFolder._force, MemoryLog._force

    def folder(self: MemoryCacheFolder, call: str, inode: Inode) -> None:
        if site == {"create-record": BYTES[0], "mode": BYTES[2]}.get(call):
            due.append(site)
        else:
            folder_force(self, call, inode)

    def log(self: MemoryLog, call: str) -> None:
        said = BYTES[1] if call == "cut" else f"append {_said()}" if call == "append" else ""
        if site == said:
            due.append(site)
        else:
            log_force(self, call)

    with _set(MemoryCacheFolder, "_force", folder), _set(MemoryLog, "_force", log):
        yield


def _said() -> str:
    """What the record says that is being appended."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "_append":
        frame = frame.f_back
    if frame is None:
        return ""
    last = list(frame.f_locals["records"])[-1]
    if isinstance(last, Moved):
        return str(last.phase)
    return "tombstone" if isinstance(last, Tombstone) else "prepared"


@contextmanager
def _set(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if original is None:
            delattr(owner, name)
        else:
            setattr(owner, name, original)
