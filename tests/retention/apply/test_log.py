"""The log at its torn ends, over its snapshot, and where it cannot be written."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dpone.contracts.effects import Effect
from dpone.contracts.retention_log import decode_log
from dpone.contracts.retention_wal import decode_snapshot
from dpone.ports import files
from dpone.ports.probe import quiet
from dpone.retention import wal
from faultinject.deletion_files import Stop, WatchedCache, failing_at, stop_at
from faultinject.deletion_worlds import OTHER_REVIEW, World, world
from tests.retention.apply.boundaries import ABORTED, stopped

INVALID = "DPONE_DEPLOYMENT_CACHE_GC_RECOVERY_INVALID"
FAILED = "DPONE_DEPLOYMENT_CACHE_GC_RECOVERY_JOURNAL_FAILED"


@pytest.mark.parametrize("left", [1, 4, 7, 8, 20, -1])
@pytest.mark.parametrize("at", ["begun", "detached", "half", "committed"])
def test_what_is_appended_behind_a_torn_end_is_read_again(made: World, at: str, left: int) -> None:
    plan = made.plan().sha256
    stopped(made, plan, at)
    good = made.log.read_bytes()
    torn = b'\x00\x00\x00\x40\x12\x34\x56\x78{"kind":"phase","phase":"committed"'
    made.log.write_bytes(good + torn[:left])
    # Whoever only reads leaves it as it is.
    assert made.plan().closings
    assert made.desk().receipts().blocker is None
    assert made.log.read_bytes() == good + torn[:left]
    before = decode_log(good).records
    # The next run dies behind its first record: no compaction hides what it appended to.
    with pytest.raises(Stop):
        made.apply(plan, files=WatchedCache(made.root, stop_at("after append")))
    decoded = decode_log(made.log.read_bytes())
    assert (decoded.records[: len(before)], decoded.torn) == (before, False)
    assert len(decoded.records) > len(before)
    assert made.apply(plan).code == "committed"
    assert (made.trashed(), made.there()) == ([], [])


@pytest.mark.parametrize("lost", [1, 9, 50])
def test_a_record_that_never_got_whole_is_as_if_it_had_not_been(made: World, lost: int) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "detached")
    made.log.write_bytes(made.log.read_bytes()[:-lost])
    assert made.phases() == ["prepared"] * 3
    # Prepared, and in the trash by its identity, counts as detached.
    assert made.apply(plan).code == "committed"
    assert (made.trashed(), made.there()) == ([], [])


def test_a_bad_record_before_a_good_one_is_corruption_and_nothing_is_cut(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "committed")
    data = bytearray(made.log.read_bytes())
    data[30] ^= 1
    made.log.write_bytes(bytes(data))
    for review in ("0f8fad5b-d9cb-469f-a165-70867728950e", OTHER_REVIEW):
        ended = made.apply(plan, review)
        assert (ended.exit_code, ended.code) == (4, INVALID)
    shown = made.planned()
    assert (shown.plan, getattr(shown.blocker, "code", "")) == (None, INVALID)
    assert made.desk().receipts().blocker is None
    assert made.log.read_bytes() == bytes(data)


@pytest.mark.parametrize("error", [files.StorageFull, files.SyncFailed])
@pytest.mark.parametrize("part", ["append", "create"])
def test_a_write_that_fails_ends_the_run_and_the_retry_ends_the_operation(
    made: World, error: type[files.FilesError], part: str
) -> None:
    plan = made.plan().sha256
    ended = made.apply(plan, files=WatchedCache(made.root, failing_at(part, error)))
    assert ended.exit_code == 4
    assert ended.code in (FAILED, "DPONE_DEPLOYMENT_CACHE_GC_RECEIPT_INVALID")
    assert made.there() == list(made.candidates)
    assert made.apply(plan).code == "committed"


def test_after_a_failed_append_the_log_is_not_used_again(made: World) -> None:
    plan = made.plan().sha256
    appends = 0

    def watch(call: str, path: str) -> None:
        nonlocal appends
        if call == "append":
            appends += 1
            if appends == 4:
                raise files.SyncFailed(path)

    ended = made.apply(plan, files=WatchedCache(made.root, watch))
    assert (ended.code, appends) == (FAILED, 4)
    assert made.apply(plan).code == "committed"


@pytest.mark.parametrize("stop", [("create", 1), ("replace", 1), ("after replace", 1)])
@pytest.mark.parametrize("leaf", [".retention-recovery.json", ".retention-recovery.log"])
def test_a_crash_in_the_middle_of_a_compaction_changes_nothing(
    made: World, leaf: str, stop: tuple[str, int]
) -> None:
    plan = made.plan().sha256
    name = leaf if "replace" in stop[0] else f".{leaf}."
    with pytest.raises(Stop):
        made.apply(plan, files=WatchedCache(made.root, stop_at(stop[0], name, stop[1])))
    assert made.recovery().transactions == {}
    ended = made.apply(plan)
    assert (ended.code, ended.replayed) == ("committed", True)
    assert made.log.stat().st_size == 0
    assert list(made.root.glob(".*.tmp")) == []


def test_an_older_log_over_a_newer_snapshot_changes_nothing(made: World) -> None:
    plan = made.plan().sha256
    leaf = ".retention-recovery.log"
    with pytest.raises(Stop):
        made.apply(plan, files=WatchedCache(made.root, stop_at("replace", leaf)))
    assert made.log.stat().st_size > 0
    assert made.wal.exists()
    assert made.recovery().transactions == {}


def test_a_whole_operation_compacts_once_and_syncs_a_bounded_number_of_times(
    made: World,
) -> None:
    seen: list[str] = []

    def watch(call: str, path: str) -> None:
        seen.append(f"{call} {path}")

    plan = made.plan().sha256
    assert made.apply(plan, files=WatchedCache(made.root, watch)).code == "committed"
    assert seen.count("replace .retention-recovery.json") == 1
    # One batch for all, three for each candidate, one tombstone.
    assert sum(it.startswith("append") for it in seen) == 1 + 3 * 3 + 1


def test_the_receipt_is_replaced_a_bounded_number_of_times(tmp_path) -> None:  # type: ignore[no-untyped-def]

    made = world(tmp_path, 150)
    plan = made.plan().sha256
    effects: list[Effect] = []

    def probe(effect: Effect):  # type: ignore[no-untyped-def]
        effects.append(effect)
        return quiet(effect)

    assert made.apply(plan, probe=probe).code == "committed"
    assert 40 < effects.count(Effect.RETENTION_PROGRESS) <= 64
    assert effects.count(Effect.RETENTION_COMMIT) == 1


@contextmanager
def _a_loader_reads(made: World) -> Iterator[None]:
    with (made.root / ".promotion.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


def _busy(made: World, plan: str, review: str) -> None:
    desk = made.desk(promotion_wait_s=0.001)
    assert made.apply(plan, review, desk=desk).exit_code == 3


def _review(number: int) -> str:
    return f"7c9e6679-7425-40de-944b-{number:012x}"


@pytest.mark.parametrize("how", ["the same review", "another review each time"])
def test_a_log_stays_readable_however_often_a_begin_is_busy(
    made: World, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(wal, "LOG_BYTES_MAX", 16_000)
    monkeypatch.setattr(wal, "LONG", 4_000)
    plan = made.plan().sha256
    with _a_loader_reads(made):
        for number in range(20):
            _busy(made, plan, _review(0 if how == "the same review" else number))
            assert made.log.stat().st_size < 16_000
            plan = plan if how == "the same review" else made.plan().sha256
    assert made.apply(plan, _review(0 if how == "the same review" else 21)).code == "committed"


def test_a_log_stays_readable_however_often_a_closing_is_busy(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "detached")
    monkeypatch.setattr(wal, "LOG_BYTES_MAX", 24_000)
    monkeypatch.setattr(wal, "LONG", 6_000)
    # A snapshot may not hold what both operations prepared: it shows what it can.
    monkeypatch.setattr(wal, "ENTRIES_MAX", 4)
    later = made.plan().sha256
    with _a_loader_reads(made):
        for _ in range(20):
            _busy(made, later, OTHER_REVIEW)
            assert made.log.stat().st_size < 24_000
            assert len(made.phases()) == 5
    assert len(decode_snapshot(made.wal.read_bytes()).transactions) == 4
    monkeypatch.undo()
    assert made.apply(later, OTHER_REVIEW).code == "committed"
    assert made.apply(plan).code == ABORTED


@pytest.mark.parametrize("stop", [("create", 1), ("replace", 1), ("after replace", 1)])
@pytest.mark.parametrize("leaf", [".retention-recovery.json", ".retention-recovery.log"])
def test_a_death_while_a_long_log_is_shortened_needs_no_new_plan(
    made: World, monkeypatch: pytest.MonkeyPatch, leaf: str, stop: tuple[str, int]
) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "detached")
    # What it closes it has closed, and then died: only its intent knows what was reviewed.
    given = made.candidates
    later = made.plan(given=given).sha256
    death = stop_at("after replace", ".retention-apply-receipts/")
    with pytest.raises(Stop):
        made.apply(later, OTHER_REVIEW, files=WatchedCache(made.root, death), given=given)
    monkeypatch.setattr(wal, "LONG", 0)
    name = leaf if "replace" in stop[0] else f".{leaf}."
    death = stop_at(stop[0], name, stop[1])
    with pytest.raises(Stop):
        made.apply(later, OTHER_REVIEW, files=WatchedCache(made.root, death), given=given)
    assert made.apply(later, OTHER_REVIEW, given=given).code == "nothing"
