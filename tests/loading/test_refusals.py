"""What must not reach COPY, and what the server's words say of a place."""

from __future__ import annotations

import re

import pytest

from dpone.adapters.postgres.refusals import Stream, where
from dpone.contracts.errors_loading import SourceError, SourceNul, SourceRagged, SourceValue
from dpone.ports.source import CsvStream

OLD, NEW = 150000, 180000


def checked(data: bytes, size: int, version: int = OLD, *, raw: bool = True) -> bytes:
    """What COPY would get, when the source hands out blocks of `size` bytes."""
    blocks = iter([data[at : at + size] for at in range(0, len(data), size)])
    stream = CsvStream(("a", "b"), blocks, ",", '"', "", quoted_nulls=raw)
    return b"".join(Stream(stream, "t", ("x.csv",), version).checked())


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 100])
@pytest.mark.parametrize(
    "data",
    [
        b"\\.\n1,a\n",
        b"1,a\n\\.\n2,b\n",
        b"1,a\r\n\\.\r\n2,b\r\n",
        b"1,a\r\\.\r2,b\r",
        b'1,"x\n\\.\ny"\n\\.\n',
        b'1,"a ""quoted"" text"\n\\.\n',
        b"1,a\n\\.\n",
    ],
)
def test_a_line_that_an_older_server_takes_for_the_end_is_refused(data: bytes, size: int) -> None:
    with pytest.raises(SourceRagged):
        checked(data, size)
    assert checked(data, size, NEW) == data


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 100])
@pytest.mark.parametrize(
    "data",
    [
        b'1,"x\n\\.\ny"\n',
        b"1,\\.\n\\.,2\n",
        b"\\..\n\\.x,1\n\\,.\n",
        b'1,"""\n\\.\n"""\n',
        b"",
    ],
)
def test_a_backslash_and_a_dot_that_are_data_pass(data: bytes, size: int) -> None:
    assert checked(data, size) == data


@pytest.mark.parametrize("size", [1, 4, 100])
def test_the_offset_of_a_nul_is_told(size: int) -> None:
    with pytest.raises(SourceNul) as caught:
        checked(b"1,a\n2,\0\n", size)
    assert str(caught.value).endswith(
        "The source file x.csv holds a NUL byte at offset 6 after the header."
    )


def test_a_nul_in_rows_of_an_engine_is_a_value() -> None:
    with pytest.raises(SourceValue):
        checked(b"1,a\n2,\0\n", 4, raw=False)


@pytest.mark.parametrize(
    ("context", "found"),
    [
        ('COPY t, line 7, column amount: "x"', (7, "amount")),
        ('COPY t, line 7, column a: b: "x"', (7, "a: b")),
        ("COPY t, line 7, column amount: null input", (7, "amount")),
        ('COPY t, Zeile 7, Spalte amount: "x, line 9"', (7, "amount")),
        ('COPY t, line 7: "1,2"\nCOPY t, line 9, column a: "x"', (7, "")),
        ('PL/pgSQL function f() line 3\nCOPY t, line 7: "1"', (7, "")),
        ('COPY u, line 7, column amount: "x"', (0, "")),
        ("", (0, "")),
    ],
)
def test_a_place_is_read_in_any_language(context: str, found: tuple[int, str]) -> None:
    assert where(context, "t", ("a", "a: b", "amount")) == found


def test_a_relation_may_be_named_like_a_place() -> None:
    name = "t, line 3, column a"
    assert where(f'COPY {name}, line 7, column a: "x"', name, ("a",)) == (7, "a")


def test_no_error_of_a_source_has_a_gap() -> None:
    errors: list[SourceError] = [
        SourceNul(name="x", offset=1),
        SourceRagged(place=" at line 1"),
        SourceValue(column="a", place="", type="text"),
    ]
    assert not [error for error in errors if re.search(r"\?", str(error))]
