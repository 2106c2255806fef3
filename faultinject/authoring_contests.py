"""The contests of two processes at one file: who meets whom, and from which start."""

from __future__ import annotations

from functools import partial
from typing import Final

from dpone.authoring.confined import ConfinedFiles
from dpone.contracts.authoring import sha256_of
from faultinject.authoring_truth import LEAF, Answer, Case, D, E
from faultinject.authoring_worlds import owned, removing, standing
from faultinject.disk import Crash, MemoryFiles
from faultinject.persistence import confined, recovering, replacing
from faultinject.schedules import Contest

OTHER_D = b"desired by the other: also later\n"


def other_bytes(library: ConfinedFiles) -> Answer:
    """A second change of the same file, with bytes of its own."""
    return library.replace_file_if_digest(LEAF, expected_sha256=sha256_of(E), desired=OTHER_D)


def owned_to_other(library: ConfinedFiles) -> Answer:
    """A change of the file that somebody wants removed."""
    return library.replace_file_if_digest(LEAF, expected_sha256=sha256_of(D), desired=OTHER_D)


def orphaned(before: str) -> Case:
    """What a change left that died before a call whose label starts like this."""
    case = standing()

    def watch(label: str) -> None:
        if label.startswith(before):
            files.die()

    files = MemoryFiles(case.disk, watch)
    try:
        replacing(confined(case.disk, files))
    except Crash:
        return case.after(f"died before {before}", disk=case.disk.killed())
    raise LookupError(f"no call starts with {before!r}")


CONTESTS: Final = (
    Contest("same bytes", standing, (replacing, replacing)),
    Contest("different bytes", standing, (replacing, other_bytes), (D, OTHER_D)),
    Contest(
        "different bytes by name",
        partial(standing, nameless=False),
        (replacing, other_bytes),
        (D, OTHER_D),
    ),
    Contest("replace and recover", standing, (replacing, recovering)),
    Contest("remove and replace", owned, (removing, owned_to_other), (b"", OTHER_D)),
    Contest("remove twice", owned, (removing, removing), (b"", b"")),
    Contest(
        "two recover a dead one",
        partial(orphaned, "unlink .dpone-side-"),
        (recovering, recovering),
        (b"", b""),
    ),
    Contest(
        "replace and recover a dead one",
        partial(orphaned, f"exchange {LEAF}"),
        (other_bytes, recovering),
        (OTHER_D, b""),
    ),
)
