"""SIGINT ends a run where it stands; what was done is said, and nobody sees a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpone.contracts.effects import Effect
from tests.loading.project import ITEM_ROWS, TARGETS, Project

INTERRUPTED = "DPONE_INTERRUPTED"


class Sends:
    """Sends SIGINT to this process at the second occurrence of an effect."""

    def __init__(self, at: Effect) -> None:
        self.at, self.count = at, 0

    @contextmanager
    def __call__(self, effect: Effect, /) -> Iterator[None]:
        self.count += effect is self.at
        if effect is self.at and self.count == 2:
            os.kill(os.getpid(), signal.SIGINT)
        yield


@pytest.mark.parametrize(
    "at",
    [
        Effect.FENCING_INTENT,
        Effect.FENCING_CLAIM,
        Effect.FENCING_CHANGE,
        Effect.FENCING_COMMIT,
        Effect.FENCING_ACKNOWLEDGE,
        Effect.FENCING_COMPLETE,
    ],
)
def test_an_interrupted_run_says_what_it_did(project: Project, kind: str, at: Effect) -> None:
    project.route(target=TARGETS[kind], partition="{column: grp}")
    said = project.run(probe=Sends(at))
    assert (said.code, said.report["exit_code"]) == (130, 130)
    assert said.hows == ["committed", "failed", "not_tried"]
    assert said.codes == [INTERRUPTED]
    assert "Traceback" not in said.err
    assert "grp=b" in said.err
    # Nothing stays in doubt for long, and nothing is loaded twice.
    assert project.run("--take-over").code == 0
    assert project.items(kind) == ITEM_ROWS


def test_an_interrupted_run_speaks_to_people_too(project: Project) -> None:
    project.route(partition="{column: grp}")
    said = project.call("run", "route.yaml", probe=Sends(Effect.FENCING_CHANGE))
    assert said.code == 130
    assert said.out.splitlines()[-1] == "3 operations: 1 loaded, 1 failed, 1 not tried"


def test_the_handler_is_gone_afterwards(project: Project) -> None:
    project.route()
    assert project.run().code == 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("raised", [KeyboardInterrupt, RuntimeError])
def test_an_interrupt_while_the_source_is_read_is_no_defect(
    project: Project, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:
    """Engines turn the signal into errors of their own."""

    def read(*_: object, **__: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise raised("Query interrupted") from None

    monkeypatch.setattr("dpone.adapters.sources.engine.Engine.all", read)
    project.route(partition="{column: grp}")
    said = project.run()
    assert (said.code, said.codes) == (130, [INTERRUPTED])
    assert "Traceback" not in said.err
    monkeypatch.undo()
    assert project.run().code == 0


def test_a_process_that_reads_a_long_source_ends_at_once(project: Project) -> None:
    lines = (f"{n},g{n % 7},2024-01-01,1.5\n" for n in range(1_500_000))
    project.write("items.csv", "id,grp,day,amount\n" + "".join(lines))
    project.route(partition="{column: grp}")
    program = str(Path(sys.executable).parent / "dpone")
    command = [program, "run", "route.yaml", "--format", "json"]
    with subprocess.Popen(
        command, cwd=project.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.6)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "DPONE_INTERNAL" not in out + err
    # While drivers are imported there is nothing to report yet.
    assert not out or json.loads(out)


def test_a_guard_that_touched_nothing_does_not_block_after_an_interrupt(project: Project) -> None:
    project.route(target="{csvdir: out, table: t}")

    class Once(Sends):
        def __init__(self) -> None:
            super().__init__(Effect.GUARD_MUTATE)
            self.count = 1

    assert project.run(probe=Once()).code == 130
    assert project.run().hows == ["committed"]
