"""The suite that every journal passes: compare-and-set, history, leases, durability.

`suite` takes a factory of fresh places. Each check opens as many objects on its place as it
needs; two objects stand for two processes. Rivals, pages and joined writes stand in
`certification.journal_sharing`, which is part of the same suite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from certification.checks import Check, Suite, equal, holds, until
from certification.places import JournalPlace
from dpone.contracts.codec import replaced
from dpone.contracts.errors_fencing import ProtocolTooOld
from dpone.contracts.journal import VOID_ATTEMPT, JournalEntry, Owner, State, Step
from dpone.ports.journal import Journal

BEGIN = Step(event="begin", source="", target="PREPARING")
READY = Step(event="fence_ready", source="PREPARING", target="PREPARED")
START = Step(event="commit_started", source="PREPARED", target="COMMITTING")
HARD = 'plain "quoted" \\ back\\\\ \n\r\t \x00\x01\x1f 🛫 العربية 日本語 e\u0301 \u2028 %s $1 :x ?'

JOURNAL: Suite[JournalPlace] = Suite("journal")


def suite(make: Callable[[], AbstractContextManager[JournalPlace]]) -> list[Check]:
    """Every check of a journal, on fresh places made by `make`."""
    return complete().checks(make)


def complete() -> Suite[JournalPlace]:
    """The suite with all its parts; each part adds its checks when it is imported."""
    from certification import journal_sharing  # noqa: F401

    return JOURNAL


def entry(number: int = 1, **changes: Any) -> JournalEntry:
    """A row as a beginning attempt writes it."""
    given: dict[str, Any] = {
        "operation_id": f"sha256:{number:064x}",
        "identity": '{"route":"r"}',
        "family": f"family-{number}",
        "route": "r",
        "partition": "p",
        "revision": 1,
        "state": State.PREPARING,
        "version": 1,
        "attempt": 1,
        "attempt_id": f"attempt-{number}",
        "intent_digest": "sha256:i",
    }
    return JournalEntry(**{**given, **changes})


def after(before: JournalEntry, steps: int = 1, **changes: Any) -> JournalEntry:
    """The row that follows `before` by so many history rows."""
    return replaced(before, version=before.version + steps, **changes)


def timeless(row: JournalEntry | None) -> JournalEntry | None:
    """A row without what only the store's clock knows."""
    if row is None:
        return None
    return replaced(row, lease_left_ms=0, created_ms=0, updated_ms=0)


def told(journal: Journal, operation_id: str) -> list[tuple[Any, ...]]:
    """The history in the words of its steps."""
    rows = journal.history(operation_id)
    return [(row.version, row.event, row.source, row.target, row.detail) for row in rows]


def begun(place: JournalPlace, **changes: Any) -> tuple[Journal, JournalEntry]:
    journal, row = place.open(), entry(**changes)
    equal(True, journal.create(row, [BEGIN], 60.0), "create")
    return journal, row


@JOURNAL
def reads_create_nothing(place: JournalPlace) -> None:
    """A store that is not there is empty to every reader and stays away."""
    before = place.objects()
    journal = place.open()
    equal(None, journal.read("x"), "read")
    equal([], journal.family("x"), "family")
    equal([], journal.history("x"), "history")
    equal([], journal.page(), "page")
    equal(before, place.objects(), "objects in the store")


@JOURNAL
def reads_add_nothing_to_a_store_of_others(place: JournalPlace) -> None:
    """A database that holds other tables but no journal is read as empty and left as it is."""
    place.sql("CREATE TABLE of_others(x INTEGER)")
    journal = place.open()
    equal(None, journal.read("x"), "read")
    equal([], journal.page(), "page")
    equal(["of_others"], place.objects(), "objects in the store")
    equal(True, journal.create(entry(), [BEGIN], 0.0), "create after reading")
    equal(entry(), timeless(journal.read(entry().operation_id)), "row")


@JOURNAL
def a_row_reads_back_as_it_was_written(place: JournalPlace) -> None:
    """Every field of a row survives the store, empty ones and all."""
    owner = Owner(host="h", boot_id="b", pid_namespace="n", pid=7, start_ticks=9)
    row = entry(
        incarnation="inc",
        outcome='{"epoch":1}',
        reason=HARD,
        obligations=("a", "b"),
        done=("a",),
        diverged="x",
        pruned=True,
        owner=owner,
        route=HARD.replace("\x00", ""),
        partition=HARD,
    )
    journal = place.open()
    journal.create(row, [BEGIN], 1.0)
    equal(row, timeless(place.open().read(row.operation_id)), "row")


@JOURNAL
def create_is_only_for_the_absent(place: JournalPlace) -> None:
    """A second create answers False and changes neither row nor history."""
    journal, row = begun(place)
    before = journal.read(row.operation_id)
    other = replaced(row, attempt_id="other", state=State.PREPARED)
    equal(False, place.open().create(other, [BEGIN, READY], 5.0), "second create")
    equal(timeless(before), timeless(journal.read(row.operation_id)), "row")
    equal([(1, "begin", "", "PREPARING", {})], told(journal, row.operation_id), "history")


