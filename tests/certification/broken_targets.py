"""Seeded defects of a target: each takes one promise away from a real adapter."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

from dpone.adapters.sqlite import rows
from dpone.adapters.sqlite import target as module
from dpone.adapters.sqlite.connection import connect
from dpone.adapters.sqlite.target import SqliteTarget
from dpone.contracts import fence_rules
from dpone.contracts.codec import replaced
from dpone.contracts.fence import (
    Already,
    Answer,
    Committed,
    Expired,
    Fenced,
    FenceKind,
    Floor,
    Foreign,
    Receipt,
    Rejected,
    Sealed,
    Unit,
    Unknown,
)
from dpone.contracts.fence_rules import FenceRow, Write

Patch = Callable[[pytest.MonkeyPatch], None]

_ASK = SqliteTarget.ask
_CLAIM = fence_rules.claim
_COMMIT = SqliteTarget.commit
_REFUSED = SqliteTarget._refused
_SEAL_RULE = fence_rules.seal
_SEAL = SqliteTarget.seal


def _set(name: str, value: Any, owner: Any = SqliteTarget) -> Patch:
    return lambda patch: patch.setattr(owner, name, value)


def _seal_always(row: FenceRow | None, unit: Unit) -> Any:
    committed = row is not None and row.kind == FenceKind.COMMITTED
    return _SEAL_RULE(row, unit) if committed else Write.UPDATE


def _seal_replaces_equal(row: FenceRow | None, unit: Unit) -> Any:
    if row is not None and row.kind == FenceKind.SEALED and row.epoch == unit.epoch:
        return Write.UPDATE
    return _SEAL_RULE(row, unit)


def _seal_over_commit(row: FenceRow | None, unit: Unit) -> Any:
    return Write.UPDATE


def _claim_nothing(row: FenceRow | None, unit: Unit) -> Any:
    return Write.UPDATE


def _claim_by_epoch(row: FenceRow | None, unit: Unit) -> Any:
    if row is not None and row.kind == FenceKind.SEALED and row.epoch == unit.epoch:
        return Write.UPDATE
    return _CLAIM(row, unit)


def _claim_when_not_sealed_higher(row: FenceRow | None, unit: Unit) -> Any:
    if row is not None and row.kind == FenceKind.SEALED and row.epoch <= unit.epoch:
        return Write.UPDATE
    return _CLAIM(row, unit)


def _claim_absent_at_any_epoch(row: FenceRow | None, unit: Unit) -> Any:
    return Write.INSERT if row is None else _CLAIM(row, unit)


def _already_is_committed(self: SqliteTarget, *call: Any) -> Any:
    answer = _COMMIT(self, *call)
    return Committed(answer.receipt) if isinstance(answer, Already) else answer


def _fence_after_the_data(self: SqliteTarget, unit: Unit, change: Any, also: Any = None) -> Any:
    """The change commits on its own; the fence follows."""
    if not isinstance(_CLAIM(rows.fence_row(self._open(), unit.operation_id), unit), Write):
        return _COMMIT(self, unit, change, also)
    connection = connect(self.path)
    try:
        with contextlib.suppress(Exception):
            result = change(connection)
    finally:
        connection.close()
    return _COMMIT(self, unit, lambda _: result, also)


def _keep_what_failed(connection: Any, error: Exception, *, transient: bool = False) -> Any:
    connection.execute("COMMIT")
    return Rejected(str(error), transient=transient, error=error)


@contextlib.contextmanager
def _forbidding_nothing(connection: Any) -> Iterator[None]:
    yield


def _any_incarnation(self: SqliteTarget, connection: Any, unit: Unit) -> Foreign | Expired | None:
    return rows.below(connection, unit.floor)


def _by_random_id_only(self: SqliteTarget, connection: Any) -> str:
    sql = "SELECT value FROM dpone_fence_meta WHERE key = 'incarnation'"
    return str(connection.execute(sql).fetchone()[0])


def _no_floor_in_the_unit(self: SqliteTarget, connection: Any, unit: Unit) -> Any:
    return _REFUSED(self, connection, replaced(unit, floor=None))


def _sinking_floor(self: SqliteTarget, floor: Floor, operation_ids: Iterable[str]) -> int:
    with self._unit() as connection:
        key = f"floor:{floor.scope}"
        connection.execute(
            "INSERT OR REPLACE INTO dpone_fence_meta VALUES (?, ?)", (key, floor.position)
        )
        connection.execute("COMMIT")
    return 0


def _shorten_deletes(self: SqliteTarget, operation_ids: Iterable[str]) -> int:
    with self._unit() as connection:
        removed = connection.executemany(
            "DELETE FROM dpone_fence WHERE operation_id = ? AND kind = 'committed'",
            [(operation_id,) for operation_id in operation_ids],
        ).rowcount
        connection.execute("COMMIT")
    return int(removed)


def _shorten_forgets(self: SqliteTarget, operation_ids: Iterable[str]) -> int:
    with self._unit() as connection:
        changed = connection.executemany(
            "UPDATE dpone_fence SET intent_digest = '', result = ''"
            " WHERE operation_id = ? AND kind = 'committed'",
            [(operation_id,) for operation_id in operation_ids],
        ).rowcount
        connection.execute("COMMIT")
    return int(changed)


def _also_is_not_asked(self: SqliteTarget, unit: Unit, change: Any, also: Any = None) -> Any:
    def whatever(connection: Any, receipt: Receipt) -> bool:
        return also is None or also(connection, receipt) or True

    return _COMMIT(self, unit, change, whatever)


def _silence_is_a_seal(self: SqliteTarget, unit: Unit) -> Any:
    answer = _SEAL(self, unit)
    return Sealed(unit.epoch, unit.attempt_id) if isinstance(answer, Unknown) else answer


def _silence_is_nobody(self: SqliteTarget, unit: Unit) -> Any:
    answer = _SEAL(self, unit)
    return Unknown(answer.cause) if isinstance(answer, Unknown) else answer


def _unread_results(unit: Unit, result: Mapping[str, Any] | None) -> Receipt:
    return Receipt(
        operation_id=unit.operation_id,
        epoch=unit.epoch,
        attempt_id=unit.attempt_id,
        intent_digest=unit.intent_digest,
        result=dict(result or {}),
    )


def _poor_receipt(self: SqliteTarget, operation_id: str, floor: Floor | None) -> Answer:
    answer = _ASK(self, operation_id, floor)
    if not isinstance(answer.verdict, Committed):
        return answer
    return replaced(answer, verdict=Committed(replaced(answer.verdict.receipt, result={})))


def _asking_installs(self: SqliteTarget, operation_id: str, floor: Floor | None) -> Answer:
    self.install()
    return _ASK(self, operation_id, floor)


def _failed_is_fenced(self: SqliteTarget, *call: Any) -> Any:
    answer = _COMMIT(self, *call)
    return Fenced(0) if isinstance(answer, Rejected) else answer


def _seal_drops_the_row(self: SqliteTarget, unit: Unit) -> Any:
    answer = _SEAL(self, unit)
    with self._unit() as connection:
        connection.execute("DELETE FROM dpone_fence WHERE operation_id <> ?", [unit.operation_id])
        connection.execute("COMMIT")
    return answer


DEFECTS: dict[str, tuple[str, Patch]] = {
    "a seal lowers": ("a_seal_never_lowers_an_epoch", _set("seal", _seal_always, module)),
    "a seal replaces an equal one": (
        "an_equal_seal_of_another_is_never_replaced",
        _set("seal", _seal_replaces_equal, module),
    ),
    "a seal replaces a commit": (
        "a_seal_loses_to_a_commit",
        _set("seal", _seal_over_commit, module),
    ),
    "commit without a claim": (
        "a_committed_key_is_never_changed_again",
        _set("claim", _claim_nothing, module),
    ),
    "commits race without a claim": (
        "of_eight_commits_one_is_applied",
        _set("claim", _claim_nothing, module),
    ),
    "a seal admits by epoch alone": (
        "a_seal_admits_only_whom_it_names",
        _set("claim", _claim_by_epoch, module),
    ),
    "a seal admits any later epoch": (
        "a_seal_admits_only_whom_it_names",
        _set("claim", _claim_when_not_sealed_higher, module),
    ),
    "a later epoch claims the absent": (
        "a_later_epoch_needs_its_own_seal",
        _set("claim", _claim_absent_at_any_epoch, module),
    ),
    "ALREADY is called COMMITTED": (
        "a_committed_key_is_never_changed_again",
        _set("commit", _already_is_committed),
    ),
    "the fence follows the data": (
        "data_and_fence_are_seen_together",
        _set("commit", _fence_after_the_data),
    ),
    "a failed change stays": (
        "a_change_that_raises_leaves_nothing",
        _set("_rejected", _keep_what_failed, module),
    ),
    "a change may end its unit": (
        "a_change_cannot_end_its_transaction",
        _set("forbidding", _forbidding_nothing, module),
    ),
    "any incarnation will do": (
        "another_incarnation_is_refused",
        _set("_refused", _any_incarnation),
    ),
    "a copy is the same target": (
        "a_restored_target_is_another_incarnation",
        _set("_incarnation", _by_random_id_only),
    ),
    "the floor is not read in the unit": (
        "below_the_floor_everybody_is_expired",
        _set("_refused", _no_floor_in_the_unit),
    ),
    "the floor sinks": (
        "a_floor_never_sinks_and_keeps_to_its_scope",
        _set("raise_floor", _sinking_floor),
    ),
    "retention deletes fence rows": (
        "shortening_keeps_kind_and_epoch",
        _set("shorten", _shorten_deletes),
    ),
    "retention forgets the intent": (
        "shortening_keeps_kind_and_epoch",
        _set("shorten", _shorten_forgets),
    ),
    "what joins is not asked": (
        "what_joins_the_unit_may_refuse_it",
        _set("commit", _also_is_not_asked),
    ),
    "silence is a seal": ("a_seal_waits_a_bounded_time", _set("seal", _silence_is_a_seal)),
    "nobody is said to hold the key": (
        "a_seal_waits_a_bounded_time",
        _set("seal", _silence_is_nobody),
    ),
    "results are stored unread": (
        "what_could_not_be_read_back_is_rejected",
        _set("receipt_of", _unread_results, module),
    ),
    "the receipt loses its result": (
        "a_receipt_reads_back_as_it_was_given",
        _set("ask", _poor_receipt),
    ),
    "asking installs": ("asking_writes_nothing", _set("ask", _asking_installs)),
    "any protocol will do": ("a_newer_protocol_is_refused", _set("PROTOCOL", 99, module)),
    "a rejection is called fenced": (
        "a_statement_that_fails_is_rejected",
        _set("commit", _failed_is_fenced),
    ),
    "a seal touches other keys": (
        "operations_do_not_touch_each_other",
        _set("seal", _seal_drops_the_row),
    ),
}
