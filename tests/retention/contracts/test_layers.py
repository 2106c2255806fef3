"""What deletion needs of the world: its contracts and ports, and no system that it serves."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import importlib, json, pkgutil, sys
package, prefix = sys.argv[1:]
found = [it.name for it in pkgutil.iter_modules(importlib.import_module(package).__path__)]
names = [name for name in found if name.startswith(prefix)]
for name in names:
    importlib.import_module(f"{package}.{name}")
print(json.dumps([len(names), sorted(sys.modules)]))
"""
SYSTEMS = (
    *("airflow", "kubernetes", "boto3", "botocore", "google", "azure", "psycopg", "duckdb"),
    *("sqlalchemy", "typer"),
)
LAYERS = ("dpone.adapters", "dpone.airflow", "dpone.cli", "dpone.wiring", "dpone.loading")


@pytest.mark.parametrize(
    ("package", "prefix", "more"),
    [
        ("dpone.contracts", "retention", ("dpone.ports", "dpone.retention")),
        ("dpone.retention", "", ()),
    ],
)
def test_neither_an_adapter_nor_a_system_that_is_served_is_imported(
    package: str, prefix: str, more: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, package, prefix], capture_output=True, text=True, check=True
    )
    count, loaded = json.loads(done.stdout)
    assert count >= 7
    walls = (*SYSTEMS, *LAYERS, *more)
    below = tuple(f"{name}." for name in walls)
    assert [name for name in loaded if name in walls or name.startswith(below)] == []
