"""Stand between a PostgreSQL client and its server, and lose the answer to a COMMIT.

Promise: the proxy changes nothing but what the armed plan says, listens on 127.0.0.1 only, and
records in `events` what it really did. An armed plan that met no COMMIT leaves no event: a test
must look. Linearization stays with the server: its answer, read by the proxy, is in the events.

Not promised: encryption (asked for, it is declined), protocol versions above 3.0, and SQL
parsing beyond the first word of each statement: a COMMIT inside a procedure is not seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from psycopg.conninfo import make_conninfo

from faultinject.pooler import (
    CANCEL,
    SYNC,
    WAIT_S,
    LoopThread,
    error_field,
    open_server,
    read_frame,
    read_startup,
    reset,
)

STATEMENTS_MAX = 10_000
_NOISE = re.compile(rb"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|\$(\w*)\$.*?\$\1\$", re.DOTALL)
_COMMIT = re.compile(rb"\s*(?:COMMIT|END)\b", re.IGNORECASE)
_FINISH = re.compile(rb"\s*(?:COMMIT|END|ABORT|ROLLBACK(?!\s+(?:\w+\s+)?TO\b))\b", re.IGNORECASE)
_BEGIN = re.compile(rb"\s*(?:BEGIN|START)\b", re.IGNORECASE)


class Plan(Enum):
    """What happens to a client's COMMIT."""

    PASS = "pass"  # It passes, and so does its answer.
    CUT_BEFORE = "cut-before"  # The client is reset and the server never sees the COMMIT.
    CUT_AFTER = "cut-after"  # The server answers, the answer is dropped, the client is reset.
    UNFORWARDED_HANG = "unforwarded-hang"  # Nobody hears anything more.
    DELAY = "delay"  # The client is reset at once and the COMMIT reaches the server later.
    HANG_AFTER = "hang-after"  # The server answers and the client hears nothing.


class Step(Enum):
    """What the proxy did or saw, in the words of the events."""

    COMMIT_SEEN = "commit seen"
    COMMIT_FORWARDED = "commit forwarded"
    ANSWER_RECEIVED = "answer received"
    CLIENT_RESET = "client reset"
    CLIENT_HANGING = "client hanging"
    SERVER_GONE = "server gone"


@dataclass(frozen=True, slots=True)
class ProxyEvent:
    """One step of the proxy: `order` counts over all connections from 1.

    `forwarded_bytes` went to the server and `returned_bytes` to the client on this connection
    so far. `answer` is the server's command tag ("COMMIT", "ROLLBACK") or the SQLSTATE of its
    error, empty before an answer. `extended` tells the protocol the COMMIT came by.
    """

    order: int
    connection: int
    plan: Plan
    step: Step
    extended: bool
    forwarded_bytes: int
    returned_bytes: int
    answer: str


@dataclass(slots=True)
class Armed:
    """A plan with the number of COMMITs it is still for (None: for ever) and its conditions."""

    plan: Plan = Plan.PASS
    remaining: int | None = None
    match: Callable[[bytes], bool] | None = None
    delay_s: float | None = None
    half_open: bool = False
    autocommit: bool = False


class Conversation:
    """The SQL that one client has executed, as far as the frontend protocol shows it."""

    def __init__(self) -> None:
        self.in_block = False
        self._prepared: dict[bytes, bytes] = {}
        self._portals: dict[bytes, bytes] = {}
        self._seen: dict[bytes, None] = {}

    def executed(self, frame: bytes) -> bytes | None:
        """Take in one frontend message; return the SQL that it makes the server execute."""
        kind, body = frame[:1], frame[5:]
        if kind == b"Q":
            return body.rstrip(b"\0")
        first, _, rest = body.partition(b"\0")
        if kind == b"P":
            self._prepared[first] = rest.partition(b"\0")[0]
        elif kind == b"B":
            self._portals[first] = self._prepared.get(rest.partition(b"\0")[0], b"")
        elif kind == b"E":
            return self._portals.get(first, b"")
        return None

    def commits(self, sql: bytes, *, autocommit: bool) -> bool:
        """Tell whether `sql` commits; with `autocommit`, alone outside a block counts too.

        The statement joins those of its transaction, which `transaction_sql` returns until
        `settle` or the end of the transaction.
        """
        statements = [part for part in _NOISE.sub(b" ", sql).split(b";") if part.strip()]
        if len(self._seen) < STATEMENTS_MAX:
            self._seen[sql] = None
        alone = not self.in_block and not any(map(_BEGIN.match, statements))
        return any(map(_COMMIT.match, statements)) or (autocommit and alone)

    def transaction_sql(self) -> bytes:
        """Return the distinct statements of the current transaction, one per line."""
        return b"\n".join(self._seen)

    def settle(self, sql: bytes) -> None:
        """Note that `sql` goes to the server: a block begins or ends with it."""
        for statement in _NOISE.sub(b" ", sql).split(b";"):
            if _BEGIN.match(statement):
                self.in_block = True
            elif _FINISH.match(statement):
                self.in_block = False
                self._seen.clear()

    def idle(self) -> None:
        """Note that the server has answered everything and is outside any block."""
        if not self.in_block:
            self._seen.clear()


