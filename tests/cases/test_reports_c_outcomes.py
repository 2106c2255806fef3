"""Public reports of deletions that went wrong by what happened meanwhile."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dpone.adapters.posix.cachefiles import PosixCache, PosixCacheFolder
from dpone.contracts.authoring import Look
from dpone.retention.plan import Planner
from dpone.wiring import open_document
from faultinject.deletion_calls import FALLING
from faultinject.deletion_files import Stop, WatchedCache, WatchedFolder, acting_at, stop_at
from faultinject.deletion_worlds import OTHER_REVIEW, REVIEW, World, fill, world
from faultinject.zygote import Zygote
from tests.retention.caches import call

ABORTED = "DPONE_DEPLOYMENT_CACHE_GC_OPERATION_ABORTED"
HISTORY = ".retention-activation-history.v2.json"


@pytest.fixture
def made(tmp_path: Path) -> World:
    return world(tmp_path)


def _command(made: World, plan: str, *more: str, environment: str = "dev") -> list[str]:
    return [
        *("airflow", "cache-retention-apply", "--cache-root", str(made.root)),
        *("--environment", environment, "--expected-plan-sha256", plan, "--review-id", REVIEW),
        *("--promoted-by", "me", "--allowed-promoter", "me", "--confirm-delete"),
        *("--loader-ack-file", str(made.ack), *more),
    ]


@pytest.mark.parametrize("root", ["", ".", "/", "~", "..", "nowhere"])
def test_c04_an_apply_to_a_wrong_root_deletes_and_makes_nothing(
    made: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: str
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = made.plan().sha256
    before = sorted(tmp_path.rglob("*"))
    words = _command(made, plan)
    words[words.index("--cache-root") + 1] = root
    assert call(*words).code in (2, 4)
    assert sorted(tmp_path.rglob("*")) == before


def test_c05_an_apply_for_another_environment_is_refused(made: World) -> None:
    said = call(*_command(made, made.plan().sha256, "--format", "json", environment="prod"))
    code = "DPONE_DEPLOYMENT_CACHE_ENVIRONMENT_MISMATCH"
    assert (said.code, said.report["code"]) == (4, code)
    assert made.there() == list(made.candidates)
    assert not made.receipts.exists()


def test_c05_an_interrupted_run_says_so_and_is_resumed(made: World) -> None:
    for deployment_id in made.candidates:
        fill(made.deployment(deployment_id), 3_000)
    plan = made.plan().sha256
    repository = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-m", "dpone", *_command(made, plan, "--follow")],
        env={**os.environ, "PYTHONPATH": repository},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "1 of 3 candidates done\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode not in (0, 4), err
    receipt = made.receipt(plan)
    assert receipt is not None
    assert receipt.status == "applying"
    listed = made.desk().receipts()
    assert [row.status for row in listed.receipts] == ["applying"]
    assert made.apply(plan).code == "committed"
    assert (made.trashed(), made.there()) == ([], [])


def test_c09_what_is_activated_after_planning_is_no_longer_what_was_reviewed(made: World) -> None:
    plan = made.plan().sha256
    first = made.candidates[0]
    made.activate(made.fixture(first))
    ended = made.apply(plan)
    assert (ended.exit_code, ended.code) == (1, "DPONE_DEPLOYMENT_CACHE_GC_PLAN_CHANGED")
    assert made.there() == list(made.candidates)


@pytest.mark.parametrize("acknowledged", [True, False])
def test_c09_what_is_activated_after_validation_is_drift_and_stays(
    made: World, acknowledged: bool
) -> None:
    plan = made.plan().sha256
    first = made.candidates[0]

    def act() -> None:
        made.activate(made.fixture(first), acknowledged=acknowledged)

    ended = made.apply(plan, files=WatchedCache(made.root, acting_at("replace", act, HISTORY)))
    assert (ended.exit_code, ended.code) == (1, ABORTED)
    receipt = made.receipt(plan)
    assert receipt is not None
    assert (receipt.status, receipt.deleted_ids) == ("aborted", ())
    assert made.there() == list(made.candidates)
    assert made.activation(first).exists()


def test_c10_a_generation_that_a_task_begins_to_use_meanwhile_stays(made: World) -> None:
    runs = made.root.parent / "runs.json"
    held = {"runs": [{"deployment_id": made.current}]}
    runs.write_text(json.dumps(held))
    evidence = (open_document(runs),)
    plan = made.plan(evidence=evidence).sha256

    def act() -> None:
        held["runs"].append({"deployment_id": made.candidates[1]})
        runs.write_text(json.dumps(held))

    watched = WatchedCache(made.root, acting_at("replace", act, HISTORY))
    ended = made.apply(plan, files=watched, evidence=evidence)
    assert (ended.code, made.there()) == (ABORTED, list(made.candidates))
    assert (ended.fields or {})["reason"] == "candidate_became_protected_requires_fresh_review"


def test_c11_the_way_back_that_a_rollback_makes_meanwhile_stays(made: World) -> None:
    plan = made.plan().sha256
    second = made.candidates[1]

    def act() -> None:
        made.activate(made.fixture(second))
        made.activate("yet another")

    ended = made.apply(plan, files=WatchedCache(made.root, acting_at("replace", act, HISTORY)))
    assert (ended.code, made.there()) == (ABORTED, list(made.candidates))
    assert second in made.plan().protected_deployment_ids


def test_c12_what_was_removed_and_built_again_after_the_beginning_is_not_deleted(
    made: World,
) -> None:
    plan = made.plan().sha256
    with pytest.raises(Stop):
        made.apply(plan, files=WatchedCache(made.root, stop_at("after replace", HISTORY)))
    first = made.candidates[0]
    shutil.rmtree(made.deployment(first))
    inode = made.rebuild(first)
    ended = made.apply(plan)
    assert (ended.exit_code, ended.code) == (1, ABORTED)
    assert (ended.fields or {})["reason"] == "occurrence_identity_changed_requires_fresh_review"
    assert made.deployment(first).stat().st_ino == inode
    # A fresh review deletes it.
    assert made.apply(made.plan().sha256, OTHER_REVIEW).code == "committed"
    assert made.there() == []


@pytest.mark.kill
@pytest.mark.timeout(240)
def test_c13_killed_anywhere_in_the_recursion_no_half_tree_bears_its_name(
    tmp_path: Path,
) -> None:
    made = world(tmp_path / "template")
    for deployment_id in made.candidates:
        fill(made.deployment(deployment_id), 12, each=6)
    whole = {it: _tree(made.deployment(it)) for it in made.candidates}
    plan = made.plan().sha256
    chance = random.Random(13)
    counted = world_copy(made, tmp_path / "counted")
    seen = []
    counted.apply(plan, files=WatchedCache(counted.root, lambda call, _: seen.append(call)))
    unlinks = sum(call in ("unlink", "rmdir") for call in seen)
    assert unlinks >= 50
    with Zygote(tmp_path, preload=("faultinject.deletion_calls",)) as zygote:
        for _ in range(200):
            there = world_copy(made, tmp_path / "round")
            args = {"root": str(there.root), "ack": str(made.ack), "plan": plan}
            assert zygote.run(FALLING, {**args, "at": chance.randint(1, unlinks)}).killed
            for deployment_id in there.there():
                assert _tree(there.deployment(deployment_id)) == whole[deployment_id]
            shutil.rmtree(there.root)


def world_copy(made: World, root: Path) -> World:
    shutil.copytree(made.root, root, symlinks=True)
    return World(root, made.ack, made.candidates, made.current)


def _tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


@pytest.mark.parametrize("resumed", [True, False])
def test_c14_what_a_crash_left_in_the_trash_is_ended_from_the_log(
    made: World, resumed: bool
) -> None:
    plan = made.plan().sha256
    with pytest.raises(Stop):
        made.apply(plan, files=WatchedCache(made.root, stop_at("after carry", "deployments/")))
    assert len(made.trashed()) == 1
    shown = made.planned()
    assert any("has not ended" in note for note in shown.warnings)
    assert len(made.trashed()) == 1
    if resumed:
        ended = made.apply(plan)
    else:
        assert shown.plan is not None
        ended = made.apply(shown.plan.sha256, OTHER_REVIEW)
    assert (ended.code, made.trashed()) == ("committed", [])
    if resumed:
        assert made.there() == []
    else:
        # Closed by another plan, it got its name back, and that plan did not name it.
        assert len(made.there()) == 1


class _OtherDevice(WatchedCache):
    """The same cache after a restart: every device has another number."""

    def folder(self, path: str):  # type: ignore[no-untyped-def]
        return _moved(super().folder(path))


class _MovedFolder(WatchedFolder):
    def look(self, leaf: str) -> Look | None:
        found = super().look(leaf)
        return found and found._replace(device=found.device + 1)

    def itself(self) -> Look:
        found = super().itself()
        return found._replace(device=found.device + 1)

    def below(self, leaf: str):  # type: ignore[no-untyped-def]
        return _moved(super().below(leaf))

    def descend(self, leaf: str) -> PosixCacheFolder:
        inner = super().descend(leaf)
        return _MovedFolder(inner.descriptor, self._at(leaf), self.watch)

    def ascend(self) -> PosixCacheFolder:
        inner = super().ascend()
        return _MovedFolder(inner.descriptor, "", self.watch)


class _moved:  # noqa: N801
    def __init__(self, inner) -> None:  # type: ignore[no-untyped-def]
        self.inner = inner

    def __enter__(self) -> _MovedFolder:
        found = self.inner.__enter__()
        return _MovedFolder(found.descriptor, found.path, found.watch)

    def __exit__(self, *error: object) -> object:
        return self.inner.__exit__(*error)


@pytest.mark.parametrize("at", ["pending", "detached", "started"])
def test_c25_another_device_number_is_no_proof_and_no_endless_block(made: World, at: str) -> None:
    plan = made.plan().sha256
    stop = {
        "pending": stop_at("after replace", HISTORY),
        "detached": stop_at("after carry", "deployments/"),
        "started": stop_at("unlink", "deployment.json"),
    }[at]
    with pytest.raises(Stop):
        made.apply(plan, files=WatchedCache(made.root, stop))
    ended = made.apply(plan, files=_OtherDevice(made.root))
    assert (ended.exit_code, ended.code) == (1, ABORTED)
    # What had begun to be deleted is ended; everything else is there.
    assert len(made.there()) == (2 if at == "started" else 3)
    assert made.trashed() == []
    moved = _OtherDevice(made.root)
    with moved.folder("") as root:
        shown = Planner(root, "dev", user=moved.user).show(now=datetime(2026, 8, 4, tzinfo=UTC))
    assert shown.plan is not None
    assert made.apply(shown.plan.sha256, OTHER_REVIEW, files=moved).code == "committed"
    assert (made.there(), made.trashed()) == ([], [])


@pytest.mark.parametrize("years", [5, -5])
def test_c26_a_plan_made_with_a_wrong_clock_deletes_the_same(made: World, years: int) -> None:
    files = PosixCache(made.root)
    now = datetime(2026, 12, 1, tzinfo=UTC) + timedelta(days=365 * years)
    with files.folder("") as root:
        shown = Planner(root, "dev", user=files.user).show(now=now)
    assert shown.plan is not None
    assert shown.plan.sha256 == made.plan().sha256
    assert made.apply(shown.plan.sha256).code == "committed"
    assert made.deployment(made.current).exists()
