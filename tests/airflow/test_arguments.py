"""Which arguments of a task are refused, by their names and without their values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dpone.airflow import arguments
from dpone.contracts.errors_airflow import AirflowArgumentInvalid


class Lazy(Sequence[Any]):
    """What Airflow gives for the results of a mapped task."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __getitem__(self, at: Any) -> Any:
        return self.items[at]

    def __len__(self) -> int:
        return len(self.items)


NAMES_NOTHING: list[Any] = ["", " ", "None", " None\n", None]


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (arguments.a_text, ["", "orders"]),
        (arguments.a_name, ["orders", "none"]),
        (arguments.a_path, ["route.yaml", Path("route.yaml")]),
        (arguments.a_flag, [True, False]),
        (arguments.labels, ["day=1", ["day=1"], ("a", "b"), Lazy("a", "b")]),
        (
            arguments.written(arguments.a_name),
            ["2024-01-01", "day=1", "a=b=c", "Nonesuch", "aNone"],
        ),
        (arguments.written(arguments.labels), [["a=1", "b"], Lazy("x = 1", "none=0")]),
        (arguments.connections, [{}, {"warehouse": "pg"}]),
        (arguments.optional(arguments.a_flag), [None, True]),
        (arguments.unless_left_out(arguments.a_name, given=False), [None, "x"]),
    ],
)
def test_what_fits(rule: arguments.Rule, fits: list[Any]) -> None:
    assert [rule(value) for value in fits] == [""] * len(fits)


@pytest.mark.parametrize(
    ("rule", "others"),
    [
        (arguments.a_text, [None, 5, ["x"], b"x"]),
        (arguments.a_name, [*NAMES_NOTHING, 5, True]),
        (arguments.a_path, [*NAMES_NOTHING, 5, b"x"]),
        (arguments.a_flag, [None, 0, 1, "yes", "{{ true }}"]),
        (arguments.labels, [*NAMES_NOTHING, 5, [], [5], [None], [""], ["a", "None"], {"a": "b"}]),
        (arguments.written(arguments.a_name), [*NAMES_NOTHING, 5, "day=", "day=None", "x_None-eu"]),
        (arguments.written(arguments.labels), [5, [], ["a=1", "b= "], Lazy("c="), "None,eu"]),
        (
            arguments.connections,
            ["warehouse", ["a"], {"a": None}, {"a": "None"}, {1: "a"}, {"a-b": "x", "a_b": "y"}],
        ),
        (arguments.optional(arguments.a_flag), ["no", 0]),
        (arguments.unless_left_out(arguments.a_name, given=False), ["", "None", 5]),
        (arguments.unless_left_out(arguments.a_name, given=True), NAMES_NOTHING),
    ],
)
def test_what_does_not(rule: arguments.Rule, others: list[Any]) -> None:
    assert [value for value in others if not rule(value)] == []


def test_a_refusal_names_the_argument_and_hides_its_value() -> None:
    with pytest.raises(AirflowArgumentInvalid) as caught:
        arguments.check(
            "load",
            {"connections": {"a": 5}, "again": False},
            {"connections": arguments.connections},
        )
    assert caught.value.fields == {
        "argument": "connections",
        "task": "load",
        "reason": "in its mapping, it is of type int and no text",
    }
    arguments.check("load", {"again": False}, {"again": arguments.a_flag})


@pytest.mark.parametrize(("given", "number"), [(1, 1), ("2", 2), (None, None), ("None", None)])
def test_a_revision(given: Any, number: int | None) -> None:
    assert arguments.number_of(given, "load") == number


@pytest.mark.parametrize("given", [0, -1, True, 1.0, "x", "²", [1], {}, "s3cret", "9" * 5000])
def test_what_is_no_revision(given: Any) -> None:
    with pytest.raises(AirflowArgumentInvalid, match="revision") as caught:
        arguments.number_of(given, "load")
    assert str(given) not in str(caught.value.fields["reason"]).split()


def test_what_is_read_bit_by_bit_is_a_list() -> None:
    assert arguments.listed({"a": Lazy(1, Lazy("x"))}) == {"a": [1, ["x"]]}
    assert arguments.listed("text") == "text"
