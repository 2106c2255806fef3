"""The lab of Airflow records what it saw: a fault stays one, whatever breaks beside it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faultinject.airflow import guarding
from faultinject.airflow.instance import AirflowError, Instance
from faultinject.airflow.scenarios import Scenario
from faultinject.airflow.session import Session

PLAIN = Scenario("fenced", "none", "postgres", label="clear")


def session(**metadata: Any) -> Session:
    """A session whose lab answers as given."""
    known: dict[str, Any] = {"unpause": lambda names: None, "tasks": lambda name: []}
    lab = SimpleNamespace(
        airflow=SimpleNamespace(is_3=True),
        metadata=SimpleNamespace(**{**known, **metadata}),
        places=SimpleNamespace(proof=lambda scenario: None, rows=lambda scenario: [(1, 100)]),
    )
    return Session(lab, None)  # type: ignore[arg-type]


def broken(*_: object) -> None:
    """A server that is gone."""
    raise ConnectionError("the server is gone")


def test_a_fault_is_kept_when_the_lab_breaks_after_it() -> None:
    lab = session(tasks=broken)
    lab._record(PLAIN, lambda lab, scenario: ["a real fault"])
    (record,) = lab.records
    assert record["faults"] == ["a real fault", "ConnectionError: the server is gone"]
    assert record["attempts"] == -1


def test_a_lab_that_breaks_finds_no_seeded_defect() -> None:
    lab = session(unpause=broken)
    seeded = Scenario("fenced", "none", "postgres", label="clear", defect="run")
    lab._record(seeded, lambda lab, scenario: ["2 rows instead of 1"])
    assert lab.records[0]["faults"] == ["ConnectionError: the server is gone"]


def test_what_breaks_beside_the_rounds_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = session()
    monkeypatch.setattr(lab, "_record", broken)
    with pytest.raises(ConnectionError):
        lab.run([PLAIN])


@pytest.fixture
def instance() -> Instance:
    """An instance of 3.x that was never started."""
    found = Instance.__new__(Instance)
    found.folder, found.is_3, found._port = Path("/"), True, 4711
    found._python, found._environ = Path("python"), {}
    return found


@pytest.mark.parametrize(
    ("heard", "living", "faults"),
    [
        ({("127.0.0.1", 4711)}, [1], []),
        (set(), [1], ["no process of it was seen"]),
        ({("127.0.0.1", 80)}, [1], ["no process of it was seen"]),
        ({("127.0.0.1", 4711)}, [], ["no process of it was seen"]),
        ({("127.0.0.1", 4711), ("0.0.0.0", 8793)}, [1], ["listens on 0.0.0.0"]),
        ({("127.0.0.1", 4711), ("::", 1), ("::", 2)}, [1], ["listens on ::"]),
    ],
)
def test_loopback_is_a_finding_and_no_silence(
    instance: Instance,
    monkeypatch: pytest.MonkeyPatch,
    heard: set[tuple[str, int]],
    living: list[int],
    faults: list[str],
) -> None:
    monkeypatch.setattr(Instance, "listening", lambda self: heard)
    monkeypatch.setattr(guarding, "family", lambda folder: living)
    assert instance.strangers() == faults


def test_a_command_that_takes_too_long_is_named(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*args: Any, **kwargs: Any) -> None:
        raise subprocess.TimeoutExpired(args[0], kwargs["timeout"])

    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(AirflowError, match="airflow db migrate took more than"):
        instance.command("db", "migrate")
