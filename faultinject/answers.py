"""Rounds in which the answer of a PostgreSQL server is lost, or the server itself.

A round loads once through a proxy that loses one answer of the target or of the journal, loads
once more, and is judged by target and journal: one mutation, COMPLETE after at most one retry,
and no attempt called failed whose change the target holds.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpone import wiring
from dpone.contracts.journal import State
from faultinject import workloads, worlds
from faultinject.matrix import FENCED, World, fresh
from faultinject.operators import entry_of
from faultinject.postgres import PostgresServer
from faultinject.proxy import Plan, Proxy, Step
from faultinject.rivals import code_of, how_of, loaded_once, stopped_at
from faultinject.workloads import operation_of
from faultinject.zygote import Zygote, wake

TARGET_COMMIT = b"INSERT INTO audit"
JOURNAL_WRITE = b"INSERT INTO dpone_journal_history"
WAIT_S = 30.0
COMMIT_WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Heard:
    """What a round heard: how the first and the second run ended, and the proxy's steps."""

    faults: tuple[str, ...]
    first: str
    second: str
    steps: tuple[Step, ...] = ()


def nth(number: int, text: bytes) -> Callable[[bytes], bool]:
    """Matches the `number`-th transaction (from 1) whose statements hold `text`."""
    left = [number]

    def match(sql: bytes) -> bool:
        left[0] -= text in sql
        return left[0] == 0 and text in sql

    return match


def lost_answer(
    zygote: Zygote,
    proxy: Proxy,
    world: World,
    plan: Plan,
    *,
    of: str = "target",
    number: int = 1,
    delay_s: float | None = None,
    half_open: bool = False,
    lock_wait_s: float = worlds.LOCK_WAIT_S,
    **extra: Any,
) -> Heard:
    """Lose one answer: of the target's COMMIT, or of the journal's `number`-th write.

    With DELAY and no `delay_s` the COMMIT is delivered after the second run.
    """
    with fresh(world, {"strategy": "append", **extra}) as made:
        args = dict(made)
        if args["target"].startswith("postgres:"):
            args["options"] = {"lock_wait_s": lock_wait_s, "commit_wait_s": COMMIT_WAIT_S}
        through = dict(args)
        for place in ("target", "journal") if of == "joint" else (of,):
            through[place] = "postgres:" + proxy.dsn(args[place].partition(":")[2])
        journal = of == "journal"
        proxy.arm(
            plan,
            match=nth(number, JOURNAL_WRITE if journal else TARGET_COMMIT),
            autocommit=journal,
            delay_s=delay_s,
            half_open=half_open,
        )
        seen = len(proxy.events)
        first = zygote.run(FENCED, through)
        second = zygote.run(FENCED, {**through, "take_over": True})
        proxy.release()
        faults = [] if Step.COMMIT_SEEN in _steps(proxy, seen, plan) else ["no answer was lost"]
        if plan is Plan.DELAY:
            _wait_for_delivery(proxy, seen)
        faults += [*loaded_once(args, "append"), *false_failures(args)]
        if second.exit_code != 0:
            faults.append(f"the second run answered {second.result}")
        last = zygote.run(FENCED, args)
        if how_of(last) != "replayed":
            faults.append(f"the third run answered {last.result}")
        steps = tuple(_steps(proxy, seen, plan))
        return Heard(tuple(faults), _said(first), _said(second), steps)


def _steps(proxy: Proxy, seen: int, plan: Plan) -> list[Step]:
    return [event.step for event in proxy.events[seen:] if event.plan is plan]


def _wait_for_delivery(proxy: Proxy, seen: int) -> None:
    """Until the delayed COMMIT was answered or found its session gone."""
    ends = {Step.ANSWER_RECEIVED, Step.SERVER_GONE}
    _await(lambda: bool(ends & set(_steps(proxy, seen, Plan.DELAY))), "the delayed delivery")


