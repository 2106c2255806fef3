"""What a target can answer about one operation.

The fence is the authority on whether a change happened. Absence proves nothing: only a seal does.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class Capability(StrEnum):
    """What a target can promise; probed where a product can be configured to lie."""

    TRANSACTIONAL = "TRANSACTIONAL"
    RECONCILABLE = "RECONCILABLE"
    NONE = "NONE"


class FenceKind(StrEnum):
    """What a fence row says."""

    SEALED = "sealed"
    COMMITTED = "committed"


class Receipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the fence holds of a committed operation; `result` is what the change reported.

    `shortened` is set when retention has dropped the result; rows that were shortened long ago
    have an empty intent digest as well.
    """

    operation_id: str
    epoch: int
    attempt_id: str
    intent_digest: str
    result: dict[str, Any] = {}
    shortened: bool = False


class Committed(msgspec.Struct, frozen=True):
    """The target holds the change."""

    receipt: Receipt


class Sealed(msgspec.Struct, frozen=True):
    """The key admits only the attempt named here."""

    epoch: int
    attempt_id: str


class Absent(msgspec.Struct, frozen=True):
    """There is no row; this proves nothing."""


class Unknown(msgspec.Struct, frozen=True):
    """Nothing is concluded. `held`: the target answers, but somebody holds what was asked for."""

    cause: str
    held: bool = False


class Expired(msgspec.Struct, frozen=True):
    """The operation lies below its route's floor."""

    floor: str


class Foreign(msgspec.Struct, frozen=True):
    """The target is another incarnation than the one expected."""

    incarnation: str


class Already(msgspec.Struct, frozen=True):
    """The key was committed before; nothing was changed now."""

    receipt: Receipt


class Fenced(msgspec.Struct, frozen=True):
    """The key admits another attempt; nothing was changed now."""

    epoch: int


class Rejected(msgspec.Struct, frozen=True):
    """Proof that this unit applied nothing.

    `transient`: worth another attempt at once. `held`: it never began, because somebody holds
    what it must claim.
    """

    cause: str
    transient: bool = False
    held: bool = False
    error: Exception | None = None


Verdict = Committed | Sealed | Absent | Unknown | Expired
SealVerdict = Committed | Sealed | Unknown | Expired | Foreign
CommitVerdict = Committed | Already | Fenced | Rejected | Unknown | Expired | Foreign


class Answer(msgspec.Struct, frozen=True):
    """What `ask` saw: the verdict, and the incarnation in which it saw it.

    `incarnation` is empty while the target has no fence tables.
    """

    verdict: Verdict
    incarnation: str = ""


class Floor(msgspec.Struct, frozen=True):
    """An operation's place in an ordered partition.

    `scope` names the ordered family (environment, route, source, target), `position` sorts in
    it by code point; operations without an ordered partition have no floor.
    """

    scope: str
    position: str


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a commit or a seal speaks for."""

    operation_id: str
    epoch: int
    attempt_id: str
    intent_digest: str
    incarnation: str
    floor: Floor | None = None
