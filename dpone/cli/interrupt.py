"""Ctrl-C: it ends a run where it stands, and the run still says what it did.

Promise: after SIGINT whatever is raised is known to be a part of the end, also what an engine makes
of the signal. Not promised: that an engine stops at once; a second SIGINT is like the first.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Whether SIGINT came; `held` puts off its exception, so that a line is printed whole.

    `told_it`: the answer of the command is printed, and nothing may be added to it.
    """

    def __init__(self) -> None:
        self.came = False
        self.told_it = False
        self._held = False

    def seen(self) -> bool:
        """Whether SIGINT came."""
        return self.came

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Remember the signal and raise, unless it is put off."""
        del number, frame
        self.came = True
        if not self._held:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Until the block ends the signal is only remembered; blocks may lie in one another."""
        earlier, self._held = self._held, True
        try:
            yield
        finally:
            self._held = earlier

    @contextmanager
    def told(self) -> Iterator[None]:
        """Raise `Interrupted` for whatever leaves the block once the signal came."""
        from dpone.contracts.errors_run import Interrupted

        try:
            yield
        except (Exception, KeyboardInterrupt) as error:
            if self.came or isinstance(error, KeyboardInterrupt):
                raise Interrupted from None
            raise


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Listen for SIGINT; where it is ignored, or in another thread, everything stays as it is."""
    made = Interrupts()
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield made
        return
    signal.signal(signal.SIGINT, made.handle)
    try:
        yield made
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
