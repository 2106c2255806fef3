"""The probe: where production code names its effects.

The default does nothing. A harness passes another one in; nothing in production can switch it on.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from dpone.contracts.effects import Effect


class Probe(Protocol):
    """Called around every effect; entering is the point before, a normal exit the point after."""

    def __call__(self, effect: Effect, /) -> AbstractContextManager[None]:
        """Return the context in which the effect happens."""


_QUIET = nullcontext()


def quiet(effect: Effect, /) -> AbstractContextManager[None]:
    """The default probe: no point is observed."""
    return _QUIET
