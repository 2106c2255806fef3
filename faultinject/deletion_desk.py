"""The workloads beside the apply: archive, acknowledge, repair, restore, close, cut, materialise.

Each starts from a world that its `prepare` makes; killed anywhere, the same workload run again ends
it, and `faults` says what is wrong then. Together with the apply they reach every effect of
retention and of the cache.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from dpone import wiring
from dpone.adapters.posix.cachefiles import PosixCache
from dpone.contracts.errors import DponeError
from dpone.ports.probe import Probe
from dpone.retention.desk import RetentionDesk
from dpone.retention.materialize import Materializer, Preview
from dpone.retention.request import Request
from faultinject.deletion_files import Stop, WatchedCache, stop_at
from faultinject.deletion_worlds import DAGS, ENVIRONMENT, NOW, OTHER_REVIEW, REVIEW, World, world

WORK = "faultinject.deletion_desk:work"


def work(args: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """One run of the command that `do` names."""
    files = PosixCache(Path(args["root"]))
    desk = RetentionDesk(files, ENVIRONMENT, probe=probe)
    try:
        return {"exit_code": 0, "said": _COMMANDS[args["do"]](args, desk, probe)}
    except DponeError as error:
        return {"exit_code": error.exit_code, "code": error.code}


def _apply(args: Mapping[str, Any], desk: RetentionDesk, _: Probe) -> str:
    request = Request(ENVIRONMENT, args["plan"], args["review"], "somebody")
    done = desk.apply(request, ack_file=wiring.open_document(Path(args["ack"])))
    return done.receipt.status if done.receipt else "nothing"


def _archive(args: Mapping[str, Any], desk: RetentionDesk, _: Probe) -> str:
    return str(desk.archive_receipts(args["plan"], apply=True).applied)


def _acknowledge(args: Mapping[str, Any], desk: RetentionDesk, _: Probe) -> str:
    return str(desk.acknowledge(apply=True).applied)


def _repair(args: Mapping[str, Any], desk: RetentionDesk, _: Probe) -> str:
    return str(desk.receipts(repair=True, apply=True).applied)


def _materialize(args: Mapping[str, Any], _: RetentionDesk, probe: Probe) -> str:
    maker = Materializer(
        wiring.open_cache(Path(args["root"]), create=True),
        nonces=lambda: str(uuid4()),
        now=lambda: NOW,
        probe=probe,
    )
    ack = wiring.open_document(Path(args["ack"]))
    preview = Preview(ENVIRONMENT, DAGS, "made", 2)
    return maker.run(preview, activate=True, ack_file=ack).current_deployment_id or ""


_COMMANDS: dict[str, Callable[[Mapping[str, Any], RetentionDesk, Probe], str]] = {
    "apply": _apply,
    "archive": _archive,
    "acknowledge": _acknowledge,
    "repair": _repair,
    "materialize": _materialize,
}


# -- worlds ----------------------------------------------------------------------------------------


class Scene(NamedTuple):
    """A workload in a world of its own: how it starts, what it may answer, what must hold then."""

    prepare: Callable[[Path], dict[str, Any]]
    answers: tuple[int, ...]
    faults: Callable[[World], Iterator[str]]


def _args(made: World, do: str, plan: str = "", review: str = REVIEW) -> dict[str, Any]:
    where = {"root": str(made.root), "ack": str(made.ack)}
    kept = {"candidates": list(made.candidates), "current": made.current}
    return {**where, **kept, "do": do, "plan": plan, "review": review}


def _begun(folder: Path, at: tuple[str, str, int]) -> tuple[World, str]:
    made = world(folder, 3, active=1)
    plan = made.plan().sha256
    with contextlib.suppress(Stop):
        made.apply(plan, files=WatchedCache(made.root, stop_at(*at)))
    return made, plan


DETACHED = ("after append", "", 2)
COMMITTED = ("after append", "", 4)


def _of_abort(folder: Path) -> dict[str, Any]:
    made, plan = _begun(folder, DETACHED)
    made.activate("yet another")
    return _args(made, "apply", plan)


def _of_closing(folder: Path) -> dict[str, Any]:
    made, _ = _begun(folder, COMMITTED)
    return _args(made, "apply", made.plan().sha256, OTHER_REVIEW)


def _of_closing_detached(folder: Path) -> dict[str, Any]:
    made, _ = _begun(folder, DETACHED)
    return _args(made, "apply", made.plan().sha256, OTHER_REVIEW)


def _of_cutting(folder: Path) -> dict[str, Any]:
    made, plan = _begun(folder, COMMITTED)
    with made.log.open("ab") as log:
        log.write(b"\0\0\1")
    (made.receipts / f".sha256-{'a' * 64}.json.{'b' * 32}.tmp").write_bytes(b"x")
    (made.root / f"..retention-recovery.json.{'b' * 32}.tmp").write_bytes(b"x")
    return _args(made, "apply", plan)


def _of_acknowledging(folder: Path) -> dict[str, Any]:
    args = _of_abort(folder)
    work(args, _quiet)
    return {**args, "do": "acknowledge"}


def _of_archiving(folder: Path) -> dict[str, Any]:
    args = _of_acknowledging(folder)
    made = opened(args)
    made.desk().acknowledge(apply=True)
    assert made.apply(made.plan().sha256, OTHER_REVIEW).code == "committed"
    reviewed = made.desk().archive_receipts("", apply=False).archive_sha256
    return {**args, "do": "archive", "plan": reviewed}


def _of_repairing(folder: Path) -> dict[str, Any]:
    made, plan = _begun(folder, COMMITTED)
    made.apply(plan)
    for place in (made.receipts, made.trash):
        place.chmod(0o2770)
    for receipt in made.receipts.iterdir():
        receipt.chmod(0o660)
    return _args(made, "repair", plan)


def _of_drifting(folder: Path) -> dict[str, Any]:
    """A committed deletion, and a directory that came back under one of its names."""
    made = world(folder, 3, active=1)
    plan = made.plan().sha256
    assert made.apply(plan).code == "committed"
    made.deployment(made.candidates[0]).mkdir()
    return _args(made, "apply", plan)


def _of_materializing(folder: Path) -> dict[str, Any]:
    made = world(folder, 1)
    shutil.rmtree(made.deployment(made.candidates[0]))
    return _args(made, "materialize")


def _quiet(_: object) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


# -- what must hold --------------------------------------------------------------------------------


def opened(args: Mapping[str, Any]) -> World:
    """The world of a run's arguments."""
    candidates = tuple(args["candidates"])
    return World(Path(args["root"]), Path(args["ack"]), candidates, args["current"])


