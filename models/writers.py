"""The journal alone: writers that take over, write, lose answers and meet restored rows.

Promises that a writer which believes that its write was applied is the author of the row.
The writers know nothing of a target; `models.commit` joins both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from models import journal
from models.explorer import Model
from models.journal import NEW_ATTEMPT, START, Row
from models.rules import Rules

Steps = Iterator[tuple[str, "Journal"]]


class Writer(NamedTuple):
    """One process: idle, about to take over, owner of the row, or waiting for an answer."""

    at: str = "idle"
    version: int = 0
    attempt: int = 0
    fresh: int = 0


class Journal(NamedTuple):
    """The row, who wrote it last, a backup of both, and the writers."""

    row: Row | None = None
    author: int = -1
    copy: Row | None = None
    copied: bool = False
    writers: tuple[Writer, ...] = (Writer(), Writer())
    issued: int = 0
    lost: bool = False
    breached: bool = False


class _Writers:
    """The step relation; every takeover has a fresh attempt_id, `attempts` of them in all."""

    def __init__(self, rules: Rules, attempts: int, versions: int) -> None:
        self.rules = rules
        self.attempts = attempts
        self.versions = versions

    def step(self, world: Journal) -> Steps:
        """Yield the next steps of the writers and what may befall the journal."""
        for number, writer in enumerate(world.writers):
            act = {"idle": self._read, "waiting": self._reread}.get(writer.at, self._write)
            yield from act(world, number, writer)
            if writer.at != "idle":
                yield f"crash@{number}", _moved(world, number, Writer())
        row = world.row
        if row is not None:
            yield "journal:lost", world._replace(row=None, author=-1)
            if not world.copied:
                yield "journal:copied", world._replace(copy=row, copied=True)
        if world.copy is not None:
            adopted = journal.adopt(world.copy, self.rules)
            yield "journal:restored", world._replace(row=adopted, author=-1, copy=None)

    def _read(self, world: Journal, number: int, _: Writer) -> Steps:
        row = world.row
        held = Writer("plan") if row is None else Writer("plan", row.version, row.attempt)
        yield f"read@{number}", _moved(world, number, held)

    def _write(self, world: Journal, number: int, writer: Writer) -> Steps:
        """Take over from a plan; from then on write as the owner."""
        takes = writer.at == "plan"
        attempt = world.issued + 1 if takes else writer.attempt
        if not journal.matches(world.row, writer.version, writer.attempt, self.rules):
            yield f"refused@{number}", _moved(world, number, Writer())
            return
        if attempt > self.attempts or writer.version >= self.versions:
            return
        breached = world.breached or (not takes and world.author != number)
        row = journal.written(world.row, NEW_ATTEMPT if takes else START, attempt, attempt, 1)
        issued = max(world.issued, attempt)
        applied = world._replace(row=row, author=number, issued=issued, breached=breached)
        yield f"written@{number}", _moved(applied, number, Writer("owner", row.version, attempt))
        if not world.lost:
            waiting = writer._replace(at="waiting", fresh=attempt)
            yield f"applied-lost@{number}", _moved(applied._replace(lost=True), number, waiting)
            dropped = world._replace(lost=True, issued=issued)
            yield f"dropped@{number}", _moved(dropped, number, waiting)

    def _reread(self, world: Journal, number: int, writer: Writer) -> Steps:
        """Believe in one's write only if version, state and attempt_id are equal."""
        row = world.row
        write = START if writer.fresh == writer.attempt else NEW_ATTEMPT
        if journal.applied(row, write, writer.version, writer.fresh, self.rules):
            breached = world.breached or world.author != number or row is None
            version, attempt = (row.version, row.attempt) if row else (0, 0)
            owner = Writer("owner", version, attempt)
            yield f"believed@{number}", _moved(world._replace(breached=breached), number, owner)
        else:
            yield f"disbelieved@{number}", _moved(world, number, Writer())


def _moved(world: Journal, number: int, writer: Writer) -> Journal:
    writers = (*world.writers[:number], writer, *world.writers[number + 1 :])
    return world._replace(writers=writers)


def journal_model(rules: Rules, *, attempts: int = 3, versions: int = 5) -> Model[Journal]:
    """Return the model of one journal row and two writers."""
    return Model(
        name="journal",
        initial=(Journal(),),
        step=_Writers(rules, attempts, versions).step,
        invariants={"only the author of the row goes on": lambda world: not world.breached},
        sometimes={
            "a restored row is taken over": lambda world: (
                world.copied and world.copy is None and world.author >= 0
            )
        },
        sometimes_labels=frozenset({"refused", "believed", "disbelieved", "journal:restored"}),
    )
