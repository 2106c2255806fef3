"""One session: an Airflow of one version, started once, in which every scenario runs as a DAG."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from faultinject.airflow import rounds, sequels
from faultinject.airflow.instance import AirflowError, Instance
from faultinject.airflow.judging import Lab
from faultinject.airflow.metadata import Metadata
from faultinject.airflow.places import Places
from faultinject.airflow.scenarios import PAIR, SEEDS, TWO_DAGS, Scenario
from faultinject.postgres import PostgresServer

READ_S = 120.0
AT_ONCE_3, AT_ONCE_2 = 8, 5
NO_JOURNAL = ("nojournal", "cutbefore", "cutafter")
Round = Callable[[Lab, Scenario], list[str]]


def round_of(scenario: Scenario) -> Round:
    """How a scenario is run and judged by itself."""
    if scenario.mode == "pause" and scenario.flavour == "naive":
        return rounds.paused_control
    if scenario.mode == "pause" and scenario.kind != "postgres":
        return rounds.holding
    if scenario.mode in ("pause", "stall", "early"):
        return rounds.paused
    return sequels.SEQUELS.get(scenario.label, rounds.killed)


class Session:
    """A started lab. `records` grows by one record for each scenario."""

    def __init__(self, lab: Lab, journals: PostgresServer) -> None:
        self.lab = lab
        self.journals = journals
        self.records: list[dict[str, Any]] = []

    def run(self, scenarios: Sequence[Scenario]) -> None:
        """All scenarios: together what can be, then what stops a journal, then the scheduler."""
        alone = [s for s in scenarios if s.label == "scheduler"]
        journals = [s for s in scenarios if s.label in NO_JOURNAL]
        together = [s for s in scenarios if s not in alone and s not in journals]
        # More at once would starve living tasks of their heartbeats.
        with ThreadPoolExecutor(AT_ONCE_3 if self.lab.airflow.is_3 else AT_ONCE_2) as pool:
            begun = [pool.submit(self._journals, journals)] if journals else []
            for scenario in sorted(together, key=_weight):
                begun.append(pool.submit(self._record, scenario, round_of(scenario)))
        for future in begun:
            future.result()
        for scenario in alone:
            self._record(scenario, sequels.scheduler_killed)
        pair = [scenario for scenario in scenarios if scenario.name in PAIR]
        if len(pair) == len(PAIR):
            self._record(pair[0], lambda lab, _: sequels.two_dags(lab, *pair), TWO_DAGS)
        order = [*(scenario.name for scenario in scenarios), TWO_DAGS]
        self.records.sort(key=lambda record: order.index(record["name"]))

    def _record(self, scenario: Scenario, judge: Round, name: str = "") -> None:
        started = time.monotonic()
        faults, rows, attempts = self._judged(scenario, judge)
        self.records.append(
            {
                "name": name or scenario.name,
                "faults": faults,
                "rows": rows,
                "attempts": attempts,
                "seconds": round(time.monotonic() - started, 1),
            }
        )

    def _judged(self, scenario: Scenario, judge: Round) -> tuple[list[str], int, int]:
        """What is wrong with a scenario, its rows and attempts; -1 for what could not be counted.

        A seeded defect has to be found by the judge: trouble of the lab itself finds none.
        """
        lab, rows, attempts = self.lab, -1, -1
        faults: list[str] = []
        try:
            lab.metadata.unpause([scenario.name])
            try:
                faults = judge(lab, scenario)
            except (AirflowError, AssertionError) as error:
                faults = [str(error)]
            hit = not scenario.hurt or lab.places.proof(scenario) is not None
            if scenario.defect:
                faults = _noticed(scenario, faults)
            if not hit:
                faults = [*faults, "armed and not hit"]
            rows = len(lab.places.rows(scenario))
            attempts = max((t.attempt for t in lab.metadata.tasks(scenario.name)), default=0)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is a fault of this round
            faults = [*faults, f"{type(error).__name__}: {error}"]
        return faults, rows, attempts

    def _journals(self, scenarios: list[Scenario]) -> None:
        sequels.journal_away(self.lab, self.journals, scenarios, self._record)


def _noticed(scenario: Scenario, faults: list[str]) -> list[str]:
    """A seeded defect has to be found, and for the reason that it is one."""
    wanted = SEEDS[scenario.defect]
    if any(re.search(wanted, fault) for fault in faults):
        return []
    return [f"the defect {scenario.defect} was not noticed: {faults}"]


def _weight(scenario: Scenario) -> int:
    """The long ones first."""
    words = (scenario.label, scenario.mode)
    order = ("mapped", "daily", "pause", "stall", "early", "clear", "supervisor", "child")
    return min(order.index(word) for word in words if word in order)


@contextmanager
def started(version: str, python: Path, scenarios: Sequence[Scenario]) -> Iterator[Session]:
    """Start Airflow with the DAGs of these scenarios; everything ends with the block."""
    folder = Path(tempfile.mkdtemp(prefix="dpone-airflow-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        settings = {"max_connections": "300"}
        server = stack.enter_context(PostgresServer(fsync=False, settings=settings))
        journals = stack.enter_context(PostgresServer(fsync=False))
        places = Places(folder / "places", server, journals)
        plan = {
            "proofs": str(places.proofs),
            "scenarios": [scenario.planned(places.place(scenario)) for scenario in scenarios],
        }
        (folder / "plan.json").write_text(json.dumps(plan))
        server.create_database("airflow")
        environ = {**places.connections(), "DPONE_LAB_PLAN": str(folder / "plan.json")}
        dsn = server.dsn("airflow", tcp=True)
        airflow = stack.enter_context(Instance(folder, version, python, dsn, environ))
        metadata = stack.enter_context(Metadata(dsn))
        wanted = {scenario.name for scenario in scenarios}

        def read() -> bool:
            if errors := metadata.import_errors():
                raise AirflowError(f"the DAG file cannot be read: {errors[0][-2000:]}")
            return wanted <= metadata.known()

        airflow.until(read, "Airflow reads the DAGs", READ_S)
        yield Session(Lab(airflow, metadata, places), journals)
