"""Public reports of loads that ran twice: attempts that live on, resume or come again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from faultinject import workloads
from faultinject.matrix import FENCED, World, fresh
from faultinject.rivals import LOST, code_of, how_of, loaded_once, paused, zombie
from faultinject.workloads import operation_of
from faultinject.zygote import Zygote
from tests.cases.desk import APPEND, every_target, only_postgres, said, sql, states
from tests.loading.project import Project

SAME = ("operation_id", "attempt", "attempt_id", "intent_digest", "result")


def payload(outcome: dict[str, Any]) -> list[Any]:
    """What must not differ between the first answer and a later one."""
    return [outcome[name] for name in SAME]


@pytest.mark.parametrize("world", ["postgres"], indirect=True)
def test_a01_the_worker_that_is_replaced_before_its_commit_loses(
    zygote: Zygote, world: World
) -> None:
    bout = zombie(zygote, world, "append", "fencing.commit:before#1")
    assert (bout.faults, bout.loser) == ((), LOST)


@pytest.mark.parametrize("world", ["sqlite", "duckdb"], indirect=True)
def test_a01_a_file_that_the_first_worker_holds_takes_one_of_both(
    zygote: Zygote, world: World
) -> None:
    bout = paused(zygote, world, "append", "fencing.commit:before#1", killed=False)
    # It committed, and found afterwards that the other one had taken the row over.
    assert (bout.faults, bout.loser) == ((), "DPONE_TARGET_COMMIT_UNFINISHED")


@pytest.mark.parametrize("world", ["sqlite", "duckdb"], indirect=True)
def test_a02_a_finished_load_is_replayed_without_a_write_to_the_file(
    zygote: Zygote, world: World
) -> None:
    with fresh(world, APPEND) as args:
        first = zygote.run(FENCED, args).result or {}
        place = Path(args["target"].partition(":")[2])
        before = place.read_bytes()
        again = zygote.run(FENCED, args).result or {}
        assert again["outcome"]["how"] == "replayed"
        assert payload(again["outcome"]) == payload(first["outcome"])
        assert place.read_bytes() == before


@only_postgres
def test_a02_a_finished_load_is_replayed_for_a_role_that_may_only_read(
    zygote: Zygote, world: World
) -> None:
    with fresh(world, APPEND) as args:
        assert said(zygote, args) == "committed"
        dsn = args["target"].partition(":")[2]
        schema = sql(args, "SELECT current_schema()")[0][0]
        sql(
            args,
            "CREATE ROLE only_reads LOGIN",
            f"GRANT USAGE ON SCHEMA {schema} TO only_reads",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO only_reads",
        )
        try:
            # The server itself would refuse any statement that writes.
            reading = {**args, "target": "postgres:" + make_conninfo(dsn, user="only_reads")}
            assert said(zygote, reading) == "replayed"
            assert said(zygote, reading, part="other") != "committed"
        finally:
            sql(args, "DROP OWNED BY only_reads", "DROP ROLE only_reads")
        assert loaded_once(args, "append") == []


@every_target
def test_a03_a_result_lost_after_complete_is_answered_again(zygote: Zygote, world: World) -> None:
    with fresh(world, APPEND) as args:
        point = "fencing.acknowledge:after#1"
        killed = zygote.run(FENCED, args, point=point)
        assert killed.killed
        assert killed.hit(point)
        assert states(args)[-1] == "COMPLETE"
        again = zygote.run(FENCED, args).result or {}
        assert again["outcome"]["how"] == "replayed"
        assert again["outcome"]["result"] == {"rows_written": workloads.ROWS}
        assert again["outcome"]["operation_id"] == operation_of(args).operation_id
        assert loaded_once(args, "append") == []


def test_a03_the_command_prints_after_a_kill_what_it_would_have_printed(
    project: Project, kind: str
) -> None:
    targets = {
        "duckdb": "{duckdb: w.duckdb, table: items}",
        "sqlite": "{sqlite: w.db, table: items}",
    }
    project.route(target=targets[kind])
    proof = project.root / "proof"
    command = [sys.executable, "-m", "faultinject.launch", "--proof", str(proof)]
    command += ["--point", "fencing.complete:after#1", "--"]
    root = Path(__file__).resolve().parents[2]
    killed = subprocess.run(
        [*command, "run", "route.yaml", "--format", "json"],
        cwd=project.root,
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert killed.returncode == -signal.SIGKILL
    assert json.loads(proof.read_text())["signal"] == "SIGKILL"
    assert killed.stdout == ""
    report = project.run().report
    assert [(item["how"], item["state"]) for item in report["operations"]] == [
        ("replayed", "COMPLETE")
    ]
    assert report["operations"][0]["result"]["rows_written"] == 4


@every_target
def test_a04_an_obsolete_attempt_is_refused_in_its_own_transaction(
    zygote: Zygote, world: World
) -> None:
    bout = zombie(zygote, world, "append", "fencing.claim:before#1" if _server(world) else POINT)
    assert (bout.faults, bout.loser) == ((), LOST)


POINT = "fencing.intent:after#1"


def _server(world: World) -> bool:
    """Whether a worker paused in its own transaction does not hold the whole target."""
    return "postgres" in world.__qualname__


@every_target
def test_a07_two_processes_that_resume_at_once_report_the_same_outcome(
    zygote: Zygote, world: World
) -> None:
    with fresh(world, APPEND) as args:
        point = "fencing.commit:after#1"
        killed = zygote.run(FENCED, args, point=point)
        assert killed.killed
        assert killed.hit(point)
        folder = Path(args["folder"]) / "meet"
        folder.mkdir()
        both = {**args, "meet": str(folder), "meet_count": 2}
        pids = [zygote.start(FENCED, both) for _ in range(2)]
        ended = [zygote.wait(pid) for pid in pids]
        assert "settled" in [how_of(run) for run in ended]
        outcomes = []
        for run in ended:
            last = run
            if run.exit_code == 3:
                # Retryable: the other one owns the row at this moment.
                assert code_of(run) in (LOST, "DPONE_TARGET_HELD")
                last = zygote.run(FENCED, args)
            outcomes.append(payload((last.result or {})["outcome"]))
        assert outcomes[0] == outcomes[1]
        assert loaded_once(args, "append") == []


@every_target
@pytest.mark.parametrize("point", ["fencing.commit:after#1", "fencing.acknowledge:after#1"])
def test_a17_a_checkpoint_cut_off_from_its_rows_is_written_by_the_next_run(
    zygote: Zygote, world: World, point: str
) -> None:
    with fresh(world, APPEND) as args:
        checkpoint = Path(args["folder"]) / "checkpoint"
        args.update(obligations=["checkpoint"], obligation_file=str(checkpoint))
        killed = zygote.run(FENCED, args, point=point)
        assert killed.killed
        assert killed.hit(point)
        assert not checkpoint.exists()
        assert said(zygote, args) in ("settled", "resumed")
        assert checkpoint.read_text().splitlines() == [operation_of(args).operation_id]
        assert said(zygote, args) == "replayed"
        assert len(checkpoint.read_text().splitlines()) == 1
        assert loaded_once(args, "append") == []
