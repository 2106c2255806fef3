"""Reading: texts stay texts, kinds and doubts are told, places have lines, bounds hold."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dpone.adapters.yamlfile.composing import BYTES_MAX, DEPTH_MAX, NODES_MAX
from dpone.adapters.yamlfile.documents import YamlDocuments
from dpone.contracts.errors_yaml import (
    YamlDuplicateKey,
    YamlError,
    YamlFeature,
    YamlSyntax,
    YamlTooLarge,
    YamlUnreadable,
)
from dpone.contracts.plainyaml import (
    EMPTY,
    Entries,
    Items,
    Plain,
    Scalar,
    Value,
    place_of,
    resolve,
)
from tests.authoring.yaml.judge import composed
from tests.authoring.yaml.texts import Written, documents

DOCUMENTS = YamlDocuments()
MARKS = b"\xef\xbb\xbf"


def value_of(text: str) -> Value:
    return DOCUMENTS.view(text.encode(), "c.yaml").value


def entries_of(text: str) -> Entries:
    value = value_of(text)
    assert isinstance(value, Entries)
    return value


@pytest.mark.parametrize(
    ("text", "kind", "ambiguous"),
    [
        ("text", "str", False), ("7", "int", False), ("-7", "int", False), ("0", "int", False),
        ("0x1F", "int", False), ("true", "bool", False), ("False", "bool", False),
        ("~", "null", False), ("null", "null", False), ("", "null", False),
        ("1.10", "float", False), (".5", "float", False), (".inf", "float", False),
        ("1.2.3", "str", False), ("a:b", "str", False),
        ("on", "bool", True), ("no", "bool", True), ("Yes", "bool", True), ("OFF", "bool", True),
        ("y", "str", True), ("010", "int", True), ("0123", "int", True), ("08", "str", True),
        ("0o10", "str", True), ("12:30", "int", True), ("1_000", "int", True), ("0b1", "int", True),
        ("1e3", "str", True), ("1.5e3", "float", True), ("2024-01-01", "timestamp", True),
        ("=", "other", True), ("<<", "other", True), ("12:30:45.5", "float", True),
    ],
)  # fmt: skip
def test_a_scalar_keeps_its_text_and_tells_its_kind(text: str, kind: str, ambiguous: bool) -> None:
    if text == "1.5e3":
        # PyYAML wants a sign in the exponent, and reads a string.
        kind = "str"
    assert entries_of(f"k: {text}\n")["k"] == (text, kind, ambiguous)


@given(
    st.from_regex(r"[-+0-9a-fxo_:.eT]{1,12}", fullmatch=True)
    | st.text("yesnofftrul~YN", max_size=5)
)
def test_the_kind_is_the_one_of_a_reader_of_yaml_1_1(text: str) -> None:
    resolver: Any = yaml.resolver.Resolver()
    kind = str(resolver.resolve(yaml.ScalarNode, text, (True, False))).rpartition(":")[2]
    kind = kind if kind in ("str", "int", "bool", "null", "float", "timestamp") else "other"
    assert resolve(text)[0] == kind


@pytest.mark.parametrize(
    ("text", "scalar"),
    [
        ("'no'", Scalar("no", "str")), ('"010"', Scalar("010", "str")),
        ("|-\n  no", Scalar("no", "str")), ("!!str no", Scalar("no", "str")),
        ("! 7", Scalar("7", "str")), ('!!int "7"', Scalar("7", "int")),
        ("!!int 010", Scalar("010", "int", True)), ("!x 7", Scalar("7", "other", True)),
    ],
)  # fmt: skip
def test_quotes_and_tags_decide(text: str, scalar: Scalar) -> None:
    assert entries_of(f"k: {text}\n")["k"] == scalar


def test_every_place_has_its_line() -> None:
    view = DOCUMENTS.view(b"# c\ndags:\n  a.b: 1\n  x:\n  - {y: 2}\n  -\n", "c.yaml")
    assert view.lines == {
        "$": 2, "$.dags": 3, '$.dags["a.b"]': 3, "$.dags.x": 5, "$.dags.x[0]": 5,
        "$.dags.x[0].y": 5, "$.dags.x[1]": 6,
    }  # fmt: skip
    assert place_of(("dags", "a.b")) == '$.dags["a.b"]'


@pytest.mark.parametrize("mark", [b"", MARKS], ids=["plain", "byte order mark"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("rare", ["\x85", "\u2028", "\u2029", "😀"])
def test_lines_are_those_of_an_editor(mark: bytes, ending: str, rare: str) -> None:
    text = f'"é😀": "{rare}"{ending}# 😀{ending}k: v{ending}'
    view = DOCUMENTS.view(mark + text.encode(), "c.yaml")
    assert view.lines["$.k"] == 3


def test_aliases_and_merge_keys_are_told() -> None:
    view = DOCUMENTS.view(b"a: &a {x: [1]}\nb: *a\nc:\n  d: 1\n  <<: *a\n", "c.yaml")
    assert isinstance(view.value, Entries)
    assert view.value["b"] == view.value["a"] == {"x": [("1", "int", False)]}
    assert view.aliased == {"$.b": 2, "$.c.<<": 5}
    assert view.merged == {"$.c": 5}
    assert "$.b.x" not in view.lines


@pytest.mark.parametrize("text", ["", "# c\n", "\n", "---\n", "\ufeff", "--- # c\n...\n"])
def test_an_empty_document_is_empty(text: str) -> None:
    view = DOCUMENTS.view(text.encode(), "c.yaml")
    assert view.value == EMPTY
    assert list(view.lines) == ["$"]


@given(documents())
def test_every_scalar_of_any_document_is_read_as_another_parser_does(written: Written) -> None:
    agree(DOCUMENTS.view(written.data, "c.yaml").value, composed(written.data))


def agree(value: Value, node: yaml.Node | None) -> None:
    if node is None:
        assert value == EMPTY
    elif isinstance(value, Scalar):
        assert value.text == node.value
    elif isinstance(value, Items):
        assert len(value) == len(node.value)
        for item, below in zip(value, node.value, strict=True):
            agree(item, below)
    else:
        assert list(value) == [key.value for key, _ in node.value]
        for item, (_, below) in zip(value.values(), node.value, strict=True):
            agree(item, below)


# -- equality --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "generated"),
    [
        ("text", "text"), ("'no'", "no"), ('"no"', "no"), ("7", 7), ("true", True),
        ("~", None), ("", None),
        ("{b: 1, a: x}", {"a": "x", "b": 1}), ("\n  a: 'x'\n  b: 1", {"b": 1, "a": "x"}),
        ("[a, b]", ["a", "b"]), ("\n- a\n- 'b'", ["a", "b"]), ("{}", {}), ("[]", []), ("é", "é"),
        ('"\\u00e9"', "é"), ("|\n  a\n  b", "a\nb\n"), ("&x [1]", [1]), ("!!map {a: 1}", {"a": 1}),
    ],
)  # fmt: skip
def test_form_does_not_matter(text: str, generated: Plain) -> None:
    assert DOCUMENTS.same(entries_of(f"k: {text}\n")["k"], generated)


@pytest.mark.parametrize(
    ("text", "generated"),
    [
        ("no", "no"), ("no", False), ("on", True), ("010", 10), ("010", 8), ("010", "010"),
        ("12:30", "12:30"), ("12:30", 750), ("1e3", "1e3"), ("1e3", 1000), ("7", "7"), ("'7'", 7),
        ("true", 1), ("1", True), ("0", False), ("~", "~"), ("null", "null"), ("'~'", None),
        ("true", "true"), ("'true'", True), ("+7", 7), ("0x7", 7), ("7.0", 7), ("1.10", "1.10"),
        ("[a]", ["a", "b"]), ("[a, b]", ["b", "a"]), ("{a: 1}", {"a": 1, "b": 1}),
        ("{}", []), ("[]", {}), ("{}", None), ("", {}), ("{on: 1}", {"on": 1}),
        ("{1: x}", {"1": "x"}), ("!x {a: 1}", {"a": 1}), ("!x a", "a"), ("ab", ["a", "b"]),
        ("{<<: {a: 1}}", {"a": 1}), ("{<<: {a: 1}}", {"<<": {"a": 1}}),
    ],
)  # fmt: skip
def test_another_value_is_another(text: str, generated: Plain) -> None:
    assert not DOCUMENTS.same(entries_of(f"k: {text}\n")["k"], generated)


# Neither line nests too deep, but the second one does with its alias written out.
DEEP_TWICE = b"- &a [" + b"[" * 20 + b"]" * 21 + b"\n- " + b"[" * 20 + b"*a" + b"]" * 20

# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kind", "line", "exit_code"),
    [
        (b"a: 1\nb: 2\n'a': 3\n", YamlDuplicateKey, 3, 1),
        (b"x:\n  - {a: 1,\n     a: 2}\n", YamlDuplicateKey, 3, 1),
        (b"on: 1\ntrue: 2\n", YamlDuplicateKey, 2, 1),
        (b"8: 1\n010: 2\n", YamlDuplicateKey, 2, 1),
        (b"~: 1\nnull: 2\n", YamlDuplicateKey, 2, 1),
        (b"a: &a 1\nb:\n  <<: *a\n  <<: *a\n", YamlDuplicateKey, 4, 1),
        (b"a: 1\n---\nb: 2\n", YamlFeature, 2, 1),
        (b"a: 1\n---\n", YamlFeature, 2, 1),
        (b"? [a]\n: 1\n", YamlFeature, 1, 1),
        (b"x: &a k\n*a : 1\n", YamlFeature, 2, 1),
        (b"a: &a\n  b: *a\n", YamlFeature, 2, 1),
        (b"a: *a\n", YamlSyntax, 1, 1),
        (b"a: 1\nb: [\n", YamlSyntax, None, 1),
        (b"a: 1\n\tb: 2\n", YamlSyntax, 2, 1),
        (b"%YAML 2.0\n---\na: 1\n", YamlSyntax, 1, 1),
        (b"a: caf\xe9\n", YamlUnreadable, 1, 4),
        (b"a: 1\nb: \xed\xa0\x80\n", YamlUnreadable, 2, 4),
        (b"a: 1\nb: \x00\n", YamlUnreadable, 2, 4),
        ("a: 1\n".encode("utf-16"), YamlUnreadable, 1, 4),
        ("a: 1\n".encode("utf-16-le"), YamlUnreadable, 1, 4),
        (b"a: \x1b[0m\n", YamlUnreadable, 1, 4),
        (MARKS + b"a: 1\n" + MARKS + b"b: 2\n", YamlUnreadable, 2, 4),
        (b"#" * (BYTES_MAX + 1), YamlTooLarge, 1, 4),
        (b"\n" + b"[" * (DEPTH_MAX + 1), YamlTooLarge, 2, 4),
        (b"[" * 1_000_000, YamlTooLarge, 1, 4),
        (DEEP_TWICE, YamlTooLarge, 2, 4),
        (b"[" + b"1," * NODES_MAX + b"]", YamlTooLarge, 1, 4),
    ],
    ids=lambda given: repr(given[:30]) if isinstance(given, bytes) else "",
)  # fmt: skip
def test_a_refusal_names_the_line(
    data: bytes, kind: type[YamlError], line: int | None, exit_code: int
) -> None:
    with pytest.raises(YamlError) as caught:
        DOCUMENTS.view(data, "c.yaml")
    assert type(caught.value) is kind
    assert caught.value.fields["name"] == "c.yaml"
    assert line in (None, caught.value.fields["line"])
    assert caught.value.exit_code == exit_code


def test_a_small_file_cannot_stand_for_a_huge_value() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(YamlTooLarge):
        DOCUMENTS.view("\n".join(lines).encode(), "c.yaml")


@given(
    st.binary(max_size=40)
    | st.text("ab:-#&*!|>'\"%@`{}[],?~ \n\r\t\x85\u2028😀", max_size=30).map(str.encode)
)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        DOCUMENTS.view(data, "c.yaml")
    except YamlError as error:
        line = error.fields["line"]
    else:
        line = 1
    assert isinstance(line, int)
