"""Composes one YAML document into nodes that know where they stand in the text.

Promise: every bound is kept before memory is spent on it, a key appears once in its mapping, an
alias is a node of its own, and positions are indexes into the text without its byte order mark.
Not promised: that a value means anything; no scalar is converted.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, TypeAlias

import yaml

from dpone.contracts.errors_yaml import (
    YamlDuplicateKey,
    YamlFeature,
    YamlSyntax,
    YamlTooLarge,
    YamlUnreadable,
)
from dpone.contracts.plainyaml import identity

BYTES_MAX = 4 * 1024 * 1024
DEPTH_MAX = 32
# Nodes with every alias written out, so that a small file cannot stand for a huge value. A
# catalog of 10,000 workloads has about a tenth of it.
NODES_MAX = 1_000_000

BOM = b"\xef\xbb\xbf"
# What the parser counts as the end of a line and most editors do not.
RARE_BREAKS = re.compile("[\x85\u2028\u2029]")
BREAK = re.compile(r"\r\n|\n|\r")
# All but the characters that YAML allows (1.1, section 4.1; 1.2 agrees outside quotes), and the
# byte order mark: behind the start of the file, versions and parsers disagree about it.
_FORBIDDEN = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Shape: TypeAlias = Literal["scalar", "map", "seq", "alias"]


@dataclass(slots=True, eq=False)
class Node:
    """One node of a document, and where it stands.

    `start` and `end` are indexes of characters; `end` is exact for scalars, aliases and flow
    collections only. `column` is that of a collection's first token behind its tag and anchor.
    `children` holds keys and values in turns, the items, or an alias's anchored node. `size`
    counts the nodes with aliases written out and `height` their nesting; both are 0 while the
    node is being read.
    """

    shape: Shape
    text: str
    style: str
    tag: str
    anchor: str
    start: int
    end: int
    line: int
    column: int = 0
    size: int = 0
    height: int = 0
    children: list[Node] = field(default_factory=list)

    @property
    def flow(self) -> bool:
        """Whether this is a collection in brackets or braces."""
        return self.style == "flow"

    @property
    def plain(self) -> bool:
        """Whether this is an unquoted scalar without a tag."""
        return self.shape == "scalar" and not self.style and not self.tag

    def pairs(self) -> Iterator[tuple[Node, Node]]:
        """Iterate over the keys and values of a mapping."""
        children = iter(self.children)
        return zip(children, children, strict=True)

    def likeness(self) -> tuple[str, ...]:
        """Return all that an edit must leave as it is, apart from the children."""
        return (self.shape, self.text, self.style, self.tag, self.anchor)


@dataclass(frozen=True, slots=True)
class Document:
    """A text without its byte order mark, and its root.

    `root` is None when there is no document at all. `explicit_end` is the index of the document's
    end marker `...`, or -1. `shared` are the anchors that an alias names.
    """

    name: str
    bom: bool
    text: str
    root: Node | None
    explicit_end: int
    shared: frozenset[str]


def decode(data: bytes, name: str) -> tuple[bool, str]:
    """Return whether there is a byte order mark, and the text behind it."""
    if len(data) > BYTES_MAX:
        raise YamlTooLarge(name=name, line=1, reason=f"it has more than {BYTES_MAX} bytes")
    bom = data.startswith(BOM)
    try:
        text = data[len(BOM) if bom else 0 :].decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start + (len(BOM) if bom else 0)) + 1
        raise YamlUnreadable(name=name, line=line, reason="it is not UTF-8") from None
    found = _FORBIDDEN.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        reason = f"it holds the character U+{ord(found.group()):04X}, which is refused in YAML"
        raise YamlUnreadable(name=name, line=line, reason=reason)
    return bom, text


def compose(data: bytes, name: str) -> Document:
    """Compose the one document of `data`. Raises a `YamlError` naming the line."""
    bom, text = decode(data, name)
    return _Composer(name, text).document(bom)


class _Composer:
    """Builds nodes from the events of one text."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.anchors: dict[str, Node] = {}
        self.shared: set[str] = set()
        self.nodes = 0
        self.breaks: list[int] | None = None
        if RARE_BREAKS.search(text):
            # The parser's line numbers would differ from those that people see.
            self.breaks = [found.end() for found in BREAK.finditer(text)]

    def document(self, bom: bool) -> Document:
        events: Iterator[Any] = yaml.parse(self.text, Loader=_LOADER)
        root: Node | None = None
        explicit_end = -1
        documents = 0
        try:
            for event in events:
                if isinstance(event, yaml.DocumentStartEvent):
                    documents += 1
                    if documents > 1:
                        self._refuse("a second document", event)
                    root = self._node(next(events), events, 1)
                elif isinstance(event, yaml.DocumentEndEvent) and event.explicit:
                    explicit_end, _ = _span(event)
        except yaml.YAMLError as error:
            self._syntax(error)
        return Document(self.name, bom, self.text, root, explicit_end, frozenset(self.shared))

    def _syntax(self, error: yaml.YAMLError) -> NoReturn:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        reason = getattr(error, "problem", None) or "it cannot be parsed"
        line = self._line(mark) if mark else 1
        if "nesting depth" in reason:
            # The parser looks ahead, and its own bound is met before ours.
            raise YamlTooLarge(name=self.name, line=line, reason=reason) from None
        raise YamlSyntax(name=self.name, line=line, reason=reason) from None

    def _node(self, event: Any, events: Iterator[Any], depth: int) -> Node:
        if depth > DEPTH_MAX:
            self._large(f"it nests deeper than {DEPTH_MAX}", event)
        if isinstance(event, yaml.ScalarEvent):
            self._count(1, event)
            start, end = _span(event)
            # A non-specific tag says that the text is a string, and nothing else.
            node = Node(
                "scalar",
                event.value,
                event.style or "",
                event.tag or "",
                event.anchor or "",
                start,
                end,
                self._line(event.start_mark),
                size=1,
                height=1,
            )
        elif isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        else:
            return self._collection(event, events, depth)
        if node.anchor:
            self.anchors[node.anchor] = node
        return node

    def _alias(self, event: Any, depth: int) -> Node:
        target = self.anchors.get(event.anchor)
        line = self._line(event.start_mark)
        if target is None:
            reason = "an alias names an anchor that is not above it"
            raise YamlSyntax(name=self.name, line=line, reason=reason)
        if not target.size:
            self._refuse("a value that holds itself", event)
        if depth + target.height - 1 > DEPTH_MAX:
            self._large(f"it nests deeper than {DEPTH_MAX}", event)
        self._count(target.size, event)
        self.shared.add(event.anchor)
        start, end = _span(event)
        size, height = target.size, target.height
        return Node("alias", "", "", "", event.anchor, start, end, line, 0, size, height, [target])

    def _collection(self, event: Any, events: Iterator[Any], depth: int) -> Node:
        self._count(1, event)
        mapping = isinstance(event, yaml.MappingStartEvent)
        end = event.end_mark
        node = Node(
            "map" if mapping else "seq",
            "",
            "flow" if event.flow_style else "block",
            event.tag or "",
            event.anchor or "",
            event.start_mark.index,
            end.index,
            self._line(event.start_mark),
            column=end.column,
        )
        if not mapping and not node.flow and self.text[end.index : end.index + 1] != "-":
            # The parser has passed the dash of a list that is not indented below its key.
            node.column -= 1
        if node.anchor:
            self.anchors[node.anchor] = node
        last = self._entries(node, events, depth) if mapping else self._items(node, events, depth)
        node.end = last.end_mark.index
        node.size = 1 + sum(child.size for child in node.children)
        node.height = 1 + max((child.height for child in node.children), default=0)
        return node

    def _items(self, node: Node, events: Iterator[Any], depth: int) -> Any:
        for event in events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            node.children.append(self._node(event, events, depth + 1))
        return event

    def _entries(self, node: Node, events: Iterator[Any], depth: int) -> Any:
        seen: dict[str | tuple[str, str], int] = {}
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            if not isinstance(event, yaml.ScalarEvent):
                self._refuse("a key that is not a text", event)
            key = self._node(event, events, depth + 1)
            meaning = identity(key.text) if key.plain else None
            first = seen.get(key.text) or (meaning and seen.get(meaning))
            if first:
                # Two texts with one meaning collide only in a reader of YAML 1.1.
                shown = key.text if key.text in seen else f"{key.text} (as YAML 1.1 reads it)"
                raise YamlDuplicateKey(name=self.name, key=shown, first=first, line=key.line)
            seen[key.text] = key.line
            if meaning:
                seen[meaning] = key.line
            node.children.append(key)
            node.children.append(self._node(next(events), events, depth + 1))
        return event

    def _count(self, nodes: int, event: Any) -> None:
        self.nodes += nodes
        if self.nodes > NODES_MAX:
            self._large(f"it has more than {NODES_MAX} values", event)

    def _line(self, mark: Any) -> int:
        if self.breaks is None:
            return int(mark.line) + 1
        return bisect_right(self.breaks, mark.index) + 1

    def _refuse(self, feature: str, event: Any) -> NoReturn:
        raise YamlFeature(name=self.name, feature=feature, line=self._line(event.start_mark))

    def _large(self, reason: str, event: Any) -> NoReturn:
        raise YamlTooLarge(name=self.name, reason=reason, line=self._line(event.start_mark))


def _span(event: Any) -> tuple[int, int]:
    """Where an event begins and ends in the text."""
    return event.start_mark.index, event.end_mark.index
