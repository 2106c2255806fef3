"""What happens to a task's process in the window that a scenario names.

This module runs inside Airflow's worker, beside the DAG file. The proof of a deed is on the disk
before it is done, and only the first attempt finds no proof, so only it is hurt.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

WAIT_S = 90.0

Deed = Callable[[Mapping[str, Any]], None]


def kill_child(_facts: Mapping[str, Any]) -> None:
    """The task's process is gone, as when memory ran out."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_worker(_facts: Mapping[str, Any]) -> None:
    """The worker that watches the task is gone too, as when a node is lost."""
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def pause(_facts: Mapping[str, Any]) -> None:
    """Worker and task stand still until somebody wakes them."""
    os.kill(os.getppid(), signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)


def wait(facts: Mapping[str, Any]) -> None:
    """Go on when the file that says so is there, or give up."""
    go = Path(str(facts["go"]))
    deadline = time.monotonic() + WAIT_S
    while not go.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody wrote {go.name}")
        time.sleep(0.05)


DEEDS: Mapping[str, Deed] = {
    "child": kill_child,
    "supervisor": kill_worker,
    "pause": pause,
    "wait": wait,
}


def strike(folder: str, name: str, deed: str, **facts: Any) -> bool:
    """Do a deed once for all attempts; False when an earlier attempt has suffered it."""
    proof = Path(folder) / f"{name}.struck"
    try:
        os.close(os.open(proof.with_suffix(".first"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    side = proof.with_suffix(".side")
    with side.open("w") as written:
        json.dump({**facts, "pid": os.getpid(), "parent": os.getppid(), "at": time.time()}, written)
        written.flush()
        os.fsync(written.fileno())
    # Whoever waits for the proof must never read half of it.
    side.rename(proof)
    DEEDS[deed]({**facts, "go": str(proof.with_suffix(".go"))})
    return True


def around_commit(kind: str, *, before: str = "", after: str = "", **place: Any) -> None:
    """From now on in this process, the target's commit is preceded or followed by a deed.

    What a commit left in the fence stands in the proof: it is what the dead attempt knew.
    """
    module = importlib.import_module(f"dpone.adapters.{kind}.target")
    owner = getattr(module, f"{kind.capitalize()}Target")
    original = owner.commit

    def commit(self: Any, *call: Any, **more: Any) -> Any:
        if before:
            strike(deed=before, **place)
        verdict = original(self, *call, **more)
        receipt = getattr(verdict, "receipt", None)
        if after and type(verdict).__name__ == "Committed":
            strike(deed=after, **place, receipt=_receipt(receipt))
        return verdict

    owner.commit = commit


def sow(defect: str) -> None:
    """Take one rule away from the library in this process."""
    attempt: Any = importlib.import_module("dpone.airflow.attempt")
    compat: Any = importlib.import_module("dpone.airflow.compat")
    if defect == "try":
        attempt.Attempt.period = property(lambda self: {"try": self.try_number})
    elif defect == "run":
        attempt.Attempt.period = property(lambda self: {"run": self.run_id})
    elif defect == "speaks":
        compat.leave_if_superseded = lambda context, log: None


def _receipt(receipt: Any) -> dict[str, Any]:
    return {
        "operation_id": receipt.operation_id,
        "epoch": receipt.epoch,
        "attempt_id": receipt.attempt_id,
        "intent_digest": receipt.intent_digest,
        "result": dict(receipt.result),
    }
