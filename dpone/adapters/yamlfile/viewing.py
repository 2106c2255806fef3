"""Turns composed nodes into the plain values of a view, with the line of every place."""

from __future__ import annotations

from dpone.adapters.yamlfile.composing import Document, Node
from dpone.contracts.plainyaml import (
    EMPTY,
    ROOT,
    Entries,
    Items,
    Kind,
    Scalar,
    Value,
    View,
    below,
    resolve,
)

_TAG = "tag:yaml.org,2002:"
_KINDS: dict[str, Kind] = {
    _TAG + "str": "str",
    # The non-specific tag: a string, in both versions.
    "!": "str",
    _TAG + "int": "int",
    _TAG + "bool": "bool",
    _TAG + "null": "null",
    _TAG + "float": "float",
    _TAG + "timestamp": "timestamp",
}
ORDINARY = ("", "!", _TAG + "map", _TAG + "seq")


def view_of(document: Document) -> View:
    """Return the view of a document; an empty one is `EMPTY` at line 1."""
    if document.root is None:
        return View(EMPTY, {ROOT: 1}, {}, {})
    viewer = _Viewer()
    value = viewer.value(document.root, ROOT)
    return View(value, viewer.lines, viewer.aliased, viewer.merged)


def scalar_of(node: Node) -> Scalar:
    """Return a scalar's text, its kind, and whether readers disagree about it."""
    if node.tag:
        kind = _KINDS.get(node.tag, "other")
        return Scalar(node.text, kind, kind != "str" and resolve(node.text) != (kind, False))
    if node.style:
        return Scalar(node.text, "str")
    kind, ambiguous = resolve(node.text)
    return Scalar(node.text, kind, ambiguous)


class _Viewer:
    """Collects places while it converts; what an alias stands for is converted once."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.aliased: dict[str, int] = {}
        self.merged: dict[str, int] = {}
        self.anchored: dict[int, Value] = {}

    def value(self, node: Node, place: str) -> Value:
        self.lines[place] = node.line
        if node.shape == "scalar":
            made: Value = scalar_of(node)
        elif node.shape == "alias":
            self.aliased[place] = node.line
            # The anchored value is shared, not copied: an alias stands below its anchor.
            return self.anchored[id(node.children[0])]
        elif node.shape == "seq":
            made = Items(
                (
                    self.value(item, f"{place}[{number}]")
                    for number, item in enumerate(node.children)
                ),
                "" if node.tag in ORDINARY else node.tag,
            )
        else:
            made = self._entries(node, place)
        if node.anchor:
            self.anchored[id(node)] = made
        return made

    def _entries(self, node: Node, place: str) -> Entries:
        made = Entries(tag="" if node.tag in ORDINARY else node.tag)
        for key, value in node.pairs():
            read = scalar_of(key)
            if read.kind != "str" or read.ambiguous:
                made.odd.add(key.text)
                if merges(key):
                    self.merged[place] = key.line
            made[key.text] = self.value(value, below(place, key.text))
        return made


def merges(key: Node) -> bool:
    """Whether a key is the merge key of YAML 1.1."""
    return (key.plain and key.text == "<<") or key.tag == _TAG + "merge"
