"""Public reports of deletions that went wrong, as far as a plan can prevent them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dpone.retention.plan import Planner
from tests.retention.caches import CANDIDATES, CURRENT, Cache, call, earlier

UNSAFE = "DPONE_DEPLOYMENT_CACHE_ROOT_UNSAFE"


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return earlier(tmp_path)


@pytest.mark.parametrize("command", ["cache-retention-plan", "cache-materialize"])
@pytest.mark.parametrize(
    "root", ["", " ", ".", "/", "~", "~/cache", "..", "../cache", "a/../b", "{home}", "{above}"]
)
def test_c04_a_wrong_root_is_refused_before_any_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, root: str
) -> None:
    home, work = tmp_path / "home", tmp_path / "above" / "work"
    home.mkdir()
    work.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    given = root.format(home=home, above=work.parent)
    said = call("airflow", command, "--cache-root", given, "--format", "json")
    assert (said.code, said.report["code"]) == (4, UNSAFE)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["above", "home", "work"]


def test_c04_a_link_to_the_home_directory_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "cache").symlink_to(home)
    said = call("airflow", "cache-retention-plan", "--cache-root", tmp_path / "cache")
    assert (said.code, UNSAFE in said.err) == (4, True)


def test_c04_a_mistyped_root_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    where = tmp_path / "cachee"
    said = call("airflow", "cache-retention-plan", "--cache-root", where, "--format", "json")
    code = "DPONE_DEPLOYMENT_CACHE_ROOT_NOT_FOUND"
    assert (said.code, said.report["code"]) == (2, code)
    assert list(tmp_path.iterdir()) == []


def test_c04_a_root_without_our_marker_is_read_no_further(cache: Cache) -> None:
    (cache.root / ".dpone-cache-layout.json").unlink()
    said = cache.plan()
    assert (said.code, said.report["code"]) == (4, "DPONE_DEPLOYMENT_CACHE_LAYOUT_NOT_FOUND")


@pytest.mark.parametrize("name", ["generations", "current_generation"])
def test_c04_a_cache_of_the_earlier_layout_is_refused(cache: Cache, name: str) -> None:
    (cache.root / name).mkdir()
    said = cache.plan()
    assert (said.code, said.report["code"]) == (4, "DPONE_DEPLOYMENT_CACHE_LAYOUT_INVALID")


@pytest.mark.parametrize("environment", ["prod", "staging"])
def test_c05_the_cache_of_another_environment_is_refused(cache: Cache, environment: str) -> None:
    said = cache.plan(environment=environment)
    code = "DPONE_DEPLOYMENT_CACHE_ENVIRONMENT_MISMATCH"
    assert (said.code, said.report["code"]) == (4, code)
    assert said.report["fields"] == {"expected": environment, "found": "dev"}


def test_c05_without_a_pointer_the_directories_tell_the_environment(cache: Cache) -> None:
    (cache.root / "current").unlink()
    (cache.root / "current-pointer.json").unlink()
    said = cache.plan(environment="prod")
    assert said.report["code"] == "DPONE_DEPLOYMENT_CACHE_ENVIRONMENT_MISMATCH"


@pytest.mark.parametrize("environment", ["", "..", "Dev", "a/b", "-dev"])
def test_c05_a_text_that_names_no_environment_is_a_usage_error(
    cache: Cache, environment: str
) -> None:
    assert cache.plan(environment=environment).code == 2


def test_c05_without_anything_current_nothing_is_unreferenced(cache: Cache) -> None:
    (cache.root / "current").unlink()
    (cache.root / "current-pointer.json").unlink()
    said = cache.plan()
    assert (said.code, said.report["code"]) == (4, "DPONE_DEPLOYMENT_CACHE_RECOVERY_REQUIRED")


def test_c10_a_generation_that_a_running_task_names_is_protected_however_old(cache: Cache) -> None:
    # Nothing is judged by age: what is in use is protected because evidence names it.
    runs = cache.root.parent / "runs.json"
    held = {"dag_run": {"state": "running", "deployment_id": CANDIDATES[0]}}
    runs.write_text(json.dumps({"runs": [held]}))
    said = cache.plan("--evidence-file", runs)
    assert CANDIDATES[0] in said.report["protected_deployment_ids"]
    assert CANDIDATES[0] not in said.report["delete_candidates"]


def test_c11_after_a_rollback_every_declared_target_is_protected_and_listed(
    tmp_path: Path,
) -> None:
    cache = Cache(tmp_path / "cache", tmp_path / "ack.json")
    ids = [
        cache.materialize("--fixture", name, "--activate").report["deployment_id"]
        for name in ("one", "two", "three")
    ]
    back = cache.materialize("--fixture", "one", "--activate").report
    assert back["current_deployment_id"] == ids[0]
    said = cache.plan("--protect-deployment-id", ids[1])
    assert said.report["protected_deployment_ids"] == sorted(ids)
    assert said.report["delete_candidates"] == []
    table = cache.table("--protect-deployment-id", ids[1]).out
    assert all(identity in table for identity in ids)


@pytest.mark.parametrize(("years", "word"), [(5, "years before"), (-5, "one is wrong")])
def test_c26_a_wrong_clock_changes_no_plan_and_is_told(cache: Cache, years: int, word: str) -> None:
    now = datetime(2026, 12, 1, tzinfo=UTC)
    with cache.opened() as root:
        planner = Planner(root, "dev", user=0)
        right = planner.show(now=now)
        wrong = planner.show(now=now + timedelta(days=365 * years))
    assert right.warnings == ()
    assert right.plan is not None
    assert wrong.plan == right.plan
    assert CURRENT in right.plan.protected_deployment_ids
    assert len(wrong.warnings) == 1
    assert word in wrong.warnings[0]