class _Link:
    """One client connection and the server connection that belongs to it."""

    def __init__(
        self, proxy: Proxy, client: asyncio.StreamReader, client_writer: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._client, self._client_writer = client, client_writer
        self._number = next(proxy.connections)
        self._said = Conversation()
        self._sent_syncs, self._got_syncs = 1, 0  # The startup packet is answered like a sync.
        self._awaited: tuple[int, Plan, bool] | None = None
        self._answered, self._tag = asyncio.Event(), ""
        self._withheld = self._server_gone = False
        self._forwarded_bytes = self._returned_bytes = 0

    def _note(self, plan: Plan, step: Step, extended: bool, answer: str = "") -> None:
        sizes = self._forwarded_bytes, self._returned_bytes
        self._proxy.note(self._number, plan, step, extended, *sizes, answer)

    async def run(self) -> None:
        """Serve the client until it or the server leaves."""
        startup = await read_startup(self._client, self._client_writer)
        self._server, self._server_writer = await open_server(self._proxy.target_dsn)
        answers: asyncio.Task[None] | None = None
        try:
            self._send(startup)
            if int.from_bytes(startup[4:8], "big") == CANCEL:
                await self._server.read()
                return
            answers = asyncio.create_task(self._relay_answers())
            await self._relay_requests()
        finally:
            if answers is not None:
                answers.cancel()
            reset(self._server_writer)

    def _send(self, data: bytes) -> None:
        self._forwarded_bytes += len(data)
        self._server_writer.write(data)

    async def _relay_answers(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                frame = await read_frame(self._server)
                self._observe_answer(frame)
                if not self._withheld:
                    self._returned_bytes += len(frame)
                    self._client_writer.write(frame)
                    await self._client_writer.drain()
        self._server_gone = True
        self._answered.set()
        if not self._withheld:
            self._client_writer.close()

    def _observe_answer(self, frame: bytes) -> None:
        if frame[:1] == b"C":
            self._tag = frame[5:].rstrip(b"\0").decode()
        elif frame[:1] == b"E":
            self._tag = error_field(frame, b"C")
        elif frame[:1] == b"Z":
            self._got_syncs += 1
            if self._got_syncs == self._sent_syncs:
                self._said.idle()
            if self._awaited is not None and self._got_syncs == self._awaited[0]:
                _, plan, extended = self._awaited
                self._awaited = None
                self._note(plan, Step.ANSWER_RECEIVED, extended, self._tag)
                self._answered.set()

    async def _relay_requests(self) -> None:
        while True:
            frame = await read_frame(self._client)
            sql = self._said.executed(frame)
            if sql is not None:
                if self._said.commits(sql, autocommit=self._proxy.autocommit):
                    armed = self._proxy.take(self._said.transaction_sql())
                    self._note(armed.plan, Step.COMMIT_SEEN, frame[:1] == b"E")
                    if armed.plan is not Plan.PASS:
                        self._withheld = True
                        await self._hit(frame, armed)
                        return
                    self._expect(frame, Plan.PASS)
                self._said.settle(sql)
            self._sent_syncs += frame[:1] in (b"Q", b"S", b"F")
            self._send(frame)
            await self._server_writer.drain()

    def _expect(self, frame: bytes, plan: Plan) -> None:
        self._awaited = (self._sent_syncs + 1, plan, frame[:1] == b"E")

    async def _hit(self, frame: bytes, armed: Armed) -> None:
        plan, extended = armed.plan, frame[:1] == b"E"
        if plan in (Plan.CUT_BEFORE, Plan.DELAY):
            self._note(plan, Step.CLIENT_RESET, extended)
            reset(self._client_writer)
        if plan is Plan.DELAY:
            await self._proxy.released_within(armed.delay_s)
        if plan in (Plan.DELAY, Plan.CUT_AFTER, Plan.HANG_AFTER):
            await self._deliver(frame, plan)
        if plan in (Plan.UNFORWARDED_HANG, Plan.HANG_AFTER):
            self._note(plan, Step.CLIENT_HANGING, extended)
        if plan in (Plan.UNFORWARDED_HANG, Plan.HANG_AFTER) or armed.half_open:
            await self._proxy.released_within(None)
        if plan not in (Plan.CUT_BEFORE, Plan.DELAY):
            self._note(plan, Step.CLIENT_RESET, extended)
            reset(self._client_writer)

    async def _deliver(self, frame: bytes, plan: Plan) -> None:
        """Hand the COMMIT to the server and wait until it has answered or is gone."""
        extended = frame[:1] == b"E"
        if not self._server_gone:
            self._answered.clear()
            self._expect(frame, plan)
            self._send(frame + SYNC if extended else frame)
            self._note(plan, Step.COMMIT_FORWARDED, extended)
            await self._answered.wait()
        if self._server_gone:
            self._note(plan, Step.SERVER_GONE, extended)


class Proxy:
    """A TCP proxy in front of the server of `target_dsn`; a context manager.

    All methods may be called from any thread. The plan is PASS until `arm`.
    """

    def __init__(self, target_dsn: str) -> None:
        self.target_dsn = target_dsn
        self.connections = itertools.count(1)
        self._armed = Armed()
        self._events: list[ProxyEvent] = []
        self._changed = threading.Condition()
        self._thread = LoopThread("postgres-proxy")
        self._released = asyncio.Event()
        self._port = self._thread.call(self._listen())

    async def _listen(self) -> int:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._listener.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._thread.hold()
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
                await _Link(self, reader, writer).run()
        finally:
            reset(writer)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Reset every connection on both sides and stop listening."""
        if not self._thread.loop.is_closed():
            self._thread.loop.call_soon_threadsafe(self._listener.close)
        self._thread.close()

    def dsn(self, dsn: str | None = None) -> str:
        """Return `dsn` (or the target's) led through the proxy."""
        through: dict[str, Any] = {"host": "127.0.0.1", "port": self._port, "sslmode": "disable"}
        return make_conninfo(dsn or self.target_dsn, gssencmode="disable", **through)

    def arm(
        self,
        plan: Plan,
        *,
        times: int | None = 1,
        match: Callable[[bytes], bool] | None = None,
        delay_s: float | None = None,
        half_open: bool = False,
        autocommit: bool = False,
    ) -> None:
        """Set the plan for the next `times` COMMITs (None: all) whose transaction matches.

        `match` gets the distinct SQL texts of the transaction, one per line, COMMIT included.
        DELAY waits `delay_s` seconds, or with None until `release`. `half_open` keeps the
        server's side open after CUT_BEFORE until `release`, as a vanished network would.
        `autocommit` counts a statement outside any transaction block as a COMMIT of itself.
        """
        with self._changed:
            self._armed = Armed(plan, times, match, delay_s, half_open, autocommit)
        self._thread.loop.call_soon_threadsafe(self._released.clear)

    @property
    def autocommit(self) -> bool:
        """Tell whether single statements count as commits under the plan armed now."""
        return self._armed.autocommit and self._armed.remaining != 0

    def take(self, transaction_sql: bytes) -> Armed:
        """Return what happens to a COMMIT and count it; PASS when the plan is used up."""
        with self._changed:
            armed = self._armed
            if armed.remaining == 0 or (armed.match and not armed.match(transaction_sql)):
                return Armed()
            if armed.remaining is not None:
                armed.remaining -= 1
            return armed

    def release(self) -> None:
        """End every hang with a reset, and deliver every delayed COMMIT now."""
        self._thread.loop.call_soon_threadsafe(self._released.set)

    async def released_within(self, seconds: float | None) -> None:
        """Wait for `release`, at most `seconds` (None: without limit)."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._released.wait(), seconds)

    def note(self, connection: int, plan: Plan, step: Step, *rest: Any) -> None:
        """Append an event and wake those who wait for it."""
        with self._changed:
            self._events.append(ProxyEvent(len(self._events) + 1, connection, plan, step, *rest))
            self._changed.notify_all()

    @property
    def events(self) -> tuple[ProxyEvent, ...]:
        """Everything the proxy did and saw about COMMITs, in order."""
        with self._changed:
            return tuple(self._events)

    def steps(self, plan: Plan) -> list[Step]:
        """Return the steps of one plan in order, over all connections."""
        return [event.step for event in self.events if event.plan is plan]

    def wait_for(self, step: Step, plan: Plan, *, count: int = 1) -> ProxyEvent:
        """Wait until a plan has taken a step `count` times; return that event.

        Raises TimeoutError after WAIT_S seconds: the fault has not happened.
        """
        deadline = time.monotonic() + WAIT_S
        with self._changed:
            while True:
                found = [e for e in self._events if e.step is step and e.plan is plan]
                if len(found) >= count:
                    return found[count - 1]
                if not self._changed.wait(deadline - time.monotonic()):
                    raise TimeoutError(f"{plan.value}: no {step.value!r} number {count}")
