"""A command beside an editor, and killed: nothing saved is lost, and the next runs finish."""

from __future__ import annotations

from functools import partial

import pytest

from faultinject import rivals
from faultinject.writing import Bench
from faultinject.zygote import Zygote
from tests.authoring.kill.rival_tasks import RIVALS, Rival

pytestmark = pytest.mark.kill


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.name)
def test_killed_beside_an_editor_every_saved_byte_stays_and_the_next_runs_finish(
    writers: list[Zygote], rival: Rival
) -> None:
    benches = {id(zygote): Bench(zygote, rival.task) for zygote in writers}
    try:
        points = rival.points(writers[0])

        def round_of(zygote: Zygote, point: str) -> list[str]:
            return rival.killed(benches[id(zygote)], point)

        done = rivals.spread(writers, [partial(round_of, point=point) for point in points])
    finally:
        for bench in benches.values():
            bench.close()
    assert len(done) >= 10
    assert [fault for faults in done for fault in faults] == []
