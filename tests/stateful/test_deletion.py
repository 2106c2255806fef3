"""The real deletion does nothing that its model does not: the model is asked what could be now.

The machine keeps every state in which the model may be. A run of the real command, killed or not,
moves all of them on in every way that the model knows; those that do not show what the cache shows
are dropped. When none is left, the model or the code is wrong.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dpone.adapters.posix.cachefiles import PosixCache
from dpone.contracts.retention_receipt import Receipt, decode_receipt
from dpone.retention.request import Request
from faultinject.deletion_worlds import ENVIRONMENT, OTHER_REVIEW, REVIEW, World, world
from faultinject.zygote import Zygote
from models.retention import process, step
from models.retention_world import BOTH, LATER, NOTHING, REVIEWED, RetentionRules, others
from models.retention_world import World as Modelled
from tests.depth import FULL
from tests.stateful.deletion_child import APPLY
from tests.stateful.until import run_until

RULES = RetentionRules()
REVIEWS = (REVIEW, OTHER_REVIEW)
# More than any example spends.
MANY = 1000
WORDS = {
    "committed": "committed",
    "nothing": "nothing",
    "unfinished": "unfinished",
    "DPONE_DEPLOYMENT_CACHE_GC_OPERATION_ABORTED": "aborted",
    "DPONE_DEPLOYMENT_CACHE_GC_PLAN_CHANGED": "refused",
    "DPONE_DEPLOYMENT_CACHE_GC_CURRENT_CHANGED": "refused",
    "DPONE_DEPLOYMENT_CACHE_GC_INCOMPLETE_OPERATION": "refused",
}
EFFECTS = (
    *("intent", "begin", "history", "detach", "detach_activation", "phase", "scrub", "progress"),
    *("commit", "abort", "restore", "prune", "compact"),
)
POINTS = st.builds(
    lambda effect, side, number: f"retention.{effect}:{side}#{number}",
    st.sampled_from(EFFECTS),
    st.sampled_from(["before", "after"]),
    st.integers(1, 3),
)


# -- the model -------------------------------------------------------------------------------------


def shown_by(state: Modelled, *, is_rebuilt: bool = False) -> dict[str, Any]:
    """What an observer sees of a state of the model.

    There an activation belongs to one occurrence; in the cache to an id, whose record names both.
    So that of a candidate that was rebuilt is not compared.
    """
    return {
        "names": state.name,
        "activation": NOTHING if is_rebuilt else state.act,
        "trash": tuple(sorted({state.trash[op][i] for op in BOTH} - {NOTHING}) for i in BOTH),
        "receipts": tuple(
            (status, items if status else ("", "")) for status, items in state.receipts
        ),
    }


def runs(state: Modelled, op: int) -> tuple[set[Modelled], set[Modelled]]:
    """Every end of a run of an operation, and everything that its death may leave."""
    begun = {found for label, found in process(state, RULES) if label == f"start@{op}"}
    seen, open_ones = set(begun), list(begun)
    ended: set[Modelled] = set()
    dead: set[Modelled] = set()
    while open_ones:
        now = open_ones.pop()
        dead |= {found for label, found in step(now, RULES) if label.startswith("crash")}
        for _, found in process(now, RULES):
            if not found.at:
                ended.add(found)
            elif found not in seen:
                seen.add(found)
                open_ones.append(found)
    return ended, dead


def acted(state: Modelled, label: str, index: int) -> Iterator[Modelled]:
    """What somebody else makes of a state."""
    for said, found in others(state):
        if said.partition(":")[0] != label.partition(":")[0] or (":other" in said) != (
            ":other" in label
        ):
            continue
        if label == "rebuild" and found.name[1 - index] != state.name[1 - index]:
            continue
        if label == "promote" and not found.protected[index]:
            continue
        yield found


# -- the machine -----------------------------------------------------------------------------------


class DeletionMachine(RuleBasedStateMachine):
    """Two candidates, the first one active; two operations, the second reviewed later."""

    def __init__(self, root: Path, seen: Counter[str], zygote: Zygote) -> None:
        super().__init__()
        self.seen = seen
        self.zygote = zygote
        self.scratch = tempfile.TemporaryDirectory(dir=root)
        self.world: World = world(Path(self.scratch.name), 2, active=1)
        self.plans: list[str | None] = [self.world.plan().sha256, None]
        self.first = [self._identity(self.world.deployment(it)) for it in self.world.candidates]
        self.sealed = self._identity(self.world.activation(self.world.candidates[0]))
        self.copies = Path(self.scratch.name) / "copies"
        for index, deployment_id in enumerate(self.world.candidates):
            shutil.copytree(self.world.deployment(deployment_id), self.copies / str(index))
        self.beliefs = {Modelled(crashes=MANY, acts=MANY)}
        self.is_promoted = self.is_rebuilt = False

    def teardown(self) -> None:
        self.scratch.cleanup()

    def _build(self, index: int) -> None:
        """The same deployment anew under its name."""
        place = self.world.deployment(self.world.candidates[index])
        aside = shutil.copytree(self.copies / str(index), self.copies / "aside")
        if place.exists():
            shutil.rmtree(place)
        aside.rename(place)

    # -- what the cache shows

    def _identity(self, path: Path) -> str:
        if not path.exists():
            return ""
        with PosixCache(path.parent).folder("") as folder:
            look = folder.look(path.name)
        return look.identity if look is not None else ""

    def _which(self, path: Path, index: int) -> int:
        identity = self._identity(path)
        if not identity:
            return NOTHING
        return REVIEWED if identity == self.first[index] else LATER

    def shown(self) -> dict[str, Any]:
        """What an observer sees of the cache."""
        trash: list[list[int]] = [[], []]
        for leaf in self.world.trashed():
            for index, deployment_id in enumerate(self.world.candidates):
                is_its = leaf.startswith(deployment_id.replace(":", "-") + ".")
                if is_its and not leaf.endswith(".activation"):
                    trash[index].append(self._which(self.world.trash / leaf, index))
        places = [self.world.deployment(it) for it in self.world.candidates]
        return {
            "names": tuple(self._which(path, index) for index, path in enumerate(places)),
            "activation": NOTHING if self.is_rebuilt else self._activation(),
            "trash": tuple(sorted(set(it)) for it in trash),
            "receipts": tuple(self._receipt(op) for op in BOTH),
        }

    def _activation(self) -> int:
        identity = self._identity(self.world.activation(self.world.candidates[0]))
        if not identity:
            return NOTHING
        return REVIEWED if identity == self.sealed else self._promoted_one

    # An activation that a promotion made is that of what bore the name then.
    _promoted_one = NOTHING

    def _receipt(self, op: int) -> tuple[str, tuple[str, str]]:
        plan = self.plans[op]
        data = None if plan is None else self.world.raw(plan, REVIEWS[op])
        if data is None:
            return "", ("", "")
        receipt = decode_receipt(data)
        assert isinstance(receipt, Receipt)
        found = {item.deployment_id: item for item in receipt.items}
        items = []
        for deployment_id in self.world.candidates:
            item = found.get(deployment_id)
            is_kept = item is None or (item.action == "skipped" and item.reason in _KEPT)
            items.append("none" if is_kept or item is None else item.action)
        return receipt.status, (items[0], items[1])

    # -- moving on

    def _narrow(self, beliefs: set[Modelled], what: str) -> None:
        shown = self.shown()
        self.beliefs = {
            state._replace(crashes=MANY, acts=MANY)
            for state in beliefs
            if shown_by(state, is_rebuilt=self.is_rebuilt) == shown
        }
        if not self.beliefs:
            could = [str(shown_by(state, is_rebuilt=self.is_rebuilt)) for state in beliefs]
            known = "\n  ".join(sorted(set(could))[:12])
            raise AssertionError(f"{what}: the cache shows\n  {shown}\nthe model knows\n  {known}")

    def _run(self, op: int, point: str) -> None:
        plan = self.plans[op]
        assert plan is not None
        args = {
            "root": str(self.world.root),
            "ack": str(self.world.ack),
            "candidates": list(self.world.candidates),
            "plan": plan,
            "review": REVIEWS[op],
        }
        run = self.zygote.run(APPLY, args, point=point)
        ends = [runs(state, op) for state in self.beliefs]
        if run.killed:
            assert run.hit(point)
            self.seen["killed"] += 1
            self.seen[f"killed at {point.partition(':')[0]}"] += 1
            self._narrow({dead for _, found in ends for dead in found}, f"killed at {point}")
            return
        assert run.result is not None
        said = str(run.result["said"])
        assert said in WORDS, f"operation {op} said {run.result}"
        self.seen[f"{op}: {WORDS[said]}"] += 1
        ended = {it for found, _ in ends for it in found if it.said[op] == WORDS[said]}
        self._narrow(ended, f"operation {op} said {said}")

    def _is_reviewed(self) -> bool:
        return self.plans[1] is not None

    # -- rules

    @rule()
    def applied(self) -> None:
        self._run(0, "")

    @precondition(lambda self: not self._receipt(0)[0])
    @rule(effect=st.sampled_from(("detach", "phase", "scrub", "progress", "commit")))
    def begun_and_killed(self, effect: str) -> None:
        """Often enough something is half done for the rest to mean something."""
        self._run(0, f"retention.{effect}:after#1")

    @precondition(_is_reviewed)
    @rule()
    def the_second_applied(self) -> None:
        self._run(1, "")

    @rule(point=POINTS)
    def killed(self, point: str) -> None:
        self._run(0, point)

    @precondition(_is_reviewed)
    @rule(point=POINTS)
    def the_second_killed(self, point: str) -> None:
        self._run(1, point)

    def _is_to_be_reviewed(self) -> bool:
        """The second is planned later than the first has begun; the model knows no earlier plan."""
        return not self._is_reviewed() and bool(self._receipt(0)[0])

    @precondition(_is_to_be_reviewed)
    @rule()
    def reviewed(self) -> None:
        self.plans[1] = self.world.plan().sha256
        self.seen["reviewed"] += 1
        self._act(lambda state: acted(state, "reviewed", 0), "reviewed")

    @rule(index=st.sampled_from(BOTH))
    def rebuilt(self, index: int) -> None:
        deployment_id = self.world.candidates[index]
        if self._which(self.world.deployment(deployment_id), index) == LATER:
            return
        self._build(index)
        self.is_rebuilt = self.is_rebuilt or index == 0
        self.seen["rebuilt"] += 1
        self._act(lambda state: acted(state, "rebuild", index), f"rebuilt {index}")

    @precondition(lambda self: not self.is_promoted)
    @rule(index=st.sampled_from((*BOTH, None)))
    def promoted(self, index: int | None) -> None:
        fixture = "yet another"
        if index is not None:
            deployment_id = self.world.candidates[index]
            place = self.world.deployment(deployment_id)
            if not place.exists():
                return
            fixture = self.world.fixture(deployment_id)
            if index == 0:
                self._promoted_one = self._which(place, 0)
        self.world.activate(fixture)
        self.is_promoted = True
        self.seen["promoted"] += 1
        label = "promote:other" if index is None else "promote"
        self._act(lambda state: acted(state, label, index or 0), f"promoted {index}")

    def _act(self, act: Callable[[Modelled], Iterator[Modelled]], what: str) -> None:
        self._narrow({found for state in self.beliefs for found in act(state)}, what)

    @invariant()
    def the_operation_has_one_id(self) -> None:
        if self.plans[0] is not None and self.world.receipts.exists():
            wanted = {
                Request(ENVIRONMENT, plan, review, "").operation_id.replace(":", "-") + ".json"
                for plan, review in zip(self.plans, REVIEWS, strict=True)
                if plan is not None
            }
            found = {it.name for it in self.world.receipts.iterdir() if it.name[0] != "."}
            assert found <= wanted


_KEPT = ("current", "retention_evidence", "incomplete", "invalid")
WANTED = {
    *("killed", "rebuilt", "promoted", "0: committed"),
}


@pytest.mark.timeout(1800)
def test_the_deletion_does_what_its_model_does(tmp_path: Path, zygote: Zygote) -> None:
    seen: Counter[str] = Counter()

    class Machine(DeletionMachine):
        def __init__(self) -> None:
            super().__init__(tmp_path, seen, zygote)

    examples, steps = (400, 20) if FULL else (15, 8)
    unseen = run_until(Machine, seen, WANTED, examples, steps)
    # What never happened was not tested.
    assert unseen == []


def test_every_answer_is_one_of_the_model(tmp_path: Path, zygote: Zygote) -> None:
    """An abort, an operation that a later one closes, and a later one with nothing to do."""
    seen: Counter[str] = Counter()
    for effect in ("detach", "phase", "scrub"):
        machine = DeletionMachine(tmp_path, seen, zygote)
        machine.begun_and_killed(effect)
        machine.reviewed()
        machine.the_second_killed("retention.abort:before#1")
        machine.the_second_applied()
        machine.applied()
        machine.teardown()
        machine = DeletionMachine(tmp_path, seen, zygote)
        machine.begun_and_killed(effect)
        machine.promoted(1)
        machine.applied()
        machine.rebuilt(0)
        machine.reviewed()
        machine.the_second_applied()
        machine.teardown()
    assert {"0: aborted", "1: committed"} <= set(seen)


@pytest.mark.parametrize("effect", EFFECTS)
def test_killed_at_every_effect_it_shows_what_the_model_shows(
    tmp_path: Path, zygote: Zygote, effect: str
) -> None:
    seen: Counter[str] = Counter()
    for side in ("before", "after"):
        machine = DeletionMachine(tmp_path, seen, zygote)
        if effect in ("abort", "restore"):
            # These need something to be put back.
            machine.killed("retention.detach:after#1")
            machine.promoted(None)
        machine.killed(f"retention.{effect}:{side}#1")
        machine.applied()
        machine.applied()
        machine.teardown()
    assert seen[f"killed at retention.{effect}"] >= 2


def test_a_cache_that_shows_something_else_is_noticed(tmp_path: Path, zygote: Zygote) -> None:
    """The control: somebody removes a candidate, which nobody in the model does."""
    machine = DeletionMachine(tmp_path, Counter(), zygote)
    place = machine.world.deployment(machine.world.candidates[1])
    place.rename(place.with_name(".gone"))
    with pytest.raises(AssertionError, match="the cache shows"):
        machine.applied()
    machine.teardown()