def _clean(made: World) -> Iterator[str]:
    if made.trashed():
        yield f"the trash holds {made.trashed()}"
    left = [str(path.relative_to(made.root)) for path in made.root.rglob("*.tmp*")]
    left += [str(path.relative_to(made.root)) for path in made.root.rglob("*.making")]
    if left:
        yield f"{left} were left"


def _all_there(made: World) -> Iterator[str]:
    yield from _clean(made)
    if made.there() != list(made.candidates):
        yield "something is missing"
    if made.activation(made.candidates[0]).stat().st_mode & 0o777 != 0o555:
        yield "the activation is open"


def _all_gone(made: World) -> Iterator[str]:
    yield from _clean(made)
    if made.there():
        yield f"{made.there()} are there"


def _one_back(made: World) -> Iterator[str]:
    yield from _clean(made)
    if made.there() != list(made.candidates[:1]):
        yield f"{made.there()} are there"


def _archived(made: World) -> Iterator[str]:
    yield from _all_gone(made)
    listed = made.desk().receipts()
    if listed.blocker or [row.archived for row in listed.receipts] != [True, True]:
        yield f"not archived: {listed}"


def _acknowledged(made: World) -> Iterator[str]:
    # What a crash left beside the acknowledgement is cleared by the next apply.
    made.apply("sha256:" + "0" * 64, OTHER_REVIEW)
    yield from _all_there(made)
    if made.desk().acknowledge(apply=False).restored:
        yield "it still waits"


def _repaired(made: World) -> Iterator[str]:
    yield from _all_gone(made)
    if made.desk().receipts().repairs:
        yield "something is still to be repaired"


def _drift_told(made: World) -> Iterator[str]:
    yield from _clean(made)
    told = json.loads((made.root / ".retention-drift.json").read_text())["seen_again"]
    if list(told.values()) != [[made.candidates[0]]]:
        yield f"the drift says {told}"
    statuses = [json.loads(item.read_text())["status"] for item in made.receipts.iterdir()]
    if statuses != ["committed"]:
        yield f"the receipts are {statuses}"
    if made.there() != [made.candidates[0]]:
        yield "what came back is not there"


def _made(made: World) -> Iterator[str]:
    yield from _clean(made)
    current = json.loads((made.root / "current-pointer.json").read_text())["deployment_id"]
    if (made.root / "current").readlink().name != current.replace(":", "-"):
        yield "pointer and link disagree"
    if made.plan().current_deployment_id != current:
        yield "it cannot be planned"


SCENES = {
    "abort": Scene(_of_abort, (1,), _all_there),
    "closing": Scene(_of_closing, (0,), _all_gone),
    "closing detached": Scene(_of_closing_detached, (0,), _one_back),
    "cutting": Scene(_of_cutting, (0,), _all_gone),
    "acknowledging": Scene(_of_acknowledging, (0,), _acknowledged),
    "archiving": Scene(_of_archiving, (0,), _archived),
    "repairing": Scene(_of_repairing, (0,), _repaired),
    "drifting": Scene(_of_drifting, (0,), _drift_told),
    "materializing": Scene(_of_materializing, (0,), _made),
}
