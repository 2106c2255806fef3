"""Timing in pairs: two things in turn, so that a drifting machine hurts both alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured figure and the bound it must meet; `unit` is of `value`."""

    name: str
    value: float
    bound: float
    unit: str
    at_least: bool = False
    note: str = ""

    @property
    def met(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def line(self) -> str:
        sign = ">=" if self.at_least else "<="
        word = "met" if self.met else "NOT MET"
        tail = f"  ({self.note})" if self.note else ""
        return f"{word:<8}{self.name}: {self.value:.3f} {self.unit} {sign} {self.bound:g}{tail}"


def turns(
    ours: Callable[[int], object], theirs: Callable[[int], object], rounds: int
) -> tuple[list[float], list[float]]:
    """Seconds of each call, taken in turn."""
    mine, others = [], []
    for number in range(rounds):
        mine.append(_timed(ours, number))
        others.append(_timed(theirs, number))
    return mine, others


def _timed(call: Callable[[int], object], number: int) -> float:
    start = time.perf_counter()
    call(number)
    return time.perf_counter() - start


def p50_ms(samples: list[float]) -> float:
    return statistics.median(samples) * 1000
