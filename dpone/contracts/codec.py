"""One closed decoder for every JSON contract.

The general decoders accept duplicate keys, floats where integers are due and escaped lone
surrogates. This one refuses them, as well as input over its bound, deep nesting, non-finite
numbers, a byte order mark and unknown fields.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn, TypeVar

import msgspec

from dpone.contracts.canonical import DEPTH_MAX
from dpone.contracts.errors import ContractInvalid

T = TypeVar("T")
BYTES_MAX = 8 * 1024 * 1024
# The decoder repeats the value that it refuses, up to the place.
_VALUE = re.compile(r"(Invalid (?:enum )?value) (?:.*(?= - at `)|.*)", re.DOTALL)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError("duplicate key " + ascii(key)[:80])
            seen.add(key)
    return result


def _refuse_number(text: str) -> NoReturn:
    raise ValueError("number is not an integer: " + text[:40])


def _integer(text: str) -> int:
    if len(text) > 20:
        raise ValueError("integer too large")
    return int(text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs,
    parse_float=_refuse_number,
    parse_constant=_refuse_number,
    parse_int=_integer,
)


def parse(data: bytes | str, *, bytes_max: int = BYTES_MAX) -> Any:
    """Parse JSON into plain values. Raises `ContractInvalid` with the reason."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > bytes_max:
        raise ContractInvalid(contract="json", reason=f"more than {bytes_max} bytes")
    try:
        text = raw.decode("utf-8")
        value = _DECODER.decode(text)
        _check(value, 0)
    except (ValueError, RecursionError) as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)[:200]
        raise ContractInvalid(contract="json", reason=reason or "nested too deeply") from None
    return value


def decode(data: bytes | str, kind: type[T], *, bytes_max: int = BYTES_MAX) -> T:
    """Decode JSON into a closed struct. Raises `ContractInvalid` naming field and reason."""
    return convert(parse(data, bytes_max=bytes_max), kind)


def convert(value: Any, kind: type[T]) -> T:
    """Convert plain values into a closed struct. Raises `ContractInvalid`."""
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise ContractInvalid(contract=kind.__name__, reason=reason_of(error)) from None


def reason_of(error: msgspec.ValidationError) -> str:
    """What is wrong and where, without the value: it may be a secret in the wrong place."""
    return _VALUE.sub(r"\1", str(error))


def plain(value: Any) -> Any:
    """Return `value` as plain JSON values (structs become dicts, enums their values)."""
    return msgspec.to_builtins(value)


def encode(value: Any) -> str:
    """Encode a struct or plain value as compact JSON text with sorted keys."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def schema_of(kind: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a closed struct."""
    body = msgspec.json.schema(kind)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **body}


def _check(value: Any, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise ValueError("nested too deeply")
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_text(key)
            _check(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, depth + 1)


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("lone surrogate") from None


def replaced(value: T, **changes: Any) -> T:
    """Return a copy of a frozen struct with `changes`."""
    return msgspec.structs.replace(value, **changes)  # type: ignore[type-var]
