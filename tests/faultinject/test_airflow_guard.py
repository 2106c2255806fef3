"""Nothing of an Airflow instance outlives the process that started it, however that one ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import dpone
from faultinject.airflow import guarding, suites
from faultinject.airflow.installed import strangers

# A program that starts another one, which stands still and has left its parent.
NEST = """
import os, signal, sys, time
if os.fork() == 0:
    if os.fork() == 0:
        os.setpgid(0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)
time.sleep(600)
"""
OWNER = """
import json, subprocess, sys, time
from pathlib import Path
from faultinject.airflow import guarding
folder = Path(sys.argv[1])
guarding.watch(folder)
nest = subprocess.Popen([sys.executable, "-c", sys.argv[2]], cwd=folder, start_new_session=True)
(folder / guarding.SESSIONS).write_text(f"{nest.pid}\\n")
while len(guarding.family(folder)) < 3:
    time.sleep(0.02)
print(json.dumps([p.pid for p in guarding.family(folder)]), flush=True)
time.sleep(600)
"""
WAIT_S = 30.0


def until(fact: Callable[[], bool], what: str) -> None:
    """Poll until it holds."""
    end = time.monotonic() + WAIT_S
    while not fact():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def dead(pid: int) -> bool:
    """Whether a process runs no more."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.kill
def test_everything_ends_with_a_killed_owner(tmp_path: Path) -> None:
    folder = tmp_path / "instance"
    folder.mkdir()
    environ = {**os.environ, "PYTHONPATH": str(guarding.ROOT)}
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder), NEST], stdout=subprocess.PIPE, env=environ
    )
    assert owner.stdout is not None
    pids = json.loads(owner.stdout.readline())
    assert len(pids) == 3
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    until(lambda: all(map(dead, pids)), "all processes of the instance have ended")
    until(lambda: not folder.exists(), "the folder is gone")


def test_a_family_is_found_by_its_folder_alone(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "600"], cwd=tmp_path)
    try:
        assert [found.pid for found in guarding.family(tmp_path)] == [process.pid]
        assert guarding.family(tmp_path / "elsewhere") == []
        assert guarding.end(tmp_path) == 1
    finally:
        process.kill()
        process.wait()


def test_a_library_from_the_checkout_is_noticed() -> None:
    assert dpone.__file__ is not None
    found = strangers(Path(sys.prefix))
    assert any(line.startswith("dpone from ") for line in found)


def test_a_copy_holds_the_judges_and_not_the_library() -> None:
    with suites.without_library() as folder:
        assert (folder / "tests" / "retention").is_dir()
        assert not (folder / "dpone").exists()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("body", "code", "faults"),
    [
        ('<testcase classname="a" name="b"/>', 0, 0),
        ('<testcase classname="a" name="b"><failure/></testcase>', 1, 2),
        ('<testcase classname="a" name="b"/>', 1, 1),
        ("", 5, 2),
    ],
)
def test_a_suite_that_did_not_pass_is_a_fault(
    tmp_path: Path, body: str, code: int, faults: int
) -> None:
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites><testsuite>{body}</testsuite></testsuites>")
    assert len(suites._read(report, code, "said").faults) == faults
