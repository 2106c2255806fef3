"""Digests are RFC 8785 digests within the profile, and refused outside it."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from dpone.contracts.canonical import DEPTH_MAX, INTEGER_MAX, canonical, digest
from dpone.contracts.codec import parse
from dpone.contracts.errors import NotCanonical

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
KEYS = st.text(st.characters(max_codepoint=127), max_size=8)
LEAVES = st.none() | st.booleans() | st.integers(-INTEGER_MAX, INTEGER_MAX) | TEXT
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
@example({"\x00": "\x00", 'a"': "\\", "\x7f": "\u2028\ufeff\U0001f6eb", "": [True, None, 0]})
def test_within_the_profile_the_bytes_are_those_of_rfc_8785(value: Any) -> None:
    assert rfc8785.dumps(value) == canonical(value)
    assert digest(value) == "sha256:" + hashlib.sha256(rfc8785.dumps(value)).hexdigest()


@given(VALUES)
def test_canonical_bytes_read_back_as_the_value(value: Any) -> None:
    assert parse(canonical(value)) == value


@given(VALUES, VALUES)
def test_different_values_have_different_bytes(one: Any, other: Any) -> None:
    # repr tells True from 1, as JSON does.
    same = _plain(one) == _plain(other)
    assert (canonical(one) == canonical(other)) == same


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{_plain(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_plain, value)) + "]"
    return repr(value)


@given(st.dictionaries(KEYS, LEAVES, min_size=2))
def test_the_order_of_keys_does_not_matter(value: dict[str, Any]) -> None:
    assert digest(dict(reversed(value.items()))) == digest(value)


@given(st.integers(min_value=INTEGER_MAX + 1) | st.integers(max_value=-INTEGER_MAX - 1))
def test_integers_beyond_the_profile_are_refused(number: int) -> None:
    with pytest.raises(NotCanonical, match="integer"):
        canonical({"a": [number]})


@given(st.floats())
@example(0.0)
@example(math.nan)
@example(1e300)
def test_every_float_is_refused(number: float) -> None:
    with pytest.raises(NotCanonical, match="float"):
        canonical([number])


@given(st.text(min_size=1).filter(lambda key: not key.isascii()))
def test_keys_beyond_ascii_are_refused(key: str) -> None:
    with pytest.raises(NotCanonical, match="ASCII"):
        canonical({key: 1})


@given(st.characters(categories=["Cs"]), TEXT)
def test_lone_surrogates_are_refused(surrogate: str, text: str) -> None:
    with pytest.raises(NotCanonical, match="surrogate"):
        canonical(text + surrogate)


class _Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [b"x", {1, 2}, object(), 1j, _Text("x"), {1: 2}, {None: 1}, range(2), bytearray(b"x")],
)
def test_other_types_are_refused(value: Any) -> None:
    with pytest.raises(NotCanonical):
        canonical({"a": value})


def test_depth_is_bounded() -> None:
    value: Any = 1
    for _ in range(DEPTH_MAX):
        value = [value]
    assert canonical(value)
    with pytest.raises(NotCanonical, match="deep"):
        canonical([value])
    for _ in range(100_000):
        value = [value]
    with pytest.raises(NotCanonical, match="deep"):
        canonical(value)
