"""A cache to try things on: complete before it is named, idempotent, with authority."""

from __future__ import annotations

import json
import stat
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from uuid import uuid4

import pytest

from dpone import wiring
from dpone.contracts.effects import Effect
from dpone.contracts.published import json_schema
from dpone.retention.materialize import Materializer, Preview
from tests.retention.caches import Cache, call, removed
from tests.retention.contracts.schemas import faults


@pytest.fixture
def made(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", tmp_path / "ack.json")


def test_a_new_cache_has_authority_and_a_plan(made: Cache) -> None:
    first = made.materialize("--fixture", "one", "--activate").report
    assert faults(first, json_schema("dpone.airflow-cache-materialize.v1")) == []
    assert (first["written"], first["activated"]) == (True, True)
    second = made.materialize("--fixture", "two", "--files", "40").report
    assert second["deployment_id"] != first["deployment_id"]
    assert second["release_id"] == first["release_id"]
    assert made.authority().current.deployment_id == first["deployment_id"]
    report = made.plan().report
    assert report["delete_candidates"] == [second["deployment_id"]]
    assert len(list((made.deployment(second["deployment_id"]) / "files").rglob("*.txt"))) == 40


def test_a_second_run_changes_nothing(made: Cache) -> None:
    made.materialize("--activate")
    made.materialize("--fixture", "two", "--files", "3")
    before = made.snapshot()
    assert made.materialize("--activate").report["activated"] is False
    assert made.materialize("--fixture", "two", "--files", "3").report["written"] is False
    without = call("airflow", "cache-materialize", "--cache-root", made.root, "--activate")
    assert without.code == 0
    assert made.snapshot() == before


def test_activating_another_one_keeps_the_way_back(made: Cache) -> None:
    first = made.materialize("--fixture", "one", "--activate").report["deployment_id"]
    second = made.materialize("--fixture", "two", "--activate").report["deployment_id"]
    assert made.authority().current.previous_id == first
    report = made.plan().report
    assert report["protected_deployment_ids"] == sorted([first, second])
    again = made.materialize("--fixture", "one", "--activate").report
    assert again["activated"] is True
    assert made.authority().current.previous_id == second


def test_activations_and_releases_are_sealed(made: Cache) -> None:
    deployment = made.materialize("--activate").report["deployment_id"]
    (release,) = (made.root / "releases").iterdir()
    for tree in (made.activation(deployment), release):
        for path in [tree, *tree.rglob("*")]:
            wanted = 0o555 if path.is_dir() else 0o444
            assert stat.S_IMODE(path.stat().st_mode) == wanted
    assert stat.S_IMODE((made.root / "current-pointer.json").stat().st_mode) == 0o600


def test_dag_ids_are_taken(made: Cache) -> None:
    made.materialize("--dag", "b", "--dag", "a", "--activate")
    assert made.authority().ack.loaded_dag_ids == ("a", "b")


@pytest.mark.parametrize("dag", ["", "../x", "a/b", "_a", "a" * 201])
def test_a_dag_of_which_no_file_can_be_made_is_refused(made: Cache, dag: str) -> None:
    assert made.materialize("--dag", dag).code == 2
    assert not made.root.exists()


def test_what_stands_there_and_differs_is_refused(made: Cache) -> None:
    deployment = made.materialize("--fixture", "one").report["deployment_id"]
    (made.deployment(deployment) / "deployment.json").write_text("{}")
    said = made.materialize("--fixture", "one")
    assert (said.code, said.report["code"]) == (1, "DPONE_CACHE_MATERIALIZE_CONFLICT")


def test_a_directory_with_other_things_is_never_marked(made: Cache) -> None:
    made.root.mkdir()
    (made.root / "thesis.txt").write_text("x")
    said = made.materialize()
    assert (said.code, said.report["code"]) == (4, "DPONE_DEPLOYMENT_CACHE_ROOT_UNSAFE")
    assert [path.name for path in made.root.iterdir()] == ["thesis.txt"]


EFFECTS = 15


class Stop(Exception):
    """The process ends here."""


def stopped(made: Cache, stop: int) -> bool:
    """Run until just before the n-th effect; whether there was one."""
    reached: list[Effect] = []

    def probe(effect: Effect, /) -> AbstractContextManager[None]:
        reached.append(effect)
        if len(reached) == stop:
            raise Stop
        return nullcontext()

    made.root.mkdir(exist_ok=True)
    maker = Materializer(
        wiring.open_cache(made.root), nonces=lambda: str(uuid4()), now=wiring.now, probe=probe
    )
    try:
        maker.run(
            Preview("dev", ("a",), "two", 3),
            activate=True,
            ack_file=wiring.open_document(made.ack),
        )
    except Stop:
        return True
    return False


@pytest.mark.parametrize("stop", range(1, EFFECTS + 1))
def test_after_a_crash_the_same_command_finishes(made: Cache, stop: int) -> None:
    assert stopped(made, stop), "no effect was reached"
    for _ in range(2):
        said = made.materialize("--dag", "a", "--fixture", "two", "--files", "3", "--activate")
        assert said.code == 0
    assert made.authority().current.deployment_id == said.report["deployment_id"]
    left = [path for path in made.root.rglob(".*") if ".tmp" in path.name]
    assert left == []


def test_every_effect_was_stopped_before(made: Cache) -> None:
    assert not stopped(made, EFFECTS + 1)


def test_an_unfinished_directory_is_cleared_by_the_next_run(made: Cache) -> None:
    made.materialize("--fixture", "one")
    place = made.root / "deployments" / "dev" / f".sha256-{'a' * 64}.tmp.0123"
    place.mkdir()
    (place / "x").write_text("x")
    made.materialize("--fixture", "two")
    assert not place.exists()


def test_what_was_written_aside_is_cleared_by_the_next_run(made: Cache) -> None:
    made.materialize("--activate")
    aside = "0" * 32 + ".tmp"
    (made.root / f".current.{aside}").symlink_to("elsewhere")
    (made.root / f".current-pointer.json.{aside}").write_text("x")
    (made.root / "status" / f".desired-state-checkpoint.json.{aside}").write_text("x")
    made.materialize("--activate")
    assert [path for path in made.root.rglob(".*") if path.name.endswith(".tmp")] == []


def test_the_pointer_file_validates_against_its_schema(made: Cache) -> None:
    made.materialize("--activate")
    names = {
        "current-pointer.json": "dpone.current-pointer.v1",
        "status/desired-state-checkpoint.json": "dpone.airflow-desired-state-checkpoint.v1",
        ".dpone-cache-layout.json": "dpone.airflow-cache-layout.v1",
    }
    for path, name in names.items():
        assert faults(json.loads((made.root / path).read_text()), json_schema(name)) == []
    ack = json.loads(made.ack.read_text())
    assert faults(ack, json_schema("dpone.airflow_loader_ack.v2")) == []
    removed(made.root)
