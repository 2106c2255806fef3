"""Seeded defects of the authoring code: a rule taken out of a production function, for one block.

A seed names a function, the exact text to take out and what stands in its place. The text has to be
there exactly once, so that a seed that no longer fits its code is an error, never a silent pass.
Nothing on the disk changes; the function is compiled anew and put into every module that holds it.
"""

from __future__ import annotations
import __future__

import ast
import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

PACKAGE = "dpone.authoring"


class Unfit(Exception):
    """The seed's text is not in the function, or is there more than once."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One replacement in one function; `function` may be `Class.method`."""

    module: str
    function: str
    old: str
    new: str = "pass"


@contextmanager
def planted(*cuts: Cut) -> Iterator[None]:
    """Run a block with the cuts in place."""
    with ExitStack() as stack:
        for cut in cuts:
            stack.enter_context(_planted(cut))
        yield


@contextmanager
def _planted(cut: Cut) -> Iterator[None]:
    module = importlib.import_module(f"{PACKAGE}.{cut.module}")
    owner, _, name = cut.function.rpartition(".")
    holder: Any = getattr(module, owner) if owner else module
    original = getattr(holder, name)
    changed = _compiled(cut, original, module.__dict__)
    holders = [holder] if owner else _holders(name, original)
    for each in holders:
        setattr(each, name, changed)
    try:
        yield
    finally:
        for each in holders:
            setattr(each, name, original)


def _holders(name: str, original: object) -> list[Any]:
    """Every module of the package that has the function under its name."""
    return [
        module
        for key, module in list(sys.modules.items())
        if key.startswith(PACKAGE) and getattr(module, name, None) is original
    ]


def _compiled(cut: Cut, original: Any, names: dict[str, Any]) -> Any:
    source = getattr(original, "_seeded_source", None) or _source(original)
    if source.count(cut.old) != 1:
        raise Unfit(f"{cut.module}.{cut.function}: {source.count(cut.old)} times {cut.old!r}")
    tree = ast.parse(source.replace(cut.old, cut.new))
    # Lines stay what they were, so that a sync site can still be told by its line.
    ast.increment_lineno(tree, original.__code__.co_firstlineno - 1)
    flags = __future__.annotations.compiler_flag
    code = compile(tree, f"<seeded {cut.function}>", "exec", flags, True)
    found: dict[str, Any] = {}
    exec(code, names, found)
    changed = found[original.__name__]
    changed._seeded_source = source.replace(cut.old, cut.new)
    return changed


def _source(original: Any) -> str:
    return textwrap.dedent(inspect.getsource(original))
