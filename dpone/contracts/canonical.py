"""Canonical JSON over a restricted profile, and digests of it.

Within the profile (no floats, integers within 2**53 - 1, ASCII keys, valid Unicode) the standard
library's sorted compact output is RFC 8785 output; a test compares it with an oracle. Outside the
profile we refuse instead of guessing.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from dpone.contracts.errors import NotCanonical

INTEGER_MAX = 2**53 - 1
DEPTH_MAX = 32


def canonical(value: Any) -> bytes:
    """Return the canonical UTF-8 bytes of `value` (dict, list, tuple, str, int, bool, None).

    Raises `NotCanonical` for anything outside the profile, naming the place.
    """
    _check(value, "$", 0)
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode("utf-8")


def digest(value: Any) -> str:
    """Return `sha256:` and the lower-case hexadecimal SHA-256 of `canonical(value)`."""
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()


def _check(value: Any, place: str, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise NotCanonical(place=place, reason="nested too deeply")
    kind = type(value)
    if kind is str:
        _check_text(value, place)
    elif kind is bool or value is None:
        return
    elif kind is int:
        if not -INTEGER_MAX <= value <= INTEGER_MAX:
            raise NotCanonical(place=place, reason="integer beyond 2**53 - 1")
    elif kind is dict:
        for key, item in value.items():
            _check_key(key, place)
            _check(item, f"{place}.{key}", depth + 1)
    elif kind in (list, tuple):
        for index, item in enumerate(value):
            _check(item, f"{place}[{index}]", depth + 1)
    else:
        raise NotCanonical(place=place, reason=f"{kind.__name__} is not allowed")


def _check_text(value: str, place: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise NotCanonical(place=place, reason="lone surrogate") from None


def _check_key(key: Any, place: str) -> None:
    # ASCII keys sort alike by code point and by UTF-16 unit, which is where the standard
    # library and RFC 8785 would differ.
    if type(key) is not str or not key.isascii():
        raise NotCanonical(place=place, reason="keys are ASCII strings")
