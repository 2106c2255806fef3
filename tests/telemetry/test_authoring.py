"""The three counters of a receipt are those that the metrics tell."""

from __future__ import annotations

import pytest

from dpone.adapters.posix.files import PosixFolder
from dpone.contracts.authoring_report import Counters
from dpone.contracts.measures import CHANGES, measures_of
from dpone.ports.files import FilesError
from tests.authoring.commands.test_endings import NEW, stopped
from tests.authoring.confined.studio import CATALOG, At
from tests.loading.project import Project, Said
from tests.telemetry.watched import Watched

NONE = dict.fromkeys(Counters.__struct_fields__, 0)


def told(watched: Watched) -> dict[str, float]:
    """The counters of all calls since."""
    counts = {
        str(dict(item.attributes)["dpone.outcome"]): item.number for item in watched.counts(CHANGES)
    }
    return {**NONE, **counts}


def test_a_change_that_was_made_counts_nothing_that_is_open(
    authored: Project, watched: Watched
) -> None:
    assert authored.call(*NEW).code == 0
    assert told(watched) == NONE


@pytest.mark.parametrize("form", ["json", "text"])
def test_what_was_undone_is_told_as_rolled_back(
    authored: Project, watched: Watched, form: str
) -> None:
    catalog = authored.root / CATALOG

    def save() -> None:
        catalog.write_bytes(catalog.read_bytes() + b"# mine\n")

    probe = At("authoring.publish:after", save)
    assert authored.call(*NEW, "--format", form, probe=probe).code == 1
    assert told(watched) == {**NONE, "rolled_back": 1}


@pytest.mark.parametrize(
    ("point", "outcome"),
    [("authoring.exchange:before", "rolled_back"), ("authoring.exchange:after", "")],
)
def test_a_recovery_tells_what_its_receipt_counts(
    authored: Project, watched: Watched, point: str, outcome: str
) -> None:
    stopped(authored, point)
    said = authored.call("authoring", "recover", CATALOG, "--apply", "--format", "json")
    assert said.code == 0
    assert told(watched) == said.report["counters"]
    assert told(watched) == {name: int(name == outcome) for name in NONE}


def test_what_waits_for_a_person_is_told(authored: Project, watched: Watched) -> None:
    stopped(authored, "authoring.exchange:after")
    side = next(authored.root.rglob(".dpone-side-*"))
    side.unlink()
    side.mkdir()
    said = authored.call("authoring", "recover", CATALOG, "--apply", "--format", "json")
    assert (said.code, told(watched)) == (4, {**NONE, "recovery_required": 1})


def test_what_is_in_force_with_cleanup_pending_is_told(
    authored: Project, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = PosixFolder.unlink
    is_over: list[bool] = []

    def failing(self: PosixFolder, *arguments: str) -> None:
        if is_over:
            raise FilesError("unlink")
        real(self, *arguments)

    monkeypatch.setattr(PosixFolder, "unlink", failing)
    # Other exchanges are rehearsals; a folder that was used before has none.
    monkeypatch.setattr(PosixFolder, "certified", lambda _: True)
    probe = At("authoring.exchange:after", lambda: is_over.append(True))
    said = authored.call(*NEW, "--format", "json", probe=probe)
    assert (said.code, said.report["unit_of_work"]["status"]) == (4, "committed")
    assert told(watched) == said.report["counters"]
    assert told(watched) == {**NONE, "committed_cleanup_required": 1}


@pytest.mark.parametrize("outcome", Counters.__struct_fields__)
def test_each_outcome_is_told_apart(outcome: str) -> None:
    class Answer:
        counters = Counters(**{outcome: 2})

    (measure,) = measures_of(Answer())
    assert (measure.name, measure.number) == (CHANGES, 2)
    assert measure.attributes == {"dpone.outcome": outcome}


def test_an_answer_that_counts_nothing_tells_nothing() -> None:
    assert list(measures_of(Said(0, "", ""))) == []
