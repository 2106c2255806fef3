"""An operation has one identity, whoever computes it; another component makes another one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone.contracts.codec import replaced
from dpone.contracts.errors import NotCanonical
from dpone.contracts.identity import Operation

ROOT = Path(__file__).resolve().parents[2]
GIVEN: dict[str, Any] = {
    "route": "flights_to_warehouse",
    "source": {"csv": "data/*.csv", "options": {"b": 1, "a": [1, 2]}},
    "target": {"postgres": "warehouse", "table": "public.flights"},
    "partition": {"month": "2024-01", "region": "éü🛫"},
    "environment": "production",
    "revision": 2,
    "intent": {"strategy": {"merge": ["id"]}, "columns": ["id", "Ω"], "rows": None},
    "position": "2024-01",
}
# Written down once, from the definition: they must never change.
PINNED = {
    "operation_id": "sha256:24f718448db8a1757c8a916fb0b3c10b40a8189324faad544e2e49961bb20470",
    "family": "sha256:3519516dbd85e891cc3710b2cf178855a115e2b79704743041624ffd14a01089",
    "intent_digest": "sha256:3952f314f103ae52fe9775cda3aa36f6161c4272afab52369913c31d27e715bf",
}
SCRIPT = """
import json, sys, time
from dpone.contracts.identity import Operation
time.tzset()
given = json.loads(sys.argv[1])
if sys.argv[2] == "reversed":
    def turned(value):
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(item) for item in value] if isinstance(value, list) else value
    given = turned(given)
set(map(str, range(100)))
one = Operation(**given)
print(one.operation_id, one.family, one.intent_digest, one.floor.scope, one.identity_text())
"""
ENVIRONMENTS: list[dict[str, str]] = [
    {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"},
    {"PYTHONHASHSEED": "4294967295", "TZ": "America/Lima", "LC_ALL": "tr_TR.UTF-8"},
    {"PYTHONHASHSEED": "random", "AIRFLOW_CTX_TRY_NUMBER": "7", "HOSTNAME": "other"},
]


def operation(**changes: Any) -> Operation:
    return Operation(**{**GIVEN, **changes})


def test_the_identity_is_pinned() -> None:
    made = operation()
    assert {
        "operation_id": made.operation_id,
        "family": made.family,
        "intent_digest": made.intent_digest,
    } == PINNED


def test_the_identity_is_the_same_in_every_process() -> None:
    made = operation()
    assert made.floor is not None
    here = " ".join(
        [made.operation_id, made.family, made.intent_digest, made.floor.scope, made.identity_text()]
    )
    for environment in ENVIRONMENTS:
        for order in ("as given", "reversed"):
            done = subprocess.run(
                [sys.executable, "-X", "utf8", "-c", SCRIPT, json.dumps(GIVEN), order],
                env={"PATH": os.defpath, "PYTHONPATH": str(ROOT), **environment},
                capture_output=True,
                text=True,
                encoding="utf-8",
            )
            assert done.stdout.strip() == here, (environment, order, done.stderr)


@pytest.mark.parametrize(
    ("component", "value"),
    [
        ("route", "other"),
        ("source", {"csv": "data/*.csv"}),
        ("target", {"postgres": "warehouse", "table": "public.other"}),
        ("partition", {"month": "2024-02", "region": "éü🛫"}),
        ("environment", "test"),
        ("revision", 3),
    ],
)
def test_each_component_makes_another_operation(component: str, value: Any) -> None:
    made, other = operation(), operation(**{component: value})
    assert other.operation_id != made.operation_id
    assert (other.family != made.family) == (component != "revision")
    assert other.intent_digest == made.intent_digest


@pytest.mark.parametrize(("name", "value"), [("intent", {"x": 1}), ("position", "2025-01")])
def test_intent_and_position_are_no_part_of_the_identity(name: str, value: Any) -> None:
    assert operation(**{name: value}).operation_id == operation().operation_id


def test_the_intent_is_told_by_its_digest() -> None:
    assert operation(intent={"x": 1}).intent_digest != operation().intent_digest


def test_components_do_not_run_into_each_other() -> None:
    seen = {
        operation(route="ab", environment="c").operation_id,
        operation(route="a", environment="bc").operation_id,
        operation(route="a", environment="b", partition="c").operation_id,
        operation(route="a", environment="b", source="c").operation_id,
        operation(route="a", environment="b", target="c").operation_id,
        operation(partition="1").operation_id,
        operation(partition=1).operation_id,
        operation(partition=[1]).operation_id,
        operation(partition='{"month":"2024-01"}').operation_id,
        operation(partition={"month": "2024-01"}).operation_id,
    }
    assert len(seen) == 10


def test_revisions_of_one_operation_are_one_family() -> None:
    assert {operation(revision=n).family for n in range(1, 5)} == {operation().family}


def test_a_floor_is_of_the_route_and_not_of_the_partition() -> None:
    floors = {operation(partition=p, revision=r).floor for p, r in (("a", 1), ("b", 2))}
    assert floors == {operation().floor}
    assert operation(position=None).floor is None


@pytest.mark.parametrize("value", [0.5, b"x", {1: 2}, "\ud800", 2**60])
def test_an_identity_outside_the_profile_is_refused(value: Any) -> None:
    for component in ("route", "source", "target", "partition", "revision"):
        with pytest.raises(NotCanonical):
            _ = operation(**{component: value}).operation_id


@given(st.permutations(list(GIVEN["source"]["options"].items())), st.integers(1, 9))
def test_dict_order_does_not_matter(items: list[tuple[str, Any]], revision: int) -> None:
    source = {"options": dict(items), "csv": "data/*.csv"}
    made = operation(revision=revision)
    assert replaced(made, source=source).operation_id == made.operation_id
