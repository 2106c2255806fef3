"""Reads a small YAML file as plain texts, lists and mappings, with the line of every value.

Promise: every scalar stays the text that the person wrote (`no`, `on`, `1.10` and `~` too), a key
appears once, and nothing is copied behind the reader's back: anchors, aliases, merge keys, tags
and further documents are refused. Not promised: that the result is a valid route.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import yaml

from dpone.contracts.errors_loading import (
    ManifestDuplicateKey,
    ManifestFeature,
    ManifestNotFound,
    ManifestSyntax,
    ManifestUnreadable,
)

BYTES_MAX = 1024 * 1024
DEPTH_MAX = 20
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Document(NamedTuple):
    """The value, and the line (from 1) of each place such as `$.source.csv`."""

    value: Any
    lines: dict[str, int]


def read(path: Path) -> Document:
    """Read one YAML document. Raises a `ManifestError` naming the file and the line."""
    name = path.name
    try:
        with path.open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        raise ManifestNotFound(name=name) from None
    except OSError as error:
        raise ManifestUnreadable(name=name, reason=error.strerror or "error") from None
    if len(raw) > BYTES_MAX:
        raise ManifestUnreadable(name=name, reason=f"it has more than {BYTES_MAX} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ManifestUnreadable(name=name, reason="it is not UTF-8") from None
    return parse(text, name)


def parse(text: str, name: str) -> Document:
    """Parse the text of one YAML document; `name` is for messages."""
    reader = _Reader(name)
    try:
        return reader.document(yaml.parse(text, Loader=_LOADER))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or "it holds a character that YAML forbids"
        line = mark.line + 1 if mark else 1
        raise ManifestSyntax(name=name, line=line, reason=reason) from None


class _Reader:
    """Builds plain values from the events of one document."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[str, int] = {}

    def document(self, events: Iterator[Any]) -> Document:
        value: Any = {}
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._refuse("a second document", event)
                value = self._node(next(events), events, "$", 0)
        return Document(value, self.lines)

    def _node(self, event: Any, events: Iterator[Any], place: str, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent):
            self._refuse("an alias", event)
        if event.anchor is not None:
            self._refuse("an anchor", event)
        if event.tag is not None and event.tag != "!":
            self._refuse("a tag", event)
        if depth > DEPTH_MAX:
            self._refuse("more nesting than a manifest needs", event)
        self.lines[place] = _line(event)
        if isinstance(event, yaml.ScalarEvent):
            return event.value
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(events, place, depth)
        return self._mapping(events, place, depth)

    def _sequence(self, events: Iterator[Any], place: str, depth: int) -> list[Any]:
        items: list[Any] = []
        for event in events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self._node(event, events, f"{place}[{len(items)}]", depth + 1))
        return items

    def _mapping(self, events: Iterator[Any], place: str, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            if not isinstance(event, yaml.ScalarEvent | yaml.AliasEvent):
                self._refuse("a key that is not a text", event)
            key = self._node(event, events, f"{place}.?", depth + 1)
            if key == "<<":
                self._refuse("a merge key", event)
            if key in result:
                raise ManifestDuplicateKey(name=self.name, key=key, line=_line(event))
            result[key] = self._node(next(events), events, f"{place}.{key}", depth + 1)
        return result

    def _refuse(self, feature: str, event: Any) -> NoReturn:
        raise ManifestFeature(name=self.name, feature=feature, line=_line(event))


def _line(event: Any) -> int:
    """The line of an event, from 1."""
    return int(event.start_mark.line) + 1
