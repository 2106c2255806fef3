"""A target without a fence: it can be written, and nobody can ask it what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from dpone.contracts.fence import Capability


class GuardedTarget(Protocol):
    """What the guard needs of a target with capability NONE."""

    def close(self) -> None:
        """Release what is open; idempotent."""

    @property
    def name(self) -> str:
        """The kind of target, for people."""

    @property
    def capability(self) -> Capability:
        """NONE."""

    @property
    def touched(self) -> bool:
        """Whether the present mutation may have changed the target."""

    def mutate(self, change: Callable[[Any], Mapping[str, Any] | None]) -> Mapping[str, Any]:
        """Run the change; whatever it raises may come after some, all or none of its rows."""