@JOURNAL
def the_owner_advances(place: JournalPlace) -> None:
    """A compare-and-set on the current version and attempt id replaces the row."""
    journal, row = begun(place)
    next_row = after(row, state=State.PREPARED, incarnation="inc")
    equal(True, journal.advance(row, next_row, [READY]), "advance")
    equal(next_row, timeless(place.open().read(row.operation_id)), "row")


@JOURNAL
def a_stale_version_loses(place: JournalPlace) -> None:
    """A compare-and-set on an older version answers False and writes nothing."""
    journal, row = begun(place)
    current = after(row, state=State.PREPARED)
    journal.advance(row, current, [READY])
    stale = after(row, state=State.COMMITTING)
    equal(False, place.open().advance(row, stale, [START, START]), "stale advance")
    equal(current, timeless(journal.read(row.operation_id)), "row")
    equal(2, len(journal.history(row.operation_id)), "history rows")


@JOURNAL
def a_version_ahead_loses(place: JournalPlace) -> None:
    """A compare-and-set on a version that is not reached yet answers False."""
    journal, row = begun(place)
    ahead = replaced(row, version=5)
    equal(False, journal.advance(ahead, after(ahead), [READY]), "advance from the future")
    equal(row, timeless(journal.read(row.operation_id)), "row")


@JOURNAL
def another_attempt_id_loses(place: JournalPlace) -> None:
    """A compare-and-set with the right version and another attempt id writes nothing."""
    journal, row = begun(place)
    foreign = replaced(row, attempt_id="somebody else")
    equal(False, journal.advance(foreign, after(foreign), [READY]), "foreign advance")
    equal(row, timeless(journal.read(row.operation_id)), "row")
    equal(1, len(journal.history(row.operation_id)), "history rows")


@JOURNAL
def a_void_attempt_is_no_wildcard(place: JournalPlace) -> None:
    """An adopted row is written by nobody who does not hold the void attempt id."""
    journal, row = begun(place)
    adopted = after(row, attempt_id=VOID_ATTEMPT)
    equal(True, journal.advance(row, adopted, [READY]), "adopt")
    older = replaced(adopted, attempt_id=row.attempt_id)
    equal(False, journal.advance(older, after(older), [START]), "the earlier attempt")
    taken = after(adopted, attempt_id="fresh")
    equal(True, journal.advance(adopted, taken, [START]), "a take-over from the void")


@JOURNAL
def nothing_is_advanced_that_is_unknown(place: JournalPlace) -> None:
    """An unknown operation has no row, no history, no lease, and none is made for it."""
    journal, _ = begun(place)
    unknown = entry(2)
    equal(False, journal.advance(unknown, after(unknown), [READY]), "advance")
    equal(False, journal.renew(unknown.operation_id, unknown.attempt_id, 60.0), "renew")
    equal(None, journal.read(unknown.operation_id), "read")
    equal([], journal.history(unknown.operation_id), "history")


@JOURNAL
def history_tells_every_step(place: JournalPlace) -> None:
    """The history is the steps as given, numbered by version, with who took them."""
    journal, row = begun(place)
    steps = [replaced(READY, detail={"a": [1, None, True]}), replaced(START, detail={})]
    current = after(row, 2, state=State.COMMITTING, attempt=3, attempt_id="fresh")
    journal.advance(row, current, steps)
    expected = [
        (1, "begin", "", "PREPARING", {}),
        (2, "fence_ready", "PREPARING", "PREPARED", {"a": [1, None, True]}),
        (3, "commit_started", "PREPARED", "COMMITTING", {}),
    ]
    equal(expected, told(place.open(), row.operation_id), "history")
    who = [(line.attempt, line.attempt_id) for line in journal.history(row.operation_id)]
    equal([(1, row.attempt_id), (3, "fresh"), (3, "fresh")], who, "authors")


@JOURNAL
def history_is_only_appended_to(place: JournalPlace) -> None:
    """What the history said once it says for ever, dates included."""
    journal, row = begun(place)
    for _ in range(5):
        before = journal.history(row.operation_id)
        following = after(row)
        holds(journal.advance(row, following, [READY]), "the advance was refused")
        row = following
        equal(before, journal.history(row.operation_id)[: len(before)], "earlier history")
    equal(6, len(journal.history(row.operation_id)), "history rows")


@JOURNAL
def steps_are_written_all_or_none(place: JournalPlace) -> None:
    """Row and all its history rows are one transaction: a step that fails undoes the write."""
    journal, row = begun(place)
    clash = replaced(row, state=State.PREPARED)
    try:
        journal.advance(row, clash, [READY])
    except Exception:  # noqa: BLE001 - any refusal will do
        refused = True
    else:
        refused = False
    holds(refused, "a history row was written over an earlier one")
    equal(row, timeless(place.open().read(row.operation_id)), "row")
    equal([(1, "begin", "", "PREPARING", {})], told(place.open(), row.operation_id), "history")
    equal(True, journal.advance(row, after(row), [READY]), "the next write")


