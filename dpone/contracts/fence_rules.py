"""The fence's decisions as pure functions of one row: what a claim and a seal may do.

Every transactional target reads the row inside its atomic unit, asks one of these, and writes
what it is told. Source: ADR 0022, decision 3.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from dpone.contracts.codec import encode, parse
from dpone.contracts.errors_fencing import ChangeNotRun
from dpone.contracts.fence import (
    Absent,
    Already,
    Committed,
    Fenced,
    FenceKind,
    Receipt,
    Sealed,
    Unit,
    Unknown,
)


class FenceRow(NamedTuple):
    """A row of `dpone_fence`.

    A visible row of kind CLAIMED means that a change ended its own transaction: no answer.
    """

    kind: str
    epoch: int
    attempt_id: str
    receipt: Receipt | None


RESULT_BYTES_MAX = 1024 * 1024
"""How large the result of a change may be as JSON; a journal row holds it a second time."""

EPOCH_FINAL = 2**31 - 1
"""The epoch of a final seal: with the void attempt id it admits nobody, ever."""


class Write(Enum):
    """What the caller is to write for its unit."""

    INSERT = auto()
    UPDATE = auto()


CLAIMED = "claimed"

BROKEN = Unknown("a change ended the transaction of the fence; the rows may be partial", held=True)
"""What a visible claim says to everybody: nobody wins, until an operator answers."""


def claim(row: FenceRow | None, unit: Unit) -> Write | Already | Fenced:
    """Whether `unit` may commit its change under its key.

    The first epoch claims an absent key; a later one must find its own seal, so that a target
    which lost the seal admits nobody.
    """
    if row is None:
        return Write.INSERT if unit.epoch == 1 else Fenced(0)
    if row.kind == FenceKind.COMMITTED and row.receipt is not None:
        return Already(row.receipt)
    if row.kind == FenceKind.SEALED and (row.epoch, row.attempt_id) == _owner(unit):
        return Write.UPDATE
    return Fenced(row.epoch)


def seal(row: FenceRow | None, unit: Unit) -> Write | Committed | Sealed | Unknown:
    """Whether `unit` may seal its key: never over a commit, an equal or a higher seal.

    A visible claim is nobody's to seal, the claiming attempt's included.
    """
    if row is None:
        return Write.INSERT
    if row.kind == FenceKind.COMMITTED and row.receipt is not None:
        return Committed(row.receipt)
    if row.kind != FenceKind.SEALED:
        return BROKEN
    if row.epoch < unit.epoch:
        return Write.UPDATE
    return Sealed(row.epoch, row.attempt_id)


def _owner(unit: Unit) -> tuple[int, str]:
    return unit.epoch, unit.attempt_id


def row_of(
    operation_id: str, kind: str, epoch: int, attempt_id: str, intent_digest: str, result: str
) -> FenceRow:
    """The row as the rules see it; `result` is JSON text, empty once retention shortened it."""
    receipt = None
    if kind == FenceKind.COMMITTED:
        receipt = Receipt(
            operation_id=operation_id,
            epoch=epoch,
            attempt_id=attempt_id,
            intent_digest=intent_digest,
            result=parse(result) if result else {},
            shortened=not result,
        )
    return FenceRow(kind, epoch, attempt_id, receipt)


def verdict_of(row: FenceRow | None) -> Committed | Sealed | Absent | Unknown:
    """What a row says to whoever asks."""
    if row is None:
        return Absent()
    if row.receipt is not None:
        return Committed(row.receipt)
    if row.kind == FenceKind.SEALED:
        return Sealed(row.epoch, row.attempt_id)
    return BROKEN


def receipt_of(unit: Unit, result: object) -> Receipt:
    """The receipt of a change that `unit` is about to commit.

    A `result` that is no mapping, such as the cursor of a last statement, counts as no facts.

    Raises `ChangeNotRun` for a coroutine or generator, `ContractInvalid` for a result that could be
    stored but never read again, and whatever the encoder raises for one that is no JSON: all
    before anything is committed.
    """
    _check_ran(result)
    facts = dict(result) if isinstance(result, Mapping) else {}
    return Receipt(
        operation_id=unit.operation_id,
        epoch=unit.epoch,
        attempt_id=unit.attempt_id,
        intent_digest=unit.intent_digest,
        result=parse(encode(facts), bytes_max=RESULT_BYTES_MAX),
    )


def _check_ran(result: object) -> None:
    """Refuse what a function returns that has not run yet; a coroutine is closed."""
    if inspect.isgenerator(result) or inspect.iscoroutine(result):
        result.close()
        raise ChangeNotRun(kind=f"a {type(result).__name__}")
    if inspect.isasyncgen(result) or inspect.isawaitable(result):
        raise ChangeNotRun(kind=f"an awaitable or generator of type {type(result).__name__}")
