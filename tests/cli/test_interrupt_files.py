"""SIGINT ends the commands that change files where it meets them, and they say so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpone.contracts.effects import Effect
from tests.loading.project import Project

CATALOG = "dpone_workloads/gitops/domains/sales.yaml"


class Sends:
    """Sends SIGINT to this process before or after the first occurrence of an effect."""

    def __init__(self, at: Effect, *, after: bool = False) -> None:
        self.at, self.after, self.is_due = at, after, True

    @contextmanager
    def __call__(self, effect: Effect, /) -> Iterator[None]:
        is_due = self.is_due and effect is self.at
        self.is_due = self.is_due and not is_due
        if is_due and not self.after:
            os.kill(os.getpid(), signal.SIGINT)
        yield
        if is_due and self.after:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def shop(project: Project) -> Project:
    """A project with a domain."""
    for command in (("init",), ("init", "domain", "sales")):
        assert project.call(*command, "--apply").code == 0
    return project


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "at",
    [
        Effect.AUTHORING_RECEIPT,
        Effect.AUTHORING_PUBLISH,
        Effect.AUTHORING_EXCHANGE,
        Effect.AUTHORING_COMMIT,
        Effect.AUTHORING_SETTLE,
    ],
)
def test_an_interrupted_apply_says_so_and_the_same_command_finishes_it(
    shop: Project, at: Effect, after: bool, form: str
) -> None:
    command = ("init", "workload", "sales/orders", "--apply", "--format", form)
    said = shop.call(*command, probe=Sends(at, after=after))
    assert said.code == 130
    assert said.err.startswith("DPONE_INTERRUPTED")
    assert "Run the same command again" in said.err
    if form == "json":
        assert (said.report["code"], said.report["exit_code"]) == ("DPONE_INTERRUPTED", 130)
    else:
        assert said.out == ""
    assert shop.call(*command).code == 0
    assert "orders:" in (shop.root / CATALOG).read_text()
    assert [path for path in shop.root.rglob("*") if ".dpone-" in path.name] == []


def test_every_command_that_changes_files_says_so(shop: Project) -> None:
    assert shop.call("init", "workload", "sales/orders", "--apply").code == 0
    assert shop.call("init", "dag", "sales/daily", "--apply").code == 0
    for command, at in (
        (("catalog", "apply", "sales", "--dag", "daily", "--workload", "orders"), "exchange"),
        (("authoring", "migrate", "workloads/sales/orders", "--to", "flow"), "exchange"),
        (("authoring", "recover", CATALOG), "sync"),
    ):
        words = (*command, "--apply", "--format", "json")
        said = shop.call(*words, probe=Sends(Effect(f"authoring.{at}")))
        assert (said.code, said.codes) == (130, ["DPONE_INTERRUPTED"]), command
    assert shop.call("authoring", "migrate", "workloads/sales/orders", "--to", "flow").code == 0


def test_an_interrupted_cache_says_so(project: Project) -> None:
    command = ("airflow", "cache-materialize", "--cache-root", "cache", "--format", "json")
    said = project.call(*command, probe=Sends(Effect.CACHE_PUBLISH))
    assert (said.code, said.codes) == (130, ["DPONE_INTERRUPTED"]), said.err
    assert project.call(*command).code == 0


def test_a_signal_while_the_answer_is_printed_adds_nothing_to_it(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encoded(value: object) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return json.dumps({"is_report": type(value).__name__})

    monkeypatch.setattr("dpone.cli.session._encoded", encoded)
    said = shop.call("init", "workload", "sales/orders", "--apply", "--format", "json")
    assert (said.code, said.report) == (0, {"is_report": "AuthoringReport"})


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_signal_while_commands_are_imported_is_no_traceback(project: Project, form: str) -> None:
    """A stand-in for the largest import that sends the signal while it is read."""
    (project.root / "typer.py").write_text(
        "import os, sys\nsys.path.remove('')\nos.kill(os.getpid(), 2)\n"
    )
    script = (
        "import sys; from dpone.cli.main import main; main(['schema', '--format', sys.argv[1]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, form],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert "DPONE_INTERRUPTED" in done.stderr
    assert form == "text" or json.loads(done.stdout)["code"] == "DPONE_INTERRUPTED"