def _await(fact: Callable[[], bool], what: str) -> None:
    """Poll a fact; raise `TimeoutError` when it does not come true within its bound."""
    until = time.monotonic() + WAIT_S
    pause = threading.Event()
    while not fact():
        if time.monotonic() > until:
            raise TimeoutError(f"{what} did not happen within {WAIT_S:g} s")
        pause.wait(0.005)


def _said(run: Any) -> str:
    return f"{run.exit_code} {code_of(run) or how_of(run)}"


def false_failures(args: Mapping[str, Any]) -> list[str]:
    """Attempts that the journal called failed although the target holds their change."""
    journal = wiring.open_journal(args["journal"])
    target = wiring.open_target(args["target"])
    operation_id = operation_of(args).operation_id
    try:
        rows = journal.history(operation_id)
        receipt = getattr(target.ask(operation_id, None).verdict, "receipt", None)
    finally:
        journal.close()
        target.close()
    if receipt is None:
        return ["the fence shows no commit"]
    failed = [row.attempt for row in rows if row.target == State.FAILED_PRE_COMMIT]
    return [
        f"attempt {attempt} was called failed; the fence shows {receipt.epoch}"
        for attempt in failed
        if attempt >= receipt.epoch
    ]


# -- servers that die ------------------------------------------------------------------------------


def of_server(server: PostgresServer, *, target: bool, journal: bool) -> World:
    """A world whose target, journal or both are databases of a server that will be killed."""

    @contextmanager
    def world(folder: Path) -> Iterator[dict[str, Any]]:
        with ExitStack() as held:
            args = held.enter_context(worlds.sqlite(folder))
            if target:
                args["target"] = "postgres:" + held.enter_context(server.database())
                workloads.prepare(args["target"])
            if journal:
                args["journal"] = "postgres:" + held.enter_context(server.database())
            yield args

    return world


def killed_server(
    zygote: Zygote, server: PostgresServer, world: World, point: str, *, back_first: bool
) -> Heard:
    """SIGKILL the server while a worker stands at `point`; start it before or after the worker
    goes on; then load again."""
    with fresh(world, {"strategy": "append"}) as args:
        worker = stopped_at(zygote, args, point)
        server.kill()
        if back_first:
            server.start()
        wake(worker)
        first = zygote.wait(worker)
        if not back_first:
            server.start()
        second = zygote.run(FENCED, {**args, "take_over": True})
        faults = [*loaded_once(args, "append"), *false_failures(args)]
        if second.exit_code != 0:
            faults.append(f"the second run answered {second.result}")
        if first.signal == signal.SIGKILL or first.result is None:
            faults.append("the worker gave no answer")
        return Heard(tuple(faults), _said(first), _said(second))


NAP = (
    "CREATE SEQUENCE naps",
    "CREATE FUNCTION nap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " IF nextval('naps') = 1 THEN PERFORM pg_sleep(60); END IF; RETURN NULL; END $$",
    "CREATE CONSTRAINT TRIGGER nap AFTER INSERT ON audit DEFERRABLE INITIALLY DEFERRED"
    " FOR EACH ROW EXECUTE FUNCTION nap()",
)
NAPPING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


def killed_in_commit(zygote: Zygote, server: PostgresServer, world: World) -> Heard:
    """SIGKILL the server while it carries out a COMMIT; start it when the worker has answered."""
    with fresh(world, {"strategy": "append"}) as args:
        connection = workloads.connect(args["target"])
        for statement in NAP:
            connection.execute(statement)
        worker = zygote.start(FENCED, args)
        _await(lambda: connection.execute(NAPPING).fetchone()[0] == 1, "the COMMIT")
        server.kill()
        connection.close()
        first = zygote.wait(worker)
        server.start()
        # The sequence may have lost its step with the server; nobody is to sleep again.
        connection = workloads.connect(args["target"])
        connection.execute("SELECT setval('naps', 10)")
        connection.close()
        state = entry_of(args)
        faults = [] if state and state.state == State.COMMIT_UNKNOWN else [f"the row is {state}"]
        second = zygote.run(FENCED, args)
        faults += [*loaded_once(args, "append"), *false_failures(args)]
        return Heard(tuple(faults), _said(first), _said(second))
