"""The n-th file call fails, once or for ever: the answer is truthful, and a retry ends it."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpone.contracts.errors import DponeError
from faultinject.deletion_errors import CHANGING, failing
from faultinject.deletion_worlds import World, world
from faultinject.failing_calls import Calls
from tests.retention.apply.boundaries import ABORTED, stopped

READ_STRIDE = 31


def _copy(made: World, place: Path) -> World:
    shutil.copytree(made.root, place / "cache", symlinks=True)
    return World(place / "cache", made.ack, made.candidates, made.current)


def _count(work: Callable[[], Any], only: frozenset[str] | None) -> int:
    with failing(Calls(0, 0, only=only)) as calls:
        work()
    return len(calls.names)


@pytest.mark.parametrize(
    ("number", "ever", "only"),
    [
        (errno.EIO, False, CHANGING),
        (errno.ENOSPC, True, CHANGING),
        (errno.EIO, False, None),
        (errno.ENOSPC, True, None),
    ],
)
def test_the_nth_call_of_an_apply_fails_and_a_retry_ends_it(
    tmp_path: Path, number: int, ever: bool, only: frozenset[str] | None
) -> None:
    made = world(tmp_path / "made", 2, active=1)
    plan = made.plan().sha256
    counted = _copy(made, tmp_path / "counted")
    count = _count(lambda: counted.apply(plan), only)
    assert count > (50 if only else 300)
    faults = []
    for at in range(1, count + 1, 1 if only else READ_STRIDE):
        here = _copy(made, tmp_path / f"at-{at}")
        with failing(Calls(at, number, ever=ever, only=only)) as calls:
            said = _said(here, plan)
        fault = _judge(here, plan, said)
        if fault:
            faults.append(f"{at} {calls.names[at - 1]}: {said}: {fault}")
        shutil.rmtree(here.root.parent)
    assert "\n".join(faults) == ""


def _said(here: World, plan: str) -> str:
    try:
        ended = here.apply(plan)
    except DponeError as error:
        return error.code
    except Exception as error:  # noqa: BLE001 - the command would call it internal
        return f"internal {error!r}"
    if ended.exit_code == 0 and ended.code != "committed":
        return f"untruthful {ended.code}"
    return ended.code


def _judge(here: World, plan: str, said: str) -> str:
    """What is wrong with an answer and with what was left; empty when nothing is."""
    if said.startswith(("internal", "untruthful")):
        return said
    receipt = here.receipt(plan)
    if said == "committed" and (receipt is None or receipt.status != "committed"):
        return "no committed receipt"
    if said == ABORTED:
        return "closed although nothing drifted"
    for deployment_id in here.there():
        if not (here.deployment(deployment_id) / "deployment.json").exists():
            return "a half tree bears its name"
    ended = here.apply(plan)
    if ended.code != "committed" or here.there() or here.trashed():
        return f"the retry answered {ended.code}"
    if list(here.root.rglob("*.tmp")):
        return "a temporary was left"
    return ""


@pytest.mark.parametrize("number", [errno.EIO])
def test_the_nth_call_of_closing_and_restoring_fails_and_a_retry_ends_it(
    tmp_path: Path, number: int
) -> None:
    faults = []
    for at in range(1, 400):
        here = world(tmp_path / f"at-{at}", 2, active=1)
        digest = here.plan().sha256
        stopped(here, digest, "detached")
        here.activate("yet another")
        with failing(Calls(at, number, only=CHANGING)) as calls:
            said = _said(here, digest)
        if len(calls.names) < at:
            break
        again = here.apply(digest).code
        if "internal" in said or again != ABORTED or len(here.there()) != 2 or here.trashed():
            faults.append(f"{at} {calls.names[at - 1]}: {said}, then {again}")
    assert at > 10
    assert "\n".join(faults) == ""


@pytest.mark.parametrize("command", ["acknowledge", "archive", "repair", "list"])
@pytest.mark.parametrize("number", [errno.EIO])
def test_the_nth_call_of_a_desk_command_fails_with_a_typed_answer(
    tmp_path: Path, command: str, number: int
) -> None:
    faults = []
    for at in range(1, 400, 3):
        here = world(tmp_path / f"at-{at}", 2)
        digest = here.plan().sha256
        stopped(here, digest, "detached")
        here.activate("yet another")
        here.apply(digest)
        work = _desk_command(here, command)
        with failing(Calls(at, number)) as calls:
            try:
                work()
            except DponeError:
                pass
            except Exception as error:  # noqa: BLE001 - the command would call it internal
                faults.append(f"{at} {calls.names[at - 1]}: {error!r}")
        if len(calls.names) < at:
            break
        work()
        shutil.rmtree(here.root.parent)
    assert at > 10
    assert "\n".join(faults) == ""


def _desk_command(here: World, command: str) -> Callable[[], Any]:
    desk = here.desk()
    if command == "acknowledge":
        return lambda: desk.acknowledge(apply=True)
    if command == "archive":
        desk.acknowledge(apply=True)
        reviewed = desk.archive_receipts("", apply=False).archive_sha256
        return lambda: desk.archive_receipts(reviewed, apply=True)
    if command == "repair":
        here.receipts.chmod(0o755)
        return lambda: desk.receipts(repair=True, apply=True)
    return lambda: desk.receipts()
