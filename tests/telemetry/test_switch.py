"""Telemetry is off until the environment asks for it, and needs its extra."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.loading.project import ITEM_ROWS, TARGETS, Project

BIN = Path(sys.executable).parent
CALL = (
    "import sys; from dpone.cli.main import main\n"
    "try: main(['run', 'route.yaml'])\n"
    "except SystemExit as ended: code = ended.code\n"
    "print(code, any(name.startswith('opentelemetry') for name in sys.modules))"
)


def python(project: Project, script: str, **environ: str) -> list[str]:
    """What a script printed at its end."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=project.root,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.splitlines()[-1].split()


def test_nothing_of_it_is_imported_unless_it_is_asked_for(project: Project) -> None:
    project.route(target=TARGETS["sqlite"])
    assert python(project, CALL) == ["0", "False"]
    assert python(project, CALL, DPONE_TELEMETRY="opentelemetry") == ["0", "True"]


def test_an_unknown_name_is_refused_before_anything_is_written(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPONE_TELEMETRY", "statsd")
    project.route(target=TARGETS["sqlite"])
    before = project.snapshot()
    said = project.run()
    assert (said.code, said.codes) == (2, ["DPONE_SPEC_INVALID"])
    assert "known are: opentelemetry" in said.err
    assert project.snapshot() == before


@pytest.mark.parametrize("missing", ["opentelemetry", "opentelemetry.trace"])
def test_a_missing_extra_is_named(project: Project, missing: str) -> None:
    """Others install packages below the same name, so that a part may be there."""
    project.route(target=TARGETS["sqlite"])
    absent = f"import sys; sys.modules[{missing!r}] = None\n"
    (last,) = [python(project, absent + CALL, DPONE_TELEMETRY="opentelemetry")]
    assert last[0] == "2"
    assert not (project.root / "warehouse.sqlite").exists()


def test_settings_of_the_sdk_that_name_nothing_stop_no_load(project: Project) -> None:
    project.route(target=TARGETS["sqlite"])
    names = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER", "OTEL_PROPAGATORS")
    environ = {"DPONE_TELEMETRY": "opentelemetry", **dict.fromkeys(names, "nobody_has_it")}
    assert python(project, CALL, **environ) == ["0", "True"]
    assert project.items("sqlite") == ITEM_ROWS


def test_started_as_its_users_start_it_the_numbers_arrive(project: Project) -> None:
    project.route(target=TARGETS["sqlite"])
    exporters = [f"--{kind}_exporter=console" for kind in ("traces", "metrics")]
    done = subprocess.run(
        [
            BIN / "opentelemetry-instrument",
            *exporters,
            "--logs_exporter=none",
            BIN / "dpone",
            "run",
            "route.yaml",
        ],
        cwd=project.root,
        env={**os.environ, "DPONE_TELEMETRY": "opentelemetry", "OTEL_SERVICE_NAME": "loads"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    for word in ("dpone.fencing.operations", "dpone.commands", '"dpone run"', "fencing.commit"):
        assert word in done.stdout
    assert project.items("sqlite") == ITEM_ROWS
