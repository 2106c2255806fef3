"""Splits SQL text into statements as a PostgreSQL server's own scanner does.

Promise: what the server reads as quoted or as a comment is never taken for a statement, and a
statement is never taken for either: nested comments, quotes of every kind with their
continuations, dollar quotes. Text that the server would refuse as a whole may be split anyhow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORD_START = r"A-Za-z_\u0080-\U0010ffff"
_TOKEN = re.compile(
    rf"""(?P<line>--[^\n\r]*)
    |(?P<block>/\*)
    |(?P<name>"[^"]*(?:"|\Z))
    |(?P<dollar>\$(?:[{_WORD_START}][{_WORD_START}0-9]*)?\$)
    |(?P<word>[{_WORD_START}][{_WORD_START}0-9$]*)
    |(?P<quote>')
    |(?P<end>;)
    |(?P<other>[^-/"$';{_WORD_START}]+|.)""",
    re.DOTALL | re.VERBOSE,
)
_BLOCK_MARK = re.compile(r"/\*|\*/")
_PLAIN_MARK = re.compile(r"'")
_ESCAPED_MARK = re.compile(r"\\.|'", re.DOTALL)
# A doubled quote, or another literal on a later line: the same literal goes on, of the same kind.
_GOES_ON = re.compile(r"'|(?:[ \t\f\v]|--[^\n\r]*+)*+[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*+[\n\r])*+'")


def statements(sql: str, *, backslashes: bool = False) -> Iterator[str]:
    """Each statement; comments become a space, and what is quoted an empty literal.

    `backslashes`: the session's `standard_conforming_strings` is off, so that a backslash
    escapes in plain literals too.
    """
    pieces: list[str] = []
    at, before = 0, ""
    while at < len(sql):
        token = _TOKEN.match(sql, at)
        assert token is not None  # the last alternative takes any character
        at, kind, text = token.end(), token.lastgroup, token[0]
        if kind == "end":
            yield "".join(pieces)
            pieces = []
        elif kind == "block":
            at = _after_block(sql, at)
        elif kind == "dollar":
            at = _after(sql.find(text, at), len(text), sql)
        elif kind == "quote":
            escaped = before == "e" or (backslashes and before not in ("b", "x"))
            at = _after_literal(sql, at, escaped=escaped)
        replaced = {"end": "", "line": " ", "block": " "}
        quoted = kind in ("dollar", "quote", "name")
        pieces.append("''" if quoted else replaced.get(kind or "", text))
        before = text.lower() if kind == "word" else ""
    yield "".join(pieces)


def _after(found: int, length: int, sql: str) -> int:
    """Behind what was found; at the end of a text that never closes what it opened."""
    return len(sql) if found < 0 else found + length


def _after_block(sql: str, at: int) -> int:
    depth = 1
    for mark in _BLOCK_MARK.finditer(sql, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(sql)


def _after_literal(sql: str, at: int, *, escaped: bool) -> int:
    marks = _ESCAPED_MARK if escaped else _PLAIN_MARK
    while (mark := marks.search(sql, at)) is not None:
        at = mark.end()
        if mark[0] != "'":
            continue
        more = _GOES_ON.match(sql, at)
        if more is None:
            return at
        at = more.end()
    return len(sql)
