"""One unit on a fresh place, as the tests of this folder look at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from certification.places import TargetPlace
from certification.target import ready, unit

Change = Callable[[Any], Any]


def commit(place: TargetPlace, change: Change) -> tuple[Any, Any, list[str]]:
    """The verdict of one unit, what a fresh object then sees, and the rows."""
    target, incarnation = ready(place)
    answer = target.commit(unit(incarnation), change)
    target.close()
    return answer, place.open().ask("operation", None).verdict, place.rows()
