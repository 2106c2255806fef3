"""Finds the node that an edit extends, and refuses places that stand for more than one.

Promise: no alias is followed, and nothing below an anchor that an alias names is offered: one
edit changes one place. Not promised: that the text there can be spliced.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, NoReturn

from dpone.adapters.yamlfile.composing import Document, Node, Shape
from dpone.adapters.yamlfile.rendering import Form
from dpone.adapters.yamlfile.viewing import ORDINARY, merges, scalar_of
from dpone.contracts.errors_yaml import (
    YamlEditNotExact,
    YamlKeyExists,
    YamlOtherShape,
    YamlShared,
)
from dpone.contracts.plainyaml import Plain, place_of

_CALLED: dict[Shape, str] = {
    "map": "a mapping",
    "seq": "a list",
    "scalar": "a single value",
    "alias": "an alias",
}
_STEP_MAX = 8


class Place(NamedTuple):
    """What an edit extends.

    `node` is None in an empty document, otherwise a collection or a value that is null. `parent`
    is the mapping that holds it, None at the root. `fresh` is what is added: a mapping with one
    entry or a list with one item; where `node` is null or empty it is the whole new value.
    """

    node: Node | None
    parent: Node | None
    fresh: dict[str, Plain] | list[Plain]
    path: tuple[str, ...]

    @property
    def place(self) -> str:
        """The place as messages name it."""
        return place_of(self.path)

    @property
    def line(self) -> int:
        """The line that messages name, from 1."""
        return self.node.line if self.node else 1


class Locator:
    """Walks down one path of one document."""

    def __init__(self, document: Document, path: tuple[str, ...]) -> None:
        self.document, self.path = document, path

    def locate(self, fresh: dict[str, Plain] | list[Plain]) -> Place:
        """Return what is extended by `fresh`, with the missing part of the path around it."""
        node, parent = self.document.root, None
        for depth, key in enumerate(self.path):
            if node is None or vacant(node):
                return self._found(node, parent, fresh, depth)
            self._own(node, depth)
            self._must_be(node, "map", depth)
            held = entry(node, key)
            if held is None:
                return self._found(node, parent, fresh, depth)
            node, parent = held[1], node
        return self._found(node, parent, fresh, len(self.path))

    def _found(
        self,
        node: Node | None,
        parent: Node | None,
        fresh: dict[str, Plain] | list[Plain],
        depth: int,
    ) -> Place:
        for key in reversed(self.path[depth:]):
            fresh = {key: fresh}
        if node is not None and not vacant(node):
            self._own(node, depth)
            self._must_be(node, "map" if isinstance(fresh, dict) else "seq", depth)
            self._unmerged(node, depth)
            if isinstance(fresh, dict):
                self._absent(node, next(iter(fresh)), depth)
        return Place(node, parent, fresh, self.path[:depth])

    def _own(self, node: Node, depth: int) -> None:
        """Refuse a node that stands for several places."""
        if node.shape == "alias":
            self._shared(depth, "an alias", node.line)
        if node.anchor in self.document.shared:
            self._shared(depth, "an anchor that an alias names", node.line)

    def _unmerged(self, node: Node, depth: int) -> None:
        """Refuse a mapping whose keys come partly from elsewhere."""
        if node.shape == "map":
            for key, _ in node.pairs():
                if merges(key):
                    self._shared(depth, "a merge key", key.line)

    def _must_be(self, node: Node, shape: Shape, depth: int) -> None:
        if node.shape == shape:
            if node.tag not in ORDINARY:
                # Only its application knows what another entry would mean.
                self._inexact(node, "it has a tag of its own", depth)
            return
        if node.shape == "scalar" and scalar_of(node).kind == "null":
            self._inexact(node, "its empty value has a tag or an anchor", depth)
        raise YamlOtherShape(
            name=self.document.name,
            place=place_of(self.path[:depth]),
            line=node.line,
            found=_CALLED[node.shape],
            wanted=_CALLED[shape],
        )

    def _inexact(self, node: Node, reason: str, depth: int) -> NoReturn:
        raise YamlEditNotExact(
            name=self.document.name,
            place=place_of(self.path[:depth]),
            line=node.line,
            reason=reason,
        )

    def _absent(self, node: Node, key: str, depth: int) -> None:
        held = entry(node, key)
        if held is not None:
            place = place_of((*self.path[:depth], key))
            raise YamlKeyExists(name=self.document.name, place=place, line=held[0].line)

    def _shared(self, depth: int, feature: str, line: int) -> NoReturn:
        raise YamlShared(
            name=self.document.name,
            place=place_of(self.path[:depth]),
            line=line,
            feature=feature,
        )


def entry(node: Node, key: str) -> tuple[Node, Node] | None:
    """Return the key and value whose key has this text, however it is quoted."""
    for held, value in node.pairs():
        if held.text == key:
            return held, value
    return None


def vacant(node: Node) -> bool:
    """Whether a node is a null without tag or anchor: nothing, `~` or `null`."""
    return node.plain and not node.anchor and scalar_of(node).kind == "null"


def form_of(nodes: Iterable[Node | None]) -> Form:
    """Return the layout of the first nested mapping and list found below the given nodes."""
    step: int | None = None
    dash: int | None = None
    pending = [node for node in reversed(list(nodes)) if node is not None]
    while pending and (step is None or dash is None):
        node = pending.pop()
        if node.shape == "alias" or node.flow:
            continue
        if node.shape == "map":
            for child in node.children[1::2]:
                deeper = child.column - node.column
                if child.style != "block" or not 0 <= deeper <= _STEP_MAX:
                    continue
                if child.shape == "map" and step is None:
                    step = deeper
                elif child.shape == "seq" and dash is None:
                    dash = deeper
        pending.extend(reversed(node.children))
    step = step or Form().step
    return Form(step, step if dash is None else dash)
