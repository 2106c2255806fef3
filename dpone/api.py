"""The Python interface: a caller's own write, fenced.

Source: the design of the fenced commit, ADR 0022. Everything here composes what `dpone.wiring`
joins; nothing here decides.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpone import wiring
from dpone.contracts.identity import Operation
from dpone.contracts.journal import JournalEntry
from dpone.contracts.outcome import Outcome
from dpone.fencing.obligations import Obligation
from dpone.fencing.settle import settle_alone
from dpone.ports.journal import Journal
from dpone.ports.target import Target

AsyncChange = Callable[[Any], Awaitable[Mapping[str, Any] | None]]
Change = Callable[[Any], Mapping[str, Any] | None]


def open_journal(spec: str = f"sqlite:{wiring.JOURNAL_DEFAULT}") -> Journal:
    """Open a journal: `sqlite:<path>` or `postgres:<connection string>`.

    Nothing is created before the first write. Raises `DponeError` for an unknown kind, a missing
    extra or a network file system.
    """
    return wiring.open_journal(spec)


def open_target(spec: str, *, root: Path | None = None) -> Target:
    """Open a target: `duckdb:<path>`, `sqlite:<path>` or `postgres:<connection string>`.

    Relative paths are taken from `root`, by default the working directory.
    """
    return wiring.open_target(spec, root=root)


def commit(
    operation: Operation,
    *,
    journal: Journal,
    target: Target,
    change: Change,
    obligations: Sequence[Obligation] = (),
    take_over: bool = False,
    replayable: bool = False,
) -> Outcome:
    """Make `target` hold `change` once, and return the finished operation.

    `change(tx)` writes through the transaction it is given and returns JSON facts for the receipt
    or None; it never commits. A retry of a finished operation calls nothing and returns the
    stored outcome with `how` REPLAYED. `replayable`: `change` may be called again in this process
    after the target aborted it for a passing reason. `take_over`: ignore a running lease.

    Raises `DponeError`; its `exit_code` says whether to retry (3), to decide (1) or to look (4).
    """
    return wiring.committer(journal, target).commit(
        operation, change, obligations=obligations, take_over=take_over, replayable=replayable
    )


async def acommit(
    operation: Operation,
    *,
    journal: Journal,
    target: Target,
    change: Change | AsyncChange,
    obligations: Sequence[Obligation] = (),
    take_over: bool = False,
    replayable: bool = False,
) -> Outcome:
    """As `commit`, without blocking the event loop; `change` may be a coroutine function.

    The commit runs in a worker thread and a coroutine `change` runs on the calling loop; its
    calls on the transaction are synchronous. A cancelled caller waits until the outcome is
    durable, so that a cancellation never leaves more doubt than there was.
    """
    loop = asyncio.get_running_loop()

    def bridged(transaction: Any) -> Mapping[str, Any] | None:
        result = change(transaction)
        if inspect.isawaitable(result):
            return asyncio.run_coroutine_threadsafe(_awaited(result), loop).result()
        return result

    task = asyncio.ensure_future(
        asyncio.to_thread(
            commit,
            operation,
            journal=journal,
            target=target,
            change=bridged,
            obligations=obligations,
            take_over=take_over,
            replayable=replayable,
        )
    )
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def _awaited(
    value: Awaitable[Mapping[str, Any] | None],
) -> Mapping[str, Any] | None:
    return await value


def reconcile(
    operation: Operation, *, journal: Journal, target: Target, take_over: bool = False
) -> JournalEntry:
    """Find out what became of an operation, without writing its change.

    Asks the fence, seals it against every earlier attempt where nothing else is proof, and
    returns the row: COMPLETE, TARGET_COMMITTED, COMMITTED_INCOMPLETE or FAILED_PRE_COMMIT.
    Raises `DponeError` when nothing can be concluded.
    """
    by = wiring.committer(journal, target)
    return settle_alone(by, operation.operation_id, operation.floor, take_over=take_over)
