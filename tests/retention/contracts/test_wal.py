"""The recovery snapshot: derived status, occurrence identity, versions; the log and its replay."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone.contracts import retention_log as log
from dpone.contracts import retention_wal as wal
from dpone.contracts.canonical import canonical, digest
from dpone.contracts.codec import plain
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_retention import RecoveryInvalid
from tests.retention.caches import number
from tests.retention.contracts.samples import (
    OPERATION,
    legacy_snapshot,
    prepared,
    sealed,
    snapshot,
    transaction,
)


def refused(value: Any) -> str:
    with pytest.raises(ContractInvalid) as caught:
        wal.decode_snapshot(json.dumps(value).encode())
    return str(caught.value.fields["reason"])


def test_the_id_leaves_out_the_phase_and_nothing_else() -> None:
    made = transaction(2)
    body = plain(made)
    del body["phase"], body["transaction_id"]
    wanted = {"schema": "dpone.deployment-cache-retention-transaction.v1", **body}
    assert made.transaction_id == digest(wanted)
    assert wal.in_phase(made, "committed").transaction_id == made.transaction_id


@pytest.mark.parametrize(
    ("phases", "status"),
    [
        ((), "recovered"),
        (("committed", "restored"), "recovered"),
        (("committed", "detached"), "recovering"),
        (("blocked", "prepared"), "blocked"),
    ],
)
def test_the_status_follows_from_the_phases(phases: tuple[str, ...], status: str) -> None:
    made = snapshot(*(transaction(at + 2, phase) for at, phase in enumerate(phases)))
    assert made.status == status
    assert wal.decode_snapshot(wal.encode_snapshot(made)) == made


def test_an_empty_snapshot_is_small() -> None:
    assert len(wal.encode_snapshot(snapshot())) < 300


def test_a_blocked_snapshot_names_what_is_in_quarantine() -> None:
    made = snapshot(transaction(2, "blocked"))
    assert made.quarantined_paths == (transaction(2).detached_path,)


GOOD = snapshot(transaction(2, "detached"), transaction(3, "restored"))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"status": "recovered"}, "status"),
        ({"status": "blocked"}, "status"),
        ({"pending_deployment_ids": []}, "pending"),
        ({"pending_deployment_ids": [number(2), number(2)]}, "unique"),
        ({"restored_deployment_ids": []}, "restored"),
        ({"restored_deployment_ids": [number(3), number(9)]}, "restored"),
        ({"transactions": {}}, "status"),
        ({"quarantined_paths": ["x"]}, "quarantined"),
        ({"more": 1}, "more"),
    ],
)
def test_a_snapshot_that_contradicts_itself_is_refused(changes: dict[str, Any], word: str) -> None:
    assert word in refused(sealed(GOOD, **changes))


def test_quarantined_paths_are_those_of_blocked_transactions() -> None:
    blocked = snapshot(transaction(2, "blocked"))
    assert "quarantined" in refused(sealed(blocked, quarantined_paths=["elsewhere"]))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"transaction_id": number(1)}, "transaction_id"),
        ({"transaction_id": "sha256:x"}, "transaction_id"),
        ({"expected_inode": 0}, "expected_inode"),
        ({"expected_device": -1}, "expected_device"),
        ({"phase": "gone"}, "phase"),
        ({"original_path": ""}, "original_path"),
        ({"environment": "x" * 129}, "environment"),
        ({"operation_id": None}, "transaction_id"),
        ({"size": 1}, "size"),
    ],
)
def test_a_transaction_out_of_shape_is_refused(changes: dict[str, Any], word: str) -> None:
    made = transaction(2)
    transactions = {made.transaction_id: plain(made) | changes}
    assert word in refused(sealed(snapshot(made), transactions=transactions))


def test_a_transaction_under_another_id_is_refused() -> None:
    transactions = {number(1): plain(transaction(2))}
    assert "another id" in refused(sealed(snapshot(transaction(2)), transactions=transactions))


def test_one_ended_occurrence_stands_once() -> None:
    first = transaction(2, "committed")
    body = plain(first) | {"detached_path": "elsewhere"}
    del body["phase"], body["transaction_id"]
    again = digest({"schema": wal.TRANSACTION_SCHEMA, **body})
    second = body | {"phase": "committed", "transaction_id": again}
    transactions = {first.transaction_id: plain(first), again: second}
    assert "unique" in refused(sealed(snapshot(first), transactions=transactions))


def test_a_wrong_revision_and_an_oversized_file_are_refused() -> None:
    assert "revision" in refused(plain(GOOD) | {"revision": number(1)})
    with pytest.raises(ContractInvalid, match="more than"):
        wal.decode_snapshot(b" " * (wal.SNAPSHOT_BYTES_MAX + 1))


def test_version_1_becomes_version_2_without_an_operation() -> None:
    found = wal.decode_snapshot(json.dumps(legacy_snapshot()).encode())
    assert isinstance(found, wal.LegacyRecovery)
    projected = wal.projected(found)
    (only,) = projected.transactions.values()
    assert (only.operation_id, only.phase, only.deployment_id) == (None, "restored", number(2))
    assert wal.projected(found) == projected
    assert projected.restored_deployment_ids == (number(2),)


def test_version_1_is_keyed_by_deployment() -> None:
    value = legacy_snapshot()
    value["transactions"] = {number(9): value["transactions"][number(2)]}
    assert "another deployment" in refused(sealed(value))


def test_what_a_plan_binds_leaves_out_phases_and_the_own_operation() -> None:
    mine, theirs = transaction(2), transaction(3, operation=number(77))
    bound = wal.recovery_revision([mine, theirs])
    assert bound == wal.recovery_revision([theirs, wal.in_phase(mine, "committed")])
    assert bound != wal.recovery_revision([theirs])
    assert wal.recovery_revision([mine, theirs], outside=OPERATION) == wal.recovery_revision(
        [theirs]
    )
    assert wal.recovery_revision([mine], outside=OPERATION) is None
    assert wal.recovery_revision([]) is None


# -- the log ---------------------------------------------------------------------------------------

INTENT = log.Intent(operation_id=OPERATION, plan_sha256=number(5), closes=((number(6), number(7)),))
RECORDS: tuple[log.Record, ...] = (
    INTENT,
    prepared(2),
    log.Moved(transaction_id=transaction(2).transaction_id, phase="detached"),
    log.Moved(transaction_id=transaction(2).transaction_id, phase="blocked", reason="ébloqué"),
    log.Tombstone(transaction_ids=(number(8),)),
)
FRAMES = tuple(log.encode_record(record) for record in RECORDS)
WHOLE = b"".join(FRAMES)


def test_a_frame_is_length_checksum_and_canonical_json() -> None:
    for record, frame in zip(RECORDS, FRAMES, strict=True):
        value = plain(record)
        assert frame[8:] == canonical(value)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 8


def test_a_whole_log_reads_back() -> None:
    assert log.decode_log(WHOLE) == log.Decoded(RECORDS, len(WHOLE), False)
    assert log.decode_log(b"") == log.Decoded((), 0, False)


@pytest.mark.parametrize("cut", range(1, len(FRAMES[-1])))
def test_a_torn_end_keeps_what_is_whole(cut: int) -> None:
    found = log.decode_log(WHOLE[:-cut])
    assert found == log.Decoded(RECORDS[:-1], len(WHOLE) - len(FRAMES[-1]), True)


@pytest.mark.parametrize("tail", [b"\0" * 500, b"\0" * 3, b"\xff" * 40, b'{"kind"', b"\0\0\0\2"])
def test_a_tail_of_something_else_is_torn(tail: bytes) -> None:
    assert log.decode_log(WHOLE + tail) == log.Decoded(RECORDS, len(WHOLE), True)


def test_a_bad_record_before_a_good_one_is_corruption() -> None:
    size = len(FRAMES[0])
    for place in range(size):
        bad = bytearray(WHOLE)
        bad[place] ^= 0x40
        with pytest.raises(RecoveryInvalid, match="before a good one"):
            log.decode_log(bytes(bad))


def test_a_bad_record_before_a_good_one_and_a_torn_end_is_corruption_too() -> None:
    bad = bytearray(WHOLE[:-3])
    bad[12] ^= 1
    with pytest.raises(RecoveryInvalid):
        log.decode_log(bytes(bad))


def test_a_torn_batch_brings_none_of_its_records() -> None:
    batch = log.encode_batch((INTENT, prepared(2), prepared(3)))
    assert log.decode_log(FRAMES[0] + batch).records == (INTENT, INTENT, prepared(2), prepared(3))
    # The middle was never written, while the end was: pages reach the disk in any order.
    torn = batch[:100] + b"\0" * (len(batch) - 200) + batch[-100:]
    assert log.decode_log(FRAMES[0] + torn) == log.Decoded((INTENT,), len(FRAMES[0]), True)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"kind":"intent"}',
        b'{"kind":"other"}',
        b'{"kind": "tombstone","transaction_ids":[]}',
        b"[]",
        b"null",
        FRAMES[4][8:].replace(b":", b": ", 1),
        FRAMES[4][8:].replace(b'{"kind"', b'{"kind":"tombstone","kind"', 1),
    ],
)
def test_a_sound_frame_of_something_else_is_a_bad_record(payload: bytes) -> None:
    frame = log._head(payload) + payload
    assert log.decode_log(frame).torn
    with pytest.raises(RecoveryInvalid):
        log.decode_log(frame + FRAMES[0])


def test_an_occurrence_needs_a_birth_time_and_is_the_transactions() -> None:
    with pytest.raises(ValueError, match="birth"):
        log.Place(device=7, identity=f"{3:016x}.{0:016x}")
    other = log.Place(device=7, identity=f"{99:016x}.{5:016x}")
    with pytest.raises(ValueError, match="occurrence"):
        log.Prepared(
            transaction=transaction(2), occurrence=log.Occurrence(deployment=other, activation=None)
        )


def test_replay_brings_phases_reasons_and_occurrences() -> None:
    found = log.replay({}, RECORDS)
    identity = transaction(2).transaction_id
    assert found.transactions == {identity: transaction(2, "blocked")}
    assert found.occurrences == {identity: prepared(2).occurrence}
    assert found.intents == {OPERATION: INTENT}
    assert found.reasons == {identity: "ébloqué"}


def test_an_old_log_over_a_newer_snapshot_changes_nothing() -> None:
    gone = transaction(2).transaction_id
    records = (
        prepared(2),
        prepared(3),
        log.Moved(transaction_id=gone, phase="committed"),
        log.Moved(transaction_id=transaction(3).transaction_id, phase="detached"),
        log.Tombstone(transaction_ids=(gone,)),
    )
    newer = log.replay({}, records).transactions
    assert log.replay(newer, records).transactions == newer
    # The part of the log before the checkpoint may be gone already.
    assert log.replay(newer, records[2:]).transactions == newer


def test_a_phase_without_a_transaction_is_corruption() -> None:
    with pytest.raises(RecoveryInvalid, match="nobody prepared"):
        log.replay({}, RECORDS[2:4])


PHASE = st.sampled_from(wal.PHASES)


@given(st.dictionaries(st.integers(2, 40), PHASE, max_size=6))
def test_any_snapshot_reads_back(phases: dict[int, str]) -> None:
    made = snapshot(*(transaction(value, phase) for value, phase in phases.items()))
    assert wal.decode_snapshot(wal.encode_snapshot(made)) == made
    body = plain(made)
    assert digest({name: it for name, it in body.items() if name != "revision"}) == made.revision


@given(st.lists(st.sampled_from(RECORDS), max_size=8), st.integers(0, 400))
def test_any_prefix_of_a_log_is_a_whole_log_and_a_torn_end(
    records: list[log.Record], cut: int
) -> None:
    data = b"".join(log.encode_record(record) for record in records)
    found = log.decode_log(data[: max(0, len(data) - cut)])
    assert list(found.records) == records[: len(found.records)]
    assert data[: found.good_size] == b"".join(map(log.encode_record, found.records))
