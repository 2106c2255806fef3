"""The closed decoder refuses what other decoders guess at, for every closed contract."""

from __future__ import annotations

import json
from enum import EnumType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone.contracts.canonical import DEPTH_MAX
from dpone.contracts.codec import BYTES_MAX, convert, decode, encode, parse, plain, schema_of
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.fence import Receipt
from dpone.contracts.journal import HistoryRow, JournalEntry, Owner, Step, body_of, entry_of
from dpone.contracts.outcome import Outcome, Stored
from dpone.contracts.published import NAMES, json_schema
from tests.contracts.structs import OBJECTS, TEXT, closed, filled, structs

KEPT = (JournalEntry, Outcome, Owner, HistoryRow, Step, Stored, Receipt)
DEEP = "[" * (DEPTH_MAX + 1) + "1" + "]" * (DEPTH_MAX + 1)
# Each is put in place of a value that a contract accepts.
ADVERSARIAL = {
    "duplicate key": '{"a": 1, "a": 2}',
    "duplicate key, deep": '[[{"x": {"a": 1, "b": 0, "a": 1}}]]',
    "duplicate key, escaped": '{"a": 1, "\\u0061": 2}',
    "float": "1.0",
    "exponent": "1e3",
    "negative zero float": "-0.0",
    "huge float": "1e999",
    "NaN": "NaN",
    "Infinity": "-Infinity",
    "huge integer": "9" * 5000,
    "escaped surrogate": '"\\ud800"',
    "escaped surrogate in a key": '{"\\udfff": 1}',
    "surrogates the wrong way round": '"\\udc00\\ud800"',
    "deep": DEEP,
    "very deep": "[" * 100_000,
    "single quotes": "'x'",
    "trailing comma": "[1,]",
    "comment": "/* x */ 1",
    "control character": '"\x01"',
    "leading zero": "01",
    "plus": "+1",
    "hexadecimal": "0x10",
    "bare word": "True",
}


def refused(data: bytes | str) -> str:
    with pytest.raises(ContractInvalid) as caught:
        parse(data)
    return str(caught.value.fields["reason"])


def test_there_are_closed_contracts() -> None:
    names = {kind.__name__ for kind in closed()}
    assert names >= {kind.__name__ for kind in KEPT}


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("frame", ["{}", "[{}]", '{{"a": {}}}', '{{"a": [0, {{"b": {}}}]}}'])
def test_adversarial_values_are_refused_at_every_depth(name: str, frame: str) -> None:
    refused(frame.format(ADVERSARIAL[name]))


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("kind", closed(), ids=lambda kind: kind.__name__)
def test_adversarial_values_are_refused_in_every_contract(
    kind: type[msgspec.Struct], name: str
) -> None:
    fields = [field.encode_name for field in msgspec.structs.fields(kind)]
    assert fields
    for field in fields:
        with pytest.raises(ContractInvalid):
            decode(f'{{"{field}": {ADVERSARIAL[name]}}}', kind)


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf{}",
        b"\xff\xfe{\x00}\x00",
        b'"\xed\xa0\x80"',
        b'"\xc0\xaf"',
        b'"\xf4\x90\x80\x80"',
        b"{} {}",
        b"{}x",
        b"{}\x00",
        b"\x00{}",
        b"{}\xc2\xa0",
        '"\ud800"',
        "\ufeff{}",
        b"",
        b" ",
    ],
)
def test_bytes_around_and_inside_are_refused(data: bytes | str) -> None:
    refused(data)


@pytest.mark.parametrize("data", [b"{}\n", b" {} ", b"\t{}\r\n", "{}\n"])
def test_white_space_around_is_fine(data: bytes | str) -> None:
    assert parse(data) == {}


def test_size_is_bounded() -> None:
    assert parse(b'"' + b"x" * (BYTES_MAX - 2) + b'"')
    assert "bytes" in refused(b'"' + b"x" * (BYTES_MAX - 1) + b'"')
    with pytest.raises(ContractInvalid):
        parse(b"[1]", bytes_max=2)


def test_depth_is_bounded() -> None:
    assert parse("[" * DEPTH_MAX + "]" * DEPTH_MAX)
    assert "deep" in refused("[" * (DEPTH_MAX + 1) + "1" + "]" * (DEPTH_MAX + 1))


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    try:
        value = parse(data)
    except ContractInvalid:
        return
    assert json.loads(data) == value


