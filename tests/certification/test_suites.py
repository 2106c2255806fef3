"""Every adapter that is found passes the suite of its port, check by check."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from certification import journal, places, target
from certification.checks import PASSED, run
from certification.places import JOURNALS, TARGETS, Resources, TargetPlace
from dpone import wiring
from dpone.ports.target import Target

JOURNAL_CHECKS = sorted(journal.complete().functions)
TARGET_CHECKS = sorted(target.complete().functions)


def test_every_journal_adapter_has_a_factory() -> None:
    assert places.discovered("journal")
    assert places.missing("journal", JOURNALS) == []


def test_every_target_adapter_has_a_factory() -> None:
    assert places.discovered("target")
    assert places.missing("target", TARGETS) == []


def test_a_package_without_a_factory_is_reported() -> None:
    found = places.discovered("target")
    assert places.missing("target", {"sqlite": None}) == sorted(set(found) - {"sqlite"})


def test_only_a_target_that_declares_nothing_goes_without_a_suite() -> None:
    assert places.unfenced() == ["csvdir"]


@pytest.mark.parametrize("check", JOURNAL_CHECKS)
@pytest.mark.parametrize("package", places.discovered("journal"))
def test_journal(resources: Resources, package: str, check: str) -> None:
    chosen = [
        found
        for found in journal.suite(lambda: JOURNALS[package](resources))
        if found.name == check
    ]
    assert [(result.outcome, result.detail) for result in run(chosen)] == [(PASSED, "")]


@pytest.mark.parametrize("check", TARGET_CHECKS)
@pytest.mark.parametrize("package", places.discovered("target"))
def test_target(resources: Resources, package: str, check: str) -> None:
    chosen = [
        found for found in target.suite(lambda: TARGETS[package](resources)) if found.name == check
    ]
    assert [(result.outcome, result.detail) for result in run(chosen)] == [(PASSED, "")]


def test_a_duckdb_target_that_keeps_its_engine(resources: Resources) -> None:
    @contextmanager
    def keeping() -> Iterator[TargetPlace]:
        with TARGETS["duckdb"](resources) as place:

            def opener(spec: str, **given: Any) -> Target:
                options = {**given.pop("options", {}), "engine_kept": True}
                return wiring.open_target(spec, options=options, **given)

            place.opener = opener
            yield place

    results = run(target.suite(keeping))
    assert [(result.name, result.detail) for result in results if result.outcome != PASSED] == []
    assert sorted(result.name for result in results) == sorted(TARGET_CHECKS)
