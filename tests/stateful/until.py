"""Running a machine until what it must meet was met.

Real kills make the course of an example depend on the machine, so that a run of few examples may
miss a rule. More rounds follow then, a bounded number; what is still unseen fails the test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

ROUNDS_MAX = 4
STEPS = 30


def run_until(
    machine: type[RuleBasedStateMachine],
    seen: Counter[str],
    wanted: AbstractSet[str],
    examples: int,
    steps: int = STEPS,
) -> list[str]:
    """Run rounds of `examples`, each of `steps`; return what of `wanted` was never seen."""
    for number in range(ROUNDS_MAX):
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples, stateful_step_count=steps, derandomize=number == 0
            ),
        )
        if wanted <= set(seen):
            break
    return sorted(wanted - set(seen))