@given(OBJECTS)
def test_encoded_text_reads_back(value: dict[str, Any]) -> None:
    assert parse(encode(value)) == value


@pytest.mark.parametrize("kind", closed(), ids=lambda kind: kind.__name__)
def test_unknown_fields_are_refused(kind: type[msgspec.Struct]) -> None:
    with pytest.raises(ContractInvalid):
        decode('{"no_such_field": 1}', kind)


@pytest.mark.parametrize("kind", KEPT, ids=lambda kind: kind.__name__)
def test_an_unknown_field_beside_good_ones_is_refused(kind: type[msgspec.Struct]) -> None:
    good = plain(_sample(kind))
    assert convert(good, kind) == _sample(kind)
    with pytest.raises(ContractInvalid, match="unknown field"):
        convert({**good, "more": 1}, kind)


@pytest.mark.parametrize("kind", KEPT, ids=lambda kind: kind.__name__)
def test_a_missing_field_is_refused(kind: type[msgspec.Struct]) -> None:
    good = plain(_sample(kind))
    needed = [field.encode_name for field in msgspec.structs.fields(kind) if field.required]
    assert needed
    for name in needed:
        with pytest.raises(ContractInvalid, match="missing"):
            convert({key: value for key, value in good.items() if key != name}, kind)


@given(filled(JournalEntry))
def test_a_journal_row_reads_back(row: JournalEntry) -> None:
    lease_ms = max(0, row.lease_left_ms)
    again = entry_of(body_of(row), row.lease_left_ms, row.created_ms, row.updated_ms)
    assert again == msgspec.structs.replace(row, lease_left_ms=lease_ms)


@pytest.mark.parametrize("kind", KEPT, ids=lambda kind: kind.__name__)
def test_instances_read_back(kind: type[msgspec.Struct]) -> None:
    @given(filled(kind))
    def check(value: msgspec.Struct) -> None:
        assert decode(encode(value), kind) == value

    check()


def _sample(kind: type[msgspec.Struct]) -> msgspec.Struct:
    given_fields = {}
    for field in msgspec.structs.fields(kind):
        if field.required:
            given_fields[field.name] = _least(field.type)
    return kind(**given_fields)


def _least(kind: Any) -> Any:
    if kind is str:
        return "x"
    if kind is int:
        return 1
    if isinstance(kind, EnumType):
        return next(iter(kind))
    return {}


@pytest.mark.parametrize("kind", structs(), ids=lambda kind: kind.__name__)
def test_every_contract_is_frozen(kind: type[msgspec.Struct]) -> None:
    assert kind.__struct_config__.frozen


@pytest.mark.parametrize("kind", closed(), ids=lambda kind: kind.__name__)
def test_the_schema_of_a_closed_contract_is_closed(kind: type[msgspec.Struct]) -> None:
    open_objects = [name for name, body in _objects(schema_of(kind)) if _is_open(body)]
    assert open_objects == []


@pytest.mark.parametrize("name", NAMES)
def test_published_schemas_are_closed(name: str) -> None:
    schema = json_schema(name)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert [place for place, body in _objects(schema) if _is_open(body)] == []


def test_every_closed_struct_refuses_unknown_fields_in_its_schema() -> None:
    for kind in closed():
        schema = schema_of(kind)
        assert schema["$defs"][kind.__name__]["additionalProperties"] is False


def _objects(schema: Any, place: str = "$") -> list[tuple[str, dict[str, Any]]]:
    """All objects with named properties in a schema."""
    found: list[tuple[str, dict[str, Any]]] = []
    if isinstance(schema, dict):
        if "properties" in schema and isinstance(schema["properties"], dict):
            found.append((place, schema))
        for key, value in schema.items():
            found.extend(_objects(value, f"{place}.{key}"))
    if isinstance(schema, list):
        for number, value in enumerate(schema):
            found.extend(_objects(value, f"{place}[{number}]"))
    return found


def _is_open(body: dict[str, Any]) -> bool:
    return body.get("additionalProperties") is not False


@given(TEXT)
def test_text_of_any_kind_survives(text: str) -> None:
    assert (
        decode(encode(Stored(epoch=1, attempt_id=text, intent_digest="")), Stored).attempt_id
        == text
    )
