"""What a call tells those who watch it from outside: how long, how it ended, how much of what.

Telemetry is no evidence: a process that is killed tells nothing, and nothing is decided by it.
"""

from __future__ import annotations

from typing import Any, Protocol

from dpone.ports.probe import Probe


class Telemetry(Protocol):
    """One call of the command line, watched. No method raises, whatever becomes of what it tells.

    Promise: neither names nor values of data, nor connections, are handed on; closed words are.
    """

    def watching(self, probe: Probe, /) -> Probe:
        """The probe, with a span around each effect."""

    def reported(self, report: Any, /) -> None:
        """Count what an answer says was done."""

    def ended(self, command: str, exit_code: int, error_code: str, /) -> None:
        """The call has come to its end; `error_code` is empty where nothing was refused."""
