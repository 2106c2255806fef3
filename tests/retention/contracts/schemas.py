"""As much of JSON Schema as the published schemas use; an unknown word is an error."""

from __future__ import annotations

import re
from typing import Any

_TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "null": type(None),
    "boolean": bool,
}
_SILENT = {"$schema", "$defs", "title", "description", "format", "default"}


def faults(value: Any, schema: Any, root: Any = None, place: str = "$") -> list[str]:
    """What is wrong with a value; nothing when it satisfies the schema."""
    root = schema if root is None else root
    if isinstance(schema, bool):
        return [] if schema else [f"{place}: nothing is allowed"]
    found: list[str] = []
    for word, rule in schema.items():
        if word in _SILENT or word.startswith("x-") or word in ("then", "else"):
            continue
        check = _WORDS[word]
        found += check(value, rule, schema, root, place)
    return found


def _ref(value: Any, rule: str, schema: Any, root: Any, place: str) -> list[str]:
    return faults(value, root["$defs"][rule.rpartition("/")[2]], root, place)


def _type(value: Any, rule: str, schema: Any, root: Any, place: str) -> list[str]:
    if rule == "integer":
        fits = isinstance(value, int) and not isinstance(value, bool)
    else:
        fits = isinstance(value, _TYPES[rule])
    return [] if fits else [f"{place}: no {rule}"]


def _require(value: Any, rule: Any, schema: Any, root: Any, place: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    return [f"{place}: {name} is missing" for name in rule if name not in value]


def _properties(value: Any, rule: Any, schema: Any, root: Any, place: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    return [
        fault
        for name, inner in rule.items()
        if name in value
        for fault in faults(value[name], inner, root, f"{place}.{name}")
    ]


def _patterns(value: Any, rule: Any, schema: Any, root: Any, place: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    return [
        fault
        for pattern, inner in rule.items()
        for name in value
        if re.search(pattern, name)
        for fault in faults(value[name], inner, root, f"{place}.{name}")
    ]


def _additional(value: Any, rule: Any, schema: Any, root: Any, place: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    more = [name for name in value if name not in schema.get("properties", {})]
    return [fault for name in more for fault in faults(value[name], rule, root, f"{place}.{name}")]


def _names(value: Any, rule: Any, schema: Any, root: Any, place: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    return [fault for name in value for fault in faults(name, rule, root, f"{place}.{name}")]


def _items(value: Any, rule: Any, schema: Any, root: Any, place: str) -> list[str]:
    if not isinstance(value, list):
        return []
    start = len(schema.get("prefixItems", ()))
    return [
        fault
        for at, item in enumerate(value[start:])
        for fault in faults(item, rule, root, f"{place}[{at}]")
    ]


def _any_of(value: Any, rule: Any, schema: Any, root: Any, place: str) -> list[str]:
    fits = any(not faults(value, inner, root, place) for inner in rule)
    return [] if fits else [f"{place}: fits none"]


def _one_of(value: Any, rule: Any, schema: Any, root: Any, place: str) -> list[str]:
    count = sum(not faults(value, inner, root, place) for inner in rule)
    return [] if count == 1 else [f"{place}: fits {count}"]


def _all_of(value: Any, rule: Any, schema: Any, root: Any, place: str) -> list[str]:
    return [fault for inner in rule for fault in faults(value, inner, root, place)]


def _not(value: Any, rule: Any, schema: Any, root: Any, place: str) -> list[str]:
    return [] if faults(value, rule, root, place) else [f"{place}: fits what it must not"]


def _if(value: Any, rule: Any, schema: Any, root: Any, place: str) -> list[str]:
    branch = "else" if faults(value, rule, root, place) else "then"
    return faults(value, schema.get(branch, True), root, place)


def _const(value: Any, rule: Any, schema: Any, root: Any, place: str) -> list[str]:
    return [] if value == rule else [f"{place}: not {rule}"]


def _enum(value: Any, rule: Any, schema: Any, root: Any, place: str) -> list[str]:
    return [] if value in rule else [f"{place}: none of {rule}"]


def _pattern(value: Any, rule: Any, schema: Any, root: Any, place: str) -> list[str]:
    if not isinstance(value, str) or re.search(rule, value):
        return []
    return [f"{place}: {rule}"]


def _unique(value: Any, rule: Any, schema: Any, root: Any, place: str) -> list[str]:
    texts = [str(item) for item in value] if isinstance(value, list) else []
    return [] if len(set(texts)) == len(texts) else [f"{place}: not unique"]


def _bound(kind: type, sign: int, size: Any) -> Any:
    def check(value: Any, rule: int, schema: Any, root: Any, place: str) -> list[str]:
        if not isinstance(value, kind) or isinstance(value, bool):
            return []
        return [] if sign * (size(value) - rule) >= 0 else [f"{place}: size"]

    return check


_WORDS: dict[str, Any] = {
    "$ref": _ref,
    "type": _type,
    "required": _require,
    "properties": _properties,
    "patternProperties": _patterns,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "items": _items,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "allOf": _all_of,
    "not": _not,
    "if": _if,
    "const": _const,
    "enum": _enum,
    "pattern": _pattern,
    "uniqueItems": _unique,
    "minLength": _bound(str, 1, len),
    "maxLength": _bound(str, -1, len),
    "minItems": _bound(list, 1, len),
    "maxItems": _bound(list, -1, len),
    "minProperties": _bound(dict, 1, len),
    "maxProperties": _bound(dict, -1, len),
    "minimum": _bound(int, 1, int),
    "maximum": _bound(int, -1, int),
}
