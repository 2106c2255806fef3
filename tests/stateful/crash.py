"""What a forked child does until it is killed: one call of a journal or of a target.

A child may die at a named point (its probe kills it) or at the n-th call or return that happens
inside the adapter: then `call#n` is the point, and n is counted from the call of the port on.
The proof of either lies on the disk before the signal is sent.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from dpone import wiring
from dpone.contracts.codec import convert
from dpone.contracts.effects import Effect
from dpone.contracts.fence import Unit
from dpone.contracts.journal import JournalEntry, Step
from dpone.ports.probe import Probe
from faultinject import probe as probes

ADAPTERS = "/dpone/adapters/"
EVENTS = ("call", "return", "c_call", "c_return")


class Killer:
    """Kills this process at the n-th call or return inside an adapter; `seen` counts them."""

    def __init__(self, number: int, proof: Path) -> None:
        self.number = number
        self.proof = proof
        self.seen = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event not in EVENTS or ADAPTERS not in frame.f_code.co_filename:
            return
        self.seen += 1
        if self.seen == self.number:
            sys.setprofile(None)
            line = {"point": f"call#{self.number}", "pid": os.getpid(), "signal": "SIGKILL"}
            probes.append(self.proof, line)
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def _dying(args: Mapping[str, Any]) -> Iterator[Killer]:
    killer = Killer(args["kill_at"], Path(args["proof"]))
    if killer.number:
        sys.setprofile(killer)
    try:
        yield killer
    finally:
        sys.setprofile(None)


def hit(proof: Path, pid: int, number: int) -> bool:
    """Whether the last proof says that this process died at this call."""
    last = json.loads(proof.read_text().splitlines()[-1])
    return (last["point"], last["pid"]) == (f"call#{number}", pid)


def journal(args: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """Create (no `before`) or advance a row."""
    by = wiring.open_journal(args["spec"])
    after = convert(args["after"], JournalEntry)
    steps = [convert(step, Step) for step in args["steps"]]
    with _dying(args) as killer, probe(Effect.FENCING_INTENT):
        if args.get("before") is None:
            answer = by.create(after, steps, args["lease_s"])
        else:
            answer = by.advance(
                convert(args["before"], JournalEntry), after, steps, args["lease_s"]
            )
    by.close()
    return {"exit_code": 0, "answer": answer, "calls": killer.seen}


def target(args: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """Seal, or commit one row named `row`."""
    by = wiring.open_target(args["spec"], probe=probe, options={"lock_wait_s": 5.0})
    unit = convert(args["unit"], Unit)

    def change(transaction: Any) -> dict[str, Any]:
        transaction.execute(f"INSERT INTO certified VALUES ('{args['row']}', 1)")
        return {"row": args["row"]}

    with _dying(args) as killer:
        verdict = by.seal(unit) if args["act"] == "seal" else by.commit(unit, change)
    by.close()
    return {"exit_code": 0, "answer": type(verdict).__name__, "calls": killer.seen}


def kill(pid: int) -> None:
    """SIGKILL a child that stands still."""
    os.kill(pid, signal.SIGKILL)
