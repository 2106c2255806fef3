"""Judges an edit without the code that made it: by bytes, and by another parser.

The parser is PyYAML's own, in Python; the library uses the one in C. What a person may rely on is
said here once more in other words: the diff is the addition, and the values are the old ones and
the addition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import yaml

BOM = b"\xef\xbb\xbf"
LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")
Tree = Any


class Edit(NamedTuple):
    """An addition: `key` is None for an item of a list."""

    path: tuple[str, ...]
    key: str | None
    value: Any


def tree(node: yaml.Node | None) -> Tree:
    """All of a document that can be compared: shapes, styles, resolved tags and texts."""
    if node is None:
        return None
    if isinstance(node, yaml.ScalarNode):
        return (node.tag, node.value, node.style or "")
    if isinstance(node, yaml.SequenceNode):
        return [node.tag, flow(node), *map(tree, node.value)]
    return {
        "<tag>": node.tag,
        "<flow>": flow(node),
        **{str(number): (tree(key), tree(value)) for number, (key, value) in enumerate(node.value)},
    }


def flow(node: Any) -> bool:
    """Whether a collection stands in brackets or braces."""
    return bool(node.flow_style)


def composed(data: bytes) -> yaml.Node | None:
    text = data.decode("utf-8-sig")
    found: yaml.Node | None = yaml.compose(text, yaml.SafeLoader)
    return found


def loaded(node: yaml.Node) -> Any:
    """A node's value; merge keys and timestamps included, as YAML 1.1 has them."""
    loader = yaml.SafeLoader("")
    return loader.construct_document(node)


def faults(before: bytes, after: bytes, edit: Edit, one_line: bool) -> list[str]:
    """Everything that is wrong with an edit; empty when it is exactly the addition.

    `one_line` says that the edit may change one line: a placeholder or a flow collection.
    """
    found = tree_faults(before, after, edit)
    if before.startswith(BOM) != after.startswith(BOM):
        found.append("byte order mark")
    blocks = insertions(before, after)
    if not blocks:
        if not one_line or not one_line_changed(before, after):
            found.append("more than the addition")
    elif not one_line:
        # Where lines repeat, the same insertion can be seen in several places.
        found += sorted((block_faults(before, at, block) for at, block in blocks), key=len)[0]
    found += ending_faults(before, after)
    return found


# -- values ----------------------------------------------------------------------------------------


def tree_faults(before: bytes, after: bytes, edit: Edit) -> list[str]:
    try:
        old, new = composed(before), composed(after)
    except yaml.YAMLError as error:
        return [f"not YAML: {error}"]
    return _faults(old, new, edit)


def _faults(old: yaml.Node | None, new: yaml.Node | None, edit: Edit) -> list[str]:
    fresh: Any = [edit.value] if edit.key is None else {edit.key: edit.value}
    return _added(old, new, list(edit.path), fresh)


def _added(old: Any, new: Any, path: list[str], fresh: Any) -> list[str]:
    """Compare along the path; where it ends in the old tree, the rest is the addition."""
    while path and isinstance(old, yaml.MappingNode):
        number = next((n for n, (key, _) in enumerate(old.value) if key.value == path[0]), None)
        if number is None:
            break
        if not isinstance(new, yaml.MappingNode) or len(new.value) != len(old.value):
            return ["other entries"]
        apart = [n for n in range(len(old.value)) if n != number]
        if [tree_of(old.value[n]) for n in apart] != [tree_of(new.value[n]) for n in apart]:
            return ["another entry changed"]
        if tree(old.value[number][0]) != tree(new.value[number][0]):
            return ["the key changed"]
        old, new, path = old.value[number][1], new.value[number][1], path[1:]
    for key in reversed(path):
        fresh = {key: fresh}
    kept = old.value if isinstance(old, yaml.CollectionNode) else []
    if not isinstance(new, yaml.MappingNode if isinstance(fresh, dict) else yaml.SequenceNode):
        return ["another shape"]
    if kept and (old.tag, old.flow_style) != (new.tag, new.flow_style):
        return ["another style"]
    if [tree_of(one) for one in kept] != [tree_of(one) for one in new.value[: len(kept)]]:
        return ["siblings changed"]
    if len(new.value) != len(kept) + 1:
        return ["not one more"]
    rest = type(new)(new.tag, new.value[len(kept) :])
    return [] if exactly(loaded(rest), fresh) else ["another value"]


