"""Every target adapter agrees with the fence's model after every step, crashes included.

The model is asked first what a seal, a claim or a raised floor does; then the adapter does it and
both are compared, and so are the rows. Units of other processes are paused inside their change,
killed at named points or at some call inside the adapter: the model knows what may have become of
them. A client claims an absent key with epoch 1 only, as `models.target` has it.
"""

from __future__ import annotations

import pytest

from certification import places
from certification.places import TARGETS, Resources
from faultinject.zygote import Zygote
from models import fence as model
from tests.stateful.fence_pair import POINTS
from tests.stateful.target_machine import TargetMachine, measured
from tests.stateful.until import run_until

WANTED = {
    "commit rejected",
    "commit won",
    "contended",
    "killed while paused",
    "seal won",
    "shortened",
    "woken",
    "Already for committed",
    "Committed for committed",
    "Expired for expired",
    "Fenced for fenced",
    "Foreign for foreign",
    "Sealed for fenced",
}


@pytest.mark.kill
@pytest.mark.timeout(300)
@pytest.mark.parametrize("package", places.discovered("target"))
def test_the_adapter_agrees_with_the_model(
    resources: Resources, zygote: Zygote, package: str
) -> None:
    with TARGETS[package](resources) as place:
        place.prepare()
        seen = measured(place, zygote)

        class Machine(TargetMachine):
            def __init__(self) -> None:
                super().__init__(place, zygote, seen)

        unseen = run_until(Machine, seen, WANTED, 10)
    # What never happened was not tested.
    assert unseen == []
    assert set(POINTS) & set(seen)


@pytest.mark.kill
@pytest.mark.parametrize("act", ["seal", "commit"])
@pytest.mark.parametrize("package", places.discovered("target"))
def test_a_unit_killed_at_every_call_is_whole_or_not_there(
    resources: Resources, zygote: Zygote, package: str, act: str
) -> None:
    with TARGETS[package](resources) as place:
        place.prepare()
        seen = measured(place, zygote)
        calls = seen[f"calls of {act}"]
        machine = TargetMachine(place, zygote, seen)
        machine.opened()
        for kill_at in range(1, calls + 1):
            machine.turns["a"] = kill_at
            machine.fences["a"] = model.Target()
            unit = model.Unit(model.COMMITTING, 1, 1, 1)
            ended = machine.run(act, "a", unit, kill_at=kill_at)
            assert ended.killed, f"call {kill_at} of {calls} was armed and not hit"
            judge = machine.judge_commit if act == "commit" else machine.judge_seal
            judge("a", unit, ended, kill_at)
            machine.fences_agree()
            machine.rows_agree()
    assert seen[f"killed {act}, landed False"] > 0
    assert seen[f"killed {act}, landed True"] > 0
