"""The interim guard: what blocks, what does not, and what is kept of the first exception."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dpone import wiring
from dpone.adapters.csvdir.target import CsvdirTarget
from dpone.adapters.sqlite.checkpoint import SqliteCheckpoints
from dpone.adapters.sqlite.journal import SqliteJournal
from dpone.contracts.checkpoint import GUARD_FIELD, RULES, Checkpoint, Guard, Phase, Status
from dpone.contracts.codec import replaced
from dpone.contracts.effects import Effect
from dpone.contracts.errors_fencing import (
    CommitRejected,
    IntentMismatch,
    JournalUnavailable,
    TargetInvalid,
)
from dpone.contracts.errors_guard import (
    GuardInvalid,
    GuardOutcomeUnknown,
    GuardUnresolved,
)
from dpone.contracts.identity import Operation
from dpone.contracts.outcome import How
from dpone.fencing.guard import GuardedCommitter, checkpoint_of, release

NOW = "2026-11-29T00:00:00+00:00"


@pytest.fixture
def checkpoints(tmp_path: Path) -> Iterator[SqliteCheckpoints]:
    journal = SqliteJournal(tmp_path / "journal.db")
    yield SqliteCheckpoints(journal)
    journal.close()


@pytest.fixture
def target(tmp_path: Path) -> CsvdirTarget:
    return CsvdirTarget(tmp_path / "out")


def _operation(partition: str = "a", strategy: str = "append") -> Operation:
    return Operation(
        route="g", source="s", target="t", partition=partition, intent={"strategy": strategy}
    )


def _change(transaction: Any) -> Mapping[str, Any]:
    return {"bytes_written": transaction.append("t", [b"1\n"], b"a\n")}


def _by(checkpoints: Any, target: Any) -> GuardedCommitter:
    return GuardedCommitter(checkpoints, target, now=lambda: NOW, run_id="run")


def _stored(phase: Phase, operation: Operation, strategy: str | None = "append") -> Checkpoint:
    guard: dict[str, Any] = {
        "schema_version": "dpone.native_transfer.target_commit_guard.v1",
        "checkpoint_batch_id": "sha256:" + "0" * 64,
        "phase": phase.value,
        "recovery": "manual_reconciliation_required",
    }
    if strategy:
        guard["strategy"] = strategy
    planned = checkpoint_of(operation, NOW)
    return replaced(planned, status=RULES[phase].status, diagnostics={GUARD_FIELD: guard})


def test_a_committed_partition_is_not_written_again(
    checkpoints: SqliteCheckpoints, target: CsvdirTarget
) -> None:
    first = _by(checkpoints, target).commit(_operation(), _change)
    second = _by(checkpoints, target).commit(_operation(), _change)
    assert (first.how, second.how) == (How.COMMITTED, How.REPLAYED)
    assert first.result == second.result
    assert (target.path / "t.csv").read_bytes() == b"a\n1\n"


@pytest.mark.parametrize("loaded", [1, 2])
def test_a_committed_partition_that_means_something_else_now_is_refused(
    checkpoints: SqliteCheckpoints, target: CsvdirTarget, loaded: int
) -> None:
    """Source: design, identity: equal operation, other intent: nothing written or skipped."""
    by = _by(checkpoints, target)
    for revision in range(1, loaded + 1):
        by.commit(replaced(_operation(), revision=revision), _change)
    changed = replaced(_operation(), intent={"strategy": "append", "source": "changed"})
    with pytest.raises(IntentMismatch) as caught:
        by.commit(changed, _change)
    assert caught.value.fields == {
        "operation_id": changed.operation_id,
        "recorded": _operation().intent_digest,
        "offered": changed.intent_digest,
        "state": "COMPLETE",
        "next_revision": loaded + 1,
    }
    assert (target.path / "t.csv").read_bytes() == b"a\n" + b"1\n" * loaded


def test_a_failed_partition_may_bring_a_mended_intent(
    checkpoints: SqliteCheckpoints, target: CsvdirTarget
) -> None:
    checkpoints.write([_stored(Phase.FAILED_BEFORE_TARGET, _operation())])
    mended = replaced(_operation(), intent={"strategy": "append", "source": "mended"})
    assert _by(checkpoints, target).commit(mended, _change).how is How.COMMITTED


@pytest.mark.parametrize("phase", list(Phase))
def test_each_phase_blocks_or_does_not_as_the_table_says(
    checkpoints: SqliteCheckpoints, target: CsvdirTarget, phase: Phase
) -> None:
    # Another partition of the same route: the scan is of the whole route, not of one partition.
    checkpoints.write([_stored(phase, _operation("b"))])
    if RULES[phase].blocks:
        with pytest.raises(GuardUnresolved) as caught:
            _by(checkpoints, target).commit(_operation("a"), _change)
        assert caught.value.exit_code == 4
        assert not target.path.exists()
    else:
        assert _by(checkpoints, target).commit(_operation("a"), _change).how is How.COMMITTED


def test_a_guard_without_a_strategy_blocks_every_strategy_and_another_one_does_not(
    checkpoints: SqliteCheckpoints, target: CsvdirTarget
) -> None:
    checkpoints.write([_stored(Phase.ARMED, _operation("b"), strategy="merge")])
    assert _by(checkpoints, target).commit(_operation("a"), _change).how is How.COMMITTED
    checkpoints.write([_stored(Phase.ARMED, _operation("c"), strategy=None)])
    with pytest.raises(GuardUnresolved):
        _by(checkpoints, target).commit(_operation("d"), _change)


@pytest.mark.parametrize(
    "guard",
    [
        None,
        {},
        "armed",
        {"schema_version": "dpone.native_transfer.target_commit_guard.v2"},
        {"checkpoint_batch_id": "sha256:short"},
        {"phase": "sleeping"},
        {"recovery": "none"},
        {"extra": 1},
        {"strategy": "a b"},
    ],
)
def test_a_malformed_guard_blocks_and_is_not_repeated_in_the_message(
    checkpoints: SqliteCheckpoints, target: CsvdirTarget, guard: Any
) -> None:
    stored = _stored(Phase.ARMED, _operation("b"))
    whole = stored.diagnostics[GUARD_FIELD]
    value = {**whole, **guard} if isinstance(guard, dict) and guard else guard
    checkpoints.write([replaced(stored, diagnostics={GUARD_FIELD: value})])
    with pytest.raises(GuardInvalid) as caught:
        _by(checkpoints, target).commit(_operation("a"), _change)
    assert "sleeping" not in str(caught.value)
    assert not target.path.exists()


def test_a_guard_that_does_not_fit_its_checkpoint_blocks(
    checkpoints: SqliteCheckpoints, target: CsvdirTarget
) -> None:
    stored = replaced(_stored(Phase.FAILED_BEFORE_TARGET, _operation("b")), status=Status.COMMITTED)
    checkpoints.write([stored])
    with pytest.raises(GuardInvalid):
        _by(checkpoints, target).commit(_operation("a"), _change)


def test_a_checkpoint_without_any_guard_is_readable_and_retryable(
    checkpoints: SqliteCheckpoints, target: CsvdirTarget
) -> None:
    old = replaced(checkpoint_of(_operation("a"), NOW), status=Status.FAILED)
    checkpoints.write([replaced(old, diagnostics={"error": "KeyError", "rows_loaded": None})])
    assert _by(checkpoints, target).commit(_operation("a"), _change).how is How.COMMITTED


def test_a_failure_before_the_target_was_touched_does_not_block(
    checkpoints: SqliteCheckpoints, target: CsvdirTarget
) -> None:
    def fails(transaction: Any) -> Mapping[str, Any]:
        raise ValueError("bad row")

    with pytest.raises(CommitRejected) as caught:
        _by(checkpoints, target).commit(_operation(), fails)
    assert isinstance(caught.value.__cause__, ValueError)
    assert _by(checkpoints, target).commit(_operation(), _change).how is How.COMMITTED


def test_a_failure_while_writing_keeps_the_exception_and_blocks_the_next_run(
    checkpoints: SqliteCheckpoints, target: CsvdirTarget
) -> None:
    def breaks(transaction: Any) -> Mapping[str, Any]:
        _change(transaction)
        raise OSError("gone")

    with pytest.raises(GuardOutcomeUnknown) as caught:
        _by(checkpoints, target).commit(_operation(), breaks)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.fields["boundary"] == "target_invocation"
    with pytest.raises(GuardUnresolved):
        _by(checkpoints, target).commit(_operation(), _change)
    assert (target.path / "t.csv").read_bytes() == b"a\n1\n"


class _FailsToClose:
    """Checkpoints whose second write fails, as long as it says committed."""

    def __init__(self, inner: SqliteCheckpoints) -> None:
        self.inner = inner

    def scan(self, scan_key: str) -> list[Checkpoint]:
        return self.inner.scan(scan_key)

    def read(self, transfer_partition_id: str) -> Checkpoint | None:
        return self.inner.read(transfer_partition_id)

    def write(self, checkpoints: Any) -> None:
        if checkpoints[0].status is Status.COMMITTED:
            raise JournalUnavailable(cause="full", known="?")
        self.inner.write(checkpoints)


def test_a_checkpoint_that_cannot_be_closed_blocks_and_says_which_boundary(
    checkpoints: SqliteCheckpoints, target: CsvdirTarget
) -> None:
    with pytest.raises(GuardOutcomeUnknown) as caught:
        _by(_FailsToClose(checkpoints), target).commit(_operation(), _change)
    assert caught.value.fields["boundary"] == "checkpoint_persistence"
    stored = checkpoints.read(_operation().operation_id)
    assert stored is not None
    assert stored.diagnostics[GUARD_FIELD]["phase"] == Phase.CHECKPOINT_INCOMPLETE
    with pytest.raises(GuardUnresolved):
        _by(checkpoints, target).commit(_operation(), _change)


@pytest.mark.parametrize(("committed", "how"), [(True, How.REPLAYED), (False, How.COMMITTED)])
def test_an_answer_by_hand_ends_the_block(
    checkpoints: SqliteCheckpoints, target: CsvdirTarget, committed: bool, how: How
) -> None:
    operation = _operation()
    checkpoints.write([_stored(Phase.ARMED, operation)])
    said: dict[str, Any] = {"operator": "me", "why": "compared", "now": NOW}
    assert release(checkpoints, operation.operation_id, committed=committed, **said) == 1
    assert release(checkpoints, operation.operation_id, committed=committed, **said) == 0
    assert _by(checkpoints, target).commit(operation, _change).how is how


@pytest.mark.parametrize(("committed", "how"), [(True, How.REPLAYED), (False, How.COMMITTED)])
def test_a_guard_that_nobody_can_read_is_answered_by_hand_too(
    checkpoints: SqliteCheckpoints, target: CsvdirTarget, committed: bool, how: How
) -> None:
    stored = _stored(Phase.ARMED, _operation())
    checkpoints.write([replaced(stored, diagnostics={GUARD_FIELD: "armed"})])
    with pytest.raises(GuardInvalid) as caught:
        _by(checkpoints, target).commit(_operation(), _change)
    _check_advice(caught.value)
    said: dict[str, Any] = {"operator": "me", "why": "compared", "now": NOW}
    assert release(checkpoints, _operation().operation_id, committed=committed, **said) == 1
    assert _by(checkpoints, target).commit(_operation(), _change).how is how


@pytest.mark.parametrize("after", [False, True])
def test_an_answer_by_hand_stands_inside_an_effect(
    checkpoints: SqliteCheckpoints, after: bool
) -> None:
    checkpoints.write([_stored(Phase.ARMED, _operation())])
    ident = _operation().operation_id

    class Killed(BaseException):
        """The process ends here."""

    @contextmanager
    def dies(effect: Effect, /) -> Iterator[None]:
        assert effect is Effect.GUARD_CLOSE
        if after:
            yield
        raise Killed

    said: dict[str, Any] = {"operator": "me", "why": "compared", "now": NOW}
    with pytest.raises(Killed):
        release(checkpoints, ident, committed=True, probe=dies, **said)
    assert release(checkpoints, ident, committed=True, **said) == int(not after)


def _check_advice(error: Any) -> None:
    """The next step is a whole command."""
    advice = error.report()["next"]
    assert f"dpone journal resolve {_operation().operation_id} --guard --as committed " in advice
    for word in ("--as not-committed", "--expect-version 0", "--operator", "--why"):
        assert word in advice


def test_what_blocks_names_the_whole_command_that_ends_it(
    checkpoints: SqliteCheckpoints, target: CsvdirTarget
) -> None:
    def breaks(transaction: Any) -> Mapping[str, Any]:
        _change(transaction)
        raise OSError("gone")

    with pytest.raises(GuardOutcomeUnknown) as unknown:
        _by(checkpoints, target).commit(_operation(), breaks)
    with pytest.raises(GuardUnresolved) as unresolved:
        _by(checkpoints, target).commit(_operation(), _change)
    _check_advice(unknown.value)
    _check_advice(unresolved.value)


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_file_where_the_folder_should_be_is_no_read_only_target(
    checkpoints: SqliteCheckpoints, tmp_path: Path, below: str
) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(CommitRejected) as caught:
        _by(checkpoints, CsvdirTarget(tmp_path / "taken" / below)).commit(_operation(), _change)
    cause = caught.value.__cause__
    assert isinstance(cause, TargetInvalid)
    assert "is a file and not a folder" in str(cause)


def test_the_guard_decodes_as_it_was_published() -> None:
    guard = Guard(checkpoint_batch_id="sha256:" + "a" * 64, phase=Phase.ARMED)
    assert guard.schema_version == "dpone.native_transfer.target_commit_guard.v1"
    assert guard.recovery == "manual_reconciliation_required"


def test_the_directory_says_that_it_has_no_fence(tmp_path: Path) -> None:
    journal = wiring.open_journal(f"sqlite:{tmp_path / 'j.db'}")
    by = wiring.route_committer(journal, CsvdirTarget(tmp_path / "out"))
    outcome = by.commit(_operation(), _change)
    assert "no fence" in outcome.notes[0]
    journal.close()
