"""A suite is a list of named checks; a check is a function that states a clause and asserts it.

Nothing here knows pytest. A check passes, fails (an assertion did not hold) or is an error
(anything else was raised); neither of the last two is ever counted as passed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar

P = TypeVar("P")
T = TypeVar("T")

PASSED = "passed"
FAILED = "failed"
ERROR = "error"
DETAIL_CHARS_MAX = 500
RACE_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Check:
    """One clause, ready to be run; `clause` is the sentence that it proves."""

    suite: str
    name: str
    clause: str
    run: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Result:
    """What a check found; `detail` is empty when it passed."""

    suite: str
    name: str
    clause: str
    outcome: str
    detail: str = ""

    def record(self) -> dict[str, Any]:
        """The result as plain JSON values."""
        return asdict(self)


@dataclass
class Suite(Generic[P]):
    """Collects the checks of one port; each is given a fresh place of its own."""

    name: str
    functions: dict[str, Callable[[P], None]] = field(default_factory=dict)

    def __call__(self, function: Callable[[P], None]) -> Callable[[P], None]:
        """Add a check: a decorator."""
        name = function.__name__
        if name in self.functions or not function.__doc__:
            raise ValueError(f"{name} needs a name of its own and a sentence")
        self.functions[name] = function
        return function

    def checks(self, make: Callable[[], AbstractContextManager[P]]) -> list[Check]:
        """Every check, bound to fresh places made by `make`."""
        return [
            Check(
                self.name, name, " ".join((function.__doc__ or "").split()), _bound(function, make)
            )
            for name, function in self.functions.items()
        ]


def _bound(
    function: Callable[[P], None], make: Callable[[], AbstractContextManager[P]]
) -> Callable[[], None]:
    def run() -> None:
        with make() as place:
            function(place)

    return run


def run(checks: Iterable[Check]) -> list[Result]:
    """Run checks one after the other."""
    return [_result(check) for check in checks]


def _result(check: Check) -> Result:
    outcome, detail = PASSED, ""
    try:
        check.run()
    except AssertionError as error:
        outcome, detail = FAILED, str(error)
    except Exception as error:  # noqa: BLE001 - whatever an adapter raises is what we report
        outcome, detail = ERROR, f"{type(error).__name__}: {error}"
    return Result(check.suite, check.name, check.clause, outcome, detail[:DETAIL_CHARS_MAX])


def equal(expected: object, actual: object, what: str = "") -> None:
    """Assert equality with both sides in the message."""
    if expected != actual:
        raise AssertionError(f"{what or 'value'}: expected {expected!r}, found {actual!r}")


def holds(fact: bool, what: str) -> None:
    """Assert a fact that the sentence names."""
    if not fact:
        raise AssertionError(what)


def race(actors: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """Run every actor in a thread of its own, all let go at once; their answers in order."""
    answers: list[T | Exception] = [RuntimeError("did not finish")] * len(actors)
    gate = threading.Barrier(len(actors))

    def act(number: int) -> None:
        gate.wait(RACE_WAIT_S)
        try:
            answers[number] = actors[number]()
        except Exception as error:  # noqa: BLE001 - an answer like any other
            answers[number] = error

    threads = [threading.Thread(target=act, args=(number,)) for number in range(len(actors))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(RACE_WAIT_S)
    return answers


def until(fact: Callable[[], bool], what: str, wait_s: float = 10.0) -> None:
    """Ask again until `fact` holds; the store's own clock decides when."""
    end = time.monotonic() + wait_s
    while not fact():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {wait_s:g} s")
