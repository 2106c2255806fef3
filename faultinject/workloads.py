"""What workers run under a probe: fenced loads of a few rows, and a naive one as the control.

Every change also appends one row to `audit`, so that a second mutation shows whatever the
strategy. The SQL is plain enough for every target.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpone import wiring
from dpone.contracts.codec import plain, replaced
from dpone.contracts.effects import Effect
from dpone.contracts.errors import DponeError
from dpone.contracts.identity import Operation
from dpone.contracts.journal import Step
from dpone.fencing.obligations import Obligation
from dpone.ports.probe import Probe

STRATEGIES = ("append", "replace_partition", "merge", "full_refresh")
ROWS = 3
MEET_S = 30.0
SETUP = (
    "CREATE TABLE loaded(part VARCHAR(40), key INTEGER, value INTEGER)",
    "CREATE TABLE audit(operation VARCHAR(100))",
    "INSERT INTO loaded VALUES ('before', 1, 0), ('before', 100, 0)",
)


def change_of(
    strategy: str, part: str, rows: int = ROWS, more: Sequence[str] = ()
) -> Callable[[Any], Mapping[str, Any]]:
    """The change of a strategy: `rows` rows of partition `part`, one audit row, then `more`."""
    values = ", ".join(f"('{part}', {key}, {key * 10})" for key in range(1, rows + 1))
    deletes = {
        "append": "",
        "replace_partition": f"DELETE FROM loaded WHERE part = '{part}'",
        "merge": f"DELETE FROM loaded WHERE key BETWEEN 1 AND {rows}",
        "full_refresh": "DELETE FROM loaded",
    }[strategy]

    def change(transaction: Any) -> Mapping[str, Any]:
        if deletes:
            transaction.execute(deletes)
        transaction.execute(f"INSERT INTO loaded VALUES {values}")
        transaction.execute(f"INSERT INTO audit VALUES ('{part}')")
        for statement in more:
            transaction.execute(statement)
        return {"rows_written": rows}

    return change


def expected(strategy: str, part: str, rows: int = ROWS) -> list[tuple[str, int, int]]:
    """The content of `loaded` after exactly one load on top of the set-up, sorted."""
    before = [("before", 1, 0), ("before", 100, 0)]
    kept = {
        "append": before,
        "replace_partition": before,
        "merge": [row for row in before if row[1] > rows],
        "full_refresh": [],
    }[strategy]
    return sorted(kept + [(part, key, key * 10) for key in range(1, rows + 1)])


def operation_of(args: Mapping[str, Any]) -> Operation:
    """The operation that the arguments describe."""
    return Operation(
        route=args.get("route", "kill"),
        source="rows",
        target=args["target"].partition(":")[0],
        partition=args.get("part", "p"),
        revision=args.get("revision", 1),
        intent={"strategy": args["strategy"], "salt": args.get("salt", "")},
        position=args.get("position"),
    )


def fenced(args: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """One fenced load; the result says what the caller of `commit` would see.

    `statements` run last in the change, so that one of them may fail it. `meet` is a barrier of
    `meet_count` processes: a folder, and the point `meet_at` (else the start) where they wait.
    """
    if args.get("meet_at"):
        probe = MeetProbe(probe, args["meet_at"], Path(args["meet"]), args["meet_count"])
    journal = wiring.open_journal(args["journal"])
    target = wiring.open_target(args["target"], probe=probe, options=args.get("options", {}))
    by = wiring.committer(journal, target, probe=probe, lease_s=args.get("lease_s", 60.0))
    steps = [Obligation(name, _obligation(args)) for name in args.get("obligations", [])]
    try:
        if args.get("meet") and not args.get("meet_at"):
            _meet(Path(args["meet"]), args["meet_count"])
        outcome = by.commit(
            operation_of(args),
            change_of(
                args["strategy"],
                args.get("part", "p"),
                args.get("rows", ROWS),
                args.get("statements", ()),
            ),
            obligations=steps,
            take_over=args.get("take_over", False),
            replayable=args.get("replayable", True),
        )
    except DponeError as error:
        return {"exit_code": error.exit_code, "code": error.code, "said": str(error)}
    finally:
        target.close()
        journal.close()
    return {"exit_code": 0, "code": "", "outcome": plain(outcome)}


def naive(args: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """The control: the same change in a plain transaction, without journal or fence."""
    connection = connect(args["target"])
    with probe(Effect.FENCING_CHANGE):
        connection.execute("BEGIN")
        change_of(args["strategy"], args.get("part", "p"))(connection)
    with probe(Effect.FENCING_COMMIT):
        connection.execute("COMMIT")
    connection.close()
    return {"exit_code": 0, "code": ""}


def cli(args: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """A whole `dpone` command line, run in `cwd`, its output written to `out`."""
    from dpone.cli.main import main

    os.chdir(args["cwd"])
    os.environ.update(args.get("environ", {}))
    descriptor = os.open(args["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - the child's own, until it ends
    try:
        main(list(args["argv"]), probe=probe)
    except SystemExit as done:
        sys.stdout.flush()
        return {"exit_code": int(done.code or 0), "code": ""}


def connect(target: str) -> Any:
    """A plain connection in autocommit mode to a `kind:place` target."""
    kind, _, place = target.partition(":")
    if kind == "sqlite":
        import sqlite3

        return sqlite3.connect(place, isolation_level=None, timeout=10)
    if kind == "duckdb":
        import duckdb

        return duckdb.connect(place)
    import psycopg

    return psycopg.connect(place, autocommit=True)


def prepare(target: str) -> None:
    """Make the tables of a fresh target."""
    connection = connect(target)
    for statement in SETUP:
        connection.execute(statement)
    connection.close()


def content(target: str) -> list[tuple[str, int, int]]:
    """All loaded rows, sorted."""
    return sorted(_all(target, "SELECT part, key, value FROM loaded"))


def mutations(target: str, part: str = "p") -> int:
    """How often the change of `part` was committed."""
    return int(_all(target, f"SELECT count(*) FROM audit WHERE operation = '{part}'")[0][0])


def observed(target: str, part: str = "p") -> tuple[list[tuple[str, int, int]], int]:
    """`content` and `mutations` over one connection, for opening a file is what costs."""
    connection = connect(target)
    try:
        rows = connection.execute("SELECT part, key, value FROM loaded").fetchall()
        audit = f"SELECT count(*) FROM audit WHERE operation = '{part}'"
        count = connection.execute(audit).fetchall()[0][0]
    finally:
        connection.close()
    return sorted(tuple(row) for row in rows), int(count)


def _all(target: str, sql: str) -> list[Any]:
    connection = connect(target)
    try:
        return [tuple(row) for row in connection.execute(sql).fetchall()]
    finally:
        connection.close()


def _obligation(args: Mapping[str, Any]) -> Callable[[Any], None]:
    def run(outcome: Any) -> None:
        if path := args.get("obligation_file"):
            with Path(path).open("a") as file:
                file.write(outcome.operation_id + "\n")

    return run


class MeetProbe:
    """Passes every effect on to `inner`; before the first `at` it waits for its peers."""

    def __init__(self, inner: Probe, at: str, folder: Path, count: int) -> None:
        self.inner, self.at, self.folder, self.count = inner, at, folder, count
        self.met = False

    @contextmanager
    def __call__(self, effect: Effect, /) -> Iterator[None]:
        if effect.value == self.at and not self.met:
            self.met = True
            _meet(self.folder, self.count)
        with self.inner(effect):
            yield


def _meet(folder: Path, count: int) -> None:
    """A barrier of processes: everybody leaves a file and waits for the rest, with a bound."""
    (folder / str(os.getpid())).touch()
    waiting = threading.Event()
    until = time.monotonic() + MEET_S
    while len(list(folder.iterdir())) < count:
        if time.monotonic() > until:
            raise TimeoutError("a peer did not come to the barrier")
        waiting.wait(0.001)


def transitions(args: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """Win `steps` compare-and-sets on one row of a journal against whoever else does so."""
    journal = wiring.open_journal(args["journal"])
    _meet(Path(args["meet"]), args["meet_count"])
    wins = losses = 0
    step = Step(event="resumed", source="COMPLETE", target="COMPLETE")
    try:
        while wins < args["steps"]:
            before = journal.read(args["operation_id"])
            assert before is not None
            after = replaced(before, version=before.version + 1)
            won = journal.advance(before, after, [step])
            wins, losses = wins + won, losses + (not won)
    except DponeError as error:
        return {"exit_code": error.exit_code, "code": error.code, "said": str(error)}
    finally:
        journal.close()
    return {"exit_code": 0, "code": "", "wins": wins, "losses": losses}
