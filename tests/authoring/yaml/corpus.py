"""Documents that people write, with edits that must be made and never be refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.authoring.yaml.judge import BOM, Edit

VALUE = {"owner": "no", "retries": 3, "tags": ["010", "a: b", True, None], "empty": {}, "é": "x\ny"}
DAGS = Edit(("dags",), "new", VALUE)
ITEM = Edit(("list",), None, VALUE)
TOP = Edit((), "new", VALUE)
DEEP = Edit(("one", "two", "three"), "new", VALUE)


class Case(NamedTuple):
    """A text with LF and its edit; `one_line` when a line of it may change."""

    text: str
    edit: Edit
    one_line: bool = False


CASES = (
    Case("dags:\n  a: 1\n", DAGS),
    Case("dags:\n  a: 1\nother: 2\n", DAGS),
    Case("dags:\n    a: 1  # why\n\n\nother: 2\n", DAGS),
    Case(
        "# head\n\ndags:\n  a:\n    x: 1\n    # of x\n  # of dags\n\n# of other\nother: 2\n", DAGS
    ),
    Case("dags:\n  a: 1\n\n  # more, after a blank line\n\n# other\nother: 1\n", DAGS),
    Case("dags:\n  a: 1\n  # the end\n", DAGS),
    Case("dags:\n  'a': \"x\"\n  \"b c\": 'it''s'\n", DAGS),
    Case("dags:\n  a: on\n  b: no\n  c: 010\n  d: 12:30\n  e: 1e3\n  f: ~\n  g: 1.10\n", DAGS),
    Case("dags:\n  a: |\n    text\n    more\n\nother: 1\n", DAGS),
    Case("dags:\n  a: |-\n    text\n\n\nother: 1\n", DAGS),
    Case("dags:\n  a: |+\n    text\n\n\nother: 1\n", DAGS),
    Case("dags:\n  a: >\n    folded\n    text\n  # of dags\nother: 1\n", DAGS),
    Case("dags:\n  a: >2-\n      more\n    less\n\n# other\nother: 1\n", DAGS),
    Case('dags:\n  a: plain\n    on two lines\n  b: "double\n    on two"\n', DAGS),
    Case("dags:\n  a:\n  b:\n", DAGS),
    Case("dags:\n  a: {x: 1}\n  b: [1, 2]  # flow\n", DAGS),
    Case("dags:\n  a: {\n    x: 1,\n  }\n", DAGS),
    Case("dags:\n  a:\n  - 1\n  - 2\n# other\nother: 1\n", DAGS),
    Case("dags:\n  a:\n    - x: 1\n      y: 2\n    -\n", DAGS),
    Case("base: &b {x: 1}\ndags:\n  a: *b\n  c: {<<: *b}\n", DAGS),
    Case("base: &b\n  x: 1\nuse:\n  <<: *b\ndags:\n  a: &unused 1\n", DAGS),
    Case("dags: &unused\n  a: 1\n", DAGS),
    Case("dags: !!map\n  a: !!str 1\n  b: !local x\n", DAGS),
    Case("dags:\n  a: 😀 wide\n  é: naïve # 日本\n\nother: 1\n", DAGS),
    Case("---\ndags:\n  a: 1\n...\n", DAGS),
    Case("%YAML 1.1\n---\ndags:\n  a: 1\n# end\n", DAGS),
    Case("--- # start\ndags:\n  a: 1\n# end\n...\n# behind\n", DAGS),
    Case("? dags\n: a: 1\n  b: 2\nother: 1\n", DAGS),
    Case("dags:\n  ? a\n  : 1\n", DAGS),
    Case("dags:\n\n  # none yet\n\n  a: 1\n", DAGS),
    Case("dags:\n", DAGS),
    Case("dags: # none yet\nother: 1\n", DAGS),
    Case("dags:\n  # - example\n# other\nother: 1\n", DAGS),
    Case("other: 1\n", DAGS),
    Case("other: 1\n# the end\n", DAGS),
    Case("# only a comment\n", DAGS),
    Case("\n\n", DAGS),
    Case("---\n", DAGS),
    Case("---\n# nothing\n...\n", DAGS),
    Case("dags: {}\n", DAGS, True),
    Case("dags: {}  # none yet\nother: 1\n", DAGS, True),
    Case("dags: ~\n# other\nother: 1\n", DAGS, True),
    Case("dags: null\n  # of dags\n", DAGS, True),
    Case("dags:\n  {}\nother: 1\n", DAGS, True),
    Case("{}\n", TOP, True),
    Case("--- {}\n", TOP, True),
    Case("dags: {a: 1}\n", DAGS, True),
    Case("dags: { a: 1, b: 'x' }  # flow\nother: 1\n", DAGS, True),
    Case("dags: {a: 1,}\n", DAGS, True),
    Case("dags: {\n  a: 1,\n  b: 2  # last\n}\nother: 1\n", DAGS, True),
    Case("dags: {\n  a: 1,\n  b: 2,  # last\n  # end\n}\nother: 1\n", DAGS, True),
    Case("dags: {a: 1,\n  b: 2}\n", DAGS, True),
    Case('{\n  "dags": {\n    "a": 1\n  },\n  "b": [1]\n}\n', DAGS, True),
    Case("{dags: }\n", DAGS, True),
    Case("{dags: {}, other: 1}\n", DAGS, True),
    Case("one:\n  two:\n    three:\n      a: 1\n    more: 1\n  # of one\nfour: 1\n", DEEP),
    Case("one:\n  two:\n    a: 1\n# other\nfour: 1\n", DEEP),
    Case("one:\n    two:\nfour: 1\n", DEEP),
    Case("one: {two: {a: 1}}\n", DEEP, True),
    Case("a: 1\n", TOP),
    Case("a:\n- 1\n# end\n", TOP),
    Case("list:\n- a\n- b\n# other\nother: 1\n", ITEM),
    Case("list:\n- a\n  # of a\n\n# other\nother: 1\n", ITEM),
    Case("list:\n  - a\n  # of list\n# other\nother: 1\n", ITEM),
    Case("list:\n  - x: 1\n    y: 2\n  - - deep\n    - er\n", ITEM),
    Case("list:\n  - |\n    text\n\n  -\nother: 1\n", ITEM),
    Case("list: &unused\n- a\n", ITEM),
    Case("list: !!seq\n  - a\n", ITEM),
    Case("list:\n", ITEM),
    Case("list: []\n", ITEM, True),
    Case("list: [a, 'b']  # flow\n", ITEM, True),
    Case("list: [\n  a,\n  b,\n]\n", ITEM, True),
    Case("other: 1\n", ITEM),
    Case("- a\n# end\n", Edit((), None, "x")),
    Case("dags:\n  a: 1\n", Edit(("dags",), "no", "no")),
    Case("dags:\n  a: 1\n", Edit(("dags",), "a.b: c", [])),
)


def variants(case: Case) -> Iterator[tuple[str, bytes]]:
    """The text with each line ending, with a byte order mark, and without a final newline."""
    for ending in ("\n", "\r\n", "\r"):
        data = case.text.replace("\n", ending).encode("utf-8")
        yield f"{ending!r}", data
        yield f"{ending!r}, mark", BOM + data
        if not case.text.endswith("\n\n"):
            yield f"{ending!r}, open end", data.removesuffix(ending.encode())
