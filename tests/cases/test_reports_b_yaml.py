"""Public reports of files that a tool rewrote: YAML that people wrote keeps what they wrote."""

from __future__ import annotations

import pytest
import yaml

from dpone.adapters.yamlfile.documents import YamlDocuments
from dpone.contracts.errors_yaml import YamlDuplicateKey, YamlKeyExists, YamlShared
from dpone.contracts.plainyaml import Entries, Plain, Value

DOCUMENTS = YamlDocuments()
NAME = "catalog.yaml"
NEW: Plain = {"schedule": "0 5 * * *", "owner": "no", "retries": 3}
BLOCK = '  new:\n    schedule: "0 5 * * *"\n    owner: "no"\n    retries: 3\n'


def added(before: str) -> str:
    """The text of a catalog after one DAG was added."""
    return DOCUMENTS.add_entry(before.encode(), ("dags",), "new", NEW, name=NAME).decode()


# -- B22: the last of two keys silently wins -------------------------------------------------------

TWICE = "dags:\n  sales:\n    owner: a\n  # more\n  sales: {owner: b}\n"


def test_b22_a_key_that_is_there_twice_is_refused_with_both_lines() -> None:
    with pytest.raises(YamlDuplicateKey) as caught:
        added(TWICE)
    fields = caught.value.fields
    assert (fields["name"], fields["key"], fields["first"], fields["line"]) == (NAME, "sales", 2, 5)
    assert "line 2 and again at line 5" in str(caught.value)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    "text",
    [
        "other: {a: 1, a: 2}\ndags: {}\n",
        "other:\n- a: 1\n  'a': 2\ndags: {}\n",
        'dags: {}\n"dags": {}\n',
        "dags: {on: 1, true: 2}\n",
    ],
)
def test_b22_it_does_not_matter_where_it_is_or_how_it_is_written(text: str) -> None:
    with pytest.raises(YamlDuplicateKey):
        added(text)
    with pytest.raises(YamlDuplicateKey):
        DOCUMENTS.view(text.encode(), NAME)


# -- B23: a rewrite drops comments, escapes, and sorts ---------------------------------------------

PERSONAL = """\
# Katalog der Abläufe 😀
version:   1   # spaced on purpose
dags:
  zeta:   {owner: 'Zoë', tags: [ "a",b ]}
  alpha:      # not sorted
    title: "naïve \\u00e9"
    text: >-
      folded
      text

  # the last comment of the DAGs
# what follows
limits: { cpu: 2 }
"""


def test_b23_the_diff_is_the_added_block() -> None:
    before, behind = PERSONAL.split("# what follows")
    assert added(PERSONAL) == before + BLOCK + "# what follows" + behind


# -- B24: an edit elsewhere expands anchors, aliases and merge keys --------------------------------

ANCHORS = """\
defaults: &a
  retries: 2
copy: *a
dags:
  one:
    <<: *a
    owner: x
  two: *a
"""


def test_b24_anchors_aliases_and_merge_keys_stay_when_an_entry_is_added() -> None:
    after = added(ANCHORS)
    assert after == ANCHORS + BLOCK
    assert yaml.safe_load(after)["dags"]["one"] == {"retries": 2, "owner": "x"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x: &a {b: 1}\ndags: *a\n", 2),
        ("dags: &a\n  b: 1\nx: *a\n", 1),
        ("x: &a {b: 1}\ndags:\n  <<: *a\n", 3),
        ("x: &a {dags: {}}\n<<: *a\n", 2),
    ],
)
def test_b24_a_place_that_is_shared_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(YamlShared) as caught:
        added(text)
    assert (caught.value.fields["line"], caught.value.exit_code) == (line, 1)


# -- B25: the tool has a line ending of its own ----------------------------------------------------


@pytest.mark.parametrize("final", ["", "\r\n"], ids=["open end", "final newline"])
def test_b25_crlf_and_the_end_of_the_file_stay(final: str) -> None:
    before = "dags:\r\n  one: 1  # x\r\nother: 2" + final
    block = BLOCK.replace("\n", "\r\n")
    assert added(before) == "dags:\r\n  one: 1  # x\r\n" + block + "other: 2" + final


def test_b25_a_block_at_the_open_end_leaves_it_open() -> None:
    before = "other: 2\r\ndags:\r\n  one: 1"
    block = BLOCK.replace("\n", "\r\n").removesuffix("\r\n")
    assert added(before) == f"{before}\r\n{block}"


def test_b25_what_was_added_is_a_no_op_the_next_time() -> None:
    after = added("dags:\r\n  one: 1")
    assert DOCUMENTS.same(dags(after.encode())["new"], NEW)
    with pytest.raises(YamlKeyExists):
        added(after)


# -- B26: a scalar changes its type ----------------------------------------------------------------

ODD = "dags:\n" + "".join(
    f"  k{number}: {text}\n"
    for number, text in enumerate(("010", "0123", "on", "no", "12:30", "1e3", "~", "1.10", "'no'"))
)


def dags(data: bytes) -> Entries:
    value = DOCUMENTS.view(data, NAME).value
    assert isinstance(value, Entries)
    found: Value = value["dags"]
    assert isinstance(found, Entries)
    return found


def test_b26_no_value_is_written_in_another_type() -> None:
    assert added(ODD) == ODD + BLOCK


def test_b26_the_text_of_every_scalar_is_kept() -> None:
    texts = [
        value.text for value in dags(ODD.encode()).values() if not isinstance(value, list | dict)
    ]
    assert texts == ["010", "0123", "on", "no", "12:30", "1e3", "~", "1.10", "no"]


@pytest.mark.parametrize(
    ("written", "generated"),
    [
        ("010", 8), ("010", 10), ("0123", 123), ("0123", "0123"), ("on", True), ("on", "on"),
        ("no", False), ("no", "no"), ("12:30", 750), ("12:30", "12:30"), ("1e3", 1000),
        ("1e3", "1e3"), ("~", "~"), ("'~'", None), ("true", 1), ("1", True),
    ],
)  # fmt: skip
def test_b26_there_is_no_false_no_op(written: str, generated: Plain) -> None:
    assert not DOCUMENTS.same(dags(f"dags: {{k: {written}}}\n".encode())["k"], generated)


@pytest.mark.parametrize(
    ("written", "generated"),
    [
        ('"010"', "010"), ("'on'", "on"), ('"no"', "no"), ('"12:30"', "12:30"), ('"1e3"', "1e3"),
        ("~", None), ("null", None), ("10", 10), ("true", True),
        ("{b: 'x', a: 1}", {"a": 1, "b": "x"}),
    ],
)  # fmt: skip
def test_b26_there_is_no_false_conflict(written: str, generated: Plain) -> None:
    assert DOCUMENTS.same(dags(f"dags: {{k: {written}}}\n".encode())["k"], generated)


# -- B36: a byte order mark hides the first key ----------------------------------------------------


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_b36_the_first_key_is_found_behind_a_mark_that_stays(ending: str) -> None:
    before = "\ufeff" + f"dags:\n  é😀: 1\n{'other: 1'}\n".replace("\n", ending)
    after = added(before)
    assert after.startswith("\ufeffdags:")
    assert after.count("\ufeff") == 1
    assert after.replace(BLOCK.replace("\n", ending), "", 1) == before


def test_b36_a_file_with_nothing_but_a_mark_keeps_it() -> None:
    assert added("\ufeff") == "\ufeffdags:\n" + BLOCK
