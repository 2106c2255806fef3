"""Writes generated values as YAML lines that every reader reads back as the same values.

Promise: a string that a reader of YAML 1.1 or 1.2 could take for anything else is quoted; text
is not escaped because it is not ASCII; nothing is folded. Not promised: the form that a person
would have chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dpone.contracts.errors_yaml import YamlValueRefused
from dpone.contracts.plainyaml import ROOT, Plain, below, resolve

# Parsers look for the colon of a key within 1,024 characters; quotes and escapes count too.
KEY_CHARS_MAX = 1000
DEPTH_MAX = 30
INTEGER_BITS_MAX = 1024

# Harmless in block and in flow form: no indicator or digit at the start, no ": ", no " #".
_SAFE = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_./@+ -]*[A-Za-z0-9_./@+-])?")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Quotes, controls, line separators, marks that are not seen or turn the text around, and what
# YAML or Unicode reserves.
_ESCAPED = re.compile(
    '["\\\\\x00-\x1f\x7f-\xa0\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\uffff]'
)
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class Form(NamedTuple):
    """How the surrounding text is laid out.

    `step` is the indentation of a nested mapping in columns, `dash` that of a list's dashes below
    their key. `quoted` puts every string into double quotes, as JSON wants it.
    """

    step: int = 2
    dash: int = 2
    quoted: bool = False


def entry_lines(key: str, value: Plain, form: Form, place: str = ROOT) -> list[str]:
    """Return the lines of `key: value` in block form, the first one at column 0."""
    return _entry(key, value, form, _below(place, key), 1)


def item_lines(value: Plain, form: Form, place: str = ROOT) -> list[str]:
    """Return the lines of `- value` in block form, the first one at column 0."""
    return _item(value, form, f"{place}[+]", 1)


def block_lines(value: Plain, form: Form) -> list[str]:
    """Return the lines of a whole document's value in block form."""
    if _nests(value):
        return list(_lines(value, form, ROOT, 1))
    return [flow_text(value, form)]


def flow_text(value: Plain, form: Form, place: str = ROOT, depth: int = 1) -> str:
    """Return a value on one line: a scalar, or a collection in brackets or braces."""
    if isinstance(value, str):
        return _string(value, form, place)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if value.bit_length() > INTEGER_BITS_MAX:
            raise YamlValueRefused(place=place, reason="the number is too long")
        return str(int(value))
    _shallow(depth, place)
    if isinstance(value, Mapping):
        return "{" + ", ".join(_flow_entries(value, form, place, depth)) + "}"
    if isinstance(value, list | tuple):
        items = (
            flow_text(item, form, f"{place}[{number}]", depth + 1)
            for number, item in enumerate(value)
        )
        return "[" + ", ".join(items) + "]"
    raise YamlValueRefused(place=place, reason=f"it is a {type(value).__name__}")


def flow_entry(key: str, value: Plain, form: Form, place: str = ROOT) -> str:
    """Return `key: value` on one line."""
    return next(iter(_flow_entries({key: value}, form, place, 1)))


def _flow_entries(value: Mapping[str, Plain], form: Form, place: str, depth: int) -> Iterator[str]:
    for key, inner in value.items():
        inside = _below(place, key)
        yield f"{_key(key, form, inside)}: {flow_text(inner, form, inside, depth + 1)}"


def _nests(value: Plain) -> bool:
    """Whether a value takes lines of its own."""
    return isinstance(value, Mapping | list | tuple) and len(value) > 0


def _lines(value: Plain, form: Form, place: str, depth: int) -> Iterator[str]:
    """Return the lines of a collection that is not empty."""
    _shallow(depth, place)
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _entry(key, inner, form, _below(place, key), depth)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _item(item, form, f"{place}[{number}]", depth)


def _entry(key: str, value: Plain, form: Form, place: str, depth: int) -> list[str]:
    start = _key(key, form, place) + ":"
    if not _nests(value):
        return [f"{start} {flow_text(value, form, place)}"]
    indent = " " * (form.step if isinstance(value, Mapping) else form.dash)
    return [start, *(indent + line for line in _lines(value, form, place, depth + 1))]


def _item(value: Plain, form: Form, place: str, depth: int) -> list[str]:
    if not _nests(value):
        return [f"- {flow_text(value, form, place)}"]
    first, *rest = _lines(value, form, place, depth + 1)
    return [f"- {first}", *(f"  {line}" for line in rest)]


def _shallow(depth: int, place: str) -> None:
    if depth > DEPTH_MAX:
        raise YamlValueRefused(place=place, reason=f"it nests deeper than {DEPTH_MAX}")


def _below(place: str, key: object) -> str:
    if not isinstance(key, str):
        raise YamlValueRefused(place=place, reason="a key is not a text")
    return below(place, key)


def _key(key: str, form: Form, place: str) -> str:
    text = _string(key, form, place)
    if len(text) > KEY_CHARS_MAX:
        raise YamlValueRefused(
            place=place, reason=f"the key is longer than {KEY_CHARS_MAX} characters"
        )
    return text


def _string(text: str, form: Form, place: str) -> str:
    if not form.quoted and _SAFE.fullmatch(text) and resolve(text) == ("str", False):
        return text
    if _SURROGATE.search(text):
        raise YamlValueRefused(place=place, reason="it holds a surrogate, which is no character")
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    short = _SHORT.get(character)
    # Only these forms are read alike by YAML 1.1, YAML 1.2 and JSON.
    return short or f"\\u{ord(character):04x}"
