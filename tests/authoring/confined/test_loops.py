"""Editors that save freely beside repeated changes: no save is lost, and all is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.authoring.confined.loops import FILE, against_an_editor, leftovers, tokens
from tests.depth import FULL

ROUNDS = 2000 if FULL else 100


@pytest.mark.timeout(900)
@pytest.mark.parametrize("style", ["in_place", "rename_save", "away_then_create"])
def test_no_save_of_a_free_editor_is_lost(place: Path, style: str) -> None:
    seen = against_an_editor(place, style, ROUNDS)
    assert tokens(place) == set(range(ROUNDS))
    assert leftovers(place, seen) == set()
    assert (place / FILE).is_file()
    assert seen.answers["committed committed"] >= ROUNDS // 4
