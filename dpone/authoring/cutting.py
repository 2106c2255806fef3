"""Lines of a YAML document that move: cut out of it, shifted, and put below another key.

Promise: lines are moved and never written anew, and a comment that loses its line is given one of
its own; what cannot be cut so raises `Unfit`. Lines end where editors end them. Source: the
authoring design, commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from dpone.contracts.plainyaml import Entries, View

INDENT = "  "
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")
_MARKER = re.compile(r"(?:---|\.\.\.)(?:\s|\Z)")
_COMMENT = re.compile(r"(?:^\ufeff?|[ \t])(#[^\r\n]*)")
_BREAKS = ("\n", "\r")


class Unfit(Exception):
    """The lines cannot be moved; the message is the reason, for people."""


class Cut(NamedTuple):
    """A document around one of its top-level lists.

    `beside` is what stands behind the list's key on its line, `items` are the lines below it, from
    the first column.
    """

    before: list[str]
    beside: str
    items: list[str]
    after: list[str]


def lines_of(text: str) -> list[str]:
    """The lines of a text, with their endings."""
    return _LINE.findall(text)


def newline_of(lines: Iterable[str]) -> str:
    """The ending that added lines get."""
    return "\r\n" if any(line.endswith("\r\n") for line in lines) else "\n"


def cut(view: View, text: str, key: str) -> Cut:
    """Cut a document at a top-level list. A comment that speaks of the next key stays with it."""
    root = view.value
    if not isinstance(root, Entries) or key not in root:
        raise Unfit(f"it has no {key}")
    lines = lines_of(text)
    own, start = _key_line(lines, key)
    later = [_key_line(lines, name)[0] for name in root if name != key]
    later += [number for number, line in enumerate(lines) if _MARKER.match(line)]
    end = min((number for number in later if number > own), default=len(lines))
    items = lines[own + 1 : end]
    dash = indent_of(next((line for line in items if line.lstrip().startswith("-")), ""))
    stop = len(items) if end == len(lines) else _end_of(items, dash)
    beside = lines[own][start:].strip()
    return Cut(lines[:own], beside, shifted(items[:stop], dash), items[stop:] + lines[end:])


def _key_line(lines: list[str], key: str) -> tuple[int, int]:
    """The number of a top-level key's line, and where its colon ends."""
    pattern = re.compile(rf"\ufeff?[\"']?{re.escape(key)}[\"']?\s*:")
    found = [
        (number, match.end())
        for number, line in enumerate(lines)
        if (match := pattern.match(line)) is not None
    ]
    if len(found) != 1:
        raise Unfit(f"its {key} is not one plain line")
    return found[0]


def _end_of(items: list[str], dash: int) -> int:
    """Where the comments begin that follow a list and are indented less than its items."""
    stop = len(items)
    for number in range(len(items) - 1, -1, -1):
        line = items[number]
        if line.lstrip().startswith("#") and indent_of(line) < max(dash, 1):
            stop = number
        elif line.strip():
            break
    return stop


def comments_of(lines: Iterable[str], newline: str) -> list[str]:
    """The comments of lines that stay behind, each as a line of its own."""
    found = (_COMMENT.search(line) for line in lines)
    return [f"{comment.group(1)}{newline}" for comment in found if comment is not None]


def notes_of(part: Cut, count: int, newline: str) -> list[list[str]]:
    """The comments of a list of `count` names: above or beside each of them, and at its end."""
    notes: list[list[str]] = [[] for _ in range(count + 1)]
    at = 0
    for line in part.items:
        notes[at] += comments_of([line], newline)
        at = min(at + line.startswith("-"), count)
    return notes


def body(text: str) -> list[str]:
    """The lines of a manifest without byte order mark and document markers."""
    lines = lines_of(text.removeprefix("\ufeff"))
    for number, line in enumerate(lines):
        if line.startswith("%"):
            raise Unfit("it has a YAML directive")
        if _MARKER.match(line):
            lines[number] = _beside_marker(line)
            break
        if line.strip() and not line.startswith("#"):
            break
    for number, line in enumerate(lines):
        if _MARKER.match(line):
            # One more, at the very end of the document: what follows it are comments.
            lines[number] = _beside_marker(line)
    return [line for line in lines if line]


def _beside_marker(line: str) -> str:
    """What a document marker's line holds besides: nothing, or a comment."""
    rest = line[3:].lstrip(" \t")
    if not rest.strip():
        return ""
    if not rest.startswith("#"):
        raise Unfit("something stands beside its document marker")
    return rest


def stacked(*parts: list[str]) -> list[str]:
    """All lines below each other: each has an ending, and the last one only if it had one."""
    lines = [line for part in parts for line in part]
    newline = newline_of(lines)
    return [line if line.endswith(_BREAKS) else line + newline for line in lines[:-1]] + lines[-1:]


def as_item(lines: list[str]) -> list[str]:
    """A document's lines as one list item that begins in the first column."""
    made: list[str] = []
    is_begun = False
    for line in lines:
        is_content = bool(line.strip()) and not line.lstrip().startswith("#")
        if is_content and not is_begun:
            made.append(f"- {line}")
            is_begun = True
        else:
            made.append(f"{INDENT}{line}" if line.strip("\r\n") else line)
    return made


def as_document(items: list[str]) -> list[str]:
    """The lines of a list's only item, from the first column."""
    dashes = [number for number, line in enumerate(items) if line.startswith("-")]
    if len(dashes) != 1:
        raise Unfit(f"it has {len(dashes)} processes, not one")
    lines = list(items)
    lines[dashes[0]] = " " + lines[dashes[0]][1:]
    first = next((line for line in lines[dashes[0] :] if line.strip()), "")
    return shifted(lines, indent_of(first))


def shifted(lines: list[str], count: int) -> list[str]:
    """Take `count` columns away; a comment further left goes to the first column."""
    made: list[str] = []
    for line in lines:
        if indent_of(line) >= count or not line.strip():
            made.append(line[count:] if line.strip() or len(line) > count else line.lstrip(" "))
        elif line.lstrip().startswith("#"):
            made.append(line.lstrip(" "))
        else:
            raise Unfit("its lines are not aligned")
    return made


def indented(lines: list[str]) -> list[str]:
    """The lines one step further right; empty ones stay empty."""
    return [f"{INDENT}{line}" if line.strip("\r\n") else line for line in lines]


def indent_of(line: str) -> int:
    """The columns before a line's first sign."""
    return len(line) - len(line.lstrip(" "))
