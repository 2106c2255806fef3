"""Every authoring command killed at every point, and its successor inside recovery."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial

import pytest

from dpone.contracts.effects import Effect
from faultinject import rivals, writing
from faultinject.writing import Bench, Round, Task
from faultinject.zygote import Zygote
from tests.authoring.kill.rival_tasks import RIVALS
from tests.depth import FULL

pytestmark = pytest.mark.kill

PLAIN = (*writing.SINGLES, *writing.COMMANDS, *writing.MIGRATIONS)
NAMED = tuple(
    writing.without_nameless(task)
    for task in PLAIN
    if FULL or task.name in ("replace", "remove", "init", "init workload, second")
)
TASKS = {task.name: task for task in (*PLAIN, *NAMED)}
# More pairs of a first and a second kill belong to a certification run: minutes more.
PAIRS_MAX = 400 if FULL else 10


@contextmanager
def benches(zygotes: list[Zygote], task: Task) -> Iterator[list[Bench]]:
    made = [Bench(zygote, task) for zygote in zygotes]
    try:
        yield made
    finally:
        for bench in made:
            bench.close()


def swept(zygotes: list[Zygote], task: Task, pairs_max: int) -> list[Round]:
    """All rounds of a task, spread over the zygotes."""
    with benches(zygotes, task) as made:
        of = {id(bench.zygote): bench for bench in made}
        points = made[0].points()
        for bench in made:
            bench.new = made[0].new

        def once(zygote: Zygote, first: str) -> Round:
            return writing.killed_once(of[id(zygote)], first)

        def twice(zygote: Zygote, first: str, second: str) -> Round:
            return writing.killed_twice(of[id(zygote)], first, second)

        found = rivals.spread(zygotes, [partial(once, first=point) for point in points])
        plan = [(entry.first, second) for entry in found for second in entry.recovery]
        chosen = writing.spread(plan, pairs_max)
        pairs = [partial(twice, first=first, second=second) for first, second in chosen]
        return [*found, *rivals.spread(zygotes, pairs)]


@pytest.fixture(scope="module")
def rounds_of(writers: list[Zygote]) -> Callable[[str], list[Round]]:
    """The rounds of a task, made once."""

    @cache
    def made(name: str) -> list[Round]:
        return swept(writers, TASKS[name], PAIRS_MAX)

    return made


@pytest.mark.timeout(3600 if FULL else 120)
@pytest.mark.parametrize("name", TASKS)
def test_killed_at_every_point_and_in_recovery_the_files_are_old_or_new_and_nothing_is_left(
    rounds_of: Callable[[str], list[Round]], name: str
) -> None:
    found = rounds_of(name)
    assert len(found) >= 20
    assert [entry for entry in found if entry.faults] == []


def test_every_declared_effect_is_reached_and_killed(
    rounds_of: Callable[[str], list[Round]], writer: Zygote
) -> None:
    killed = {
        point.split(":")[0]
        for name in TASKS
        for entry in rounds_of(name)
        for point in (entry.first, entry.second)
        if point
    }
    # What only happens beside a rival is killed beside one, in a module of its own.
    for rival in RIVALS:
        killed |= {point.split(":")[0] for point in rival.points(writer)}
    declared = {effect.value for effect in Effect if effect.value.startswith("authoring.")}
    assert killed - {""} == declared


CATALOG = "dpone_workloads/gitops/domains/sales.yaml"
RECOVER = ["authoring", "recover", CATALOG, "--apply", "--format", "json"]
FIRST = ("authoring.side:after#1", "authoring.exchange:after#1", "authoring.commit:after#1")


@pytest.mark.parametrize("first", FIRST)
def test_recover_killed_at_every_point_of_its_own_is_run_again(writer: Zygote, first: str) -> None:
    bench = Bench(writer, TASKS["init dag"])
    bench.points()
    with bench.fresh() as project:
        assert writer.run(writing.COMMAND, project.args, point=first).killed
        points, ended = bench.traced(project, {**project.args, "argv": RECOVER})
        assert (ended.exit_code, project.said()["mode"]) == (0, "apply")
    assert len(points) >= 8
    faults: list[str] = []
    for point in points:
        with bench.fresh() as project:
            recover = {**project.args, "argv": RECOVER}
            assert writer.run(writing.COMMAND, project.args, point=first).killed
            ended = writer.run(writing.COMMAND, recover, point=point)
            assert ended.killed
            assert ended.hit(point)
            faults += bench.torn(project)
            for _ in range(2):
                ended = writer.run(writing.COMMAND, recover)
                faults += [f"recover ended {ended.exit_code}"] * (ended.exit_code != 0)
            faults += [name for name in project.tree() if ".dpone-" in name]
            faults += bench.ended(project, writer.run(writing.COMMAND, project.args))
    bench.close()
    assert faults == []


@pytest.mark.parametrize("first", ["authoring.receipt:after#1", "authoring.publish:after#1"])
def test_a_publication_that_died_is_told_by_a_plan_and_concluded_by_recover(
    writer: Zygote, first: str
) -> None:
    bench = Bench(writer, TASKS["init workload, second"])
    bench.points()
    with bench.fresh() as project:
        assert writer.run(writing.COMMAND, project.args, point=first).killed
        plan = [word for word in project.args["argv"] if word != "--apply"]
        writer.run(writing.COMMAND, {**project.args, "argv": plan})
        assert any("waits" in line for line in project.said()["warnings"])
        dry = [word for word in RECOVER if word != "--apply"]
        writer.run(writing.COMMAND, {**project.args, "argv": dry})
        assert project.said()["status"] == "pending"
        for status in ("rolled_back", "none"):
            ended = writer.run(writing.COMMAND, {**project.args, "argv": RECOVER})
            assert (ended.exit_code, project.said()["status"]) == (0, status)
            assert project.tree() == bench.old
        assert bench.ended(project, writer.run(writing.COMMAND, project.args)) == []
    bench.close()
