"""dpone where there is no Airflow, and what it tells Airflow of itself."""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
import sys
import tomllib
from typing import Any

import pytest

import dpone.airflow
from dpone.airflow.provider import get_provider_info
from dpone.contracts.errors import ExtraMissing
from tests.shape import tree


def _project() -> Any:
    return tomllib.loads(tree.source(tree.ROOT / "pyproject.toml"))["project"]


HEAVY = ("airflow", "sqlalchemy", "pydantic", "fastapi", "structlog")


def test_no_airflow_is_installed_here() -> None:
    # The other tests of this file say something only where it is missing.
    assert importlib.util.find_spec("airflow") is None


@pytest.mark.parametrize("name", dpone.airflow.__all__)
def test_a_name_says_what_is_missing(name: str) -> None:
    with pytest.raises(ExtraMissing, match="airflow"):
        getattr(dpone.airflow, name)


def test_an_unknown_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        dpone.airflow.nothing_of_this_name  # noqa: B018


def test_importing_dpone_brings_nothing_of_airflow() -> None:
    script = (
        "import sys, dpone, dpone.api, dpone.api_run, dpone.cli.main, dpone.wiring;"
        f" print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tree.ROOT
    )
    assert done.stdout.strip() == "[]"


def test_the_requirements_name_nothing_that_airflow_pins() -> None:
    project = _project()
    extras = itertools.chain.from_iterable(project["optional-dependencies"].values())
    asked = [*project["dependencies"], *extras]
    assert [line for line in asked if line.lower().startswith(HEAVY)] == []


def test_the_entry_point_leads_to_the_information() -> None:
    points = _project()["entry-points"]["apache_airflow_provider"]
    assert list(points.values()) == [f"{get_provider_info.__module__}:get_provider_info"]


def test_every_class_that_is_named_has_its_module() -> None:
    told = get_provider_info()
    named = [
        *(item["hook-class-name"] for item in told["connection-types"]),
        *(item["class-name"] for item in told["task-decorators"]),
        *told["extra-links"],
    ]
    for place in named:
        module, _, name = place.rpartition(".")
        path = tree.ROOT / (module.replace(".", "/") + ".py")
        source = path.read_text("utf-8")
        assert f"class {name}(" in source or f"def {name}(" in source
    assert told["package-name"] == "dpone"
