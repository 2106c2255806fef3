"""The target alone: clients that seal, claim, conclude and vanish, without any journal.

Promises that the fence by itself, whatever its clients do, admits one change and keeps what
a won seal proved. `models.commit` joins the fence to a journal and to a protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from models.explorer import Model
from models.fence import (
    BUSY,
    COMMITTED,
    COMMITTING,
    WON,
    Target,
    Unit,
    add,
    admission,
    drop,
    land,
    seal,
)
from models.rules import Rules


class Key(NamedTuple):
    """One key of a target, what each client has reached, and how often the change was made."""

    target: Target
    clients: tuple[str, ...]
    mutations: int = 0


class _Clients:
    """The step relation of clients with fixed epochs; client `n` is attempt `n + 1`."""

    def __init__(self, rules: Rules, epochs: tuple[int, ...]) -> None:
        self.rules = rules
        self.epochs = epochs

    def step(self, world: Key) -> Iterator[tuple[str, Key]]:
        """Yield the next steps of every client and of every unit that lost its client."""
        for number, at in enumerate(world.clients):
            if at in ("new", "sealed"):
                yield from self._seal(world, number)
            if at == "sealed" or (at == "new" and self.epochs[number] == 1):
                yield from self._claim(world, number)
            if at == "sealed":
                yield f"conclude@{number + 1}", self._moved(world, number, "concluded")
            if at == "sent":
                yield f"lost@{number + 1}", self._moved(world, number, "gone")
        for unit in world.target.units:
            number = unit.attempt - 1
            after = self._moved(world, number, "gone")
            rolled_back = after._replace(target=drop(world.target, unit))
            yield f"rolled-back@{unit.attempt}", rolled_back
            visible = after._replace(
                target=land(world.target, unit), mutations=min(2, world.mutations + 1)
            )
            yield f"landed@{unit.attempt}", visible

    def _held(self, number: int) -> tuple[int, int, int]:
        return self.epochs[number], number + 1, 1

    def _moved(self, world: Key, number: int, at: str) -> Key:
        clients = (*world.clients[:number], at, *world.clients[number + 1 :])
        return world._replace(clients=clients)

    def _seal(self, world: Key, number: int) -> Iterator[tuple[str, Key]]:
        answer, target = seal(world.target, *self._held(number), self.rules)
        at = {WON: "sealed", BUSY: world.clients[number]}.get(answer, "gone")
        after = self._moved(world, number, at)
        yield f"seal:{answer}@{number + 1}", after._replace(target=target)

    def _claim(self, world: Key, number: int) -> Iterator[tuple[str, Key]]:
        answer = admission(world.target, *self._held(number), self.rules)
        if answer == WON:
            target = add(world.target, Unit(COMMITTING, *self._held(number)))
            after = self._moved(world, number, "sent")
            yield f"claim:won@{number + 1}", after._replace(target=target)
        else:
            at = world.clients[number] if answer == BUSY else "gone"
            yield f"claim:{answer}@{number + 1}", self._moved(world, number, at)


def target_model(rules: Rules, epochs: tuple[int, ...] = (1, 2, 2)) -> Model[Key]:
    """Return the model of one fence and of clients that act under the given epochs."""

    def conclusions_hold(world: Key) -> bool:
        if world.target.kind != COMMITTED:
            return True
        return all(
            at != "concluded" or world.target.epoch > epochs[number]
            for number, at in enumerate(world.clients)
        )

    return Model(
        name="target",
        initial=(Key(Target(), ("new",) * len(epochs)),),
        step=_Clients(rules, epochs).step,
        invariants={
            "at most one mutation": lambda world: world.mutations <= 1,
            "a won seal shuts out every earlier attempt": conclusions_hold,
        },
        sometimes={
            "a unit lands without its client": lambda world: (
                world.target.kind == COMMITTED and world.clients[world.target.attempt - 1] == "gone"
            ),
        },
        sometimes_labels=frozenset(
            {"seal:won", "seal:committed", "seal:busy", "seal:fenced"}
            | {"claim:won", "claim:committed", "claim:busy", "claim:fenced", "conclude"}
        ),
    )
