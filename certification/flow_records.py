"""One shape for what every engine of the file flows says, and the promises that it is about."""

from __future__ import annotations

from typing import Any

from certification.programme import Raw

NOTHING_LOST = (
    "no user's byte is lost, no authoritative name is absent, no receipt is false, and the same "
    "command ends with nothing left"
)
LOSER_IS_TOLD = "two workers at one file: no acknowledged commit is overwritten unseen"
NEEDED = "a lost sync or rule is noticed"


def add(raw: Raw, key: str, engine: str, invariant: str, faults: list[str], **figures: Any) -> None:
    """Record one judgement: nothing is wrong with it, or `faults`; `figures` are its counts."""
    raw.flows.append(
        {
            "key": f"flow/{engine}/{key}",
            "engine": engine,
            "invariant": invariant,
            "faults": faults,
            "figures": figures,
        }
    )
