"""Every sync of the authoring code, found in its source, and each one left out in turn.

A site is a call of `place.sync()`, or of a place made on the spot, by module, function and place in
the function; the syncs of bytes have sites of their own. A site whose loss nobody notices is one
too many, or the judge is blind.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dpone.authoring import record
from faultinject.authoring_inodes import Inode
from faultinject.disk import MemoryFolder, MemoryRecord

PACKAGE = "dpone.authoring"
BYTES = ("bytes of the staged file", "bytes of the new record", "byte of a patch")


def sites(modules: frozenset[str]) -> tuple[str, ...]:
    """Every sync site of these modules, `module.function#n`, then those of bytes."""
    found: list[str] = []
    package = importlib.import_module(PACKAGE)
    for info in pkgutil.iter_modules(package.__path__):
        if info.name in modules:
            module = importlib.import_module(f"{PACKAGE}.{info.name}")
            found += [name for name, _ in _lines(module)]
    return (*found, *BYTES)


def _lines(module: Any) -> list[tuple[str, int]]:
    """The sites of one module, with their lines in the source."""
    found: list[tuple[str, int]] = []
    stem = module.__name__.rpartition(".")[2]
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(node, ast.FunctionDef):
            continue
        lines = sorted(
            call.lineno for call in ast.walk(node) if isinstance(call, ast.Call) and _is_sync(call)
        )
        found += [(f"{stem}.{node.name}#{n}", line) for n, line in enumerate(lines, 1)]
    return found


def _is_sync(node: ast.Call) -> bool:
    if not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value
    if isinstance(owner, ast.Call):
        return node.func.attr == "sync" and getattr(owner.func, "id", "") == "Place"
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return node.func.attr == "sync" and name == "place"


@contextmanager
def left_out(site: str) -> Iterator[list[str]]:
    """Run a block without one sync; the list holds one entry for each time it was due."""
    due: list[str] = []
    if site in BYTES:
        with _bytes_left_out(site, due):
            yield due
        return
    stem = site.partition(".")[0]
    module = importlib.import_module(f"{PACKAGE}.{stem}")
    line = dict(_lines(module))[site]
    original = record.Place.sync

    def sync(place: record.Place) -> None:
        frame = sys._getframe(1)
        if frame.f_globals.get("__name__") == module.__name__ and frame.f_lineno == line:
            due.append(site)
            return
        original(place)

    setattr(record.Place, "sync", sync)  # noqa: B010 - a method put in place for one block
    try:
        yield due
    finally:
        setattr(record.Place, "sync", original)  # noqa: B010


@contextmanager
def _bytes_left_out(site: str, due: list[str]) -> Iterator[None]:
    calls = {
        BYTES[0]: ("stage", "create"),
        BYTES[1]: ("stage-record", "create-record"),
        BYTES[2]: ("patch",),
    }[site]
    original = MemoryFolder._force, MemoryRecord._force

    def folder_force(folder: MemoryFolder, call: str, inode: Inode) -> None:
        if call in calls:
            due.append(site)
        else:
            original[0](folder, call, inode)

    def record_force(held: MemoryRecord) -> None:
        if "patch" in calls:
            due.append(site)
        else:
            original[1](held)

    setattr(MemoryFolder, "_force", folder_force)  # noqa: B010
    setattr(MemoryRecord, "_force", record_force)  # noqa: B010
    try:
        yield
    finally:
        setattr(MemoryFolder, "_force", original[0])  # noqa: B010
        setattr(MemoryRecord, "_force", original[1])  # noqa: B010
