"""What an operator runs under a probe: reconcile, resolve, adopt, prune, raise a floor.

Each command is one workload that names its operation as `workloads.fenced` does and answers with
the row that it left, or with the error that it met.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpone import wiring
from dpone.adapters.csvdir.target import CsvdirTarget
from dpone.contracts.codec import plain
from dpone.contracts.errors import DponeError
from dpone.contracts.journal import JournalEntry
from dpone.fencing.adopt import adopt_journal, adopt_target
from dpone.fencing.check import check
from dpone.fencing.commit import Committer
from dpone.fencing.guard import release
from dpone.fencing.prune import prunable, prune, raise_floor
from dpone.fencing.resolve import Assertion, resolve
from dpone.fencing.settle import settle_alone
from dpone.ports.probe import Probe, quiet
from faultinject.workloads import operation_of

WHO: Mapping[str, Any] = {"operator": "ops", "why": "a drill"}
FAR_FUTURE_MS = 2**53

Command = Callable[[Committer, Mapping[str, Any]], Any]


def operate(args: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """Run `command` on the journal and target of `args`."""
    journal = wiring.open_journal(args["journal"])
    target = wiring.open_target(args["target"], probe=probe, options=args.get("options", {}))
    by = wiring.committer(journal, target, probe=probe)
    try:
        said = COMMANDS[args["command"]](by, args)
        entry = journal.read(operation_of(args).operation_id)
    except DponeError as error:
        return {"exit_code": error.exit_code, "code": error.code, "said": str(error)}
    finally:
        target.close()
        journal.close()
    return {"exit_code": 0, "code": "", "said": plain(said), "entry": plain(entry)}


def guarded(args: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """One load of three rows into a directory that has no fence, under the guard."""
    journal = wiring.open_journal(args["journal"])
    target = CsvdirTarget(Path(args["folder"]) / "out", probe=probe)
    by = wiring.route_committer(journal, target, probe=probe)

    def change(transaction: Any) -> Mapping[str, Any]:
        transaction.append("rows", [f"{args['part']},{key}\n".encode() for key in range(3)])
        return {"rows_written": 3}

    try:
        outcome = by.commit(operation_of({**args, "target": "csvdir:out"}), change)
    except DponeError as error:
        return {"exit_code": error.exit_code, "code": error.code, "said": str(error)}
    finally:
        target.close()
        journal.close()
    return {"exit_code": 0, "code": "", "outcome": plain(outcome)}


def answer_guard(args: Mapping[str, Any], *, committed: bool) -> int:
    """Answer the guard of the operation that `args` describe, as an operator would."""
    journal = wiring.open_journal(args["journal"])
    operation_id = operation_of({**args, "target": "csvdir:out"}).operation_id
    try:
        return release(
            wiring.checkpoints(journal), operation_id, committed=committed, now=wiring.now(), **WHO
        )
    finally:
        journal.close()


def entry_of(args: Mapping[str, Any]) -> JournalEntry | None:
    """The row of the operation that `args` describe."""
    journal = wiring.open_journal(args["journal"])
    try:
        return journal.read(operation_of(args).operation_id)
    finally:
        journal.close()


def events_of(args: Mapping[str, Any]) -> list[str]:
    """The history of the operation that `args` describe, as event names."""
    journal = wiring.open_journal(args["journal"])
    try:
        return [row.event for row in journal.history(operation_of(args).operation_id)]
    finally:
        journal.close()


def do(command: str, args: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Run a command in this process."""
    return operate({**args, "command": command, **more}, quiet)


def _resolve(by: Committer, args: Mapping[str, Any]) -> Any:
    operation = operation_of(args)
    entry = by.journal.read(operation.operation_id)
    version = args.get("expect_version", entry.version if entry else 0)
    return resolve(
        by,
        operation.operation_id,
        Assertion(args["answer"]),
        expect_version=version,
        floor=operation.floor,
        **WHO,
    )


def _settle(by: Committer, args: Mapping[str, Any]) -> Any:
    operation = operation_of(args)
    take_over = args.get("take_over", False)
    return settle_alone(by, operation.operation_id, operation.floor, take_over=take_over)


def _prune(by: Committer, args: Mapping[str, Any]) -> Any:
    return prune(by.ledger, by.target, prunable(by.journal, before_ms=FAR_FUTURE_MS))


def _floor(by: Committer, args: Mapping[str, Any]) -> Any:
    """Raise the floor to `floor`, over every row of the journal below it that `below` lists."""
    scope = operation_of({**args, "position": args["floor"]}).floor
    assert scope is not None
    rows = []
    for part in args.get("below", [args.get("part", "p")]):
        entry = by.journal.read(operation_of({**args, "part": part}).operation_id)
        if entry is not None:
            rows.append(entry)
    return raise_floor(by.target, scope, rows)


def _check(by: Committer, args: Mapping[str, Any]) -> Any:
    asked, findings = check(by.journal, lambda entry: by.target)
    return {"asked": asked, "findings": [finding.what for finding in findings]}


COMMANDS: dict[str, Command] = {
    "resolve": _resolve,
    "settle": _settle,
    "adopt_journal": lambda by, args: adopt_journal(by.ledger, **WHO),
    "adopt_target": lambda by, args: adopt_target(by.ledger, by.target, lambda row: True, **WHO),
    "prune": _prune,
    "floor": _floor,
    "check": _check,
}
