"""The scenarios of one session: which task is hurt how, and where it writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

KINDS = ("postgres", "duckdb", "sqlite")
KILLS = ("child", "supervisor")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One DAG with the task `load`.

    `flavour`: naive (the control), fenced or route. `mode`: what happens to its first attempt.
    """

    flavour: str
    mode: str
    kind: str
    label: str = ""
    retries: int = 2
    # On 2.x the executor's word on an attempt may come so late that it fails the next one.
    delay_s: int = 3
    amounts: tuple[int, ...] = ()
    schedule: str = "@once"
    own_journal: bool = False
    defect: str = ""

    @property
    def name(self) -> str:
        """The DAG's id."""
        flavour = f"seed_{self.defect}" if self.defect else self.flavour
        return "_".join((flavour, self.label or self.mode, self.kind))

    @property
    def hurt(self) -> bool:
        """Whether a deed is armed."""
        return self.mode != "none"

    @property
    def rows(self) -> int:
        """How many rows a fenced target must hold in the end."""
        return len(self.amounts) or 1

    def planned(self, place: dict[str, str]) -> dict[str, Any]:
        """What the DAG file reads of this scenario."""
        return {**asdict(self), **place, "name": self.name}


def scenarios() -> list[Scenario]:
    """All of them, in the order in which they are reported."""
    found = [*_controls(), *_kills(), *_pauses(), *_routes(), *_repeated(), *_journals()]
    return [*found, *_seeds(), _last()]


def _controls() -> list[Scenario]:
    return [Scenario("naive", mode, kind) for mode in (*KILLS, "pause") for kind in KINDS]


def _kills() -> list[Scenario]:
    return [Scenario("fenced", mode, kind) for mode in KILLS for kind in KINDS]


def _pauses() -> list[Scenario]:
    """A paused task holds a file's lock until it is woken, so its replacement has to wait."""
    return [
        Scenario("fenced", "pause", "postgres"),
        *(Scenario("fenced", "pause", kind, retries=9, delay_s=2) for kind in ("duckdb", "sqlite")),
        *(Scenario("fenced", "stall", kind) for kind in KINDS),
        *(Scenario("fenced", "early", kind) for kind in KINDS),
    ]


def _routes() -> list[Scenario]:
    return [Scenario("route", "child", "postgres"), Scenario("route", "supervisor", "duckdb")]


def _repeated() -> list[Scenario]:
    """What is run again on purpose: cleared, filled again, mapped in another order."""
    return [
        *(Scenario("fenced", "none", kind, label="clear") for kind in KINDS),
        Scenario("fenced", "none", "postgres", label="daily", schedule="daily"),
        Scenario(
            "fenced", "child", "postgres", "mapped", amounts=(100, 200, 300), schedule="daily"
        ),
    ]


def _journals() -> list[Scenario]:
    """The journal's server is away before the change, before the commit, after the commit."""
    given: dict[str, Any] = {"retries": 9, "delay_s": 2, "own_journal": True}
    return [
        Scenario("fenced", "none", "postgres", label="nojournal", **given),
        Scenario("fenced", "cut", "postgres", label="cutbefore", **given),
        Scenario("fenced", "wait", "postgres", label="cutafter", **given),
    ]


def _seeds() -> list[Scenario]:
    """Rules taken away on purpose: each of these rounds must fail, and in the words of SEEDS."""
    return [
        Scenario("fenced", "child", "sqlite", defect="try"),
        Scenario("fenced", "none", "postgres", label="daily", schedule="daily", defect="run"),
        Scenario("fenced", "early", "sqlite", defect="speaks"),
    ]


# What the judges must say of a defect; Airflow may add an attempt of its own.
SEEDS = {
    "try": r"^[2-9] rows instead of 1",
    "run": r"^[2-9] rows instead of 1",
    "speaks": r"^the woken attempt changed",
}


def _last() -> Scenario:
    return Scenario("fenced", "wait", "postgres", label="scheduler", retries=9)


# Judged from two scenarios of the list, when both have run.
TWO_DAGS = "two_dags_one_task"
PAIR = ("fenced_child_postgres", "fenced_clear_postgres")


def names() -> list[str]:
    """What a whole session records."""
    return [*(scenario.name for scenario in scenarios()), TWO_DAGS]


def chosen(asked: Sequence[str]) -> list[Scenario]:
    """The scenarios whose names begin with one of these; all when none is asked for."""
    every = scenarios()
    found = [s for s in every if not asked or any(s.name.startswith(n) for n in asked)]
    if not found:
        raise ValueError(f"no scenario begins with {', '.join(asked)}")
    return found
