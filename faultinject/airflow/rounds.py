"""The rounds: a task is killed, or stands still and is woken when its replacement is done."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Any

import psutil

from faultinject.airflow import judging
from faultinject.airflow.judging import Lab
from faultinject.airflow.metadata import ENDED, SUCCESS
from faultinject.airflow.scenarios import Scenario

HIT_S = 120.0
END_S = 150.0
QUIET_S = 4.0
# On 2.x the woken process ends by itself; on 3.x its report is refused.
# The operator's words, or those of Airflow where its supervisor ends the task before it speaks.
GIVEN_UP = (
    "Airflow has given up attempt 1",
    "DPONE_TARGET_COMMIT_OWNERSHIP_LOST",
    "Terminating instance",
    "the task shouldn't be running anymore",
)
HELD = ("DPONE_TARGET_HELD", "DPONE_TARGET_COMMIT_UNKNOWN", "DPONE_TARGET_COMMIT_IN_PROGRESS")


def killed(lab: Lab, scenario: Scenario) -> list[str]:
    """A task, or a task and its worker, that died after its commit."""
    struck(lab, scenario)
    ended(lab, scenario)
    if scenario.flavour == "naive":
        return judging.controlled(lab, scenario)
    return judging.fenced(lab, scenario) + judging.adopted(lab, scenario)


def paused_control(lab: Lab, scenario: Scenario) -> list[str]:
    """The woken attempt of the control writes the second row."""
    proof = struck(lab, scenario)
    replaced(lab, scenario)
    wake(proof)
    # A file is read only when nobody writes it any more.
    lab.airflow.until(lambda: gone(proof["pid"]), f"{scenario.name} ends when woken", END_S)
    return judging.controlled(lab, scenario)


def paused(lab: Lab, scenario: Scenario) -> list[str]:
    """The woken attempt writes no row, no state and no XCom."""
    proof = struck(lab, scenario)
    replaced(lab, scenario)
    before = lab.metadata.pictured(scenario.name)
    faults = [f"before waking: {fault}" for fault in judging.fenced(lab, scenario)]
    if not lab.writing(scenario, 1):
        faults.append("nobody has the log of the waiting attempt open: the lab would wait for none")
    wake(proof)
    lab.airflow.until(lambda: gone(proof["pid"]), f"{scenario.name} ends when woken", END_S)
    settle(lab, scenario)
    after = lab.metadata.pictured(scenario.name)
    if after != before:
        faults.append(f"the woken attempt changed {before} to {after}")
    task = lab.metadata.tasks(scenario.name)[0]
    receipt = judging.receipts(lab.metadata.xcoms(scenario.name)[task.run_id, -1])[0]
    if not judging.line_of(lab.log(scenario, task), receipt["operation_id"], "committed"):
        faults.append("the log of the replacement does not say that it committed")
    if not any(words in lab.log(scenario, task, 1) for words in GIVEN_UP):
        faults.append("the log of the woken attempt does not say why it gives up")
    if [attempt for attempt, _ in lab.places.rows(scenario)] != [task.attempt]:
        faults.append(f"the row is not the replacement's: {lab.places.rows(scenario)}")
    return faults + judging.fenced(lab, scenario)


def holding(lab: Lab, scenario: Scenario) -> list[str]:
    """A paused task holds its file: its replacement says so and writes nothing.

    Airflow 2 may report a lost attempt twice, and then ends the replacement before it speaks; the
    next one does.
    """
    proof = struck(lab, scenario)

    def told() -> bool:
        logs = (
            lab.log(scenario, task, number)
            for task in lab.metadata.tasks(scenario.name)
            for number in range(2, task.attempt + 1)
        )
        return any(code in said for said in logs for code in HELD)

    lab.airflow.until(told, f"{scenario.name}: a replacement says what holds the file", HIT_S)
    rows = lab.places.rows(scenario)
    faults = [f"rows beside a paused holder: {rows}"] if rows else []
    wake(proof)
    ended(lab, scenario)
    lab.airflow.until(lambda: gone(proof["pid"]), f"{scenario.name} ends when woken", END_S)
    settle(lab, scenario)
    return faults + judging.fenced(lab, scenario)


def struck(lab: Lab, scenario: Scenario) -> dict[str, Any]:
    """Wait for the proof of the deed. What is armed and not hit is an error."""
    lab.airflow.until(
        lambda: lab.places.proof(scenario) is not None, f"{scenario.name} is hit", HIT_S
    )
    proof = lab.places.proof(scenario)
    assert proof is not None
    return proof


def replaced(lab: Lab, scenario: Scenario) -> None:
    """Wait until a later attempt has succeeded, and with it the run."""

    def done() -> bool:
        tasks = lab.metadata.tasks(scenario.name)
        return bool(tasks) and all(t.state == SUCCESS and t.attempt > 1 for t in tasks)

    lab.airflow.until(done, f"{scenario.name}: a later attempt succeeds", END_S)
    ended(lab, scenario)


def ended(lab: Lab, scenario: Scenario) -> None:
    """Wait until every run of the DAG has ended, and with it the last attempt of each task.

    A state is known before its process has written its last XComs and the last lines of its log.
    """

    def done() -> bool:
        runs = lab.metadata.runs(scenario.name)
        return bool(runs) and all(state in ENDED for state in runs.values())

    lab.airflow.until(done, f"{scenario.name} ends", END_S)
    lab.airflow.until(
        lambda: not lab.writing(scenario), f"the last attempts of {scenario.name} end", END_S
    )


def settle(lab: Lab, scenario: Scenario) -> None:
    """Wait for the end of all attempts; what they have reported gets the time to arrive."""
    most = max((task.attempt for task in lab.metadata.tasks(scenario.name)), default=0)
    every = range(1, most + 1)
    lab.airflow.until(
        lambda: not lab.writing(scenario, *every), f"all attempts of {scenario.name} end", END_S
    )
    time.sleep(QUIET_S)
    lab.airflow.alive()


def wake(proof: dict[str, Any]) -> None:
    """Let the task and its worker go on."""
    for pid in (proof["pid"], proof["parent"]):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
