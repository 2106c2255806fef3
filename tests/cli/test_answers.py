"""An answer that cannot be written: no traceback, never exit code 0, and what was done is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.loading.project import ITEM_ROWS, TARGETS, Project

FULL = "/dev/full"
UNWRITTEN = "DPONE_ANSWER_UNWRITTEN"
CATALOG = "dpone_workloads/gitops/domains/sales.yaml"


class Ended(NamedTuple):
    """How a process ended, whose stdout or stderr took nothing."""

    code: int
    told: str


def ended(root: Path, *arguments: str, full: str = "stdout", unbuffered: bool = False) -> Ended:
    """Run the command line with one full stream, and return what the other one got."""
    command = [str(Path(sys.executable).parent / "dpone"), *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1" if unbuffered else ""}
    other = "stderr" if full == "stdout" else "stdout"
    with Path(FULL).open("w", encoding="utf-8") as stream:
        done = subprocess.run(
            command,
            cwd=root,
            env=environment,
            check=False,
            text=True,
            timeout=120,
            stdout=stream if full == "stdout" else subprocess.PIPE,
            stderr=stream if full == "stderr" else subprocess.PIPE,
        )
    return Ended(done.returncode, getattr(done, other))


@pytest.fixture
def shop(project: Project) -> Project:
    """A project with a domain, and a route that was loaded once."""
    for command in (("init",), ("init", "domain", "sales")):
        assert project.call(*command, "--apply").code == 0
    project.route(target=TARGETS["sqlite"])
    assert project.run().code == 0
    return project


COMMANDS = (
    ("init",),
    ("init", "workload", "sales/orders"),
    ("init", "workload", "sales/orders", "--apply"),
    ("init", "dag", "sales/daily", "--apply"),
    ("authoring", "recover", "dpone.toml"),
    ("run", "route.yaml"),
    ("run", "route.yaml", "--plan"),
    ("route", "validate", "route.yaml"),
    ("route", "explain", "route.yaml"),
    ("journal", "list"),
    ("journal", "check"),
    ("airflow", "cache-materialize", "--cache-root", "cache"),
    ("schema",),
    ("schema", "dpone.error.v1"),
)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_full_stdout_is_told_on_stderr(
    shop: Project, command: tuple[str, ...], form: str
) -> None:
    said = ended(shop.root, *command, "--format", form)
    assert said.code == 4, said.told
    assert said.told.startswith(UNWRITTEN)
    assert said.told.count(UNWRITTEN) == 1
    assert "Traceback" not in said.told
    assert "DPONE_INTERNAL" not in said.told


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("unbuffered", [False, True])
def test_what_is_in_force_is_told_on_stderr(shop: Project, form: str, unbuffered: bool) -> None:
    command = ("init", "workload", "sales/orders", "--apply", "--format", form)
    said = ended(shop.root, *command, unbuffered=unbuffered)
    assert "workload sales/orders: changed 2 files" in said.told
    assert "orders:" in (shop.root / CATALOG).read_text()
    again = ended(shop.root, *command, full="stderr")
    assert again.code == 0


def test_a_load_goes_on_and_its_lines_are_told_on_stderr(shop: Project) -> None:
    shop.route(target=TARGETS["sqlite"], route="other", partition="{column: grp}")
    said = ended(shop.root, "run", "route.yaml")
    assert said.code == 4
    assert said.told.splitlines()[-1] == "3 operations: 3 loaded"
    assert shop.run().hows == ["replayed"] * 3


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("full", ["stdout", "stderr"])
def test_a_refusal_keeps_its_exit_code(shop: Project, full: str, form: str) -> None:
    for command, code in (
        (("init", "workload"), 2),
        (("init", "workload", "absent/orders"), 1),
        (("run", "absent.yaml"), 2),
        (("schema", "absent"), 2),
        (("journal", "show", "0" * 64), 1),
    ):
        said = ended(shop.root, *command, "--format", form, full=full)
        assert said.code == code, said.told
        assert "Traceback" not in said.told


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize(
    "command", [("--help",), ("--version",), ("run", "--help"), ("init", "-h")]
)
def test_help_is_an_answer_too(
    project: Project, command: tuple[str, ...], unbuffered: bool
) -> None:
    said = ended(project.root, *command, unbuffered=unbuffered)
    assert said.code == (2 if "-h" in command else 4), said.told
    assert "Traceback" not in said.told
    assert "DPONE_INTERNAL" not in said.told


def test_a_closed_stderr_does_not_write_into_stdout(shop: Project) -> None:
    program = str(Path(sys.executable).parent / "dpone")
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" init workload absent/orders --format json 2>&-', program],
        cwd=shop.root,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("command", [("run", "route.yaml"), ("init", "--apply"), ("--help",)])
def test_a_closed_stdout_is_told_as_a_full_one_is(
    project: Project, command: tuple[str, ...]
) -> None:
    program = str(Path(sys.executable).parent / "dpone")
    project.route(target=TARGETS["sqlite"])
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" >&- <&-', program, *command],
        cwd=project.root,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert "DPONE_ANSWER_UNWRITTEN" in done.stderr
    if command[0] == "run":
        # What was done is told all the same.
        assert "1 operation: 1 loaded" in done.stderr
        assert project.items("sqlite") == ITEM_ROWS


def test_a_working_folder_that_is_gone_is_no_defect(tmp_path: Path) -> None:
    for command in (
        ("init",),
        ("init", "workload", "sales/orders"),
        ("authoring", "recover", "x.yaml"),
        ("authoring", "migrate", "x", "--to", "flow"),
        ("catalog", "apply", "sales", "--workload", "orders", "--owner", "me"),
        ("journal", "list"),
        ("airflow", "cache-retention-plan"),
    ):
        folder = tmp_path / "gone"
        folder.mkdir()
        program = str(Path(sys.executable).parent / "dpone")
        done = subprocess.run(
            ["sh", "-c", 'rmdir "$PWD" && exec "$0" "$@"', program, *command, "--format", "json"],
            cwd=folder,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 2, done.stderr
        assert '"code":"DPONE_WORKING_FOLDER_MISSING"' in done.stdout
        assert len(done.stdout.splitlines()) == 1
