"""The second half of the journal's suite: pages, rivals, large rows, writes joined to a target."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from certification.checks import equal, holds, race, until
from certification.journal import (
    BEGIN,
    HARD,
    JOURNAL,
    READY,
    START,
    after,
    begun,
    entry,
    timeless,
)
from certification.places import JournalPlace
from dpone.contracts.codec import replaced
from dpone.contracts.fence import Committed, Fenced, Unit
from dpone.contracts.journal import State
from dpone.ports.journal import Journal

RIVALS = 8


def _filled(place: JournalPlace, count: int) -> Journal:
    journal = place.open()
    states = itertools.cycle((State.PREPARING, State.COMPLETE, State.COMMIT_UNKNOWN))
    for number, state in zip(range(1, count + 1), states, strict=False):
        row = entry(number, route=f"r{number % 2}", state=state)
        journal.create(row, [BEGIN], 0.0)
    return journal


def _walk(journal: Journal, limit: int, **filters: Any) -> list[str]:
    seen: list[str] = []
    while rows := journal.page(after=seen[-1] if seen else "", limit=limit, **filters):
        holds(len(rows) <= limit, f"a page of {limit} holds {len(rows)} rows")
        seen.extend(row.operation_id for row in rows)
        holds(len(seen) < 100, "the cursor does not move on")
    return seen


@JOURNAL
def pages_follow_each_other(place: JournalPlace) -> None:
    """Pages of any size show every row once, in one and the same order."""
    journal = _filled(place, 7)
    whole = [row.operation_id for row in journal.page()]
    equal(sorted(entry(number).operation_id for number in range(1, 8)), sorted(whole), "rows")
    for limit in (1, 2, 3, 7, 8):
        equal(whole, _walk(place.open(), limit), f"pages of {limit}")


@JOURNAL
def pages_keep_to_their_filters(place: JournalPlace) -> None:
    """Route and states narrow a page, together and over several pages."""
    journal = _filled(place, 9)
    odd = [row for row in journal.page() if row.route == "r1"]
    equal([row.operation_id for row in odd], _walk(journal, 2, route="r1"), "route")
    chosen = [row.operation_id for row in odd if row.state in ("COMPLETE", "PREPARING")]
    states = [State.COMPLETE, State.PREPARING]
    equal(chosen, _walk(journal, 2, route="r1", states=states), "route and states")
    equal([], journal.page(route="nobody"), "an unknown route")


@JOURNAL
def the_latest_change_comes_first(place: JournalPlace) -> None:
    """A row that changed last leads the page."""
    journal = _filled(place, 3)
    row = journal.read(entry(1).operation_id)
    assert row is not None
    newest = max(found.updated_ms for found in journal.page())

    def changed() -> bool:
        nonlocal row
        assert row is not None
        holds(journal.advance(row, after(row), [READY]), "the advance was refused")
        row = journal.read(row.operation_id)
        assert row is not None
        return row.updated_ms > newest

    until(changed, "the store's clock moves on")
    equal(row.operation_id, journal.page(limit=1)[0].operation_id, "first row")


@JOURNAL
def one_compare_and_set_wins(place: JournalPlace) -> None:
    """Of eight that advance the same row at once, one wins, and the history shows that one."""
    journal, row = begun(place)

    def rival(number: int) -> Callable[[], bool]:
        mine = after(row, attempt=2, attempt_id=f"rival-{number}")
        return lambda: place.open().advance(row, mine, [READY], 60.0)

    answers = race([rival(number) for number in range(RIVALS)])
    equal([], [answer for answer in answers if not isinstance(answer, bool)], "errors")
    equal(1, answers.count(True), "winners")
    current = journal.read(row.operation_id)
    assert current is not None
    equal(f"rival-{answers.index(True)}", current.attempt_id, "owner")
    equal(2, len(journal.history(row.operation_id)), "history rows")


@JOURNAL
def one_create_wins(place: JournalPlace) -> None:
    """Of eight that create the same row at once, in a new store, one wins."""

    def rival(number: int) -> Callable[[], bool]:
        row = entry(attempt_id=f"rival-{number}")
        return lambda: place.open().create(row, [BEGIN], 60.0)

    answers = race([rival(number) for number in range(RIVALS)])
    equal([], [answer for answer in answers if not isinstance(answer, bool)], "errors")
    equal(1, answers.count(True), "winners")
    current = place.open().read(entry().operation_id)
    assert current is not None
    equal(f"rival-{answers.index(True)}", current.attempt_id, "owner")
    equal(1, len(place.open().history(entry().operation_id)), "history rows")


@JOURNAL
def details_may_be_large_and_in_any_script(place: JournalPlace) -> None:
    """A detail of 300 kB and text in any script come back as they went."""
    journal, row = begun(place)
    detail = {"hard": HARD, "large": "é" * 150_000, "list": [HARD, {"deep": [1, 2**53 - 1, -1]}]}
    current = after(row, reason=HARD, outcome=HARD * 100)
    holds(journal.advance(row, current, [replaced(READY, detail=detail)]), "refused")
    equal(detail, place.open().history(row.operation_id)[1].detail, "detail")
    equal(current, timeless(place.open().read(row.operation_id)), "row")


@JOURNAL
def a_store_has_one_token(place: JournalPlace) -> None:
    """Two objects on one database name the same store."""
    begun(place)
    holds(place.open().store != "", "the store has no token")
    equal(place.open().store, place.open().store, "token")


def _together(place: JournalPlace, finish: bool) -> None:
    if place.joint is None:
        return
    journal, row = begun(place)
    target = place.joint()
    place.opened.append(target)
    equal(journal.store, target.store, "token of the store")
    unit = Unit(
        operation_id=row.operation_id,
        epoch=1,
        attempt_id=row.attempt_id,
        intent_digest=row.intent_digest,
        incarnation=target.install(),
    )
    current = after(row, state=State.TARGET_COMMITTED)

    def also(transaction: Any, _: object) -> bool:
        return journal.advance_within(transaction, row, current, [START]) and finish

    verdict = target.commit(unit, lambda _: None, also)
    holds(isinstance(verdict, Committed if finish else Fenced), f"the verdict is {verdict}")
    equal(current if finish else row, timeless(place.open().read(row.operation_id)), "row")
    equal(2 if finish else 1, len(journal.history(row.operation_id)), "history rows")


@JOURNAL
def a_row_may_commit_with_the_change(place: JournalPlace) -> None:
    """Written inside the unit of a target in the same database, the row commits with it."""
    _together(place, True)


@JOURNAL
def a_row_may_roll_back_with_the_change(place: JournalPlace) -> None:
    """Written inside the unit of a target in the same database, the row is undone with it."""
    _together(place, False)
