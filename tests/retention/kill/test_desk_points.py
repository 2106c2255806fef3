"""Every command of the desk, killed at every point of it, ends when it is run again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpone.contracts.effects import Effect
from faultinject.deleting import APPLY, template
from faultinject.deletion_desk import SCENES, WORK, opened
from faultinject.zygote import Zygote
from tests.retention.ordinary import as_owner, owned_folder

pytestmark = pytest.mark.kill
REACHED: set[str] = set()


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    place = tmp_path_factory.mktemp("desk")
    with Zygote(place, preload=("faultinject.deletion_desk",)) as started:
        yield started


def _points(zygote: Zygote, folder: Path, scene: str) -> list[str]:
    args = SCENES[scene].prepare(folder / "traced")
    trace = folder / "trace"
    trace.touch()
    zygote.run(WORK, args, trace=trace)
    return [json.loads(line)["point"] for line in trace.read_text().splitlines()]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("scene", sorted(SCENES))
def test_killed_at_every_point_the_same_command_ends_it(
    zygote: Zygote, tmp_path: Path, scene: str
) -> None:
    points = _points(zygote, tmp_path, scene)
    assert points
    REACHED.update(point.partition(":")[0] for point in points)
    faults = []
    for number, point in enumerate(points):
        args = SCENES[scene].prepare(tmp_path / f"round-{number}")
        assert zygote.run(WORK, args, point=point).hit(point), point
        again = zygote.run(WORK, args)
        if again.exit_code not in SCENES[scene].answers:
            faults.append(f"{point}: {again.result}")
        faults += [f"{point}: {fault}" for fault in SCENES[scene].faults(opened(args))]
        shutil.rmtree(tmp_path / f"round-{number}")
    assert "\n".join(faults) == ""


def test_every_effect_of_retention_and_of_the_cache_is_reached(
    zygote: Zygote, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    trace.touch()
    (tmp_path / "template").mkdir()
    zygote.run(APPLY, template(tmp_path / "template"), trace=trace)
    lines = trace.read_text().splitlines()
    reached = {json.loads(line)["point"].partition(":")[0] for line in lines} | REACHED
    if not REACHED:
        for scene in SCENES:
            (tmp_path / scene).mkdir()
            reached |= {it.partition(":")[0] for it in _points(zygote, tmp_path / scene, scene)}
    wanted = {it.value for it in Effect if it.value.startswith(("retention.", "cache."))}
    assert wanted - reached == set()


def test_as_an_ordinary_user_killed_anywhere_a_sealed_activation_is_deleted_once() -> None:
    with owned_folder() as folder:
        assert as_owner(lambda: _ordinary(folder)) == "ended 0"


def _ordinary(folder: Path) -> str:
    """Kill children of this user at every removal and rename, and run again."""
    from faultinject.deletion_files import WatchedCache
    from faultinject.deletion_worlds import world

    for at in range(1, 200):
        made = world(folder / f"round-{at}", 2, active=1)
        plan = made.plan().sha256
        pid = os.fork()
        if pid == 0:
            left = at

            def watch(call: str, _: str) -> None:
                nonlocal left
                left -= call in ("unlink", "rmdir", "carry", "after carry", "append", "replace")
                if left == 0:
                    os.kill(os.getpid(), 9)

            made.apply(plan, files=WatchedCache(made.root, watch))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        ended = made.apply(plan)
        if ended.code != "committed" or made.there() or made.trashed():
            return f"{at}: {ended.code} {made.there()} {made.trashed()}"
        if not os.WIFSIGNALED(status):
            return f"ended {os.WEXITSTATUS(status)}"
    return "never ended"
