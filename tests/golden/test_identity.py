"""The identity of an operation is published and never changes: these digests are for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dpone.contracts.codec import decode
from dpone.contracts.identity import Identity, Operation
from dpone.contracts.published import json_schema

GOLDEN = Path(__file__).with_name("identity.json")


def _operations() -> dict[str, Operation]:
    plain = Operation(route="orders", source={"csv": "data/o.csv"}, target={"sqlite": "w.db"})
    month = Operation(
        environment="prod",
        route="flights_to_warehouse",
        source={"csv": "data/flights-*.csv"},
        target={"duckdb": "warehouse.duckdb", "table": "flights"},
        partition={"column": "month", "value": "3"},
        intent={"strategy": {"replace_partition": ["month"]}, "columns": []},
    )
    named = Operation(
        route="größen",
        source={"query": "lager"},
        target={"postgres": "dwh", "table": "mart.größen"},
        partition={"interval": "day", "from": "2026-01-01", "to": "2026-01-02"},
        revision=7,
    )
    return {"plain": plain, "month": month, "named": named}


def test_identities_and_digests_are_what_they_were_when_they_were_published() -> None:
    seen = {
        name: {
            "identity": operation.identity_text(),
            "operation_id": operation.operation_id,
            "family": operation.family,
            "intent_digest": operation.intent_digest,
        }
        for name, operation in _operations().items()
    }
    assert seen == json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_the_published_schema_is_closed_and_fits_what_is_digested() -> None:
    schema = json_schema("dpone.operation.v1")
    body = schema["$defs"]["Identity"]
    assert body["additionalProperties"] is False
    for operation in _operations().values():
        assert set(body["required"]) == set(operation.identity())
        decode(operation.identity_text(), Identity)


def test_each_component_of_the_identity_makes_another_operation() -> None:
    base = _operations()["month"]
    changed: list[dict[str, Any]] = [
        {"environment": "test"},
        {"route": "flights"},
        {"source": {"csv": "data/other.csv"}},
        {"target": {"duckdb": "warehouse.duckdb", "table": "other"}},
        {"partition": {"column": "month", "value": "4"}},
        {"revision": 2},
    ]
    ids = {base.operation_id}
    for change in changed:
        values = {name: getattr(base, name) for name in base.__struct_fields__}
        ids.add(Operation(**{**values, **change}).operation_id)
    assert len(ids) == len(changed) + 1
