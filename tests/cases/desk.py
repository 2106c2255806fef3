"""What the cases share: a committer in this process, and short words for what a worker said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from dpone import wiring
from dpone.contracts.journal import HistoryRow
from dpone.fencing.commit import Committer
from dpone.ports.probe import Probe, quiet
from faultinject import workloads
from faultinject.matrix import FENCED
from faultinject.rivals import code_of, how_of
from faultinject.workloads import operation_of
from faultinject.zygote import Zygote

TARGETS = ("sqlite", "duckdb", "postgres")
every_target = pytest.mark.parametrize("world", TARGETS, indirect=True)
only_postgres = pytest.mark.parametrize("world", ["postgres"], indirect=True)

REJECTED = "DPONE_TARGET_COMMIT_REJECTED"
MISMATCH = "DPONE_TARGET_COMMIT_INTENT_MISMATCH"
BUSY = "DPONE_TARGET_COMMIT_BUSY"
APPEND = {"strategy": "append"}


@contextmanager
def committer(args: Mapping[str, Any], probe: Probe = quiet) -> Iterator[Committer]:
    """A committer of this process on the journal and target of `args`."""
    journal = wiring.open_journal(args["journal"])
    target = wiring.open_target(args["target"], probe=probe, options=args.get("options", {}))
    try:
        yield wiring.committer(journal, target, probe=probe)
    finally:
        target.close()
        journal.close()


def history(args: Mapping[str, Any]) -> list[HistoryRow]:
    """The history of the operation that `args` describe."""
    with committer(args) as by:
        return by.journal.history(operation_of(args).operation_id)


def states(args: Mapping[str, Any]) -> list[str]:
    """The states through which the operation went, without repetition."""
    seen: list[str] = []
    for row in history(args):
        if row.target not in seen[-1:]:
            seen.append(row.target)
    return seen


def said(zygote: Zygote, args: Mapping[str, Any], **more: Any) -> str:
    """What a load answers: its error code, else how it came to its outcome."""
    ended = zygote.run(FENCED, {**args, **more})
    return code_of(ended) or how_of(ended)


def sql(args: Mapping[str, Any], *statements: str) -> list[Any]:
    """Run statements on the target; the rows of the last one."""
    connection = workloads.connect(args["target"])
    try:
        done = [connection.execute(statement) for statement in statements]
        rows: list[Any] = done[-1].fetchall() if _has_rows(done[-1]) else []
        return rows
    finally:
        connection.close()


def _has_rows(cursor: Any) -> bool:
    return getattr(cursor, "description", None) is not None


def failing_trigger(args: Mapping[str, Any], code: str, *, deferred: bool, times: int = 1) -> None:
    """Make the first `times` inserts into `audit` fail with an SQLSTATE, at once or at COMMIT."""
    _trigger(args, f"RAISE EXCEPTION 'on purpose' USING ERRCODE = '{code}'", deferred, times)


def sleeping_trigger(args: Mapping[str, Any], seconds: float, *, times: int = 1) -> None:
    """Make the COMMIT of the first `times` inserts into `audit` take `seconds`."""
    _trigger(args, f"PERFORM pg_sleep({seconds})", True, times)


def _trigger(args: Mapping[str, Any], act: str, deferred: bool, times: int) -> None:
    """A constraint trigger that acts at first; a sequence counts, for it is never rolled back."""
    when = "DEFERRABLE INITIALLY DEFERRED" if deferred else "NOT DEFERRABLE"
    sql(
        args,
        "CREATE SEQUENCE attempts",
        "CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF nextval('attempts') <= {times} THEN {act}; END IF; RETURN NULL; END $$",
        f"CREATE CONSTRAINT TRIGGER act AFTER INSERT ON audit {when}"
        " FOR EACH ROW EXECUTE FUNCTION act()",
    )


def triggered(args: Mapping[str, Any]) -> int:
    """How often the trigger was called."""
    row = sql(args, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM attempts")[0]
    return int(row[0])
