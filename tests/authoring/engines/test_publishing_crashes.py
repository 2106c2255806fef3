"""Publishing several files: no crash, loss of power, rival or failing call breaks a rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpone.authoring.publish import Unpublished
from dpone.contracts.authoring import Status
from dpone.contracts.publication import PublishOutcome
from faultinject import publishing_denials as denials
from faultinject.authoring_syncs import left_out
from faultinject.publishing_matrix import SITES, lost_sync
from faultinject.publishing_meetings import (
    MEETING_RULES,
    MEETINGS,
    Meeting,
    explore,
    meeting_witness,
)
from faultinject.publishing_rules import RULES, WINNER, Rule, witness
from faultinject.publishing_search import (
    Bounds,
    Figures,
    Run,
    Search,
    Workload,
    first_violation,
    publishing,
)
from faultinject.publishing_truth import Rival
from faultinject.publishing_worlds import PLAN, clean_starts, rivals, thorough, workloads
from faultinject.violations import Violated
from tests.depth import FULL

QUIET = workloads(raced=False)
RACED = tuple(world for world in workloads() if world.rivals)
DENIED = tuple(w for w in clean_starts() if FULL or w.name in ("publish", "publish a new root"))
# How many crashes in a row; the search ends by itself before the ninth.
DEPTH = 9 if FULL else 1
# In every run a few acts at every file, in the whole programme all of them at every step.
ACTS = {"save", "write", "unlink"}


def explored(workload: Workload, bounds: Bounds) -> Figures:
    """The figures of a search that found nothing and was complete."""
    search = Search(workload, bounds)
    try:
        figures = search.explore()
    except Violated as found:
        pytest.fail(f"{workload.name}: {found.explain()}")
    assert figures.is_complete
    return figures


@pytest.mark.timeout(600)
@pytest.mark.parametrize("weak", [True, False], ids=["weak", "ordered"])
@pytest.mark.parametrize("world", QUIET, ids=lambda world: world.name)
def test_every_crash_is_concluded(world: Workload, weak: bool) -> None:
    figures = explored(world, Bounds(depth=DEPTH, weak=weak))
    assert figures.deepest >= 1
    assert figures.states >= (3 if world.name == "publish beside no receipt" else 15)


def test_crashes_in_the_next_run_and_in_recovery_add_states() -> None:
    shallow, deep = (explored(QUIET[0], Bounds(depth=depth)) for depth in (1, 9))
    assert deep.states > shallow.states
    assert 3 <= deep.deepest < 9


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("world", RACED, ids=lambda world: world.name)
def test_no_rival_at_any_file_loses_a_byte(world: Workload) -> None:
    few = {"save"} if world.name == "publish by name" else ACTS
    chosen = tuple(each for each in world.rivals if FULL or each.name in few)
    several = thorough(world, weak=True) if FULL else (Bounds(depth=DEPTH, near=True),)
    for bounds in several:
        assert explored(replace(world, rivals=chosen), bounds).runs > 60


def test_every_act_really_happens() -> None:
    every = rivals(PLAN)
    assert len({(rival.name, rival.path) for rival in every}) == len(every) == 18
    for rival in every:
        at = len(Run(QUIET[0].begin(), publishing).calls) - 1
        run = Run(QUIET[0].begin(), publishing, rival, at)
        assert run.is_raced, rival
        assert any(label.startswith("rival: ") for label in run.labels)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("winner", [None, WINNER], ids=["alone", "with a winner"])
@pytest.mark.parametrize("name", ["publish", "publish a new root"])
def test_a_denied_call_is_answered_truly_and_cleared_later(name: str, winner: Rival | None) -> None:
    world = next(world for world in QUIET if world.name == name)
    try:
        found = list(denials.explore(world, winner, stride=1 if FULL else 3))
    except Violated as violated:
        pytest.fail(violated.explain())
    answers = [answer for _, answer in found]
    assert len(answers) > 25
    assert any(isinstance(answer, Unpublished) for answer in answers)
    undone = {answer.outcome.status for answer in answers if isinstance(answer, Unpublished)}
    assert {Status.ROLLED_BACK, Status.RECOVERY_REQUIRED} <= undone
    pending = [a for a in answers if isinstance(a, PublishOutcome) and a.cleanup_required]
    assert pending or winner is not None


# ---------------------------------------------------------------------------
# The engine notices what it must.


@pytest.mark.timeout(120)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_removed_rule_is_noticed(rule: Rule) -> None:
    found = witness(rule)
    assert found is not None, f"{rule.name} survives"
    assert len(found.trail) <= 50, found.explain()


def test_every_rule_has_a_name_of_its_own() -> None:
    names = [rule.name for rule in (*RULES, *MEETING_RULES)]
    assert len(set(names)) == len(names) >= 25
    wheres = {"crashes", "rivals", "denials", "answers", "winner"}
    assert {rule.where for rule in RULES} == wheres


@pytest.mark.timeout(120)
@pytest.mark.parametrize("site", SITES)
def test_a_lost_sync_is_noticed(site: str) -> None:
    row = lost_sync(site, weak=True, bounds=Bounds(depth=2, near=True))
    assert row.due > 0, "never due"
    assert row.rule, f"nobody notices the loss of {site}"


def test_the_sites_of_publishing_are_found_in_the_source() -> None:
    assert len(set(SITES)) == len(SITES) >= 10
    assert {site.partition(".")[0] for site in SITES[:-3]} == {"fragments", "receipts", "undo"}
    with left_out(SITES[0]):
        pass
    assert first_violation(QUIET[0], Bounds(depth=1)) is None


# ---------------------------------------------------------------------------
# Two publications at one root.


def met(meeting: Meeting, *, stride: int, crashes: bool = False) -> set[tuple[str, str]]:
    """The answers of schedules that break no rule."""
    try:
        return explore(meeting, stride=stride, crashes=crashes).answers
    except Violated as found:
        pytest.fail(f"{meeting.name}: {found.explain()}")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("meeting", MEETINGS, ids=lambda meeting: meeting.name)
def test_no_schedule_of_two_breaks_a_rule(meeting: Meeting) -> None:
    assert len(met(meeting, stride=3 if FULL else 67)) >= 2


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("meeting", MEETINGS[:2], ids=lambda meeting: meeting.name)
def test_no_death_in_a_schedule_breaks_a_rule(meeting: Meeting) -> None:
    answers = met(meeting, stride=11 if FULL else 211, crashes=True)
    assert any("NoneType" in pair for pair in answers)


@pytest.mark.parametrize("rule", MEETING_RULES, ids=lambda rule: rule.name)
def test_a_removed_rule_is_noticed_by_the_schedules(rule: Rule) -> None:
    found = meeting_witness(rule)
    assert found is not None, f"{rule.name} survives"
    assert len(found.trail) <= 40, found.explain()


def test_a_journal_that_stays_is_told_where_no_receipt_is() -> None:
    """A plan whose shared files another run has made has nothing to undo but its root."""
    world = next(each for each in workloads() if each.name == "publish beside another run")
    answers = [answer for _, answer in denials.explore(world, lates=(False,))]
    told = [
        issue
        for answer in answers
        if isinstance(answer, Unpublished)
        for issue in answer.outcome.issues
    ]
    assert ("pipeline.yaml", "cleanup_required") in {(each.path, each.reason) for each in told}
