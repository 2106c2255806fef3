"""The fence's decisions over plain integers, thin enough for a solver.

Attempts are numbers, and a row is (kind, epoch, attempt): what `fence_rules` decides of strings
and structs, without anything else. A test compares both; CrossHair confirms the kernel for all
integers. Kinds: 0 absent, 1 sealed, 2 committed, 3 claimed.
"""

from __future__ import annotations

ABSENT = 0
SEALED = 1
COMMITTED = 2
CLAIMED = 3

WRITE = 0
ALREADY = 1
FENCED = 2
BROKEN = 3


def claim(kind: int, row_epoch: int, row_attempt: int, epoch: int, attempt: int) -> int:
    """WRITE, ALREADY or FENCED.

    pre: 0 <= kind <= 3
    post: (__return__ == ALREADY) == (kind == COMMITTED)
    post: __return__ != WRITE or kind in (ABSENT, SEALED)
    post: kind != ABSENT or (__return__ == WRITE) == (epoch == 1)
    post: kind != SEALED or (__return__ == WRITE) == (row_epoch == epoch and row_attempt == attempt)
    """
    if kind == ABSENT:
        return WRITE if epoch == 1 else FENCED
    if kind == COMMITTED:
        return ALREADY
    if kind == SEALED and row_epoch == epoch and row_attempt == attempt:
        return WRITE
    return FENCED


def seal(kind: int, row_epoch: int, row_attempt: int, epoch: int, attempt: int) -> int:
    """WRITE, ALREADY (committed), FENCED (the row's seal stands, maybe one's own) or BROKEN.

    pre: 0 <= kind <= 3
    post: (__return__ == ALREADY) == (kind == COMMITTED)
    post: (__return__ == BROKEN) == (kind == CLAIMED)
    post: __return__ != WRITE or kind == ABSENT or (kind == SEALED and row_epoch < epoch)
    post: kind != SEALED or (__return__ == WRITE) == (row_epoch < epoch)
    """
    if kind == ABSENT:
        return WRITE
    if kind == COMMITTED:
        return ALREADY
    if kind == CLAIMED:
        return BROKEN
    return WRITE if row_epoch < epoch else FENCED


def one_attempt_is_admitted(row_epoch: int, row_attempt: int, epoch: int, attempt: int) -> bool:
    """After a won seal, only the attempt that it names is admitted.

    pre: row_epoch >= 1 and epoch >= 1
    post: not __return__ or (epoch, attempt) == (row_epoch, row_attempt)
    """
    return claim(SEALED, row_epoch, row_attempt, epoch, attempt) == WRITE


def epoch_after(kind: int, row_epoch: int, row_attempt: int, epoch: int, attempt: int) -> int:
    """The epoch in the row after a seal: it never sinks.

    pre: 0 <= kind <= 3 and row_epoch >= 0 and epoch >= 1
    post: kind == ABSENT or __return__ >= row_epoch
    post: kind != COMMITTED or __return__ == row_epoch
    """
    won = seal(kind, row_epoch, row_attempt, epoch, attempt) == WRITE
    return epoch if won else row_epoch
