"""What may happen to a target: each rule asks the model first, then the adapter."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    precondition,
    rule,
)

from certification.places import TargetPlace
from dpone.contracts.codec import plain
from dpone.contracts.fence import (
    Already,
    Committed,
    Fenced,
    Floor,
    Rejected,
    Sealed,
    Unknown,
)
from dpone.contracts.fence_rules import EPOCH_FINAL
from dpone.contracts.journal import VOID_ATTEMPT
from faultinject.zygote import Ended, Zygote, wake
from models import fence as model
from tests.stateful import crash
from tests.stateful.fence_pair import (
    CALLS_MAX,
    KEYS,
    LANDED,
    POINTS,
    RULES,
    SHORT_WAIT_S,
    WORKLOAD,
    FencePair,
    attempt_name,
)

EPOCHS = st.integers(1, 3)
ATTEMPTS = st.integers(1, 3)
KEY = st.sampled_from(KEYS)
BY = st.integers(0, 1)


class Mistake(Exception):
    """What a change of the machine raises."""


class TargetMachine(FencePair):
    """Two keys of one target: seals, commits, restores, retention, kills and pauses."""

    # -- rules ---

    @precondition(lambda self: self.held is None)
    @rule(key=KEY, epoch=EPOCHS, attempt=ATTEMPTS, stale=st.integers(0, 3), by=BY)
    def seal(self, key: str, epoch: int, attempt: int, stale: int, by: int) -> None:
        lived = max(1, self.newest() - (stale == 0))
        expected, after = model.seal(self.fences[key], epoch, attempt, lived, RULES)
        answer = self.objects[by].seal(self.unit(key, epoch, attempt, lived))
        if expected == model.WON:
            self.seen["seal won"] += 1
            assert answer == Sealed(epoch, attempt_name(attempt))
        else:
            assert not isinstance(answer, Already | Fenced)
            self.shows(key, answer, expected)
        self.fences[key] = after

    @precondition(lambda self: self.held is None)
    @rule(key=KEY, by=BY, chance=st.integers(0, 3))
    def close_for_good(self, key: str, by: int, chance: int) -> None:
        if chance:
            return
        unit = self.unit(key, EPOCH_FINAL, 0, self.newest())
        expected, after = model.close(self.fences[key], self.newest(), RULES)
        answer = self.objects[by].seal(unit)
        if expected == model.WON:
            assert answer == Sealed(EPOCH_FINAL, VOID_ATTEMPT)
        else:
            self.shows(key, answer, expected)
        self.fences[key] = after

    @precondition(lambda self: self.held is None)
    @rule(
        key=KEY,
        epoch=EPOCHS,
        attempt=ATTEMPTS,
        stranger=st.booleans(),
        stale=st.integers(0, 4),
        fails=st.booleans(),
        by=BY,
    )
    def commit(
        self,
        key: str,
        epoch: int,
        attempt: int,
        stranger: bool,
        stale: int,
        fails: bool,
        by: int,
    ) -> None:
        epoch, attempt = self.admitted(key, epoch, attempt, stranger)
        lived = max(1, self.newest() - (stale == 0))
        flying = model.Unit(model.COMMITTING, epoch, attempt, lived)
        expected = self.admission(key, flying)
        called: list[bool] = []

        def change(transaction: Any) -> dict[str, str]:
            called.append(True)
            row = self.row_of(key, epoch, attempt)
            self.place.write(transaction, row)
            if fails:
                raise Mistake(row)
            return {"row": row}

        answer = self.objects[by].commit(self.unit(key, epoch, attempt, lived), change)
        assert bool(called) == (expected == model.WON)
        if expected != model.WON:
            assert not isinstance(answer, Committed | Sealed)
            self.shows(key, answer, expected)
        elif fails:
            self.seen["commit rejected"] += 1
            assert isinstance(answer, Rejected)
        else:
            self.seen["commit won"] += 1
            assert isinstance(answer, Committed)
            self.land(key, flying)
            self.receipt_agrees(key, answer)

    @precondition(lambda self: self.held is None)
    @rule(key=KEY)
    def move_on(self, key: str) -> None:
        """Turn to another operation when this one is decided."""
        fence = self.fences[key]
        if fence.floor or fence.kind in (model.COMMITTED, model.CLOSED):
            self.turns[key] += 1
            self.fences[key] = model.Target(incarnation=self.newest())
            self.shortened.discard(key)

    @precondition(lambda self: self.held is None)
    @rule(key=KEY, by=BY)
    def shorten(self, key: str, by: int) -> None:
        committed = self.fences[key].kind == model.COMMITTED
        assert self.objects[by].shorten([self.id_of(key)]) == int(committed)
        if committed:
            self.seen["shortened"] += 1
            self.shortened.add(key)

    @precondition(lambda self: self.held is None)
    @rule(key=KEY, by=BY, chance=st.integers(0, 3))
    def raise_the_floor(self, key: str, by: int, chance: int) -> None:
        fence = self.fences[key]
        if chance or not model.raisable(fence, RULES):
            return
        above = Floor(self.floor_of(key).scope, "2")
        removed = self.objects[by].raise_floor(above, [self.id_of(key)])
        assert removed == int(fence.kind != model.ABSENT)
        self.fences[key] = model.raise_floor(fence)
        self.shortened.discard(key)

    @precondition(lambda self: self.held is None)
    @rule(by=BY)
    def restore(self, by: int) -> None:
        """Another incarnation with the same content, and a new look at it."""
        for adapter in self.objects:
            adapter.close()
        self.place.reincarnate()
        number = self.newest() + 1
        self.incarnations[number] = self.objects[by].install()
        for key, fence in self.fences.items():
            self.fences[key] = fence._replace(incarnation=number)

    @precondition(lambda self: self.held is None)
    @rule(by=BY)
    def reopen(self, by: int) -> None:
        self.objects[by].close()
        self.objects[by] = self.place.open()

    # -- crashes and pauses ---

    def run(self, act: str, key: str, unit: model.Unit, **options: Any) -> Ended:
        return self.zygote.wait(self.start(act, key, unit, **options))

    def start(
        self, act: str, key: str, unit: model.Unit, *, kill_at: int = 0, **options: Any
    ) -> int:
        args = {
            "spec": self.place.spec,
            "act": act,
            "unit": plain(self.unit(key, *unit[1:])),
            "row": self.row_of(key, unit.epoch, unit.attempt),
            "kill_at": kill_at,
            "proof": str(self.proof),
        }
        return self.zygote.start(WORKLOAD, args, **options)

    @precondition(lambda self: self.held is None)
    @rule(key=KEY, epoch=EPOCHS, attempt=ATTEMPTS, point=st.sampled_from(POINTS))
    def killed_at_a_named_point(self, key: str, epoch: int, attempt: int, point: str) -> None:
        epoch, attempt = self.admitted(key, epoch, attempt, False)
        unit = model.Unit(model.COMMITTING, epoch, attempt, self.newest())
        expected = self.admission(key, unit)
        if expected != model.WON:
            return
        ended = self.run("commit", key, unit, point=point)
        assert ended.killed
        assert ended.hit(point)
        self.seen[point] += 1
        if point == LANDED:
            self.land(key, unit)

    @precondition(lambda self: self.held is None)
    @rule(key=KEY, epoch=EPOCHS, attempt=ATTEMPTS, share=st.integers(0, 99))
    def killed_inside_a_commit(self, key: str, epoch: int, attempt: int, share: int) -> None:
        epoch, attempt = self.admitted(key, epoch, attempt, False)
        unit = model.Unit(model.COMMITTING, epoch, attempt, self.newest())
        if self.admission(key, unit) != model.WON:
            return
        kill_at = 1 + self.seen["calls of commit"] * share // 100
        self.judge_commit(key, unit, self.run("commit", key, unit, kill_at=kill_at), kill_at)

    @precondition(lambda self: self.held is None)
    @rule(key=KEY, epoch=EPOCHS, attempt=ATTEMPTS, share=st.integers(0, 99))
    def killed_inside_a_seal(self, key: str, epoch: int, attempt: int, share: int) -> None:
        unit = model.Unit(model.SEALING, epoch, attempt, self.newest())
        if model.seal(self.fences[key], *unit[1:], RULES)[0] != model.WON:
            return
        kill_at = 1 + self.seen["calls of seal"] * share // 100
        self.judge_seal(key, unit, self.run("seal", key, unit, kill_at=kill_at), kill_at)

    def judge_commit(self, key: str, unit: model.Unit, ended: Ended, kill_at: int) -> None:
        """A killed unit may still be on its way; a seal decides, and what it says stays true."""
        if not ended.killed:
            assert (ended.result or {})["answer"] == "Committed"
            self.land(key, unit)
            return
        assert crash.hit(self.proof, ended.pid, kill_at)
        epoch = unit.epoch + 1
        answer = self.objects[0].seal(self.unit(key, epoch, unit.attempt, self.newest()))
        self.seen[f"killed commit, landed {isinstance(answer, Committed)}"] += 1
        if isinstance(answer, Committed):
            self.land(key, unit)
            self.receipt_agrees(key, answer)
            return
        assert answer == Sealed(epoch, attempt_name(unit.attempt))
        self.fences[key] = model.seal(self.fences[key], epoch, *unit[2:], RULES)[1]

    def judge_seal(self, key: str, unit: model.Unit, ended: Ended, kill_at: int) -> None:
        """A killed seal landed or not; the same attempt seals again, whichever it was."""
        if not ended.killed:
            assert (ended.result or {})["answer"] == "Sealed"
        else:
            assert crash.hit(self.proof, ended.pid, kill_at)
            sealed = Sealed(unit.epoch, attempt_name(unit.attempt))
            self.seen[f"killed seal, landed {self.asked(key) == sealed}"] += 1
            assert self.objects[0].seal(self.unit(key, *unit[1:])) == sealed
        self.fences[key] = model.seal(self.fences[key], *unit[1:], RULES)[1]

    @precondition(lambda self: self.held is None)
    @rule(key=KEY, epoch=EPOCHS, attempt=ATTEMPTS)
    def pause_inside_a_change(self, key: str, epoch: int, attempt: int) -> None:
        epoch, attempt = self.admitted(key, epoch, attempt, False)
        unit = model.Unit(model.CLAIMED, epoch, attempt, self.newest())
        if self.admission(key, unit) != model.WON:
            return
        point = "fencing.change:after#1"
        pid = self.start("commit", key, unit, point=point, action="stop")
        ended = self.zygote.wait(pid)
        assert ended.stopped
        assert ended.hit(point)
        self.held = (pid, key, self.unit(key, *unit[1:]), unit)
        self.fences[key] = model.add(self.fences[key], unit)

    @precondition(lambda self: self.held is not None)
    @rule(epoch=EPOCHS, attempt=ATTEMPTS, seals=st.booleans())
    def contend(self, epoch: int, attempt: int, seals: bool) -> None:
        """Whoever contends with the paused unit concludes nothing, within a bounded wait."""
        assert self.held is not None
        key = self.held[1]
        unit = self.unit(key, epoch, attempt, self.newest())
        rival = self.place.open(lock_wait_s=SHORT_WAIT_S)
        if seals:
            expected, _ = model.seal(self.fences[key], epoch, attempt, self.newest(), RULES)
            assert expected == model.BUSY
            answer: Any = rival.seal(unit)
            assert isinstance(answer, Unknown)
        else:
            flying = model.Unit(model.COMMITTING, epoch, attempt, self.newest())
            assert self.admission(key, flying) == model.BUSY
            answer = rival.commit(unit, _never)
            # A later epoch without a seal need not wait to be refused.
            assert isinstance(answer, Unknown | Rejected | Fenced)
        rival.close()
        self.place.opened.remove(rival)
        self.seen["contended"] += 1

    @precondition(lambda self: self.held is not None)
    @rule()
    def held_goes_on(self) -> None:
        assert self.held is not None
        pid, key, _, unit = self.held
        self.held = None
        wake(pid)
        ended = self.zygote.wait(pid)
        assert (ended.result or {})["answer"] == "Committed"
        self.fences[key] = model.land(self.fences[key], unit)
        self.rows.append(self.row_of(key, unit.epoch, unit.attempt))
        self.seen["woken"] += 1

    @precondition(lambda self: self.held is not None)
    @rule()
    def held_is_killed(self) -> None:
        assert self.held is not None
        pid, key, _, unit = self.held
        self.held = None
        crash.kill(pid)
        assert self.zygote.wait(pid).killed
        self.fences[key] = model.drop(self.fences[key], unit)
        self.seen["killed while paused"] += 1


def _never(transaction: Any) -> None:
    raise AssertionError("the change was called")


def measured(place: TargetPlace, zygote: Zygote) -> Counter[str]:
    """How many calls inside the adapter a seal and a commit make."""
    seen: Counter[str] = Counter()
    machine = TargetMachine(place, zygote, Counter())
    machine.opened()
    for act, unit in (("seal", (2, 2, 1)), ("commit", (2, 2, 1))):
        ended = machine.run(act, "a", model.Unit(0, *unit), kill_at=CALLS_MAX)
        assert ended.result is not None
        seen[f"calls of {act}"] = ended.result["calls"]
    machine.place.close()
    return seen
