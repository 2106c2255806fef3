"""Seeded defects of a journal: each takes one promise away from a real adapter.

The value of `DEFECTS` is the check that has to notice, and the patch.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest

from dpone.adapters.sqlite import journal as module
from dpone.adapters.sqlite.connection import NOW_MS
from dpone.adapters.sqlite.journal import SqliteJournal
from dpone.contracts.codec import replaced
from dpone.contracts.journal import JournalEntry, Step

Patch = Callable[[pytest.MonkeyPatch], None]

_ADVANCE = SqliteJournal.advance
_CREATE = SqliteJournal.create
_HISTORY = SqliteJournal.history
_OPEN = SqliteJournal._open
_PAGE = SqliteJournal.page
_READ = SqliteJournal.read
_APPEND = module._append


@contextmanager
def _beside(journal: SqliteJournal) -> Iterator[sqlite3.Connection]:
    """A transaction on a connection that the journal does not know."""
    with closing(sqlite3.connect(journal.path, timeout=30)) as connection, connection:
        yield connection


def _advance(advance: Callable[..., bool]) -> Patch:
    return lambda patch: patch.setattr(SqliteJournal, "advance", advance)


def _no_attempt_id(
    self: SqliteJournal,
    before: JournalEntry,
    after: JournalEntry,
    steps: Sequence[Step],
    lease_s: float = 0.0,
) -> bool:
    current = _READ(self, before.operation_id)
    owner = current.attempt_id if current else before.attempt_id
    return _ADVANCE(self, replaced(before, attempt_id=owner), after, steps, lease_s)


def _no_version(
    self: SqliteJournal,
    before: JournalEntry,
    after: JournalEntry,
    steps: Sequence[Step],
    lease_s: float = 0.0,
) -> bool:
    current = _READ(self, before.operation_id)
    if current is None:
        return False
    later = replaced(after, version=current.version + len(steps))
    return _ADVANCE(self, replaced(before, version=current.version), later, steps, lease_s)


def _upsert(
    self: SqliteJournal,
    before: JournalEntry,
    after: JournalEntry,
    steps: Sequence[Step],
    lease_s: float = 0.0,
) -> bool:
    if _READ(self, before.operation_id) is None:
        return _CREATE(self, after, steps, lease_s)
    return _ADVANCE(self, before, after, steps, lease_s)


def _history_of_losers(
    self: SqliteJournal,
    before: JournalEntry,
    after: JournalEntry,
    steps: Sequence[Step],
    lease_s: float = 0.0,
) -> bool:
    won = _ADVANCE(self, before, after, steps, lease_s)
    if not won:
        last = len(self.history(before.operation_id))
        with _beside(self) as connection:
            _APPEND(connection, replaced(after, version=last + len(steps)), steps)
    return won


def _check_then_write(patch: pytest.MonkeyPatch) -> None:
    """Looks first and writes blindly afterwards; the barrier makes the race certain."""
    looked = threading.Barrier(8)

    def advance(
        self: SqliteJournal,
        before: JournalEntry,
        after: JournalEntry,
        steps: Sequence[Step],
        lease_s: float = 0.0,
    ) -> bool:
        current = _READ(self, before.operation_id)
        fits = current is not None and current.version == before.version
        looked.wait(30)
        with _beside(self) as connection:
            connection.execute("DELETE FROM dpone_journal_history WHERE version > 1")
        return fits and _no_attempt_and_version(self, before, after, steps, lease_s)

    patch.setattr(SqliteJournal, "advance", advance)


def _no_attempt_and_version(self: SqliteJournal, *call: Any) -> bool:
    before = call[0]
    current = _READ(self, before.operation_id)
    assert current is not None
    held = replaced(before, version=current.version, attempt_id=current.attempt_id)
    with _beside(self) as connection:
        connection.execute("DELETE FROM dpone_journal_history WHERE version > 1")
    return _ADVANCE(self, held, *call[1:])


def _create_again(
    self: SqliteJournal, entry: JournalEntry, steps: Sequence[Step], lease_s: float
) -> bool:
    if _READ(self, entry.operation_id) is not None:
        with _beside(self) as connection:
            connection.execute("DELETE FROM dpone_journal")
            connection.execute("DELETE FROM dpone_journal_history")
    return _CREATE(self, entry, steps, lease_s)


def _last_step_only(connection: Any, after: JournalEntry, steps: Sequence[Step]) -> None:
    _APPEND(connection, after, steps[-1:])


def _no_history(connection: Any, after: JournalEntry, steps: Sequence[Step]) -> None:
    return


def _history_replaced(connection: Any, after: JournalEntry, steps: Sequence[Step]) -> None:
    connection.execute(
        "DELETE FROM dpone_journal_history WHERE version >= ?", [after.version - len(steps)]
    )
    _APPEND(connection, after, steps)


def _history_in_a_transaction_of_its_own(
    self: SqliteJournal,
    before: JournalEntry,
    after: JournalEntry,
    steps: Sequence[Step],
    lease_s: float = 0.0,
) -> bool:
    won = _ADVANCE(self, before, after, [], lease_s)
    if won:
        with _beside(self) as connection:
            _APPEND(connection, after, steps)
    return won


def _renewed_by_anybody(
    self: SqliteJournal, operation_id: str, attempt_id: str, lease_s: float
) -> bool:
    with _beside(self) as connection:
        rows = connection.execute(
            f"UPDATE dpone_journal SET lease_until_ms = {NOW_MS} + ? WHERE operation_id = ?",
            (int(lease_s * 1000), operation_id),
        ).rowcount
    return bool(rows)


def _still_lease(self: SqliteJournal, operation_id: str) -> JournalEntry | None:
    row = _READ(self, operation_id)
    return replaced(row, lease_left_ms=60_000) if row else None


def _lost_field(self: SqliteJournal, operation_id: str) -> JournalEntry | None:
    row = _READ(self, operation_id)
    return replaced(row, done=()) if row else None


def _page_skips(self: SqliteJournal, *, after: str = "", **rest: Any) -> list[JournalEntry]:
    rows = _PAGE(self, after=after, **rest)
    return rows[1:] if after else rows


def _page_ignores_states(self: SqliteJournal, **rest: Any) -> list[JournalEntry]:
    return _PAGE(self, **{**rest, "states": ()})


def _reads_create(self: SqliteJournal, *, writing: bool) -> Any:
    return _OPEN(self, writing=True)


def _backwards(self: SqliteJournal, operation_id: str) -> Any:
    return _HISTORY(self, operation_id)[::-1]


def _set(name: str, value: Any, owner: Any = SqliteJournal) -> Patch:
    return lambda patch: patch.setattr(owner, name, value)


DEFECTS: dict[str, tuple[str, Patch]] = {
    "no CAS on the attempt id": ("another_attempt_id_loses", _advance(_no_attempt_id)),
    "no CAS on the version": ("a_stale_version_loses", _advance(_no_version)),
    "a write makes what is missing": ("nothing_is_advanced_that_is_unknown", _advance(_upsert)),
    "losers write history": ("a_stale_version_loses", _advance(_history_of_losers)),
    "looks, then writes": ("one_compare_and_set_wins", _check_then_write),
    "create replaces": ("create_is_only_for_the_absent", _set("create", _create_again)),
    "only the last step is kept": (
        "history_tells_every_step",
        _set("_append", _last_step_only, module),
    ),
    "no history": ("history_tells_every_step", _set("_append", _no_history, module)),
    "history is rewritten": (
        "history_is_only_appended_to",
        _set("_append", _history_replaced, module),
    ),
    "history is read backwards": ("history_tells_every_step", _set("history", _backwards)),
    "row and history apart": (
        "steps_are_written_all_or_none",
        _advance(_history_in_a_transaction_of_its_own),
    ),
    "anybody renews": ("only_the_owner_renews", _set("renew", _renewed_by_anybody)),
    "a lease stands still": ("a_lease_runs_in_the_clock_of_the_store", _set("read", _still_lease)),
    "a field is lost": ("a_row_reads_back_as_it_was_written", _set("read", _lost_field)),
    "a page skips": ("pages_follow_each_other", _set("page", _page_skips)),
    "a page ignores states": ("pages_keep_to_their_filters", _set("page", _page_ignores_states)),
    "reads create": ("reads_create_nothing", _set("_open", _reads_create)),
    "any protocol will do": ("a_newer_protocol_is_refused", _set("PROTOCOL", 99, module)),
}
