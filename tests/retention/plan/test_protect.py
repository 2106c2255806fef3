"""Protection: explicit ids and evidence files, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.retention.caches import CANDIDATES, Cache, number


def evidence(cache: Cache, value: Any) -> Path:
    file = cache.root.parent / "evidence.json"
    file.write_text(value if isinstance(value, str) else json.dumps(value))
    return file


def nested(depth: int) -> Any:
    value: Any = {"deployment_id": CANDIDATES[0]}
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        {"deployment_id": CANDIDATES[0]},
        [{"a": [{"deployment_id": CANDIDATES[0]}]}],
        {"rollback_deployment_id": CANDIDATES[0], "previous_deployment_id": None},
        {"deployment_ids": [CANDIDATES[0]]},
        {"runs": {"1": {"deployment_id": CANDIDATES[0], "seconds": 1.5}}},
        nested(63),
    ],
)
def test_every_id_anywhere_in_evidence_protects(cache: Cache, value: Any) -> None:
    report = cache.plan("--evidence-file", evidence(cache, value)).report
    assert CANDIDATES[0] in report["protected_deployment_ids"]
    assert report["delete_candidates"] == sorted(CANDIDATES[1:])
    assert "evidence evidence.json" in cache.table("--evidence-file", evidence(cache, value)).out


@pytest.mark.parametrize(
    "value",
    [
        [{"deployment_id": CANDIDATES[0]}, {"deployment_id": "sha256:1"}],
        {"deployment_id": CANDIDATES[0].upper()},
        {"deployment_id": 7},
        {"deployment_id": {"a": CANDIDATES[0]}},
        {"deployment_ids": [CANDIDATES[0], None]},
        {"deployment_id": CANDIDATES[0] + "\n"},
    ],
)
def test_one_malformed_id_rejects_the_file(cache: Cache, value: Any) -> None:
    said = cache.plan("--evidence-file", evidence(cache, value))
    assert (said.code, said.report["code"]) == (2, "DPONE_DEPLOYMENT_ID_INVALID")


@pytest.mark.parametrize("value", [{}, [], {"id": CANDIDATES[0]}, {"deployment_id": None}])
def test_evidence_without_an_id_protects_nothing_and_is_refused(cache: Cache, value: Any) -> None:
    said = cache.plan("--evidence-file", evidence(cache, value))
    code = "DPONE_DEPLOYMENT_CACHE_EVIDENCE_DEPLOYMENT_ID_NOT_FOUND"
    assert (said.code, said.report["code"]) == (1, code)


@pytest.mark.parametrize(
    "value",
    [
        "{",
        "",
        '{"deployment_id": "secret", "deployment_id": "secret"}',
        nested(64),
        "[" * 100_000,
        [0] * 100_001,
        " " * (8 * 1024 * 1024 + 1),
    ],
)
def test_evidence_over_its_bounds_or_no_json_is_refused(cache: Cache, value: Any) -> None:
    said = cache.plan("--evidence-file", evidence(cache, value))
    assert (said.code, said.report["code"]) == (1, "DPONE_DEPLOYMENT_CACHE_EVIDENCE_INVALID")
    assert "secret" not in said.out


def test_missing_evidence_is_refused(cache: Cache) -> None:
    said = cache.plan("--evidence-file", cache.root.parent / "nowhere" / "x.json")
    assert said.report["code"] == "DPONE_DEPLOYMENT_CACHE_EVIDENCE_INVALID"


@pytest.mark.parametrize("given", ["", "x", CANDIDATES[0][:-1], CANDIDATES[0].upper()])
def test_a_malformed_explicit_id_is_a_usage_error(cache: Cache, given: str) -> None:
    said = cache.plan("--protect-deployment-id", given)
    assert (said.code, said.report["code"]) == (2, "DPONE_DEPLOYMENT_ID_INVALID")


def test_an_id_that_is_not_in_the_cache_is_protected_and_told(cache: Cache) -> None:
    report = cache.plan("--protect-deployment-id", number(9)).report
    assert number(9) in report["protected_deployment_ids"]
    assert "not in the cache" in cache.table("--protect-deployment-id", number(9)).out
