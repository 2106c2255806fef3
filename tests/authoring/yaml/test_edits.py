"""For any document and any supported edit, the diff is the edit, or the edit is refused."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpone.adapters.yamlfile.documents import YamlDocuments, changed_lines
from dpone.contracts.errors_yaml import (
    YamlEditNotExact,
    YamlError,
    YamlKeyExists,
    YamlOtherShape,
    YamlShared,
)
from dpone.ports.documents import Documents
from tests.authoring.yaml.corpus import CASES, Case, variants
from tests.authoring.yaml.judge import Edit, faults
from tests.authoring.yaml.texts import Spot, Written, documents, edits

DOCUMENTS: Documents = YamlDocuments()
IN_LINE = ("flow", "placeholder")
REFUSED_PERCENT_MAX = 15


def edited(data: bytes, edit: Edit, by: Documents = DOCUMENTS) -> bytes:
    if edit.key is None:
        return by.append_item(data, edit.path, edit.value, name="catalog.yaml")
    return by.add_entry(data, edit.path, edit.key, edit.value, name="catalog.yaml")


def edited_or_not(data: bytes, edit: Edit) -> bytes | YamlError:
    try:
        return edited(data, edit)
    except YamlError as error:
        return error


# -- what must not be refused ----------------------------------------------------------------------


def test_the_corpus_is_not_small() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text[:40])
def test_the_diff_is_the_edit(case: Case) -> None:
    for variant, data in variants(case):
        found = faults(data, edited(data, case.edit), case.edit, case.one_line)
        assert found == [], (variant, data)


# -- any document, any edit ------------------------------------------------------------------------


def justified(error: YamlError, written: Written, edit: Edit, spot: Spot) -> bool:
    """Whether a refusal has its reason in the document or the edit."""
    if isinstance(error, YamlOtherShape):
        return spot.shape != "any" and (spot.shape == "seq") != (edit.key is None)
    if isinstance(error, YamlShared):
        return b"&" in written.data and b"*" in written.data
    if isinstance(error, YamlEditNotExact):
        # A block scalar at the very end would gain the newline that it does not have.
        unended = not written.data.endswith((b"\n", b"\r"))
        return unended and any(sign in written.data for sign in (b"|", b">"))
    return False


def test_the_diff_of_any_edit_is_the_edit() -> None:
    outcomes: Counter[str] = Counter()

    @settings(max_examples=400)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        written = data.draw(documents())
        edit, spot = data.draw(edits(written))
        result = edited_or_not(written.data, edit)
        if isinstance(result, YamlError):
            outcomes["refused"] += 1
            assert justified(result, written, edit, spot), result
            return
        outcomes["made"] += 1
        assert faults(written.data, result, edit, spot.form in IN_LINE) == []

    check()
    # A test that refuses its way out proves nothing.
    assert outcomes["made"] >= 300
    assert outcomes["refused"] * 100 <= REFUSED_PERCENT_MAX * outcomes.total()


@settings(max_examples=60)
@given(st.data())
def test_edits_follow_each_other(data: st.DataObject) -> None:
    now = data.draw(documents()).data
    for number in range(3):
        edit = Edit((), f"added {number}", {"n": number})
        try:
            after = edited(now, edit)
        except (YamlOtherShape, YamlEditNotExact, YamlShared):
            return
        assert faults(now, after, edit, one_line=True) == []
        now = after


# -- where a block goes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "dags:\n  a: 1\n  # of dags\n# of b\nb: 2\n",
            "dags:\n  a: 1\n  # of dags\n  k: v\n# of b\nb: 2\n",
        ),
        ("dags:\n  a: 1\n\n\nb: 2\n", "dags:\n  a: 1\n  k: v\n\n\nb: 2\n"),
        ("dags:\n    a:\n        b: 1", "dags:\n    a:\n        b: 1\n    k: v"),
        ("dags: {}  # none\n", "dags:  # none\n  k: v\n"),
        ("dags: ~\nb: 1\n", "dags:\n  k: v\nb: 1\n"),
        ("dags: {a: 1}\n", "dags: {a: 1, k: v}\n"),
        ("dags: {\n  a: 1,\n}\n", "dags: {\n  a: 1,\n  k: v,\n}\n"),
        ('dags: {"a": 1}\n', 'dags: {"a": 1, "k": "v"}\n'),
        ("", "dags:\n  k: v\n"),
        ("# c", "# c\ndags:\n  k: v"),
        ("---\n...\n", "---\ndags:\n  k: v\n...\n"),
    ],
)  # fmt: skip
def test_a_block_goes_where_a_person_would_put_it(before: str, after: str) -> None:
    assert edited(before.encode(), Edit(("dags",), "k", "v")).decode() == after


@pytest.mark.parametrize(
    ("before", "added"),
    [
        ("dags:\n    a:\n        x: [1]\n", "    k:\n        m:\n            - 1\n"),
        ("dags:\n  a:\n    x:\n    - 1\n", "  k:\n    m:\n    - 1\n"),
        ("dags:\n  a:\n    x:\n      - 1\n", "  k:\n    m:\n      - 1\n"),
    ],
)
def test_a_block_is_laid_out_like_its_siblings(before: str, added: str) -> None:
    edit = Edit(("dags",), "k", {"m": [1]})
    assert edited(before.encode(), edit).decode() == before + added


def test_mixed_line_endings_stay_and_the_added_lines_end_like_most() -> None:
    before = b"a: 1\r\nb: 2\nc: 3\r\n"
    assert edited(before, Edit((), "d", [4])) == before + b"d:\r\n  - 4\r\n"


# -- what is refused -------------------------------------------------------------------------------

REFUSED = [
    ("a: 1\ndags: *x\n", None, 2),
    ("base: &x {a: 1}\ndags: *x\n", YamlShared, 2),
    ("dags: &x\n  a: 1\nb: *x\n", YamlShared, 1),
    ("base: &x {a: 1}\ndags:\n  b: 1\n  <<: *x\n", YamlShared, 4),
    ("base: &x {dags: {a: 1}}\n<<: *x\n", YamlShared, 2),
    ("b: 1\ndags:\n  a: 1\n  'k': 2\n", YamlKeyExists, 4),
    ("b: 1\ndags: [1]\n", YamlOtherShape, 2),
    ("dags: text\n", YamlOtherShape, 1),
    ("- 1\n", YamlOtherShape, 1),
    ("b: 1\ndags: &x\n", YamlEditNotExact, 2),
    ("dags: !!null ~\n", YamlEditNotExact, 1),
    ("dags: !!map {}\n", YamlEditNotExact, 1),
    ("b: 1\ndags: !!set\n  a:\n", YamlEditNotExact, 2),
    ("dags: !include {a: 1}\n", YamlEditNotExact, 1),
    ("b: 1\n? dags\n", YamlEditNotExact, None),
    ("dags:\n  a: 1\n  ? b\nc: 1\n", YamlEditNotExact, None),
    ("dags:\n  a: |\n    text", YamlEditNotExact, 2),
    ("{dags}\n", YamlEditNotExact, 1),
    ("dags: {}\u2028b: 1\n", YamlEditNotExact, 1),
    ("dags:\n  a: 1\x85other: 1\n", YamlEditNotExact, 2),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "line"), REFUSED)
def test_what_cannot_be_spliced_is_refused_with_its_line(
    text: str, kind: type[YamlError] | None, line: int | None
) -> None:
    with pytest.raises(kind or YamlError) as caught:
        edited(text.encode(), Edit(("dags",), "k", "v"))
    assert caught.value.fields["name"] == "catalog.yaml"
    assert (line or caught.value.fields["line"]) == caught.value.fields["line"]
    assert caught.value.exit_code == 1


def test_an_unused_anchor_and_aliases_elsewhere_do_not_stand_in_the_way() -> None:
    before = b"x: &x {a: 1}\ny: *x\nz: {<<: *x}\ndags: &unused\n  a: *x\n"
    assert edited(before, Edit(("dags",), "k", "v")) == before + b"  k: v\n"


# -- counting lines --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        (b"a\nb\n", b"a\nx\nb\n", 0),
        (b"a\nb\n", b"a\nb\nx\n", 0),
        (b"a\na\n", b"a\na\na\n", 0),
        (b"a\nb\n", b"a\nc\nx\n", 1),
        (b"a\nb\nc\n", b"a\nB\nx\nc\ny\n", 1),
        (b"a\r\nb\n", b"a\nb\nx\n", 1),
        (b"a\nb\nc\n", b"A\nB\nc\nx\n", 3),
        (b"", b"x\n", 0),
    ],
)
def test_changed_lines_are_counted(before: bytes, after: bytes, count: int) -> None:
    assert changed_lines(before, after) == count
