"""New documents: what is written is read back as the same values, by readers of 1.1 and 1.2."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given

from dpone.adapters.yamlfile.documents import YamlDocuments
from dpone.contracts.errors_yaml import YamlValueRefused
from tests.authoring.yaml.judge import exactly
from tests.authoring.yaml.texts import VALUES

DOCUMENTS = YamlDocuments()

TEXT = """\
# Made by dpone.
#
# Edit it freely.
route: orders
"on": "no"
retries: 3
paused: false
owner: null
tags:
  - daily
  - "010"
tasks:
  - name: load
    after:
      - a
  - []
empty: {}
"é": "a\\nb"
"""


def test_a_document_is_laid_out_in_block_form() -> None:
    value: dict[str, Any] = {
        "route": "orders", "on": "no", "retries": 3, "paused": False, "owner": None,
        "tags": ["daily", "010"], "tasks": [{"name": "load", "after": ["a"]}, []],
        "empty": {}, "é": "a\nb",
    }  # fmt: skip
    made = DOCUMENTS.render(value, comment="Made by dpone.\n\nEdit it freely.")
    assert made.decode() == TEXT


@given(VALUES)
def test_any_value_is_read_back(value: Any) -> None:
    made = DOCUMENTS.render(value)
    assert made.endswith(b"\n")
    assert b"\r" not in made
    assert exactly(yaml.safe_load(made), value)
    assert DOCUMENTS.same(DOCUMENTS.view(made, "c.yaml").value, value)


@pytest.mark.parametrize(
    "text",
    ["no", "on", "y", "N", "~", "null", "True", "010", "1e3", "0o7", "12:30", "1_0", "2024-01-01",
     "7", "1.5", ".5", "-", "- a", "? a", "", " a", "a ", "a: b", "a #b", "#a", "&a", "*a", "!a",
     "%a", "@a", "`a", "'a", '"a', "{a", "[a", "a, b", "---", "...", "<<", "=", "a\tb", "a\rb",
     "\x00", "\x85", "\u2028", "\ufeff", "\u202e", "\ufffe", "1.2.3", "0x", "+1", "|", ">"],
)  # fmt: skip
def test_what_could_be_read_otherwise_is_quoted(text: str) -> None:
    value: dict[str, Any] = {"k": text, text + "key": 1, "l": [text]}
    made = DOCUMENTS.render(value).decode()
    assert made.startswith('k: "')
    assert yaml.safe_load(made) == value
    assert made.isascii()


def test_text_is_not_escaped_because_it_is_not_ascii() -> None:
    assert DOCUMENTS.render({"k": "naïve 日本 😀"}).decode() == 'k: "naïve 日本 😀"\n'


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": ["\ud800"]}, "$.a[0]"),
        ({"a": 1.5}, "$.a"),
        ({"a": b"x"}, "$.a"),
        ({"k" * 1001: 1}, None),
        ({1: 2}, None),
        ({"a": 2**2000}, "$.a"),
    ],
)
def test_what_yaml_cannot_hold_is_refused(value: Any, place: str | None) -> None:
    with pytest.raises(YamlValueRefused) as caught:
        DOCUMENTS.render(value)
    assert place in (None, caught.value.fields["place"])


def test_endless_nesting_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(YamlValueRefused):
        DOCUMENTS.render(value)


def test_a_comment_stays_a_comment() -> None:
    made = DOCUMENTS.render({"a": 1}, comment="one\rtwo\u2028three\x0bfour")
    assert yaml.safe_load(made) == {"a": 1}
    with pytest.raises(YamlValueRefused):
        DOCUMENTS.render({"a": 1}, comment="\x00")
