"""YAML values as people wrote them: texts with their kind, and when two readers disagree.

Promise: a scalar keeps its text, and is marked as ambiguous when YAML 1.1 and the core schema of
YAML 1.2 read it differently (`on`, `010`, `12:30`, `1e3`); equality never rests on such a scalar.
Not promised: that a value means anything to `dpone`. Everything here is pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["str", "int", "bool", "null", "float", "timestamp", "other"]

Plain: TypeAlias = "str | int | Sequence[Plain] | Mapping[str, Plain] | None"
"""A generated value: str, int, bool, None, lists and mappings with str keys; never a float."""


class Scalar(NamedTuple):
    """A scalar's text without its quotes, and how YAML 1.1 reads it.

    `ambiguous` says that YAML 1.2 (core schema) reads the same text as another value or kind.
    """

    text: str
    kind: Kind
    ambiguous: bool = False


class Items(list["Value"]):
    """A list. `tag` is its explicit tag, empty for an ordinary list."""

    __slots__ = ("tag",)

    def __init__(self, items: Iterable[Value] = (), tag: str = "") -> None:
        super().__init__(items)
        self.tag = tag


class Entries(dict[str, "Value"]):
    """A mapping by the keys' texts, in the order of the file.

    `odd` names the keys that are not plainly strings (`on`, `1`, `~`, a merge key); `tag` is the
    explicit tag, empty for an ordinary mapping.
    """

    __slots__ = ("odd", "tag")

    def __init__(self, entries: Iterable[tuple[str, Value]] = (), tag: str = "") -> None:
        super().__init__(entries)
        self.tag = tag
        self.odd: set[str] = set()


Value: TypeAlias = Scalar | Items | Entries

EMPTY = Scalar("", "null")


class View(NamedTuple):
    """One document: its value, and where things stand.

    `lines` maps each place (`place_of`) to its line, from 1. `aliased` maps the places that hold
    an alias to the alias's line: their value is the anchored one, and no place below them is
    listed. `merged` maps each mapping with a merge key to that key's line; the merge is not
    carried out. An empty document is `EMPTY` with the place `$` at line 1.
    """

    value: Value
    lines: dict[str, int]
    aliased: dict[str, int]
    merged: dict[str, int]


# -- places ----------------------------------------------------------------------------------------

ROOT = "$"


def below(place: str, key: str) -> str:
    """Return the place of an entry: `$.dags.x`, or `$.dags["a.b"]` where a dot would mislead."""
    if key and not _LISTED.search(key):
        return f"{place}.{key}"
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'{place}["{escaped}"]'


_LISTED = re.compile(r"""[\s."'\[\]\\]""")


def place_of(path: Iterable[str]) -> str:
    """Return the place of a path of keys, beginning with `$`."""
    place = ROOT
    for key in path:
        place = below(place, key)
    return place


# -- how a plain scalar is read --------------------------------------------------------------------

_WORDS: dict[str, tuple[Kind, bool]] = {"": ("null", False), "=": ("other", True)}
_WORDS |= dict.fromkeys(("~", "null", "Null", "NULL"), ("null", False))
_WORDS |= dict.fromkeys(("true", "True", "TRUE", "false", "False", "FALSE"), ("bool", False))
_WORDS |= {
    form: ("bool", True)
    for word in ("yes", "no", "on", "off")
    for form in (word, word.capitalize(), word.upper())
}
# The type repository of YAML 1.1 reads these as booleans, most of its readers do not.
_WORDS |= dict.fromkeys(("y", "Y", "n", "N"), ("str", True))
_WORDS |= {"<<": ("other", True)}

_INT_BOTH = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+")
_INT_11 = re.compile(
    r"[-+]?(?:0b[0-1_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|[1-9][0-9_]*(?::[0-5]?[0-9])+)"
)
_INT_12 = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT_11 = re.compile(
    r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
    r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_FLOAT_12 = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_TIMESTAMP_11 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}"
    r":[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?"
)
_NUMERIC = frozenset("-+.0123456789")


def resolve(text: str) -> tuple[Kind, bool]:
    """Return the kind of an unquoted scalar in YAML 1.1, and whether YAML 1.2 differs.

    The rules are those of the YAML 1.1 type repository as PyYAML applies them, and of the core
    schema of YAML 1.2 (section 10.3.2).
    """
    known = _WORDS.get(text)
    if known is not None:
        return known
    if text[0] not in _NUMERIC:
        return "str", False
    if _INT_BOTH.fullmatch(text):
        return "int", False
    return _number(text)


def _number(text: str) -> tuple[Kind, bool]:
    """Resolve what begins like a number and is not a whole number that both versions share."""
    if _INT_11.fullmatch(text):
        return "int", True
    if _FLOAT_11.fullmatch(text):
        return "float", not _FLOAT_12.fullmatch(text)
    if _TIMESTAMP_11.fullmatch(text):
        return "timestamp", True
    return "str", bool(_INT_12.fullmatch(text) or _FLOAT_12.fullmatch(text))


def identity(text: str) -> tuple[str, str] | None:
    """Return what YAML 1.1 makes of an unquoted key that is no string, or None for a string.

    Two keys with one identity collide in a reader even though their texts differ, such as `on`
    and `true`, or `8` and `010`.
    """
    kind, _ = resolve(text)
    if kind == "null":
        return "null", ""
    if kind == "bool":
        return "bool", "true" if text.lower() in ("true", "yes", "on") else "false"
    if kind == "int":
        return "int", str(_int_11(text)) if len(text) <= _DIGITS_MAX else text
    return None


# Longer numbers are compared as texts: converting one costs the square of its length.
_DIGITS_MAX = 100


def _int_11(text: str) -> int:
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+-").replace("_", "")
    if digits.startswith(("0b", "0x")):
        # An underscore may be all that follows the prefix.
        return sign * int(digits[2:] or "0", 2 if digits[1] == "b" else 16)
    if ":" in digits:
        total = 0
        for part in digits.split(":"):
            total = total * 60 + int(part)
        return sign * total
    if digits[0] == "0" and len(digits) > 1:
        return sign * int(digits, 8)
    return sign * int(digits)


# -- equality --------------------------------------------------------------------------------------


def same(existing: Value, generated: Plain) -> bool:
    """Whether an existing value is exactly a generated one, by meaning and never by form.

    Quotes, block or flow form and the order of a mapping's keys do not matter. A text is equal to
    a string only when every reader takes it for a string, a number only to the same decimal text.
    An ambiguous scalar, a tagged collection and a mapping with a merge key equal nothing.
    """
    if isinstance(existing, Scalar):
        return _same_scalar(existing, generated)
    if existing.tag:
        return False
    if isinstance(existing, Entries):
        return (
            isinstance(generated, Mapping)
            and existing.keys() == generated.keys()
            and not existing.odd
            and all(same(value, generated[key]) for key, value in existing.items())
        )
    return (
        isinstance(generated, Sequence)
        and not isinstance(generated, str)
        and len(existing) == len(generated)
        and all(same(one, other) for one, other in zip(existing, generated, strict=True))
    )


def _same_scalar(existing: Scalar, generated: Plain) -> bool:
    text, kind, ambiguous = existing
    if ambiguous:
        return False
    if generated is None:
        return kind == "null"
    if isinstance(generated, bool):
        return kind == "bool" and (text.lower() == "true") is generated
    if isinstance(generated, int):
        return kind == "int" and text == str(generated)
    return kind == "str" and text == generated
