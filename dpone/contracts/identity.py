"""Who an operation is: the same for every attempt, different for everything else.

`operation_id` depends on nothing that differs between attempts: no try number, clock, host, hash
seed, locale, dict order or positional index. Source: ADR 0022, decision 1.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dpone.contracts.canonical import canonical, digest
from dpone.contracts.fence import Floor

IDENTITY_SCHEMA = "dpone.operation.v1"
POSITION_DIGITS = 20
INTENT_SCHEMA = "dpone.intent.v1"


def floor_of(identity: dict[str, Any], position: str | None) -> Floor | None:
    """The place of an identity in its ordered family, or None without an order."""
    if position is None:
        return None
    return Floor(digest({**identity, "revision": 0, "partition": ""}), position)


def position_of(text: str) -> str:
    """A partition's value as a position: whole numbers are padded, so that text sorts like them.

    Dates in ISO form sort as they are.
    """
    return text.zfill(POSITION_DIGITS) if text.isdigit() else text


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `operation_id` is the canonical digest of; stored and published as it stands here."""

    schema: Literal["dpone.operation.v1"]
    environment: str
    route: str
    source: Any
    target: Any
    partition: Any
    revision: int


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """The thing wanted once.

    `environment`, `route`: names. `source`, `target`: declared names, relative paths or
    qualified tables, as text or JSON objects; never a DSN. `partition`: which part of the route.
    `revision`: 1, and one more for each intended reload. `intent`: what is to be written
    (strategy, columns, source fingerprint); a retry must bring the same. `position`: the place
    in an ordered partition, or None when the route declares no order.
    """

    route: str
    target: Any
    source: Any = ""
    partition: Any = ""
    environment: str = "default"
    revision: int = 1
    intent: Any = msgspec.field(default_factory=dict)
    position: str | None = None

    def identity(self) -> dict[str, Any]:
        """Return the plain values whose canonical digest is `operation_id`."""
        return {
            "schema": IDENTITY_SCHEMA,
            "environment": self.environment,
            "route": self.route,
            "source": self.source,
            "target": self.target,
            "partition": self.partition,
            "revision": self.revision,
        }

    @property
    def operation_id(self) -> str:
        """`sha256:` digest of the identity."""
        return digest(self.identity())

    @property
    def family(self) -> str:
        """Digest of the identity without the revision: what revisions have in common."""
        return digest({**self.identity(), "revision": 0})

    @property
    def intent_digest(self) -> str:
        """`sha256:` digest of what is to be written."""
        return digest({"schema": INTENT_SCHEMA, "intent": self.intent})

    @property
    def floor(self) -> Floor | None:
        """The operation's place in its ordered family, if it has one."""
        return floor_of(self.identity(), self.position)

    def identity_text(self) -> str:
        """Canonical JSON of the identity, as the journal stores it."""
        return canonical(self.identity()).decode("utf-8")

    def partition_text(self) -> str:
        """The partition as one short text for people."""
        if isinstance(self.partition, str):
            return self.partition
        return canonical(self.partition).decode("utf-8")
