"""Whatever a user, a file or a server gets wrong ends in a code, a truth and a next step.

Every case starts from a project whose table already holds one loaded row set, and demands: the
code, the exit code of the published table, a next step, the same rows in the target, and neither
a traceback nor a secret nor an absolute path in what is printed.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.cli.mistakes import BOM, DATA, MANIFESTS, PLACES, SECRET, Case
from tests.cli.mistakes_postgres import POSTGRES
from tests.cli.ordinary import ordinary, ordinary_folder
from tests.loading.project import COLUMNS, ITEM_ROWS, ITEMS, TARGETS, Project

ALL = (*MANIFESTS, *DATA, *PLACES, *POSTGRES)
CASES = [
    pytest.param(case, kind, id=f"{case.name}-{kind}".replace(" ", "_"))
    for case in ALL
    # A mistake in the manifest is found before the target matters.
    for kind in (case.kinds if case not in MANIFESTS else case.kinds[:1])
]


@pytest.mark.parametrize(("case", "kind"), CASES)
def test_a_mistake_is_explained(
    project: Project, case: Case, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "postgres":
        request.getfixturevalue("warehouse")
    project.route(target=TARGETS[kind])
    assert project.run().code == 0
    case.make(project, kind)
    said = project.call(*case.arguments)
    report = json.loads(said.out)
    if "code" not in report:
        report = next(item["error"] for item in report["operations"] if item["error"])
    assert (report["code"], said.code) == (case.code, case.exit_code)
    assert report["exit_code"] == said.code
    assert report["next"]
    assert report["known"]
    assert report["happened"] in said.err
    check_words(said.out + said.err, project)
    assert project.items(kind) == ITEM_ROWS


def check_words(text: str, project: Project) -> None:
    """Nothing that is printed tells a traceback, a secret or where this machine keeps things."""
    for word in ("Traceback", SECRET, str(project.root), str(Path.home()) + "/", "?.", "127.0.0.1"):
        assert word not in text
    assert not re.search(r"(?<![\w.])/(?:tmp|root|home|usr|var|etc)/", text)


def test_enough_codes_are_covered() -> None:
    codes = {case.code for case in ALL}
    assert len(ALL) >= 60
    assert len(codes) >= 25
    assert len({(case.name, case.kinds) for case in ALL}) == len(ALL)


def test_a_missing_extra_is_one_sentence(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    for fields in (
        {"target": TARGETS["duckdb"]},
        {"target": TARGETS["sqlite"], "source": "{parquet: items.csv}"},
        {"target": TARGETS["sqlite"], "partition": "{column: grp}"},
    ):
        project.route(**fields)
        said = project.run()
        assert (said.code, said.codes) == (2, ["DPONE_EXTRA_MISSING"])
        assert 'pip install "dpone[duckdb]"' in said.err
        check_words(said.out + said.err, project)


def test_a_missing_table_without_types_is_suggested(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    project.route(target=TARGETS["sqlite"], columns="")
    said = project.run()
    assert (said.code, said.codes) == (1, ["DPONE_LOAD_TABLE_MISSING"])
    assert 'CREATE TABLE "items" ("id" TEXT' in said.err


def test_csv_into_sqlite_needs_no_extra(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    project.write("items.csv", BOM + ITEMS.replace("\n", "\r\n").encode())
    project.route(target=TARGETS["sqlite"], columns=COLUMNS)
    assert project.run().hows == ["committed"]
    assert project.items("sqlite") == ITEM_ROWS


def test_a_byte_order_mark_and_windows_lines_are_no_mistake(project: Project, kind: str) -> None:
    project.write("items.csv", BOM + ITEMS.replace("\n", "\r\n").encode())
    project.route(target=TARGETS[kind])
    assert project.run().hows == ["committed"]
    assert project.items(kind) == ITEM_ROWS


@pytest.mark.usefixtures("warehouse")
def test_a_missing_client_of_postgres_is_one_sentence(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    shop = "{query: {connection: warehouse, sql: SELECT 1 AS id}}"
    for fields in (
        {"target": TARGETS["postgres"]},
        {"target": TARGETS["sqlite"], "journal": "{postgres: warehouse}"},
        {"target": TARGETS["sqlite"], "source": shop},
    ):
        project.route(**fields)
        said = project.run()
        assert (said.code, said.codes) == (2, ["DPONE_EXTRA_MISSING"])
        assert 'pip install "dpone[postgres]"' in said.err
        check_words(said.out + said.err, project)


@pytest.mark.usefixtures("warehouse")
def test_the_whole_statement_for_the_fence_is_printed_and_suffices(project: Project) -> None:
    case = next(case for case in POSTGRES if case.name == "no right to create the fence")
    case.make(project, "postgres")
    project.postgres(
        f"CREATE TABLE items ({COLUMNS[1:-1].replace(':', '')})".replace(
            "double", "double precision"
        )
    )
    role = project.postgres("SELECT max(rolname) FROM pg_roles WHERE rolname ~ '^clerk_'")[0][0]
    project.postgres(f"GRANT SELECT, INSERT ON items TO {role}")
    said = project.run()
    assert said.codes == ["DPONE_TARGET_PRIVILEGE"]
    statement = said.report["operations"][0]["error"]["fields"]["statement"]
    assert statement in said.err
    project.postgres(statement)
    assert project.run().hows == ["committed"]
    assert project.items("postgres") == ITEM_ROWS


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_read_only_target_is_left_as_it_is(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    with ordinary_folder() as folder, ordinary(folder) as user:
        project = Project(folder, capsys)
        project.write("items.csv", ITEMS)
        project.route(target=TARGETS[kind])
        first = user.call("run", "route.yaml", "--format", "json")
        assert first.hows == ["committed"], first.err
        place = folder / TARGETS[kind].split(",")[0].partition(": ")[2]
        place.chmod(0o400)
        project.route(target=TARGETS[kind], route="other")
        said = user.call("run", "route.yaml", "--format", "json")
        assert (said.code, said.codes) == (4, ["DPONE_TARGET_READ_ONLY"]), said.err
        check_words(said.out + said.err, project)
        assert project.items(kind) == ITEM_ROWS
