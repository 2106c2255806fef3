"""An Airflow of our own for each run: a fresh home and a migrated SQLite database."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest

HOME = Path(tempfile.mkdtemp(prefix="dpone-airflow-"))
DATABASE = HOME / "airflow.db"
# Airflow reads its settings when it is imported, which the tests do after this file.
os.environ.update(
    AIRFLOW_HOME=str(HOME),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__DAGS_FOLDER=str(HOME / "dags"),
    AIRFLOW__CORE__UNIT_TEST_MODE="False",
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{DATABASE}",
    AIRFLOW__LOGGING__LOGGING_LEVEL="INFO",
)
# Airflow has partitions from 3.2 on.
_AIRFLOW = tuple(map(int, version("apache-airflow").split(".")[:2]))
collect_ignore = [] if _AIRFLOW >= (3, 2) else ["test_partitions.py"]


@pytest.fixture(scope="session", autouse=True)
def _airflow() -> Iterator[None]:
    try:
        done = subprocess.run(
            [sys.executable, "-m", "airflow", "db", "migrate"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        yield
    finally:
        shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def _one_server(_airflow: None) -> Iterator[None]:
    """Airflow 3.2 builds an API server, whose thread stays, for each task; 3.3 keeps one."""
    with pytest.MonkeyPatch.context() as patch:
        if _AIRFLOW[0] >= 3:
            from airflow.sdk.execution_time import supervisor

            kept = cache(supervisor.in_process_api_server)
            patch.setattr(supervisor, "in_process_api_server", kept)
        yield


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a journal and a target, which are connections of Airflow."""
    for name, kind in (("DPONE_JOURNAL", "journal"), ("WAREHOUSE", "target")):
        spec = f"sqlite:{tmp_path / kind}.db"
        told = f'{{"conn_type": "dpone", "extra": {{"spec": "{spec}"}}}}'
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", told)
    return tmp_path
