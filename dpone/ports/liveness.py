"""Who we are as a process, and whether another process is proven dead."""

from __future__ import annotations

from typing import Protocol

from dpone.contracts.journal import Owner


class Liveness(Protocol):
    """Process identity on this machine."""

    def me(self) -> Owner | None:
        """Return this process's identity, or None where it cannot be told."""

    def proven_dead(self, owner: Owner) -> bool:
        """True only when the owner ran on this very boot and namespace and is gone."""
