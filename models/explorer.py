"""One shape for every model, and the breadth-first search that judges it.

Promises: every state within the bounds of a model is visited once, the first violation is
reported with a shortest trace, and a search that ran out of budget is INCONCLUSIVE.
Does not promise anything about behaviour outside the bounds that a model states.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


class Verdict(StrEnum):
    """The three answers of a search; only one of them is a pass."""

    PASSED = "PASSED"
    VIOLATED = "VIOLATED"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Model(Generic[S]):
    """Initial states, a step relation, and what must hold always and at least once.

    `step` yields `(label, successor)`. A label may end in `@actor`; coverage counts what
    stands before the `@`. `canonical` maps a state to the representative of its symmetry
    class and has to be a bisimulation. A `sometimes` property that no reachable state shows
    is a failure: the model would then prove less than it seems to.
    `sometimes_labels` names steps that have to be taken at least once.
    """

    name: str
    initial: tuple[S, ...]
    step: Callable[[S], Iterable[tuple[str, S]]]
    invariants: Mapping[str, Callable[[S], bool]]
    sometimes: Mapping[str, Callable[[S], bool]] = field(default_factory=dict)
    sometimes_labels: frozenset[str] = frozenset()
    canonical: Callable[[S], S] | None = None


@dataclass(frozen=True)
class Report(Generic[S]):
    """What a search saw. `trace` is a shortest path of labels to the violated invariant."""

    model: str
    verdict: Verdict
    states: int
    transitions: int
    depth: int
    labels: frozenset[str]
    violated: str | None
    trace: tuple[str, ...]
    unreached: tuple[str, ...]
    final: S | None

    def explain(self) -> str:
        """Return the verdict and, one line each, the steps that lead to it."""
        head = f"{self.model}: {self.verdict} {self.violated or ''}".rstrip()
        missing = [f"never reached: {name}" for name in self.unreached]
        steps = [f"{number:3d}. {label}" for number, label in enumerate(self.trace, 1)]
        return "\n".join([head, *missing, *steps])


class _Search(Generic[S]):
    """The growing tree of visited states, with the parent of each one for the trace."""

    def __init__(self, model: Model[S]) -> None:
        self.model = model
        self.index: dict[S, int] = {}
        self.parents: list[int] = []
        self.causes: list[str] = []
        self.pending = dict(model.sometimes)
        self.invariants = tuple(model.invariants.items())
        self.transitions = 0
        self.depth = 0
        self.labels: set[str] = set()
        self.violated: tuple[str, int] | None = None
        self.final: S | None = None

    def add(self, state: S, parent: int, cause: str) -> bool:
        """Record a new state and judge it; return False when an invariant fails."""
        number = len(self.parents)
        self.index[state] = number
        self.parents.append(parent)
        self.causes.append(cause)
        for name in [name for name, holds in self.pending.items() if holds(state)]:
            del self.pending[name]
        for name, holds in self.invariants:
            if not holds(state):
                self.violated = (name, number)
                self.final = state
                return False
        return True

    def expand(self, layer: list[S], states_max: int) -> list[S] | None:
        """Return the next layer, or None when a violation or the budget ends the search."""
        canonical, step, index = self.model.canonical, self.model.step, self.index
        following: list[S] = []
        for state in layer:
            parent = index[state]
            for label, raw in step(state):
                self.transitions += 1
                self.labels.add(label)
                successor = raw if canonical is None else canonical(raw)
                if successor in index:
                    continue
                if not self.add(successor, parent, label) or len(index) >= states_max:
                    return None
                following.append(successor)
        return following

    def trace_to(self, number: int) -> tuple[str, ...]:
        """Return the labels on the tree path from an initial state."""
        labels: list[str] = []
        while self.parents[number] >= 0:
            labels.append(self.causes[number])
            number = self.parents[number]
        return tuple(reversed(labels))

    def report(self, *, exhausted: bool) -> Report[S]:
        """Turn what was seen into a verdict; an unreached `sometimes` is a violation."""
        labels = frozenset(label.partition("@")[0] for label in self.labels)
        unreached = (*self.pending, *sorted(self.model.sometimes_labels - labels))
        violated: str | None = None
        trace: tuple[str, ...] = ()
        if self.violated is not None:
            violated, trace = self.violated[0], self.trace_to(self.violated[1])
            verdict = Verdict.VIOLATED
        elif not exhausted:
            verdict = Verdict.INCONCLUSIVE
        else:
            verdict = Verdict.VIOLATED if unreached else Verdict.PASSED
        return Report(
            model=self.model.name,
            verdict=verdict,
            states=len(self.index),
            transitions=self.transitions,
            depth=self.depth,
            labels=labels,
            violated=violated,
            trace=trace,
            unreached=unreached,
            final=self.final,
        )


def explore(model: Model[S], *, states_max: int = 5_000_000) -> Report[S]:
    """Visit every reachable state breadth-first, at most `states_max` of them."""
    search = _Search(model)
    layer: list[S] = []
    for raw in model.initial:
        state = raw if model.canonical is None else model.canonical(raw)
        if state not in search.index:
            layer.append(state)
            if not search.add(state, -1, ""):
                return search.report(exhausted=False)
    while layer:
        following = search.expand(layer, states_max)
        if following is None:
            search.depth += 1
            return search.report(exhausted=False)
        search.depth += bool(following)
        layer = following
    return search.report(exhausted=True)


def allows(model: Model[S], labels: Sequence[str]) -> bool:
    """Say whether some run of the model takes exactly these labels, in this order.

    A label without `@actor` matches the same step by any actor. The set of states that fit
    is carried along, so an unknown answer in a recorded run may stay unknown for a while.
    """
    canonical = model.canonical or (lambda state: state)
    possible = {canonical(state) for state in model.initial}
    for wanted in labels:
        exact = "@" in wanted
        possible = {
            canonical(successor)
            for state in possible
            for label, successor in model.step(state)
            if (label if exact else label.partition("@")[0]) == wanted
        }
        if not possible:
            return False
    return True
