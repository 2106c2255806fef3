"""A target and the model of its fence side by side, and how the two are compared."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
)

from certification.places import TargetPlace
from dpone.contracts.fence import (
    Absent,
    Already,
    Committed,
    Expired,
    Fenced,
    Floor,
    Foreign,
    Rejected,
    Sealed,
    Unit,
    Unknown,
)
from dpone.contracts.fence_rules import EPOCH_FINAL
from dpone.contracts.journal import VOID_ATTEMPT
from faultinject.zygote import Zygote, wake
from models import fence as model
from models.rules import Rules

RULES = Rules()
KEYS = ("a", "b")
CALLS_MAX = 1000
SHORT_WAIT_S = 0.05
NUMBERS = itertools.count(1)
WORKLOAD = "tests.stateful.crash:target"
POINTS = tuple(
    f"fencing.{effect}:{side}#1"
    for effect in ("claim", "change", "commit")
    for side in ("before", "after")
)
LANDED = "fencing.commit:after#1"
EPOCHS = st.integers(1, 3)
ATTEMPTS = st.integers(1, 3)


class FencePair(RuleBasedStateMachine):
    """Two objects that act and one that looks, two keys; the model's fence of each beside them."""

    def __init__(self, place: TargetPlace, zygote: Zygote, seen: Counter[str]) -> None:
        super().__init__()
        self.place = place
        self.zygote = zygote
        self.seen = seen
        self.proof = zygote.folder / "calls.jsonl"
        self.number = next(NUMBERS)
        self.turns = dict.fromkeys(KEYS, 1)
        self.fences = dict.fromkeys(KEYS, model.Target())
        self.shortened: set[str] = set()
        self.rows: list[str] = []
        self.held: tuple[int, str, Unit, model.Unit] | None = None

    @initialize()
    def opened(self) -> None:
        self.objects = [self.place.open(), self.place.open(), self.place.open()]
        self.incarnations = {1: self.objects[0].install()}

    def teardown(self) -> None:
        if self.held is not None:
            wake(self.held[0])
            self.zygote.wait(self.held[0])
        self.place.close()
        self.place.opened.clear()

    # -- both sides of one thing ---

    def id_of(self, key: str) -> str:
        return f"{self.number}-{key}{self.turns[key]}"

    def floor_of(self, key: str) -> Floor:
        """The model has one floor for each key, which the key is below once it is raised."""
        return Floor(f"scope-{self.id_of(key)}", "1")

    def unit(self, key: str, epoch: int, attempt: int, incarnation: int) -> Unit:
        return Unit(
            operation_id=self.id_of(key),
            epoch=epoch,
            attempt_id=attempt_name(attempt),
            intent_digest=f"sha256:{attempt}",
            incarnation=self.incarnations[incarnation],
            floor=self.floor_of(key),
        )

    def row_of(self, key: str, epoch: int, attempt: int) -> str:
        return f"e{self.id_of(key)}-{epoch}-{attempt}"

    def admitted(self, key: str, epoch: int, attempt: int, stranger: bool) -> tuple[int, int]:
        """Epoch and attempt of somebody who may commit now, unless a stranger is wanted."""
        fence = self.fences[key]
        if stranger:
            return epoch, attempt
        return (fence.epoch, fence.attempt) if fence.kind == model.SEALED else (1, attempt)

    def newest(self) -> int:
        return max(self.incarnations)

    def admission(self, key: str, unit: model.Unit) -> str:
        """The model's answer to a claim; a client without a seal claims with epoch 1 only."""
        fence = self.fences[key]
        answer = model.admission(fence, unit.epoch, unit.attempt, unit.incarnation, RULES)
        if answer == model.WON and fence.kind == model.ABSENT and unit.epoch != 1:
            return model.FENCED
        return answer

    def land(self, key: str, unit: model.Unit) -> None:
        """The model takes a committed unit, with its row."""
        fence = self.fences[key]
        self.fences[key] = model.land(model.add(fence, unit), unit)
        self.rows.append(self.row_of(key, unit.epoch, unit.attempt))

    def shows(self, key: str, answer: Any, expected: str) -> None:
        """Compare what the adapter said with what the model said, details included."""
        fence = self.fences[key]
        self.seen[f"{type(answer).__name__} for {expected}"] += 1
        if expected == model.LOST:
            assert isinstance(answer, Already | Committed)
            self.receipt_agrees(key, answer)
        elif expected == model.FENCED:
            epoch = EPOCH_FINAL if fence.kind == model.CLOSED else fence.epoch
            attempt = attempt_name(fence.attempt)
            assert answer in (Fenced(epoch), Sealed(epoch, attempt))
        elif expected == model.EXPIRED:
            assert answer == Expired("2")
        elif expected == model.FOREIGN:
            assert answer == Foreign(self.incarnations[self.newest()])
        else:
            assert expected == model.BUSY
            assert isinstance(answer, Unknown | Rejected)

    def receipt_agrees(self, key: str, answer: Any) -> None:
        fence, receipt = self.fences[key], answer.receipt
        assert (receipt.epoch, receipt.attempt_id) == (fence.epoch, attempt_name(fence.attempt))
        assert receipt.intent_digest == f"sha256:{fence.attempt}"
        if key in self.shortened:
            assert (receipt.result, receipt.shortened) == ({}, True)
        else:
            assert receipt.result == {"row": self.row_of(key, fence.epoch, fence.attempt)}

    # -- agreement ---

    def asked(self, key: str) -> Any:
        """What the fence shows, by an object that did nothing else."""
        answer = self.objects[-1].ask(self.id_of(key), self.floor_of(key))
        assert answer.incarnation == self.incarnations[self.newest()]
        return answer.verdict

    @invariant()
    def fences_agree(self) -> None:
        if not hasattr(self, "objects") or self.held is not None:
            return
        for key, fence in self.fences.items():
            verdict = self.asked(key)
            if fence.floor:
                assert verdict == Expired("2")
            elif fence.kind == model.ABSENT:
                assert verdict == Absent()
            elif fence.kind == model.CLOSED:
                assert verdict == Sealed(EPOCH_FINAL, VOID_ATTEMPT)
            elif fence.kind == model.SEALED:
                assert verdict == Sealed(fence.epoch, attempt_name(fence.attempt))
            else:
                assert isinstance(verdict, Committed)
                self.receipt_agrees(key, verdict)

    @invariant()
    def rows_agree(self) -> None:
        if not hasattr(self, "objects") or self.held is not None:
            return
        found = self.place.sql(f"SELECT key FROM certified WHERE key LIKE 'e{self.number}-%'")
        assert sorted(str(row[0]) for row in found) == sorted(self.rows)


def attempt_name(attempt: int) -> str:
    return f"attempt-{attempt}" if attempt else VOID_ATTEMPT
