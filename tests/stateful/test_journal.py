"""Every journal adapter agrees with the model after every step, crashes included.

The machine holds rows that it read earlier, as workers do, and writes from them later: the model
says which of these writes win. Crashes kill a forked child at a named point or at the n-th call
inside the adapter; then the row is the one before or the one after, and nothing in between.
"""

from __future__ import annotations

from collections import Counter

import pytest

from certification import places
from certification.places import JOURNALS, Resources
from faultinject.zygote import Zygote
from models import journal as model
from tests.stateful.journal_machine import CALLS_MAX, JournalMachine
from tests.stateful.until import run_until

WANTED = {
    *(f"{act} {wins}" for act in ("create", "advance", "renew") for wins in (True, False)),
    "killed, landed True",
    "killed, landed False",
    "fencing.intent:before#1",
    "fencing.intent:after#1",
}


@pytest.mark.kill
@pytest.mark.parametrize("package", places.discovered("journal"))
def test_the_adapter_agrees_with_the_model(
    resources: Resources, zygote: Zygote, package: str
) -> None:
    seen: Counter[str] = Counter()
    with JOURNALS[package](resources) as place:

        class Machine(JournalMachine):
            def __init__(self) -> None:
                super().__init__(place, zygote, seen)

        unseen = run_until(Machine, seen, WANTED, 20)
    # What never happened was not tested.
    assert unseen == []


@pytest.mark.kill
@pytest.mark.parametrize("package", places.discovered("journal"))
def test_a_write_killed_at_every_call_is_whole_or_not_there(
    resources: Resources, zygote: Zygote, package: str
) -> None:
    landed: Counter[bool] = Counter()
    with JOURNALS[package](resources) as place:
        machine = JournalMachine(place, zygote, Counter())
        machine.opened()
        machine.create("a", 0)
        for kill_at in range(1, CALLS_MAX):
            held = machine.current("a")
            real, row, steps = machine.following(held, [model.NEW_ATTEMPT], True, False)
            ended = machine.run(real, steps, held.real, kill_at=kill_at)
            machine.judge("a", ended, kill_at, True, (real, row, steps))
            machine.rows_agree()
            machine.histories_agree()
            if not ended.killed:
                break
            landed[machine.rows["a"] == row] += 1
        else:
            raise AssertionError(f"more than {CALLS_MAX} calls")
    assert landed[False] > 0
    assert landed[True] > 0


@pytest.mark.kill
@pytest.mark.parametrize("package", places.discovered("journal"))
def test_a_repeated_write_that_is_killed_changes_nothing(
    resources: Resources, zygote: Zygote, package: str
) -> None:
    with JOURNALS[package](resources) as place:
        machine = JournalMachine(place, zygote, Counter())
        machine.opened()
        machine.create("a", 0)
        held = machine.current("a")
        machine.advance(held, [model.START], False, False, True, 0)
        for share in (0, 50, 99):
            machine.killed_inside_an_advance(held, share, False, True)
            machine.rows_agree()
            machine.histories_agree()
    assert machine.seen["advance True"] == 1
    assert machine.seen["killed, landed True"] == 0
    assert machine.seen["killed, landed False"] > 0