@JOURNAL
def a_family_comes_by_revision(place: JournalPlace) -> None:
    """All revisions of one operation, in the order of their revisions, and nothing else."""
    journal = place.open()
    for number, revision in ((3, 10), (1, 1), (2, 2)):
        journal.create(entry(number, family="f", revision=revision), [BEGIN], 0.0)
    journal.create(entry(9, family="another"), [BEGIN], 0.0)
    equal([1, 2, 10], [row.revision for row in place.open().family("f")], "revisions")


def _left(journal: Journal, operation_id: str) -> int:
    row = journal.read(operation_id)
    assert row is not None
    return row.lease_left_ms


@JOURNAL
def a_lease_runs_in_the_clock_of_the_store(place: JournalPlace) -> None:
    """What is left of a lease is computed by the store when the row is read, never below 0."""
    journal, row = begun(place)
    first = _left(place.open(), row.operation_id)
    holds(0 < first <= 60_000, f"{first} ms are left of 60 s")
    until(lambda: _left(journal, row.operation_id) < first, "the lease runs down", 3.0)
    journal.create(entry(2), [BEGIN], 0.0)
    equal(0, _left(journal, entry(2).operation_id), "a lease of no length")
    journal.create(entry(3), [BEGIN], 0.001)
    until(lambda: _left(journal, entry(3).operation_id) == 0, "a short lease ends")


@JOURNAL
def a_write_sets_the_lease_anew(place: JournalPlace) -> None:
    """An advance replaces the lease by its own; without one the lease ends."""
    journal, row = begun(place)
    longer = after(row)
    journal.advance(row, longer, [READY], 600.0)
    holds(_left(journal, row.operation_id) > 60_000, "the longer lease was not taken")
    journal.advance(longer, after(longer), [READY])
    equal(0, _left(journal, row.operation_id), "a write without a lease")


@JOURNAL
def only_the_owner_renews(place: JournalPlace) -> None:
    """A lease is extended by the attempt that owns the row; anybody else changes nothing."""
    journal, row = begun(place)
    equal(False, place.open().renew(row.operation_id, "other", 6000.0), "renew by another")
    holds(_left(journal, row.operation_id) <= 60_000, "another attempt extended the lease")
    equal(True, place.open().renew(row.operation_id, row.attempt_id, 6000.0), "renew by the owner")
    holds(_left(journal, row.operation_id) > 60_000, "the owner's lease was not extended")
    equal(row, timeless(journal.read(row.operation_id)), "row")
    equal(1, len(journal.history(row.operation_id)), "history rows")


@JOURNAL
def dates_are_the_stores(place: JournalPlace) -> None:
    """The date of creation stays; the date of change never goes back."""
    journal, row = begun(place)
    first = journal.read(row.operation_id)
    journal.advance(row, after(row), [READY])
    second = journal.read(row.operation_id)
    assert first is not None
    assert second is not None
    holds(first.created_ms > 0, "there is no date of creation")
    equal(first.created_ms, second.created_ms, "created_ms")
    holds(second.updated_ms >= first.updated_ms, "updated_ms went back")
    dates = [line.at_ms for line in journal.history(row.operation_id)]
    equal(sorted(dates), dates, "dates of the history")


@JOURNAL
def nothing_lives_in_the_session(place: JournalPlace) -> None:
    """The same calls give the same answers when every one is made by a new object."""
    row = entry()
    following = after(row, state=State.PREPARED)
    answers = [place.open().create(row, [BEGIN], 60.0), place.open().create(row, [BEGIN], 60.0)]
    answers.append(place.open().advance(row, following, [READY]))
    answers.append(place.open().advance(row, following, [READY]))
    equal([True, False, True, False], answers, "answers")
    equal(following, timeless(place.open().read(row.operation_id)), "row")


@JOURNAL
def close_may_be_repeated(place: JournalPlace) -> None:
    """Closing twice is harmless, and what was written is there for the next object."""
    journal, row = begun(place)
    journal.close()
    journal.close()
    equal(row, timeless(place.open().read(row.operation_id)), "row")
    equal(row, timeless(journal.read(row.operation_id)), "row, by the object that was closed")


@JOURNAL
def a_newer_protocol_is_refused(place: JournalPlace) -> None:
    """A journal of a newer protocol version is neither read nor written."""
    _, row = begun(place)
    place.protocol(2)
    calls: Sequence[Callable[[Journal], object]] = (
        lambda journal: journal.read(row.operation_id),
        lambda journal: journal.page(),
        lambda journal: journal.create(entry(2), [BEGIN], 0.0),
        lambda journal: journal.advance(row, after(row), [READY]),
    )
    for call in calls:
        try:
            answer = call(place.open())
        except ProtocolTooOld:
            continue
        raise AssertionError(f"answered {answer!r} to an older protocol")
    place.protocol(1)
    equal(row, timeless(place.open().read(row.operation_id)), "row")
    equal(None, place.open().read(entry(2).operation_id), "the refused row")
