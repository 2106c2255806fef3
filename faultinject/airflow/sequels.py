"""The rounds with a sequel: cleared, filled again, mapped; without a journal or a scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from faultinject.airflow import judging, rounds
from faultinject.airflow.instance import AirflowError
from faultinject.airflow.judging import Lab
from faultinject.airflow.metadata import SUCCESS
from faultinject.airflow.scenarios import Scenario
from faultinject.postgres import PostgresServer

Recorded = Callable[[Scenario, Callable[[Lab, Scenario], list[str]]], None]
AGAIN_S = 120.0
DAY = "2024-01-01"
ANOTHER = "another"


def cleared(lab: Lab, scenario: Scenario) -> list[str]:
    """A cleared task hands on the same receipt, writes nothing, and says so."""
    rounds.ended(lab, scenario)
    before = lab.metadata.xcoms(scenario.name)
    faults = judging.fenced(lab, scenario)
    lab.airflow.command("tasks", "clear", "--yes", scenario.name)
    _again(lab, scenario)
    return faults + _replayed(lab, scenario, before)


def filled(lab: Lab, scenario: Scenario) -> list[str]:
    """A backfill of the same date, and another run of the same interval: both replay."""
    if scenario.hurt:
        rounds.struck(lab, scenario)
    rounds.ended(lab, scenario)
    before = lab.metadata.xcoms(scenario.name)
    faults = judging.fenced(lab, scenario)
    if scenario.hurt:
        faults += judging.adopted(lab, scenario)
    _backfill(lab, scenario)
    _again(lab, scenario)
    faults += _replayed(lab, scenario, before)
    program = lab.airflow.folder / "dags" / "another_run.py"
    lab.airflow.call(str(program), scenario.name, ANOTHER)
    lab.airflow.until(
        lambda: len(lab.metadata.runs(scenario.name)) > 1, "there is another run", AGAIN_S
    )
    rounds.ended(lab, scenario)
    if ANOTHER not in {run_id for run_id, _ in lab.metadata.xcoms(scenario.name)}:
        faults.append("the other run has returned nothing")
    if len(found := lab.metadata.intervals(scenario.name)) != 1:
        faults.append(f"the other run has another interval: {found}")
    return faults + _replayed(lab, scenario, before)


def _backfill(lab: Lab, scenario: Scenario) -> None:
    if lab.airflow.is_3:
        words = ["--from-date", DAY, "--to-date", DAY, "--reprocess-behavior", "completed"]
        lab.airflow.command("backfill", "create", "--dag-id", scenario.name, *words)
        return
    words = ["--start-date", DAY, "--end-date", DAY, "--reset-dagruns", "--yes"]
    for tries_left in (2, 1, 0):
        try:
            lab.airflow.command("dags", "backfill", *words, scenario.name)
            return
        except AirflowError as error:
            # The command of 2.x takes mapped tasks that are not expanded yet for a deadlock.
            if "is deadlocked" not in str(error) or not tries_left:
                raise


def _again(lab: Lab, scenario: Scenario) -> None:
    """Wait until every task has succeeded once more."""
    least = 3 if scenario.hurt else 2

    def done() -> bool:
        tasks = lab.metadata.tasks(scenario.name)
        return all(t.state == SUCCESS for t in tasks) and any(t.attempt >= least for t in tasks)

    lab.airflow.until(done, f"{scenario.name} runs again", AGAIN_S)
    rounds.ended(lab, scenario)


def _replayed(lab: Lab, scenario: Scenario, before: Mapping[tuple[str, int], Any]) -> list[str]:
    """Nothing new stands in the target; every receipt is one of before; the logs say so."""
    known = [judging.receipts(value)[0] for value in before.values()]
    faults = judging.fenced(lab, scenario)
    for (run_id, map_index), value in lab.metadata.xcoms(scenario.name).items():
        receipt = judging.receipts(value)[0]
        if receipt not in known:
            faults.append(f"{run_id} {map_index} has another receipt than before: {receipt}")
        task = judging.task_of(lab, scenario, run_id, map_index)
        if not judging.line_of(lab.log(scenario, task), receipt["operation_id"], "replayed"):
            faults.append(f"the log of {run_id} {map_index} does not say that it replayed")
    return faults


# -- what is away ----------------------------------------------------------------------------------


def journal_away(
    lab: Lab, server: PostgresServer, scenarios: list[Scenario], recorded: Recorded
) -> None:
    """The journal's server dies under three tasks and comes back when they have failed."""
    hurt = [scenario for scenario in scenarios if scenario.hurt]
    waiting = [scenario for scenario in scenarios if not scenario.hurt]
    error = ""
    try:
        lab.metadata.unpause([scenario.name for scenario in hurt])
        for scenario in hurt:
            rounds.struck(lab, scenario)
        server.kill()
        lab.metadata.unpause([scenario.name for scenario in waiting])
        for scenario in hurt:
            lab.places.let_go(scenario)
        for scenario in scenarios:
            _first_failed(lab, scenario)
        server.start()
    except Exception as problem:  # noqa: BLE001 - it is a fault of each of these scenarios
        error = f"{type(problem).__name__}: {problem}"
    for scenario in scenarios:
        recorded(scenario, lambda lab, scenario: [error] if error else _settled(lab, scenario))


