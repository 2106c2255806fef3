"""Decides where in the text an addition goes, and what exactly is put there.

Promise: a splice adds whole lines, or changes the one line that holds a placeholder (`{}`, `[]`,
`~`) or the end of a flow collection. Not promised: that the result reads as meant; the caller
composes it again and compares.

Comments: a comment that follows the last entry of a collection and is indented at least like the
entry belongs to the collection, and the addition goes behind it; a comment that is indented less
belongs to what comes next. Below a list whose dashes stand in their key's column, a comment must
be indented deeper than the dashes, because one in their column speaks of the next key. Blank
lines stay with what comes next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from dpone.adapters.yamlfile.composing import RARE_BREAKS, Document, Node
from dpone.adapters.yamlfile.locating import Place, form_of, vacant
from dpone.adapters.yamlfile.rendering import Form, entry_lines, flow_entry, flow_text, item_lines
from dpone.contracts.errors_yaml import YamlEditNotExact

_TAIL = re.compile(r"[ \t]*(#[^\r\n]*)?(?:\r\n|\n|\r|\Z)")
_BLANK = re.compile(r"[ \t]*(?:\r\n|\n|\r)")
_COMMENT = re.compile(r"([ \t]*)#([^\r\n]*)(?:\r\n|\n|\r|\Z)")
_BLANK_END = re.compile(r"(?:(?<=[\r\n])[ \t]*(?:\r\n|\n|\r))+\Z")
_GAP = re.compile(r"(?:\s|#[^\r\n]*)*(,)?(?:\s|#[^\r\n]*)*")
_ENDINGS = ("\n", "\r\n", "\r")


class Splice(NamedTuple):
    """Characters `at` to `stop` of the text are replaced; `stop` equals `at` where nothing goes."""

    at: int
    stop: int
    text: str


class Splicer:
    """Makes the splices of one addition to one document."""

    def __init__(self, document: Document, place: Place) -> None:
        self.document, self.place = document, place
        self.text = document.text
        self.form = form_of((place.node, document.root))

    def splices(self) -> Iterator[tuple[Splice, ...]]:
        """Yield the ways to make the edit, the best first; each may turn out inexact."""
        node = self.place.node
        if node is None:
            yield self.at_end(len(self.text))
        elif vacant(node) or not node.children:
            yield self.fill(node)
        elif node.flow:
            yield self.extend_flow(node)
        else:
            leaf = last_leaf(node)
            if leaf.style in ("|", ">"):
                # The blank lines behind the scalar may be part of it, or only follow it.
                yield self.extend_block(node, leaf, self.before_blank(leaf.end))
            yield self.extend_block(node, leaf, leaf.end)

    @property
    def line(self) -> int:
        """The line that stands in the way when no splice is exact, from 1."""
        node = self.place.node
        return last_leaf(node).line if node is not None and node.children else self.place.line

    # -- block collections -------------------------------------------------------------------------

    def extend_block(self, node: Node, leaf: Node, end: int) -> tuple[Splice, ...]:
        """Add lines behind the last leaf of a block collection."""
        parent = self.place.parent
        inside = node.column
        if node.shape == "seq" and parent is not None and parent.column >= node.column:
            inside += 1
        if leaf.start == leaf.end and self.text[leaf.end - 1 : leaf.end] not in (":", "-"):
            self.refuse("a key without a colon", leaf.line)
        return (self.lines_at(self.behind(end, inside), self.indented(node.column)),)

    def fill(self, node: Node) -> tuple[Splice, ...]:
        """Put the first entry or item where there is nothing, or only a placeholder."""
        parent = self.place.parent
        if node.tag or node.anchor:
            self.refuse("the empty value has a tag or an anchor", node.line)
        if (parent is not None and parent.flow) or self.broken(node.start, node.end):
            return self.fill_flow(node)
        column = inside = 0
        if parent is not None:
            nested = self.form.step if isinstance(self.place.fresh, dict) else self.form.dash
            column, inside = parent.column + nested, parent.column + 1
        if node.start == node.end:
            if parent is None:
                explicit = self.document.explicit_end
                return self.at_end(len(self.text) if explicit < 0 else explicit)
            if self.text[node.start - 1] != ":":
                self.refuse("a key without a colon", node.line)
            return (self.lines_at(self.behind(node.end, inside), self.indented(column)),)
        return self.replace(node, column, inside)

    def replace(self, node: Node, column: int, inside: int) -> tuple[Splice, ...]:
        """Put lines in the place of `{}`, `[]`, `~` or `null`."""
        start = self.line_start(node.start)
        before = self.text[start : node.start]
        tail = _TAIL.match(self.text, node.end)
        if tail is None:
            self.refuse("something follows the placeholder on its line", node.line)
        if before.strip(" "):
            kept = before.rstrip(" \t")
            if not kept.endswith(":" if self.place.parent else "---"):
                self.refuse("something stands before the placeholder", node.line)
            gone = Splice(start + len(kept), node.end, "")
        elif tail.group(1):
            column = len(before)
            gone = Splice(node.start, tail.start(1), "")
        else:
            # Alone on its line: the added lines take its place.
            first, *rest = self.indented(len(before))
            text = self.ending.join((first[len(before) :], *rest))
            return (Splice(node.start, node.end, text),)
        return gone, self.lines_at(self.behind(node.end, inside), self.indented(column))

    def behind(self, end: int, inside: int) -> int:
        """Return where lines go that follow what ends at `end`, by the rule for comments."""
        at = end
        if not self.at_line_start(end):
            tail = _TAIL.match(self.text, end)
            if tail is None or RARE_BREAKS.search(tail.group()):
                self.refuse("something follows on the line", self.line_of(end))
            at = tail.end()
        look = at
        while look < len(self.text):
            comment = _COMMENT.match(self.text, look)
            blank = _BLANK.match(self.text, look)
            if comment and len(comment.group(1)) >= inside:
                if RARE_BREAKS.search(comment.group(2)):
                    self.refuse("a comment holds a line separator", self.line_of(look))
                at = look = comment.end()
            elif blank:
                look = blank.end()
            else:
                break
        return at

    def before_blank(self, end: int) -> int:
        """Return where the blank lines begin that end at `end`."""
        found = _BLANK_END.search(self.text, self.last_line_of_text(end), end)
        return found.start() if found else end

    def last_line_of_text(self, end: int) -> int:
        """Return the start of the last line before `end` that is not blank."""
        return self.line_start(len(self.text[:end].rstrip()))

    def at_end(self, at: int) -> tuple[Splice, ...]:
        """Add the first lines of a document that has comments at most."""
        return (self.lines_at(at, self.indented(0)),)

    def lines_at(self, at: int, lines: list[str]) -> Splice:
        """Return the splice that puts whole lines at the start of a line, or at the end."""
        joined = self.ending.join(lines)
        if at == len(self.text) and at and not self.at_line_start(at):
            # The file has no final newline, and keeps none.
            return Splice(at, at, self.ending + joined)
        return Splice(at, at, joined + self.ending)

    def indented(self, column: int) -> list[str]:
        """Return the added lines, each at the given column."""
        return [" " * column + line for line in self.rendered()]

    def rendered(self) -> list[str]:
        """Return the added lines at column 0."""
        fresh = self.place.fresh
        if isinstance(fresh, dict):
            ((key, value),) = fresh.items()
            return entry_lines(key, value, self.form, self.place.place)
        return item_lines(fresh[0], self.form, self.place.place)

    # -- flow collections --------------------------------------------------------------------------

    def fill_flow(self, node: Node) -> tuple[Splice, ...]:
        """Put the first entry or item between brackets, or brackets in the place of a null."""
        if node.shape != "scalar":
            return (Splice(node.end - 1, node.end - 1, self.inner(self.form)),)
        text = flow_text(self.place.fresh, self.form, self.place.place)
        if node.start < node.end:
            return (Splice(node.start, node.end, text),)
        # The parser reports an absent value where the next sign stands.
        at = len(self.text[: node.start].rstrip())
        if self.text[at - 1] != ":":
            self.refuse("a key without a colon", node.line)
        return (Splice(at, at, f" {text}"),)

    def extend_flow(self, node: Node) -> tuple[Splice, ...]:
        """Add an entry or item before the closing brace or bracket."""
        last = node.children[-1]
        opener = node.children[-2] if node.shape == "map" else last
        end, close = max(last.end, opener.end), node.end - 1
        gap = _GAP.fullmatch(self.text, end, close)
        if gap is None:
            self.refuse("the end of the collection is not understood", node.line)
        comma = gap.start(1) if gap.group(1) else -1
        keys = node.children[::2] if node.shape == "map" else node.children
        inner = self.inner(self.form._replace(quoted=all(key.style == '"' for key in keys)))
        ended = end if comma < 0 else comma + 1
        tail = _TAIL.match(self.text, ended, close)
        indent = self.text[self.line_start(opener.start) : opener.start]
        if indent.strip(" \t") or tail is None or not self.at_line_start(tail.end()):
            return (Splice(ended, ended, f", {inner}" if comma < 0 else f" {inner}"),)
        # Each entry has its own line: the new one gets one too, and a comma as its siblings have.
        line = Splice(
            tail.end(), tail.end(), f"{indent}{inner}{'' if comma < 0 else ','}{self.ending}"
        )
        return (line,) if comma >= 0 else (Splice(end, end, ","), line)

    def inner(self, form: Form) -> str:
        """Return the added entry or item on one line."""
        fresh, place = self.place.fresh, self.place.place
        if isinstance(fresh, dict):
            ((key, value),) = fresh.items()
            return flow_entry(key, value, form, place)
        return flow_text(fresh[0], form, place)

    # -- the text ----------------------------------------------------------------------------------

    @property
    def ending(self) -> str:
        """The line ending of the added lines: the one that the file uses most."""
        counts = {"\r\n": self.text.count("\r\n")}
        counts["\n"] = self.text.count("\n") - counts["\r\n"]
        counts["\r"] = self.text.count("\r") - counts["\r\n"]
        return max(_ENDINGS, key=lambda ending: counts[ending])

    def at_line_start(self, at: int) -> bool:
        """Whether a line begins at `at`, for editors and parsers alike."""
        return at == 0 or self.text[at - 1] in "\r\n"

    def adds_lines(self, splice: Splice) -> bool:
        """Whether a splice adds whole lines and touches none that is there."""
        whole = self.at_line_start(splice.at) or splice.at == len(self.text)
        return whole and splice.at == splice.stop

    def line_start(self, at: int) -> int:
        """Return where the line of `at` begins."""
        return max(self.text.rfind("\n", 0, at), self.text.rfind("\r", 0, at)) + 1

    def line_of(self, at: int) -> int:
        """Return the line of `at`, from 1."""
        before = self.text[:at]
        return before.count("\n") + before.count("\r") - before.count("\r\n") + 1

    def broken(self, start: int, end: int) -> bool:
        """Whether a part of the text spans several lines."""
        part = self.text[start:end]
        return "\n" in part or "\r" in part

    def refuse(self, reason: str, line: int) -> NoReturn:
        """Refuse the edit, naming the line that stands in its way."""
        raise YamlEditNotExact(
            name=self.document.name, place=self.place.place, reason=reason, line=line
        )


def last_leaf(node: Node) -> Node:
    """Return the node whose end in the text is exact and ends the collection."""
    while node.style == "block":
        node = node.children[-1]
    return node
