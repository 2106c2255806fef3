"""The judges of the Airflow rounds find each thing that can be wrong, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from faultinject.airflow import judging, sequels
from faultinject.airflow.metadata import Task, _value
from faultinject.airflow.scenarios import PAIR, SEEDS, TWO_DAGS, Scenario, chosen, names, scenarios

RUN = "scheduled__2024"
RECEIPT: dict[str, Any] = {
    "operation_id": "sha256:1",
    "epoch": 1,
    "attempt_id": "a",
    "intent_digest": "sha256:2",
    "result": {"rows": 1},
}
FENCED = Scenario("fenced", "child", "sqlite")
NAIVE = Scenario("naive", "child", "sqlite")
SAID = "INFO - dpone: operation sha256:1 settled (x): an earlier attempt had committed it"


def lab(**given: Any) -> judging.Lab:
    """What is seen when all is well, but for what is given."""
    seen: dict[str, Any] = {
        "rows": [(1, 100)],
        "fences": {"sha256:1": RECEIPT},
        "states": ["COMPLETE"],
        "runs": {RUN: "success"},
        "tasks": [Task(RUN, -1, "success", 2, "")],
        "xcoms": {(RUN, -1): {**RECEIPT, "shortened": False}},
        "proof": {"receipt": RECEIPT},
        "log": SAID,
        "intervals": {("a", "b")},
        **given,
    }
    places = SimpleNamespace(
        rows=lambda s: seen["rows"],
        fences=lambda s: seen["fences"],
        states=lambda s, o: seen["states"],
        proof=lambda s: seen["proof"],
    )
    metadata = SimpleNamespace(
        runs=lambda n: seen["runs"],
        tasks=lambda n: seen["tasks"],
        xcoms=lambda n: seen["xcoms"],
        intervals=lambda n: seen["intervals"],
    )
    airflow = SimpleNamespace(log=lambda *place: seen["log"])
    return judging.Lab(cast("Any", airflow), cast("Any", metadata), cast("Any", places))


def test_nothing_is_wrong_when_all_is_well() -> None:
    assert judging.fenced(lab(), FENCED) == []
    assert judging.adopted(lab(), FENCED) == []
    assert judging.controlled(lab(rows=[(1, 100), (2, 100)]), NAIVE) == []


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"rows": [(1, 100), (2, 100)]}, "2 rows instead of 1"),
        ({"rows": []}, "0 rows instead of 1"),
        ({"rows": [(1, 101)]}, "amounts"),
        ({"runs": {RUN: "failed"}}, "a run ended failed"),
        ({"runs": {}}, "a run ended never"),
        ({"xcoms": {}}, "0 XComs"),
        ({"fences": {"sha256:1": {**RECEIPT, "attempt_id": "b"}}}, "the fence holds"),
        ({"fences": {}}, "the fence holds None"),
        ({"states": ["TARGET_COMMITTED"]}, "the journal says"),
    ],
)
def test_what_is_wrong_with_a_fenced_task_is_named(given: dict[str, Any], word: str) -> None:
    assert any(word in fault for fault in judging.fenced(lab(**given), FENCED))


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"proof": None}, "left no receipt"),
        ({"proof": {"receipt": {**RECEIPT, "epoch": 2}}}, "no XCom is the receipt"),
        ({"tasks": [Task(RUN, -1, "success", 1, "")]}, "ended with attempt 1"),
        ({"log": "nothing"}, "does not say"),
        ({"log": SAID.replace("settled", "committed")}, "does not say"),
        ({"log": SAID.partition("(x)")[0]}, "does not say"),
    ],
)
def test_what_was_not_adopted_is_named(given: dict[str, Any], word: str) -> None:
    assert any(word in fault for fault in judging.adopted(lab(**given), FENCED))


@pytest.mark.parametrize("rows", [[], [(1, 100)], [(1, 100)] * 2, [(1, 100), (2, 100), (3, 100)]])
def test_a_control_that_does_not_write_twice_is_a_fault(rows: list[tuple[int, int]]) -> None:
    assert judging.controlled(lab(rows=rows), NAIVE)


def test_two_dags_with_one_operation_are_found() -> None:
    assert "both DAGs have one operation" in sequels.two_dags(lab(), FENCED, FENCED)


def test_a_route_returns_its_receipts_in_a_list() -> None:
    whole = {"operations": [{"partition": "", "receipt": RECEIPT}]}
    assert judging.receipts(whole) == [RECEIPT]
    assert judging.receipts(None) == []


@pytest.mark.parametrize(
    "stored",
    [b'{"a": {"b": 1}}', memoryview(b'{"a": {"b": 1}}'), {"a": {"b": 1}}, '{"a": {"b": 1}}'],
)
def test_an_xcom_reads_the_same_on_every_version(stored: Any) -> None:
    assert _value(stored) == {"a": {"b": 1}}


def test_every_scenario_has_a_name_and_a_way_to_be_run() -> None:
    from faultinject.airflow.session import round_of

    every = scenarios()
    assert len({s.name for s in every}) == len(every)
    assert all(callable(round_of(s)) for s in every)
    assert {s.name for s in every} >= set(PAIR)
    assert {s.defect for s in every if s.defect} == set(SEEDS)
    assert names()[-1] == TWO_DAGS
    with pytest.raises(ValueError, match="no scenario"):
        chosen(["nothing"])


def test_a_defect_that_nobody_notices_is_a_fault() -> None:
    from faultinject.airflow import session

    noticed: Callable[[Scenario, list[str]], list[str]] = session._noticed
    seeded = Scenario("fenced", "child", "sqlite", defect="try")
    assert noticed(seeded, []) != []
    assert noticed(seeded, ["another fault"]) != []
    assert noticed(seeded, ["0 rows instead of 1: []"]) != []
    assert noticed(seeded, ["2 rows instead of 1: []"]) == []
