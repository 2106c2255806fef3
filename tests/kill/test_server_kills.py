"""The server of the target or of the journal is killed during a load, and comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faultinject.answers import killed_in_commit, killed_server, of_server
from faultinject.postgres import PostgresServer
from faultinject.zygote import Zygote

pytestmark = pytest.mark.kill

TARGET_POINTS = (
    "fencing.intent:after#1",
    "fencing.claim:after#1",
    "fencing.change:after#1",
    "fencing.commit:before#1",
    "fencing.commit:after#1",
)
JOURNAL_POINTS = (
    "fencing.intent:before#1",
    "fencing.intent:after#1",
    "fencing.commit:after#1",
    "fencing.acknowledge:after#1",
)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module's own: it is killed again and again."""
    with PostgresServer(fsync=False) as made:
        yield made


@pytest.mark.parametrize("back_first", [True, False], ids=["back-at-once", "back-later"])
@pytest.mark.parametrize("point", TARGET_POINTS)
def test_a_killed_target_server_holds_the_load_once(
    zygote: Zygote, server: PostgresServer, point: str, back_first: bool
) -> None:
    world = of_server(server, target=True, journal=False)
    heard = killed_server(zygote, server, world, point, back_first=back_first)
    assert heard.faults == ()


@pytest.mark.parametrize("back_first", [True, False], ids=["back-at-once", "back-later"])
@pytest.mark.parametrize("point", JOURNAL_POINTS)
def test_a_killed_journal_server_is_settled_by_the_next_run(
    zygote: Zygote, server: PostgresServer, point: str, back_first: bool
) -> None:
    world = of_server(server, target=False, journal=True)
    heard = killed_server(zygote, server, world, point, back_first=back_first)
    assert heard.faults == ()


@pytest.mark.parametrize("point", ["fencing.change:after#1", "fencing.commit:after#1"])
def test_a_killed_server_of_both_holds_the_load_once(
    zygote: Zygote, server: PostgresServer, point: str
) -> None:
    world = of_server(server, target=True, journal=True)
    heard = killed_server(zygote, server, world, point, back_first=True)
    assert heard.faults == ()


@pytest.mark.parametrize("journal", [False, True], ids=["target", "both"])
def test_a_server_killed_inside_commit_leaves_a_doubt_that_the_next_run_settles(
    zygote: Zygote, server: PostgresServer, journal: bool
) -> None:
    world = of_server(server, target=True, journal=journal)
    heard = killed_in_commit(zygote, server, world)
    if journal:
        # The journal died with the target: its last word is that the commit was started.
        assert heard.faults[1:] == ()
        assert "COMMITTING" in heard.faults[0]
    else:
        assert heard.faults == ()
    assert heard.first.startswith("3 ")
    assert heard.second == "0 committed"