def _first_failed(lab: Lab, scenario: Scenario) -> None:
    def failed() -> bool:
        tasks = lab.metadata.tasks(scenario.name)
        return any(t.attempt > 1 or t.state == "up_for_retry" for t in tasks)

    lab.airflow.until(failed, f"{scenario.name}: an attempt fails without its journal", AGAIN_S)


def _settled(lab: Lab, scenario: Scenario) -> list[str]:
    rounds.ended(lab, scenario)
    faults = judging.fenced(lab, scenario)
    first = [attempt for attempt, _ in lab.places.rows(scenario)]
    if scenario.hurt and first != [1]:
        faults.append(f"the row is not the first attempt's: {first}")
    if scenario.hurt:
        task = lab.metadata.tasks(scenario.name)[0]
        receipt = judging.receipts(lab.metadata.xcoms(scenario.name)[task.run_id, -1])[0]
        said = lab.log(scenario, task)
        if not any(judging.line_of(said, receipt["operation_id"], how) for how in judging.LATER):
            faults.append("the log does not say that an earlier attempt had committed")
    return faults


def scheduler_killed(lab: Lab, scenario: Scenario) -> list[str]:
    """The scheduler dies while a task runs; its successor starts another attempt beside it."""
    rounds.struck(lab, scenario)
    lab.airflow.kill_scheduler()
    lab.airflow.start_scheduler()
    rounds.replaced(lab, scenario)
    lab.places.let_go(scenario)
    rounds.settle(lab, scenario)
    return judging.fenced(lab, scenario) + judging.adopted(lab, scenario)


def two_dags(lab: Lab, first: Scenario, second: Scenario) -> list[str]:
    """Two DAGs whose tasks have one name, one interval and one target are two operations."""
    found = []
    for scenario in (first, second):
        told = [judging.receipts(value) for value in lab.metadata.xcoms(scenario.name).values()]
        found.append({receipt["operation_id"] for receipts in told for receipt in receipts})
    faults = [f"{len(ids)} operations" for ids in found if len(ids) != 1]
    if found[0] & found[1]:
        faults.append("both DAGs have one operation")
    intervals = [lab.metadata.intervals(scenario.name) for scenario in (first, second)]
    if intervals[0] != intervals[1]:
        faults.append(f"the intervals differ: {intervals}")
    rows = [len(lab.places.rows(scenario)) for scenario in (first, second)]
    return faults if rows == [1, 1] else [*faults, f"the rows are {rows}"]


SEQUELS: Mapping[str, Callable[[Lab, Scenario], list[str]]] = {
    "clear": cleared,
    "daily": filled,
    "mapped": filled,
    "scheduler": scheduler_killed,
}
