"""The environments of the Airflow versions: each is locked, and one that is absent says so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from certification.airflow_claims import PYTHONS, VERSIONS
from tests.shape import tree
from tools import airflow_env
from tools.setup_env import Refused

LOCKS = sorted(airflow_env.LOCKS.glob("airflow-*.lock"))


def named(line: str) -> str:
    """The package of a line, as indexes spell it."""
    return re.split(r"[^A-Za-z0-9._-]", line.strip())[0].lower().replace("_", "-").replace(".", "-")


def test_the_matrix_has_a_lock_for_every_version() -> None:
    assert airflow_env.versions() == list(VERSIONS)
    assert airflow_env.PYTHONS == PYTHONS


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_a_lock_pins_all_that_is_listed_by_digest(path: Path) -> None:
    lines = tree.source(path).splitlines()
    packages = [line for line in lines if "==" in line]
    assert [line for line in packages if not line.endswith("\\")] == []
    assert [line for line in lines if line.startswith("-")] == []
    locked = {named(line): line.split("==")[1].split()[0].rstrip(";\\") for line in packages}
    listed = [
        line
        for line in tree.source(path.with_suffix(".in")).splitlines()
        if line and line[0] != "#"
    ]
    assert sorted({named(line) for line in listed} - set(locked)) == []
    pinned = {named(line): line.split("==")[1] for line in listed if "==" in line}
    assert {name: locked[name] for name in pinned} == pinned
    assert locked["apache-airflow"] == path.stem.removeprefix("airflow-")


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_a_list_asks_for_what_the_library_asks_for(path: Path) -> None:
    project = tomllib.loads(tree.source(tree.ROOT / "pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    asked = {*project["dependencies"], *extras["postgres"], *extras["duckdb"]}
    assert sorted(asked - set(tree.source(path.with_suffix(".in")).splitlines())) == []


def test_an_absent_interpreter_or_lock_is_named() -> None:
    with pytest.raises(airflow_env.Absent, match=r"no Python 9\.9"):
        airflow_env.interpreter("9.9")
    with pytest.raises(airflow_env.Absent, match=r"no lock for Airflow 1\.0"):
        airflow_env.lock_of("1.0")


def test_another_lock_is_another_folder_outside_the_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DPONE_CACHE", raising=False)
    before = airflow_env.folder_of("3.3.2", "3.11")
    assert not before.is_relative_to(tree.ROOT)
    (tmp_path / "airflow-3.3.2.lock").write_text("other==1\n")
    monkeypatch.setattr(airflow_env, "LOCKS", tmp_path)
    assert airflow_env.folder_of("3.3.2", "3.11") != before


def test_a_foreign_folder_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPONE_CACHE", str(tmp_path))
    folder = airflow_env.folder_of("3.3.2", "3.11")
    folder.mkdir(parents=True)
    (folder / "mine").touch()
    with pytest.raises(Refused), airflow_env.held("3.3.2", "3.11"):
        pass
    assert (folder / "mine").exists()


def test_the_wheel_is_made_again_when_a_source_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in airflow_env.WHEEL_SOURCES:
        (tmp_path / name).touch()
    (tmp_path / "dpone").mkdir()
    (tmp_path / "dpone" / "a.py").write_text("1")
    monkeypatch.setattr(airflow_env, "ROOT", tmp_path)
    before = airflow_env.sources_digest()
    assert airflow_env.sources_digest() == before
    (tmp_path / "dpone" / "a.py").write_text("2")
    assert airflow_env.sources_digest() != before
