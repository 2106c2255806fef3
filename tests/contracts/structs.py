"""Every struct of `dpone.contracts`, found anew, with strategies that fill them."""

from __future__ import annotations

import importlib
import pkgutil
from types import UnionType
from typing import Any, get_args

import msgspec
from hypothesis import strategies as st

import dpone.contracts
from dpone.contracts.canonical import INTEGER_MAX

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-INTEGER_MAX, INTEGER_MAX) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=4)


def structs() -> list[type[msgspec.Struct]]:
    """All of them, by name."""
    found: dict[str, type[msgspec.Struct]] = {}
    for module in pkgutil.iter_modules(dpone.contracts.__path__, "dpone.contracts."):
        for value in vars(importlib.import_module(module.name)).values():
            is_struct = isinstance(value, type) and issubclass(value, msgspec.Struct)
            if is_struct and value.__module__ == module.name:
                found[f"{module.name}.{value.__name__}"] = value
    return [found[name] for name in sorted(found)]


def closed() -> list[type[msgspec.Struct]]:
    """Those that are read from bytes: they refuse what they do not name."""
    return [kind for kind in structs() if kind.__struct_config__.forbid_unknown_fields]


def filled(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Instances of a struct; what its own checks refuse is not drawn."""
    fields = {field.encode_name: _value(field.type) for field in msgspec.structs.fields(kind)}
    return st.builds(lambda **given: _built(kind, given), **fields).filter(
        lambda made: made is not None
    )


def _built(kind: type[msgspec.Struct], given: dict[str, Any]) -> Any:
    try:
        return kind(**given)
    except ValueError:
        return None


def _value(kind: Any) -> st.SearchStrategy[Any]:
    if kind is Any:
        return JSON
    if kind is str:
        return TEXT
    if kind is int:
        return st.integers(-INTEGER_MAX, INTEGER_MAX)
    if isinstance(kind, UnionType):
        return st.one_of(*map(_value, get_args(kind)))
    text = str(kind)
    if text.startswith("dict[str, typing.Any]") or text == "dict[str, Any]":
        return OBJECTS
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return filled(kind)
    return st.from_type(kind) if kind is not tuple else st.just(())
