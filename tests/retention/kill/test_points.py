"""A reviewed deletion, killed at every point of it and of its recovery, ends once and the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faultinject.deleting import Deletions, template
from faultinject.deletion_calls import killed, stops
from faultinject.zygote import Zygote

pytestmark = pytest.mark.kill


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("deletions")


@pytest.fixture(scope="module")
def zygote(place: Path) -> Iterator[Zygote]:
    with Zygote(place, preload=("faultinject.deleting", "faultinject.deletion_calls")) as started:
        yield started


@pytest.fixture(scope="module")
def args(place: Path) -> dict[str, Any]:
    folder = place / "template"
    folder.mkdir()
    return template(folder)


@pytest.fixture
def deletions(zygote: Zygote, args: dict[str, Any], tmp_path: Path) -> Deletions:
    return Deletions(zygote, tmp_path, args)


@pytest.mark.timeout(300)
def test_killed_at_every_point_and_run_again_it_ends_once_with_one_report(
    deletions: Deletions,
) -> None:
    points = deletions.points()
    assert len(points) >= 50
    rounds = [deletions.round(point) for point in points]
    assert [(it.first, it.faults) for it in rounds if it.faults] == []
    assert [it.first for it in rounds if it.hits != (it.first,)] == []
    assert len({it.report for it in rounds}) == 1


@pytest.mark.timeout(300)
def test_killed_again_inside_recovery_it_still_ends_once(deletions: Deletions) -> None:
    firsts = deletions.points()[3::9]
    pairs = [(first, second) for first in firsts for second in deletions.points(first)[::4]]
    rounds = [deletions.round(first, second) for first, second in pairs]
    assert [(it.first, it.second, it.faults) for it in rounds if it.faults] == []
    assert [it for it in rounds if it.hits != (it.first, it.second)] == []
    assert len({it.report for it in rounds}) == 1


@pytest.mark.timeout(600)
def test_killed_before_every_file_changing_call_it_ends_once_with_one_report(
    deletions: Deletions,
) -> None:
    listed = stops(deletions)
    assert {stop.split(" ")[1] for _, stop in listed} >= {
        *("openat", "write", "fsync", "renameat2", "unlinkat", "mkdirat")
    }
    assert len(listed) >= 100
    reports = set()
    for at, stop in listed:
        killed_at, found = killed(deletions, at)
        assert killed_at.split(" ")[:2] == stop.split(" ")[:2]
        assert found.faults == (), f"call {at}: {killed_at}"
        reports.add(found.report)
    assert len(reports) == 1
