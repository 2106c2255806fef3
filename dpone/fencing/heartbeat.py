"""Keeps leases alive while changes run: one thread for each journal, while there are any.

Promise: none for correctness. A lease is a courtesy to the next attempt; seals carry correctness.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from dpone.contracts.errors import DponeError
from dpone.ports.journal import Journal

HEARTBEAT_S = 15.0


class Heartbeat:
    """Renews the lease of every covered attempt each `every_s` seconds."""

    def __init__(self, journal: Journal, lease_s: float, every_s: float = HEARTBEAT_S) -> None:
        # Weak: who keeps one heartbeat for each journal must not keep the journal by it.
        self._journal = weakref.ref(journal)
        self.lease_s = lease_s
        self.every_s = every_s
        self._covered: dict[tuple[str, str], None] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def covering(self, operation_id: str, attempt_id: str) -> Iterator[None]:
        """While open, the attempt's lease is renewed."""
        key = (operation_id, attempt_id)
        with self._lock:
            self._covered[key] = None
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._beat, name="dpone-heartbeat", daemon=True
                )
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._covered.pop(key, None)

    def close(self) -> None:
        """Stop the thread."""
        self._wake.set()

    def _beat(self) -> None:
        """Renew until a beat finds nobody to renew for; the next change starts another thread."""
        while not self._wake.wait(self.every_s):
            with self._lock:
                keys = list(self._covered)
                if not keys:
                    self._thread = None
                    return
            journal = self._journal()
            if journal is None:
                return
            for operation_id, attempt_id in keys:
                try:
                    journal.renew(operation_id, attempt_id, self.lease_s)
                except DponeError:
                    # A lost renewal only lets another attempt try sooner; the seal decides.
                    continue
