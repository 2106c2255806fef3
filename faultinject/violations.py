"""A broken rule, with the way that led to it. Every judge of the file flows speaks in these."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Violated(Exception):
    """A rule does not hold. `trail` is how it came to that, one step each."""

    def __init__(self, rule: str, detail: str, trail: tuple[str, ...] = ()) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule
        self.detail = detail
        self.trail = trail

    def explain(self) -> str:
        """The rule, and one line for each step that leads to it."""
        steps = [f"{number:3d}. {step}" for number, step in enumerate(self.trail, 1)]
        return "\n".join([f"{self.rule}: {self.detail}", *steps])


class Trailed(Protocol):
    """A case of any flow: it knows how it came about."""

    @property
    def trail(self) -> tuple[str, ...]:
        """The steps so far."""


@contextmanager
def judged(case: Trailed) -> Iterator[None]:
    """Give a violation its trail."""
    try:
        yield
    except Violated as found:
        if not found.trail:
            found.trail = case.trail
        raise


def demand(fact: object, rule: str, detail: str) -> None:
    """A rule holds, or is violated."""
    if not fact:
        raise Violated(rule, detail)
