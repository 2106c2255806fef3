"""YAML documents that people also edit: read, compare, add, and prove that nothing else changed.

Promise: an edit either equals the old document with the addition, proved by composing the result
again and comparing every scalar's text, quotes, tag and anchor, or it is refused. The bytes that
were there stay, in their order: byte order mark, line endings, comments and the final newline
too. Not promised: anything about files; bytes come in and go out, so there is no linearization
point. Source of the rules: the authoring design, section 5.
"""

from __future__ import annotations

import re
from typing import ClassVar

from dpone.adapters.yamlfile.composing import BOM, Document, Node, compose
from dpone.adapters.yamlfile.locating import Locator, Place, vacant
from dpone.adapters.yamlfile.rendering import Form, block_lines
from dpone.adapters.yamlfile.splicing import Splice, Splicer
from dpone.adapters.yamlfile.viewing import view_of
from dpone.contracts.errors_yaml import (
    YamlDuplicateKey,
    YamlEditNotExact,
    YamlError,
    YamlFeature,
    YamlSyntax,
    YamlUnreadable,
    YamlValueRefused,
)
from dpone.contracts.plainyaml import ROOT, Plain, Value, View, same

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")


class YamlDocuments:
    """Implements `dpone.ports.documents.Documents` with a parser that marks positions."""

    locator: ClassVar[type[Locator]] = Locator
    splicer: ClassVar[type[Splicer]] = Splicer

    def view(self, data: bytes, name: str) -> View:
        """Read one document: values with the text that the person wrote, lines, aliases."""
        return view_of(compose(data, name))

    def same(self, existing: Value, generated: Plain) -> bool:
        """Whether a value of a view is exactly a generated one."""
        return same(existing, generated)

    def add_entry(
        self, data: bytes, path: tuple[str, ...], key: str, value: Plain, *, name: str
    ) -> bytes:
        """Return `data` with `key: value` at the end of the mapping at `path`."""
        document = compose(data, name)
        return self._edited(data, document, self.locator(document, path).locate({key: value}))

    def append_item(self, data: bytes, path: tuple[str, ...], value: Plain, *, name: str) -> bytes:
        """Return `data` with an item at the end of the list at `path`."""
        document = compose(data, name)
        return self._edited(data, document, self.locator(document, path).locate([value]))

    def render(self, value: Plain, *, comment: str = "") -> bytes:
        """Return a new document: UTF-8, LF, block form, keys in the given order."""
        above = [f"# {line}".rstrip() for line in comment.splitlines()]
        text = "\n".join((*above, *block_lines(value, Form()), ""))
        try:
            data = text.encode("utf-8")
            read = self.view(data, "")
        except (UnicodeEncodeError, YamlError):
            raise YamlValueRefused(place=ROOT, reason="it cannot be read back") from None
        if not self.same(read.value, value):
            raise YamlValueRefused(place=ROOT, reason="it would not be read back as it is")
        return data

    def _edited(self, data: bytes, document: Document, place: Place) -> bytes:
        splicer = self.splicer(document, place)
        for splices in splicer.splices():
            result = self._joined(document, splices)
            if self._proved(data, result, splicer, splices):
                return result
        raise YamlEditNotExact(
            name=document.name,
            place=place.place,
            line=splicer.line,
            reason="the text around it would be read differently",
        )

    def _joined(self, document: Document, splices: tuple[Splice, ...]) -> bytes:
        parts: list[str] = []
        start = 0
        for splice in splices:
            parts += (document.text[start : splice.at], splice.text)
            start = splice.stop
        parts.append(document.text[start:])
        return (BOM if document.bom else b"") + "".join(parts).encode("utf-8")

    def _proved(
        self, data: bytes, result: bytes, splicer: Splicer, splices: tuple[Splice, ...]
    ) -> bool:
        """Whether the result is the old lines and the old tree, with the addition."""
        document, place = splicer.document, splicer.place
        lines_max = 0 if all(splicer.adds_lines(splice) for splice in splices) else 1
        # A last line without its newline is unchanged when it gets one to stand before others.
        ending = b"" if splicer.at_line_start(len(document.text)) else splicer.ending.encode()
        mark = len(BOM) if document.bom else 0
        if changed_lines(data[mark:] + ending, result[mark:] + ending) > lines_max:
            return False
        if not keeps(data, result, document.text, splices):
            return False
        if ending and result.endswith((b"\n", b"\r")):
            return False
        try:
            read = compose(result, document.name)
        except (YamlSyntax, YamlDuplicateKey, YamlFeature, YamlUnreadable):
            return False
        if document.root is None:
            return read.root is not None and added(None, read.root, place.fresh)
        return read.root is not None and extended(document.root, read.root, place)


def keeps(data: bytes, result: bytes, text: str, splices: tuple[Splice, ...]) -> bool:
    """Whether all bytes around and between the splices are in the result, in order."""
    starts = (0, *(splice.stop for splice in splices))
    stops = (*(splice.at for splice in splices), len(text))
    first, *rest = (text[a:b].encode("utf-8") for a, b in zip(starts, stops, strict=True))
    first = (BOM if data.startswith(BOM) else b"") + first
    if not (result.startswith(first) and result.endswith(rest[-1])):
        return False
    at = len(first)
    for part in rest:
        at = result.find(part, at) + len(part)
        if at < len(part):
            return False
    return True


def changed_lines(before: bytes, after: bytes) -> int:
    """Count the lines of `before` that `after` does not keep in order, with their endings.

    Exact for 0 and 1; for more, all lines between the common start and end are counted.
    """
    old, new = _LINE.findall(before), _LINE.findall(after)
    most = min(len(old), len(new))
    start = 0
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    between = old[start : len(old) - end]
    # An edit changes the first line that differs, if any; what follows it may only be pushed down.
    pushed = iter(new[start + 1 : len(new) - end])
    return 1 if between and all(line in pushed for line in between[1:]) else len(between)


def extended(old: Node, new: Node, place: Place) -> bool:
    """Whether `new` is `old` with the addition in its place and nothing else changed."""
    if old is place.node:
        return added(old, new, place.fresh)
    if old.likeness() != new.likeness() or len(old.children) != len(new.children):
        return False
    if old.shape == "alias":
        # The anchored node is compared where it stands.
        return True
    return all(
        extended(one, other, place) for one, other in zip(old.children, new.children, strict=True)
    )


def added(old: Node | None, new: Node, fresh: dict[str, Plain] | list[Plain]) -> bool:
    """Whether `new` holds the children of `old` and then exactly the addition."""
    shape = "map" if isinstance(fresh, dict) else "seq"
    kept: list[Node] = []
    if old is not None and not vacant(old):
        if old.children and old.likeness() != new.likeness():
            return False
        kept = old.children
    last = len(kept)
    if (
        new.shape != shape
        or new.tag != (old.tag if old else "")
        or new.anchor != (old.anchor if old else "")
    ):
        return False
    if not all(unchanged(one, other) for one, other in zip(kept, new.children, strict=False)):
        return False
    rest = Node(shape, "", "block", "", "", 0, 0, 0, children=new.children[last:])
    value = view_of(Document("", False, "", rest, -1, frozenset())).value
    return same(value, fresh)


def unchanged(old: Node, new: Node) -> bool:
    """Whether two nodes are alike in all that a person wrote."""
    return (
        old.likeness() == new.likeness()
        and len(old.children) == len(new.children)
        and (
            old.shape == "alias"
            or all(
                unchanged(one, other) for one, other in zip(old.children, new.children, strict=True)
            )
        )
    )
