"""The workloads of the persistence engine: what stands on the disk, and what is done to it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

from dpone.authoring.confined import ConfinedFiles
from dpone.contracts.authoring import Kind, OwnedFile, sha256_of
from dpone.contracts.transaction import (
    SCHEMA,
    Phase,
    Transaction,
    encode,
    journal_name,
    recovery_name,
    side_name,
)
from faultinject.authoring_editors import Act, acts, put
from faultinject.authoring_inodes import ROOT, Disk, Inode
from faultinject.authoring_truth import LEAF, Answer, Case, D, E
from faultinject.persistence import Workload, recovering, replacing

ACTS: tuple[Act, ...] = acts(E, D)


def standing(*, nameless: bool = True, certified: bool | None = True, proves: bool = True) -> Case:
    """A durable file with the expected bytes, and nothing beside it."""
    disk = Disk.empty()
    disk.nameless, disk.certified, disk.proves = nameless, certified, proves
    inode = put(disk, LEAF, E)
    inode.by_user = True
    return Case(disk, inode.number)


def owned() -> Case:
    """A file that this library made, with the desired bytes; its removal is wanted."""
    disk = Disk.empty()
    disk.certified = True
    inode = put(disk, LEAF, D)
    inode.by_user = False
    return Case(disk, inode.number, is_removal=True)


def removing(library: ConfinedFiles) -> Answer:
    """Remove the file of a receipt; the receipt was taken when the file was made."""
    number = owned().expected
    receipt = OwnedFile(
        path=LEAF,
        device=1,
        identity=f"{number:016x}.{1:016x}",
        size=len(D),
        sha256=sha256_of(D),
    )
    return library.remove_file_if_owned(receipt)


_OTHER = b"bytes of somebody else\n"
_SIDES = ("absent", "earlier", "ours", "other", "link", "torn", "earlier bytes", "ours bytes")
_TARGETS = ("absent", "earlier", "ours", "other", "link", "ours bytes")


def seeded(phase: Phase, side: str, target: str) -> Case | None:
    """A journal of one phase with each thing under the two names; None: one file under both."""
    if side == target and side in ("earlier", "ours"):
        return None
    disk = Disk.empty()
    disk.certified = True
    nonce = f"{1 << 64:032x}"
    earlier, ours = disk.make(foreign=True), disk.make()
    for inode, data in ((earlier, E), (ours, D)):
        disk.write(inode, data)
        inode.intact = data
        disk.sync_inode(inode)
    journal = encode(
        Transaction(
            phase=int(phase),
            schema=SCHEMA,
            version=2,
            target_name=LEAF,
            exchange_name=side_name(nonce),
            recovery_name=recovery_name(nonce),
            expected_sha256=sha256_of(E),
            desired_sha256=sha256_of(D),
            expected_identity=disk.look(earlier).identity,
            desired_identity=disk.look(ours).identity,
            nonce=nonce,
        )
    )
    put(disk, journal_name(LEAF), journal).by_user = False
    for name, what in ((side_name(nonce), side), (LEAF, target)):
        _show(disk, name, what, earlier, ours, is_owed=phase is not Phase.STAGING or name == LEAF)
    disk.sync_folder()
    return Case(
        disk,
        earlier.number,
        (f"begin: {phase.name}, side {side}, target {target}",),
        is_removal=phase is Phase.REMOVING,
        is_seeded=True,
    )


def _show(disk: Disk, name: str, what: str, earlier: Inode, ours: Inode, *, is_owed: bool) -> None:
    known = {"earlier": earlier, "ours": ours}
    if what in known:
        disk.change(ROOT, (name, known[what].number))
    elif what == "link":
        disk.change(ROOT, (name, disk.make(kind=Kind.LINK, foreign=True).number))
    elif what != "absent":
        data = {"earlier bytes": E, "ours bytes": D, "torn": D[:5]}.get(
            what, _OTHER + name.encode()
        )
        put(disk, name, data)
        if is_owed:
            disk.precious.add(data)


def seeded_workloads() -> tuple[Workload, ...]:
    """Recovery of every phase with everything under both names, reachable or not."""
    found: list[Workload] = []
    for phase in Phase:
        for side in _SIDES:
            for target in _TARGETS:
                if seeded(phase, side, target) is not None:
                    begin = partial(_seeded, phase, side, target)
                    name = f"recover {phase.name} {side} {target}"
                    found.append(Workload(name, begin, recovering))
    return tuple(found)


def _seeded(phase: Phase, side: str, target: str) -> Case:
    case = seeded(phase, side, target)
    assert case is not None
    return case


OLD_SIDE = f".{LEAF}.dpone-cas-{7:024x}"


def earlier_version(side: bytes | None, target: bytes | None) -> Case:
    """A journal of version 1 with these bytes under its two names."""
    disk = Disk.empty()
    disk.certified = True
    journal = {
        "phase": "prepared",
        "schema": SCHEMA,
        "version": 1,
        "target_name": LEAF,
        "exchange_name": OLD_SIDE,
        "expected_sha256": sha256_of(E),
        "desired_sha256": sha256_of(D),
    }
    put(disk, journal_name(LEAF), json.dumps(journal).encode()).by_user = False
    for name, data in ((OLD_SIDE, side), (LEAF, target)):
        if data is not None:
            put(disk, name, data)
            if data not in (E, D):
                disk.precious.add(data)
    return Case(disk, 0, (f"begin: version 1, side {side!r}, target {target!r}",), is_seeded=True)


def malformed(data: bytes) -> Case:
    """Bytes under the journal's name that are no journal of this leaf."""
    case = standing()
    put(case.disk, journal_name(LEAF), data)
    case.disk.precious.add(data)
    return replace(case, trail=(f"begin: a journal of {data[:20]!r}",), is_seeded=True)


def old_workloads() -> tuple[Workload, ...]:
    """Journals of version 1 over all bytes, and journals that are none."""
    versions = (None, E, D, _OTHER)
    old = [
        Workload(
            f"version 1 {side!r} {target!r}", partial(earlier_version, side, target), recovering
        )
        for side in versions
        for target in versions
    ]
    bad = [
        Workload(f"malformed {data!r}", partial(malformed, data), recovering)
        for data in (b"", b"{", b"not a journal\n")
    ]
    return (*old, *bad)


def workloads(*, rivals: bool = True) -> tuple[Workload, ...]:
    """Every workload; `rivals`: with other programs at every step."""
    chosen = ACTS if rivals else ()
    return (
        Workload("replace", standing, replacing, chosen),
        Workload("replace by name", lambda: standing(nameless=False), replacing, chosen),
        Workload("replace unproven", lambda: standing(proves=False), replacing, chosen),
        Workload("replace uncertified", lambda: standing(certified=None), replacing),
        Workload("remove", owned, removing, chosen),
    )
