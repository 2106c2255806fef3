"""The command line as a program meets it: help, reports, plans, exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import dpone
from dpone.contracts.published import NAMES, contract
from dpone.contracts.route import RouteManifest
from tests.loading.project import ITEM_ROWS, TARGETS, Project


def check_report(text: str) -> Any:
    """Decode the one object on stdout by the closed contract that it names."""
    assert text.count("\n") == 1
    value = json.loads(text)
    return msgspec.json.decode(text.encode(), type=contract(value["schema"]))


def test_version_is_the_packages(project: Project) -> None:
    said = project.call("--version")
    assert (said.code, said.out) == (0, f"dpone {dpone.__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["run", "--help"], ["route", "--help"], ["route", "explain", "--help"]],
)
def test_help_is_printed_on_stdout(project: Project, arguments: list[str]) -> None:
    said = project.call(*arguments)
    assert (said.code, said.err) == (0, "")
    assert "Usage: dpone" in said.out


def test_help_lists_the_commands(project: Project) -> None:
    said = project.call("--help")
    for command in ("run", "route", "schema"):
        assert f"  {command}" in said.out


@pytest.mark.parametrize("arguments", [[], ["route"]])
def test_no_command_is_a_misuse_that_shows_the_help(project: Project, arguments: list[str]) -> None:
    said = project.call(*arguments)
    assert (said.code, said.out) == (2, "")
    assert "Usage: dpone" in said.err


def test_run_prints_one_closed_object(project: Project, kind: str) -> None:
    project.route(target=TARGETS[kind], partition="{column: grp}")
    for how in ("committed", "replayed"):
        said = project.run()
        report = check_report(said.out)
        assert (said.code, said.err) == (0, "")
        assert {operation.how for operation in report.operations} == {how}
        assert report.environment == "test"


def test_a_failure_is_in_the_object_and_on_stderr(project: Project) -> None:
    project.write("items.csv", "id,grp,day,amount\nx,a,2024-01-01,1\n")
    project.route()
    said = project.run()
    report = check_report(said.out)
    assert (said.code, report.exit_code) == (1, 1)
    assert report.operations[0].error.code == "DPONE_SOURCE_VALUE"
    assert "DPONE_SOURCE_VALUE" in said.err
    assert "next:" in said.err


def test_an_error_before_the_run_is_one_object_too(project: Project) -> None:
    said = project.call("run", "absent.yaml", "--format", "json")
    assert check_report(said.out).code == "DPONE_MANIFEST_NOT_FOUND"
    misuse = project.call("run", "--format", "json", "--no-such-option")
    assert check_report(misuse.out).code == "DPONE_USAGE"
    assert misuse.code == 2


def test_text_names_every_partition(project: Project) -> None:
    project.route(partition="{column: grp}")
    said = project.call("run", "route.yaml")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert [line.split("  ")[0].strip() for line in lines[:3]] == [
        "grp=a",
        "grp=b",
        "grp is missing",
    ]
    assert lines[3] == "3 operations: 3 loaded"
    again = project.call("run", "route.yaml")
    assert again.out.splitlines()[3] == "3 operations: 3 already loaded"


@pytest.mark.parametrize(
    ("terminal", "options", "told"),
    [(True, [], True), (False, [], False), (True, ["--format", "json"], False)],
    ids=["terminal", "file", "json"],
)
def test_progress_is_shown_on_a_terminal_and_never_in_json(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
    options: list[str],
    told: bool,
) -> None:
    project.route(target=TARGETS["sqlite"])
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda stream: terminal)
    said = project.call("run", "route.yaml", *options)
    assert said.code == 0
    assert ("reading csv source" in said.err) is told
    assert "reading" not in said.out


def test_plan_writes_nothing(project: Project, kind: str) -> None:
    project.route(target=TARGETS[kind], partition="{column: grp}")
    before = project.snapshot()
    plan = check_report(project.run("--plan").out)
    assert [item.would for item in plan.operations] == ["load"] * 3
    assert project.snapshot() == before
    assert sorted(path.name for path in project.root.iterdir()) == [
        "dpone.toml", "items.csv", "route.yaml",
    ]  # fmt: skip
    assert project.run("--partition", "grp=a").code == 0
    before = project.snapshot()
    plan = check_report(project.run("--plan").out)
    assert [item.would for item in plan.operations] == ["replay", "load", "load"]
    assert project.snapshot() == before


def test_plan_names_a_refusal(project: Project) -> None:
    project.route()
    assert project.run().code == 0
    project.write("items.csv", "id,grp,day,amount\n")
    plan = check_report(project.run("--plan").out)
    assert (plan.operations[0].would, plan.operations[0].state) == ("refuse", "COMPLETE")
    assert "intent_mismatch" in plan.operations[0].why


def test_validate_says_what_the_connector_gives(project: Project, kind: str) -> None:
    project.route(target=TARGETS[kind])
    said = project.call("route", "validate", "route.yaml")
    assert said.code == 0
    assert "TRANSACTIONAL" in said.out
    check = check_report(project.call("route", "validate", "route.yaml", "--format", "json").out)
    assert (check.target, check.protection.capability) == (kind, "TRANSACTIONAL")


def test_validate_says_that_a_target_without_a_fence_is_only_guarded(project: Project) -> None:
    project.route(target="{csvdir: out, table: items}")
    said = project.call("route", "validate", "route.yaml", "--format", "json")
    assert check_report(said.out).protection.capability == "NONE"
    text = project.call("route", "explain", "route.yaml").out
    assert "a guard blocks the next run until a person has looked" in text


def test_a_connection_enters_the_identity_by_its_name(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.route(target="{postgres: warehouse, table: items}")
    explained = []
    for place in ("host=one user=ann password=s3cret", "postgresql://bob:s3cret@two/w"):
        monkeypatch.setenv("DPONE_CONNECTION_WAREHOUSE", f"postgres:{place}")
        said = project.call("route", "explain", "route.yaml", "--format", "json")
        assert "s3cret" not in said.out + said.err
        explained.append(check_report(said.out).operations)
    assert explained[0] == explained[1]
    assert explained[0][0].identity["target"] == {"postgres": "warehouse", "table": "items"}


def test_explain_lists_what_run_does(project: Project) -> None:
    project.route(partition="{column: grp}")
    said = project.call("route", "explain", "route.yaml", "--format", "json")
    explained = check_report(said.out)
    report = check_report(project.run().out)
    assert [item.operation_id for item in explained.operations] == [
        item.operation_id for item in report.operations
    ]
    text = project.call("route", "explain", "route.yaml")
    assert explained.operations[0].intent_digest in text.out


def test_every_contract_has_a_schema(project: Project) -> None:
    listed = check_report(project.call("schema", "--format", "json").out)
    assert listed.names == NAMES
    for name in listed.names:
        said = project.call("schema", name)
        body = json.loads(said.out)
        assert said.code == 0
        assert body["$schema"].startswith("https://json-schema.org/")
        definition = body["$defs"][body["$ref"].rpartition("/")[2]]
        assert definition["additionalProperties"] is False, name


def test_the_manifests_schema_knows_every_field(project: Project) -> None:
    body = json.loads(project.call("schema", "dpone.route.v1").out)
    fields = body["$defs"]["RouteManifest"]["properties"]
    assert sorted(fields) == sorted(RouteManifest.__struct_fields__)
    assert body["$defs"]["TargetSpec"]["oneOf"][0] == {"required": ["duckdb"]}


def test_the_revision_may_stand_in_the_manifest(project: Project) -> None:
    project.route(strategy="full_refresh")
    assert project.run().hows == ["committed"]
    project.route(strategy="full_refresh", revision="2")
    said = project.run()
    assert said.hows == ["committed"]
    assert said.report["operations"][0]["revision"] == 2
    assert project.items("duckdb") == ITEM_ROWS


def test_the_environment_may_come_from_a_variable(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.route()
    monkeypatch.setenv("DPONE_ENVIRONMENT", "night")
    assert project.run().report["environment"] == "night"


def test_connections_may_come_from_variables(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "w.sqlite"
    project.route(target="{sqlite: warehouse, table: items}")
    monkeypatch.setenv("DPONE_CONNECTION_WAREHOUSE", f"sqlite:{elsewhere}")
    said = project.run()
    assert said.hows == ["committed"], said.err
    assert elsewhere.is_file()
    assert str(elsewhere) not in said.out + said.err


def test_yaml_never_turns_a_name_into_a_flag(project: Project) -> None:
    project.write("items.csv", "on,no,null\n1,x,~\n")
    project.route(
        route="no", columns="{on: integer, no: text, null: text}", strategy="{merge: [on]}",
        source="{csv: items.csv, null: [~]}",
    )  # fmt: skip
    assert project.run().report["route"] == "no"
    assert project.duckdb('SELECT "on", "no", "null" FROM items') == [(1, "x", None)]


def test_debug_shows_where_it_stopped(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret-token")

    monkeypatch.setattr("dpone.routes.read_route", broken)
    project.route()
    said = project.call("run", "route.yaml")
    assert said.code == 5
    assert "DPONE_INTERNAL" in said.err
    assert "secret-token" not in said.err + said.out
    assert "Traceback" not in said.err
    monkeypatch.setenv("DPONE_DEBUG", "1")
    assert "Traceback" in project.call("run", "route.yaml").err


def test_help_imports_neither_drivers_nor_pictures() -> None:
    code = (
        "import sys\n"
        "from dpone.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.strip("[]\n").replace("'", "").split(", "))
    assert loaded.isdisjoint({"duckdb", "psycopg", "rich", "yaml", "pydantic", "sqlite3"})


@pytest.mark.parametrize(
    ("shell", "asked"),
    [
        ("bash", {"COMP_WORDS": "dpone journal re", "COMP_CWORD": "2"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "dpone journal re"}),
        (
            "fish",
            {
                "_TYPER_COMPLETE_ARGS": "dpone journal re",
                "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            },
        ),
    ],
)
def test_each_shell_is_told_the_commands_that_begin_so(shell: str, asked: dict[str, str]) -> None:
    program = Path(sys.executable).parent / "dpone"
    given = {**os.environ, **asked, "_DPONE_COMPLETE": f"complete_{shell}"}
    done = subprocess.run([program], env=given, capture_output=True, text=True, check=True)
    found = re.findall(r"\b(?:list|show|explain|reconcile|resolve|adopt|prune)\b", done.stdout)
    assert found == ["reconcile", "resolve"]


def test_the_command_is_installed() -> None:
    program = Path(sys.executable).parent / "dpone"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"dpone {dpone.__version__}\n"


def test_a_terminal_obeys_nothing_that_comes_from_data(project: Project) -> None:
    project.write("items.csv", "id,grp\n1,\x1b[2Jx\n")
    project.route(columns="{id: integer, grp: text}", partition="{column: grp}")
    said = project.call("run", "route.yaml")
    assert said.code == 0
    assert "\x1b" not in said.out
    assert "grp=\\x1b[2Jx" in said.out


def test_a_reader_that_goes_away_stops_no_load(project: Project) -> None:
    project.route(partition="{column: grp}")
    program = Path(sys.executable).parent / "dpone"
    process = subprocess.Popen(
        [program, "run", "route.yaml"], cwd=project.root, stdout=subprocess.PIPE, stderr=-1
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(60) == 0, process.stderr.read()
    process.stderr.close()
    assert project.items("duckdb") == ITEM_ROWS


def test_a_query_on_the_target_itself_is_refused(project: Project) -> None:
    project.write("dpone.toml", '[connections.w]\nkind = "duckdb"\ndsn = "warehouse.duckdb"\n')
    project.route(source="{query: {connection: w, sql: SELECT 1 AS id}}")
    said = project.run()
    assert (said.code, said.codes) == (4, ["DPONE_CONNECTOR_UNSUPPORTED"])


def test_a_list_of_names_for_people_loads_no_contract() -> None:
    """Its start-up has a bound (bench/startup.py), and the contracts cost a third of it."""
    program = (
        "import sys\n"
        "from dpone.cli.main import main\n"
        "try:\n    main(['schema'])\n"
        "except SystemExit as end:\n    print(end.code, 'msgspec' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "dpone.route.v1" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 False"
