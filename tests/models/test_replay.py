"""Recorded runs replayed through the protocol's model, and the validity of its reduction."""

from __future__ import annotations

from models import journal
from models.commit import commit_model
from models.explorer import Verdict, allows, explore
from models.rules import Bounds, Rules
from models.seeded import only

FIRST = [
    "ask:absent",
    "->begin>PREPARING",
    "PREPARING>fence_ready>PREPARED",
    "PREPARED>commit_started>COMMITTING",
]
COMMITTED = ["claim:granted", "commit:receipt"]
ACKNOWLEDGED = [
    *FIRST,
    *COMMITTED,
    "COMMITTING>commit_acknowledged>TARGET_COMMITTED",
    "obligations:done",
    "TARGET_COMMITTED>obligations_met>COMPLETE",
]
SETTLED = [
    "ask",
    "COMMITTING>taken_over>COMMIT_UNKNOWN",
    "seal-fail:won",
    "COMMIT_UNKNOWN>fence_sealed>FAILED_PRE_COMMIT",
    "ask",
    "FAILED_PRE_COMMIT>new_attempt>PREPARING",
    "seal-ready:won",
    "PREPARING>fence_ready>PREPARED",
    "PREPARED>commit_started>COMMITTING",
]
MODEL = commit_model(Rules(), Bounds(faults=1), reduced=False)


def test_a_plain_run_and_its_retry_are_allowed() -> None:
    assert allows(MODEL, [*ACKNOWLEDGED, "replay", "pruned", "replay"])


def test_a_paused_worker_that_wakes_after_its_replacement_is_fenced() -> None:
    assert allows(MODEL, [*FIRST, *SETTLED, "claim:fenced"])
    assert allows(MODEL, [*FIRST, *SETTLED, *COMMITTED, "claim:already"])


def test_a_floor_may_rise_over_an_answered_loss_and_admits_nobody() -> None:
    model = commit_model(Rules(), Bounds(faults=2), reduced=False)
    acknowledged = [*FIRST, *SETTLED, *ACKNOWLEDGED[len(FIRST) :]]
    marked = ["target:restored", "ask:diverged", "mark-diverged", "target:adopted"]
    answered = ["resolve:diverged", "close:won", "accept-loss"]
    raised = [*acknowledged, *marked, *answered, "floor:raised"]
    # The first worker still stands before its claim.
    assert allows(model, [*raised, "ask:expired", "claim:foreign"])
    assert not allows(model, [*raised, "claim:granted"])


def test_a_second_change_is_not_allowed() -> None:
    assert not allows(MODEL, [*ACKNOWLEDGED, "claim:granted"])
    assert not allows(MODEL, [*FIRST, *SETTLED, *COMMITTED, "claim:granted"])


def test_a_failure_without_a_seal_is_not_allowed() -> None:
    assert not allows(MODEL, [*FIRST, "COMMITTING>fence_sealed>FAILED_PRE_COMMIT"])


def test_a_lost_answer_leaves_both_outcomes_open() -> None:
    lost = [*FIRST, "claim:granted", "commit:lost", "COMMITTING>answer_lost>COMMIT_UNKNOWN"]
    taken = ["ask", "COMMIT_UNKNOWN>taken_over>COMMIT_UNKNOWN"]
    assert allows(MODEL, [*lost, *taken, "seal:busy"])
    assert allows(MODEL, [*lost, *taken, "late:landed", "seal-fail:committed"])
    assert allows(MODEL, [*lost, *taken, "late:gone", "seal-fail:won"])
    assert not allows(MODEL, [*lost, *taken, "seal-fail:won", "late:landed"])


def test_reduced_and_plain_worlds_agree() -> None:
    """Compare the explorations with and without canonical worlds, where both are small.

    A refused write of a worker that is known to be stale is what the reduction leaves out.
    """
    bounds = only("journal_losses", "lost_commits", faults=1, versions=9)
    reduced = explore(commit_model(Rules(), bounds))
    plain = explore(commit_model(Rules(), bounds, reduced=False))
    assert (reduced.verdict, plain.verdict) == (Verdict.PASSED, Verdict.PASSED)
    assert journal.edges(reduced.labels) == journal.edges(plain.labels)
    assert plain.labels - reduced.labels <= {"cas:refused"}
    assert reduced.labels <= plain.labels
    assert reduced.states < plain.states