def tree_of(child: Any) -> Tree:
    return tuple(map(tree, child)) if isinstance(child, tuple) else tree(child)


def exactly(one: Any, other: Any) -> bool:
    """Equality that tells True from 1."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return list(one) == list(other) and all(exactly(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(exactly, one, other))
    return type(one) is type(other) and bool(one == other)


# -- bytes -----------------------------------------------------------------------------------------


def insertions(before: bytes, after: bytes) -> list[tuple[int, bytes]]:
    """Every line start (or the end) of `before` at which one inserted block gives `after`."""
    more = len(after) - len(before)
    if more <= 0:
        return []
    starts = [0]
    for line in LINE.findall(before):
        starts.append(starts[-1] + len(line))
    if before.startswith(BOM):
        starts[0] = len(BOM)
    return [
        (at, after[at : at + more])
        for at in starts
        if after[:at] == before[:at] and after[at + more :] == before[at:]
    ]


def one_line_changed(before: bytes, after: bytes) -> bool:
    """Whether `after` keeps all lines of `before` in order, but one, and that one's comment."""
    old, new = before.splitlines(), after.splitlines()
    number = next(n for n in range(len(old) + 1) if old[n : n + 1] != new[n : n + 1])
    if number == len(old):
        return True
    comment = re.search(rb"[ \t]#.*", old[number])
    if comment is not None and comment.group().strip() not in after:
        return False
    pushed = iter(new[number + 1 :])
    return all(line in pushed for line in old[number + 1 :])


def block_faults(before: bytes, at: int, block: bytes) -> list[str]:
    """Whether an inserted block is whole lines, and on the right side of every comment."""
    found = []
    unended = bool(before.removeprefix(BOM)) and not before.endswith((b"\n", b"\r"))
    if unended and at == len(before):
        if not block.startswith((b"\n", b"\r")) or block.endswith((b"\n", b"\r")):
            found.append("final newline")
        block = block.lstrip(b"\r\n")
    elif not block.endswith((b"\n", b"\r")):
        found.append("half a line")
    first = LINE.findall(block)[0]
    column = len(first) - len(first.lstrip(b" "))
    dash = first.lstrip().startswith(b"- ") and _indentless(before[:at].removeprefix(BOM), column)
    for line in reversed(LINE.findall(before[:at].removeprefix(BOM))):
        if line.strip() and not line.lstrip().startswith(b"#"):
            break
        if line.strip() and _indent(line) < column + dash:
            found.append("behind a comment of the outer level")
    for line in LINE.findall(before[at:]):
        if line.strip() and (not line.lstrip().startswith(b"#") or _indent(line) < column + dash):
            break
        if line.strip():
            found.append("before a comment of its own level")
    return found


def _indentless(above: bytes, column: int) -> bool:
    """Whether the list that ends here has its dashes in the column of its key."""
    for line in reversed(LINE.findall(above)):
        if not line.strip() or line.lstrip().startswith((b"-", b"#", b"%")):
            continue
        if _indent(line) <= column:
            return _indent(line) == column
    return False


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip(b" \t"))


def ending_faults(before: bytes, after: bytes) -> list[str]:
    """Whether the added lines end as most lines of the file do."""
    counts = {kind: len(re.findall(kind, before)) for kind in ENDINGS}
    most = max(counts.values())
    mainly = {kind for kind, count in counts.items() if count == most} if most else {ENDINGS[0]}
    grown = {kind for kind in ENDINGS if len(re.findall(kind, after)) > counts[kind]}
    lost = any(len(re.findall(kind, after)) < counts[kind] for kind in ENDINGS)
    ended = before.endswith((b"\n", b"\r")) == after.endswith((b"\n", b"\r")) or before in (
        b"",
        BOM,
    )
    return ([] if grown <= mainly and not lost else ["line endings"]) + (
        [] if ended else ["final newline"]
    )


ENDINGS = (rb"(?<!\r)\n", rb"\r\n", rb"\r(?!\n)")
