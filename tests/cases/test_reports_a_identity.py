"""Public reports of loads that were confused with each other: identity and intent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpone.contracts.errors_fencing import IntentMismatch
from dpone.contracts.identity import Operation
from faultinject import workloads
from faultinject.matrix import World, fresh
from faultinject.workloads import change_of
from tests.cases.desk import APPEND, MISMATCH, committer, every_target
from tests.loading.project import ITEMS, TARGETS, Project, ids

BASE: dict[str, Any] = {"route": "users", "source": "crm", "target": "dwh", "partition": "d1"}


@every_target
def test_a05_an_index_that_means_another_table_now_is_refused(world: World) -> None:
    with fresh(world, APPEND) as args, committer(args) as by:
        mapped: dict[str, Any] = {**BASE, "partition": {"run": "r1", "index": 2}}
        users = Operation(**mapped, intent={"table": "users"})
        orders = Operation(**mapped, intent={"table": "orders"})
        assert users.operation_id == orders.operation_id
        assert by.commit(users, change_of("append", "users")).how == "committed"
        with pytest.raises(IntentMismatch) as refused:
            by.commit(orders, change_of("append", "orders"))
        for digest in (users.intent_digest, orders.intent_digest):
            assert digest in str(refused.value)
        assert refused.value.exit_code == 1
        by.target.close()
        assert workloads.mutations(args["target"], "orders") == 0
        assert workloads.mutations(args["target"], "users") == 1


@every_target
def test_a06_every_component_of_the_identity_counts(world: World) -> None:
    others: list[dict[str, Any]] = [
        {},
        {"route": "orders"},
        {"source": "erp"},
        {"target": "lake"},
        {"environment": "staging"},
        {"partition": "d2"},
    ]
    operations = [Operation(**{**BASE, **other}) for other in others]
    assert len({operation.operation_id for operation in operations}) == len(others)
    with fresh(world, APPEND) as args, committer(args) as by:
        hows = [by.commit(operation, change_of("append", "p")).how for operation in operations]
        assert hows == ["committed"] * len(others)
        by.target.close()
        assert workloads.mutations(args["target"]) == len(others)


def test_a08_a_corrected_day_is_refused_plainly_and_loaded_when_approved(
    project: Project, kind: str
) -> None:
    project.route(target=TARGETS[kind])
    assert project.run().hows == ["committed"]
    project.write("items.csv", ITEMS + "5,b,2024-04-01,9.0\n")
    refused = project.run()
    assert (refused.code, refused.codes) == (1, [MISMATCH])
    assert ids(project.items(kind)) == [1, 2, 3, 4]
    # For append a reload adds every row again: the revision alone is no approval.
    unsaid = project.run("--revision", "2")
    assert (unsaid.code, unsaid.codes) == (1, ["DPONE_RELOAD_ADDS_ROWS"])
    assert "add every row again" in unsaid.report["operations"][0]["error"]["happened"]
    assert ids(project.items(kind)) == [1, 2, 3, 4]
    approved = project.run("--revision", "2", "--again")
    assert (approved.code, approved.hows) == (0, ["committed"])
    assert sorted(ids(project.items(kind))) == [1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert project.run("--revision", "2").hows == ["replayed"]
    rows = project.sqlite("SELECT count(*) FROM dpone_journal", ".dpone/journal.db")
    assert rows == [(2,)]


def test_a14_equal_bytes_under_two_names_are_two_loads(project: Project, kind: str) -> None:
    (project.root / "items.csv").unlink()
    for day in ("d1", "d2"):
        project.write(f"in/{day}.csv", ITEMS)
    project.route(target=TARGETS[kind], source='{csv: "in/*.csv"}', partition="file")
    assert project.run().hows == ["committed", "committed"]
    assert sorted(ids(project.items(kind))) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert project.run().hows == ["replayed", "replayed"]


@every_target
def test_a14_empty_payloads_are_recorded_each(world: World) -> None:
    with fresh(world, APPEND) as args, committer(args) as by:
        for part in ("d1", "d2"):
            operation = Operation(**{**BASE, "partition": part}, intent={"rows": 0})
            assert by.commit(operation, lambda tx: {"rows_written": 0}).how == "committed"
            assert by.commit(operation, lambda tx: {"rows_written": 1}).how == "replayed"
        assert len(by.journal.page()) == 2


def test_a15_a_permanent_failure_does_not_burn_the_identity(project: Project, kind: str) -> None:
    project.write("items.csv", ITEMS + "five,b,2024-04-01,9.0\n")
    project.route(target=TARGETS[kind])
    refused = project.run()
    assert refused.code == 1
    assert refused.hows == ["failed"]
    identity = refused.report["operations"][0]["operation_id"]
    project.write("items.csv", ITEMS)
    mended = project.run()
    assert (mended.code, mended.hows) == (0, ["committed"])
    assert mended.report["operations"][0]["operation_id"] == identity
    assert mended.report["operations"][0]["attempt"] > 1
    assert project.run().hows == ["replayed"]
    assert ids(project.items(kind)) == [1, 2, 3, 4]


PROGRAM = """
import sys
from dpone.contracts.identity import Operation
pairs = [("b", 1), ("a", {"y": 2, "x": "\\u00e9"}), ("c", [1, 2])]
given = dict(pairs if sys.argv[1] == "1" else reversed(pairs))
print(Operation(route="r", source=given, target="t", partition=given, intent=given).operation_id)
"""


def test_a16_the_identity_does_not_depend_on_the_process() -> None:
    root = Path(__file__).resolve().parents[2]
    seen = set()
    for number, (seed, zone, locale) in enumerate(
        [("0", "UTC", "C"), ("1", "Asia/Tokyo", "C.UTF-8"), ("random", "America/New_York", "POSIX")]
    ):
        environment = {
            **os.environ,
            "PYTHONPATH": str(root),
            "PYTHONHASHSEED": seed,
            "TZ": zone,
            "LC_ALL": locale,
            "HOSTNAME": f"worker-{number}",
            "AIRFLOW_CTX_TRY_NUMBER": str(number),
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(number % 2)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(done.stdout)
    assert len(seen) == 1
    assert next(iter(seen)).startswith("sha256:")


@pytest.mark.parametrize(
    "change",
    [
        {"items": ITEMS + "5,b,2024-04-01,9.0\n"},
        {"columns": "{id: integer, grp: text, day: text, amount: double}"},
        {"strategy": "full_refresh"},
    ],
    ids=["rows", "columns", "strategy"],
)
def test_a25_a_reused_identity_with_another_payload_is_a_conflict(
    project: Project, kind: str, change: dict[str, str]
) -> None:
    project.route(target=TARGETS[kind])
    first = project.run()
    assert first.hows == ["committed"]
    before = project.items(kind)
    if "items" in change:
        project.write("items.csv", change["items"])
    else:
        project.route(target=TARGETS[kind], **change)
    refused = project.run()
    assert (refused.code, refused.codes) == (1, [MISMATCH])
    happened = refused.report["operations"][0]["error"]["happened"]
    for report in (first.report, refused.report):
        assert report["operations"][0]["intent_digest"] in happened
    assert project.items(kind) == before
