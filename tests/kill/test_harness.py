"""The harness notices a target that lets two attempts in."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultinject import worlds
from faultinject.rivals import intrusion, zombie
from faultinject.zygote import Zygote

pytestmark = pytest.mark.kill

POINT = "fencing.intent:after#1"


def test_a_target_without_a_fence_is_found_out(tmp_path: Path) -> None:
    with Zygote(tmp_path, ("faultinject.workloads", "tests.kill.broken_claim")) as zygote:
        assert "2 mutations" in zombie(zygote, worlds.sqlite, "append", POINT).faults
        found = intrusion(zygote, worlds.sqlite, POINT).faults
        assert f" {POINT}: 2 mutations" in found


def test_a_point_that_is_armed_and_not_hit_is_an_error(zygote: Zygote) -> None:
    with pytest.raises(AssertionError, match="claim:after#7 was armed and not hit"):
        zombie(zygote, worlds.sqlite, "append", "fencing.claim:after#7")
