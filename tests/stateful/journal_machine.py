"""A journal and its model side by side: what workers do, and what kills them."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from certification.journal import entry, timeless
from certification.places import JournalPlace
from dpone.contracts.codec import plain, replaced
from dpone.contracts.journal import VOID_ATTEMPT, HistoryRow, JournalEntry, State, Step
from faultinject.zygote import Ended, Zygote
from models import journal as model
from models.journal import Row, Write
from models.rules import Rules
from tests.stateful import crash

RULES = Rules()
KEYS = ("a", "bb")
CALLS_MAX = 1000
SESSIONS_WAIT_S = 10.0
_SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
WRITES = (
    model.TAKE_READY,
    model.TAKE_UNKNOWN,
    model.NEW_ATTEMPT,
    model.FENCE_READY,
    model.START,
    model.ACKNOWLEDGE,
    model.ANSWER_LOST,
    model.SHOWN,
    model.FAIL,
    model.MET,
    model.UNMET,
)
NUMBERS = itertools.count(1)


class Held:
    """A row as somebody read it: the real one and the model's."""

    def __init__(self, key: str, real: JournalEntry, row: Row) -> None:
        self.key = key
        self.real = real
        self.row = row


class JournalMachine(RuleBasedStateMachine):
    """Two objects on one store, two operations; the model's rows beside them."""

    held = Bundle("held")

    def __init__(self, place: JournalPlace, zygote: Zygote, seen: Counter[str]) -> None:
        super().__init__()
        self.place = place
        self.zygote = zygote
        self.proof = zygote.folder / "calls.jsonl"
        self.seen = seen
        self.number = next(NUMBERS)
        self.rows: dict[str, Row | None] = dict.fromkeys(KEYS)
        self.told: dict[str, list[tuple[Any, ...]]] = {key: [] for key in KEYS}
        self.attempts = 0

    @initialize()
    def opened(self) -> None:
        self.objects = [self.place.open(), self.place.open()]

    def teardown(self) -> None:
        self.place.close()
        self.place.opened.clear()

    # -- what a write is, for both ---------------------------------------------------------------

    def id_of(self, key: str) -> str:
        return f"{self.number}-{key}"

    def first(self, key: str) -> tuple[JournalEntry, Row, list[Step]]:
        """A row to be created by a fresh attempt."""
        self.attempts += 1
        row = model.written(None, model.BEGIN, self.attempts, 1, 1)
        real = entry(
            operation_id=self.id_of(key),
            family=f"family-{self.number}" if key in KEYS else "",
            route=f"route-{self.number}" if key in KEYS else "",
            attempt_id=f"attempt-{self.attempts}",
            revision=len(key),
        )
        return real, row, [Step(event=model.BEGIN.event, source="", target=row.state)]

    def following(
        self, held: Held, writes: list[Write], fresh: bool, void: bool
    ) -> tuple[JournalEntry, Row, list[Step]]:
        """The row that follows a held one by one or several writes of one attempt."""
        attempt = held.row.attempt
        if fresh:
            self.attempts += 1
            attempt = self.attempts
        attempt = model.NOBODY if void else attempt
        epoch = held.row.epoch + int(fresh)
        row = held.row
        steps: list[Step] = []
        for write in writes:
            after = model.written(row, write, attempt, epoch, 1)
            steps.append(
                Step(
                    event=write.event,
                    source=row.state,
                    target=after.state,
                    detail={"number": len(steps)},
                )
            )
            row = after
        name = VOID_ATTEMPT if attempt == model.NOBODY else f"attempt-{attempt}"
        real = replaced(
            held.real, state=State(row.state), version=row.version, attempt=epoch, attempt_id=name
        )
        return real, row, steps

    def apply(self, key: str, real: JournalEntry, row: Row, steps: list[Step]) -> None:
        """Let the model take the write."""
        self.rows[key] = row
        first = row.version - len(steps) + 1
        self.told[key].extend(
            (first + number, s.event, s.source, s.target, real.attempt, real.attempt_id, s.detail)
            for number, s in enumerate(steps)
        )

    def current(self, key: str) -> Held:
        """The row as it is now; there is one."""
        row, real = self.rows[key], self.objects[0].read(self.id_of(key))
        assert row is not None
        assert real is not None
        return Held(key, real, row)

    def afresh(self, key: str) -> JournalEntry | None:
        """The row as a process sees it that has just begun."""
        journal = self.place.open()
        found = journal.read(self.id_of(key))
        journal.close()
        self.place.opened.remove(journal)
        return found

    def fits(self, held: Held) -> bool:
        """Whether the model lets a write from this row win."""
        return model.matches(self.rows[held.key], held.row.version, held.row.attempt, RULES)

    # -- rules -----------------------------------------------------------------------------------

    @rule(key=st.sampled_from(KEYS), by=st.integers(0, 1))
    def create(self, key: str, by: int) -> None:
        real, row, steps = self.first(key)
        wins = model.matches(self.rows[key], 0, 0, RULES)
        self.seen[f"create {wins}"] += 1
        assert self.objects[by].create(real, steps, 60.0) == wins
        if wins:
            self.apply(key, real, row, steps)

    @rule(target=held, key=st.sampled_from(KEYS), by=st.integers(0, 1))
    def read(self, key: str, by: int) -> Any:
        found = self.objects[by].read(self.id_of(key))
        row = self.rows[key]
        assert (found is None) == (row is None)
        return Held(key, found, row) if found and row else multiple()

    @rule(
        held=held,
        writes=st.lists(st.sampled_from(WRITES), min_size=1, max_size=3),
        fresh=st.booleans(),
        void=st.sampled_from((False, False, False, True)),
        late=st.booleans(),
        by=st.integers(0, 1),
    )
    def advance(
        self, held: Held, writes: list[Write], fresh: bool, void: bool, late: bool, by: int
    ) -> None:
        held = held if late else self.current(held.key)
        real, row, steps = self.following(held, writes, fresh, void)
        wins = self.fits(held)
        self.seen[f"advance {wins}"] += 1
        assert self.objects[by].advance(held.real, real, steps, 60.0) == wins
        if wins:
            self.apply(held.key, real, row, steps)

    @rule(held=held, stranger=st.booleans(), late=st.booleans(), by=st.integers(0, 1))
    def renew(self, held: Held, stranger: bool, late: bool, by: int) -> None:
        held = held if late else self.current(held.key)
        current = self.rows[held.key]
        name = "stranger" if stranger else held.real.attempt_id
        wins = current is not None and not stranger and current.attempt == held.row.attempt
        self.seen[f"renew {wins}"] += 1
        assert self.objects[by].renew(self.id_of(held.key), name, 60.0) == wins

    @rule(by=st.integers(0, 1))
    def reopen(self, by: int) -> None:
        self.objects[by].close()
        self.objects[by] = self.place.open()

    @rule(held=held, share=st.integers(0, 99), fresh=st.booleans(), late=st.booleans())
    def killed_inside_an_advance(self, held: Held, share: int, fresh: bool, late: bool) -> None:
        held = held if late else self.current(held.key)
        write = model.NEW_ATTEMPT if fresh else model.START
        real, row, steps = self.following(held, [write], fresh, False)
        kill_at = self.share_of("advance", share)
        ended = self.run(real, steps, held.real, kill_at=kill_at)
        self.judge(held.key, ended, kill_at, self.fits(held), (real, row, steps))
        # What a worker with a lost answer would believe is what happened.
        believed = model.applied(self.rows[held.key], write, held.row.version, row.attempt, RULES)
        found = self.afresh(held.key)
        assert believed == (_seen(found) == _expected(row))

    @rule(key=st.sampled_from(KEYS), share=st.integers(0, 99))
    def killed_inside_a_create(self, key: str, share: int) -> None:
        real, row, steps = self.first(key)
        kill_at = self.share_of("create", share)
        ended = self.run(real, steps, None, kill_at=kill_at)
        wins = model.matches(self.rows[key], 0, 0, RULES)
        self.judge(key, ended, kill_at, wins, (real, row, steps))

    @rule(held=held, side=st.sampled_from(("before", "after")), late=st.booleans())
    def killed_at_a_named_point(self, held: Held, side: str, late: bool) -> None:
        held = held if late else self.current(held.key)
        real, row, steps = self.following(held, [model.START], True, False)
        point = f"fencing.intent:{side}#1"
        ended = self.run(real, steps, held.real, point=point)
        assert ended.killed
        assert ended.hit(point)
        self.seen[point] += 1
        if side == "after" and self.fits(held):
            # The call had returned: its write is durable.
            self.apply(held.key, real, row, steps)

    # -- crashes ---------------------------------------------------------------------------------

    def run(
        self,
        after: JournalEntry,
        steps: list[Step],
        before: JournalEntry | None,
        *,
        kill_at: int = 0,
        point: str = "",
    ) -> Ended:
        args = {
            "spec": self.place.spec,
            "before": plain(before),
            "after": plain(after),
            "steps": plain(steps),
            "lease_s": 60.0,
            "kill_at": kill_at,
            "proof": str(self.proof),
        }
        before_it = self.sessions()
        ended = self.zygote.run("tests.stateful.crash:journal", args, point=point)
        # A server's session outlives its killed client, and may still land what it was sent.
        until = time.monotonic() + SESSIONS_WAIT_S
        while self.sessions() > before_it:
            assert time.monotonic() < until, "the killed client's session never ended"
            time.sleep(0.01)
        return ended

    def sessions(self) -> int:
        """How many sessions a server has for this journal; 0 where there is no server."""
        if not self.place.spec.startswith("postgres"):
            return 0
        return int(self.place.sql(_SESSIONS)[0][0])

    def share_of(self, act: str, share: int) -> int:
        """Some call inside the adapter: the share of all calls that this act makes, in percent."""
        calls = f"calls of {act}"
        if not self.seen[calls]:
            before = None
            real, _, steps = self.first("unused")
            if act == "advance":
                self.run(real, steps, None)
                before, real = real, replaced(real, version=2)
            ended = self.run(real, steps, before, kill_at=CALLS_MAX)
            assert ended.result is not None
            self.seen[calls] = ended.result["calls"]
        return 1 + self.seen[calls] * share // 100

    def judge(
        self,
        key: str,
        ended: Ended,
        kill_at: int,
        wins: bool,
        write: tuple[JournalEntry, Row, list[Step]],
    ) -> None:
        """A killed call did all or nothing; one that came to its end did what the model says."""
        real, row, steps = write
        if not ended.killed:
            assert ended.result is not None
            assert ended.result["answer"] == wins
            self.seen["outlived"] += 1
            if wins:
                self.apply(key, real, row, steps)
            return
        assert crash.hit(self.proof, ended.pid, kill_at)
        found = self.afresh(key)
        # An earlier write of the same attempt may have left the very same row: this one landed
        # only if the row is another one than it was.
        landed = _seen(found) != _expected(self.rows[key])
        if landed:
            assert wins
            assert found is not None
            assert timeless(found) == timeless(real)
        self.seen[f"killed, landed {landed}"] += 1
        if landed:
            self.apply(key, real, row, steps)

    # -- agreement -------------------------------------------------------------------------------

    @invariant()
    def rows_agree(self) -> None:
        if not hasattr(self, "objects"):
            return
        for key, row in self.rows.items():
            found = self.objects[0].read(self.id_of(key))
            assert _seen(found) == _expected(row)

    @invariant()
    def histories_agree(self) -> None:
        if not hasattr(self, "objects"):
            return
        for key in KEYS:
            history = self.objects[1].history(self.id_of(key))
            assert [_line(line) for line in history] == self.told[key]

    @invariant()
    def listings_agree(self) -> None:
        if not hasattr(self, "objects"):
            return
        known = [self.id_of(key) for key in KEYS if self.rows[key] is not None]
        family = self.objects[0].family(f"family-{self.number}")
        assert [row.operation_id for row in family] == known
        newest = self.objects[1].page(route=f"route-{self.number}")
        assert sorted(row.operation_id for row in newest) == known


def _seen(found: JournalEntry | None) -> tuple[Any, ...] | None:
    if found is None:
        return None
    return found.state.value, found.version, found.attempt_id, found.attempt


def _expected(row: Row | None) -> tuple[Any, ...] | None:
    if row is None:
        return None
    name = VOID_ATTEMPT if row.attempt == model.NOBODY else f"attempt-{row.attempt}"
    return row.state, row.version, name, row.epoch


def _line(line: HistoryRow) -> tuple[Any, ...]:
    return (
        line.version,
        line.event,
        line.source,
        line.target,
        line.attempt,
        line.attempt_id,
        line.detail,
    )
