"""What has to hold when a scenario is over, whatever happened to its first attempt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultinject.airflow.instance import Instance
from faultinject.airflow.metadata import SUCCESS, Metadata, Task
from faultinject.airflow.places import Places
from faultinject.airflow.scenarios import Scenario

FIELDS = ("operation_id", "epoch", "attempt_id", "intent_digest", "result")
LATER = ("settled", "resumed", "replayed")
# Why an attempt wrote nothing, in the words of its log.
WHY = {
    "settled": "an earlier attempt had committed it",
    "resumed": "an earlier attempt had committed it",
    "replayed": "finished before",
}


class Lab:
    """A started instance with its places: what every scenario is given."""

    def __init__(self, airflow: Instance, metadata: Metadata, places: Places) -> None:
        self.airflow = airflow
        self.metadata = metadata
        self.places = places

    def log(self, scenario: Scenario, task: Task, attempt: int = 0) -> str:
        """The log of an attempt, by default of the last one."""
        number = attempt or task.attempt
        return self.airflow.log(scenario.name, task.run_id, task.map_index, number)

    def writing(self, scenario: Scenario, *numbers: int) -> set[int]:
        """The processes of these attempts of every task, by default of its last one."""
        at = self.airflow.log_file
        return self.airflow.writing(
            {
                at(scenario.name, task.run_id, task.map_index, number)
                for task in self.metadata.tasks(scenario.name)
                for number in numbers or (task.attempt,)
            }
        )

    def logs(self, scenario: Scenario, task: Task) -> str:
        """The logs of all attempts of a task, one after the other."""
        return "".join(self.log(scenario, task, n + 1) for n in range(task.attempt))


def receipts(value: Any) -> list[dict[str, Any]]:
    """The receipts in an XCom: one of a fenced task, several of a route."""
    if not isinstance(value, Mapping):
        return []
    whole = value.get("operations")
    found = [item["receipt"] for item in whole] if whole is not None else [value]
    return [{name: receipt.get(name) for name in FIELDS} for receipt in found]


def controlled(lab: Lab, scenario: Scenario) -> list[str]:
    """The control must be wrong: a kill that does no harm has missed the window.

    It has two rows; one more only for each attempt that Airflow adds by itself.
    """
    rows = lab.places.rows(scenario)
    most = max((task.attempt for task in lab.metadata.tasks(scenario.name)), default=0)
    wrong = len(rows) < 2 or len(rows) > most or len(set(rows)) != len(rows)
    faults = [f"the control has {len(rows)} rows of {most} attempts: {rows}"] if wrong else []
    return faults + [f"a run ended {state}" for state in _not_successful(lab, scenario)]


def fenced(lab: Lab, scenario: Scenario) -> list[str]:
    """One row for each operation, its receipt in the fence, in the XCom and in the journal."""
    rows = lab.places.rows(scenario)
    faults = [f"a run ended {state}" for state in _not_successful(lab, scenario)]
    if len(rows) != scenario.rows:
        faults.append(f"{len(rows)} rows instead of {scenario.rows}: {rows}")
    amounts = sorted(amount for _, amount in rows)
    if amounts != sorted(scenario.amounts or (100,)):
        faults.append(f"the amounts are {amounts}")
    fences = lab.places.fences(scenario)
    xcoms = lab.metadata.xcoms(scenario.name)
    told = [receipt for value in xcoms.values() for receipt in receipts(value)]
    if len(xcoms) != len(lab.metadata.tasks(scenario.name)):
        faults.append(f"{len(xcoms)} XComs")
    for receipt in told:
        held = fences.get(receipt["operation_id"])
        if receipt != held:
            faults.append(f"the XCom is {receipt}, the fence holds {held}")
    operations = sorted({str(receipt["operation_id"]) for receipt in told})
    if len(operations) != scenario.rows:
        faults.append(f"{len(operations)} operations instead of {scenario.rows}")
    states = lab.places.states(scenario, operations)
    if set(states) != {"COMPLETE"}:
        faults.append(f"the journal says {states}")
    return faults


def adopted(lab: Lab, scenario: Scenario) -> list[str]:
    """The second attempt handed on what the first had left, and its log says so."""
    proof = lab.places.proof(scenario)
    left = (proof or {}).get("receipt")
    if not left:
        return ["the first attempt left no receipt in its proof"]
    faults = []
    for (run_id, map_index), value in lab.metadata.xcoms(scenario.name).items():
        found = receipts(value)
        if left not in found:
            continue
        task = task_of(lab, scenario, run_id, map_index)
        if task.attempt < 2:
            faults.append(f"the hurt task ended with attempt {task.attempt}")
        if not any(line_of(lab.log(scenario, task), left["operation_id"], how) for how in LATER):
            faults.append(f"the log of attempt {task.attempt} does not say what it did and why")
        return faults
    return [f"no XCom is the receipt {left}"]


def line_of(log: str, operation_id: str, how: str) -> str:
    """The line of a log that says how an operation ended, and why; empty when there is none."""
    start, why = f"dpone: operation {operation_id} {how}", WHY.get(how, "")
    return next((line for line in log.splitlines() if start in line and why in line), "")


def task_of(lab: Lab, scenario: Scenario, run_id: str, map_index: int) -> Task:
    """The task instance of a run."""
    tasks = lab.metadata.tasks(scenario.name)
    return next(t for t in tasks if (t.run_id, t.map_index) == (run_id, map_index))


def _not_successful(lab: Lab, scenario: Scenario) -> list[str]:
    runs = lab.metadata.runs(scenario.name)
    return [state for state in runs.values() if state != SUCCESS] or ([] if runs else ["never"])
