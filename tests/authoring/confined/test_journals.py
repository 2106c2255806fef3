"""Journals that dead runs left: of this release, of an earlier one, and of nobody."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from dpone.contracts.authoring import ConfinedRecoveryOutcome, Status, sha256_of
from dpone.contracts.errors_authoring import RecoveryRequired, TransactionInProgress
from dpone.contracts.transaction import Phase, recovery_name, side_name
from faultinject.writing import NEW, OLD
from tests.authoring.confined.studio import JOURNAL, NONCE, Single

SIDE, KEPT = side_name(NONCE), recovery_name(NONCE)
OTHER = b"# somebody else's\n"


def recovered(single: Single, *, by_hand: bool = False) -> ConfinedRecoveryOutcome:
    """Recover twice: the second time there is nothing to do, and nothing is changed."""
    found = single.confined().recover_file_transaction("f.yaml", by_hand=by_hand)
    before = {name: (single.root / name).lstat().st_ino for name in single.names}
    again = single.confined().recover_file_transaction("f.yaml", by_hand=by_hand)
    assert again.found is (JOURNAL in single.names)
    assert {name: (single.root / name).lstat().st_ino for name in single.names} == before
    return found


def test_an_exchange_that_had_not_happened(single: Single) -> None:
    single.journal(Phase.PREPARED, side=NEW)
    assert recovered(single).reason == "not_committed"
    assert (single.shown, single.names) == (OLD, {"f.yaml"})


@pytest.mark.parametrize("phase", [Phase.PREPARED, Phase.ROLLING_BACK, Phase.COMMITTED])
def test_an_exchange_that_had_happened(single: Single, phase: Phase) -> None:
    exchanged(single, phase)
    found = recovered(single)
    assert found.status is Status.COMMITTED
    assert (single.shown, single.names) == (NEW, {"f.yaml"})


def exchanged(single: Single, phase: Phase) -> None:
    """A journal as of the moment after the exchange."""
    single.journal(phase, side=NEW)
    names = single.root / "third"
    single.path.rename(names)
    (single.root / SIDE).rename(single.path)
    names.rename(single.root / SIDE)


def test_the_source_had_changed_before_the_exchange(single: Single) -> None:
    exchanged(single, Phase.PREPARED)
    (single.root / SIDE).write_bytes(OTHER)
    found = recovered(single)
    assert (found.status, found.reason) == (Status.ROLLED_BACK, "source_changed")
    assert (single.shown, single.names) == (OTHER, {"f.yaml"})


def test_two_versions_of_people_both_stay(single: Single) -> None:
    exchanged(single, Phase.PREPARED)
    (single.root / SIDE).write_bytes(OTHER)
    os.utime(single.root / SIDE, ns=(1, 1))
    beside = single.root / "swp"
    beside.write_bytes(b"# third\n")
    beside.rename(single.path)
    found = recovered(single)
    assert (found.status, found.recovery_name) == (Status.RECOVERY_REQUIRED, KEPT)
    assert found.newer == "target"
    assert (single.root / KEPT).read_bytes() == OTHER
    assert single.shown == b"# third\n"
    # A kept name never blocks.
    assert single.replace(expected=b"# third\n").committed


def test_committed_and_all_but_the_journal_cleared(single: Single) -> None:
    exchanged(single, Phase.COMMITTED)
    (single.root / SIDE).unlink()
    found = recovered(single)
    assert (found.status, found.changed_since) == (Status.COMMITTED, False)
    assert (single.shown, single.names) == (NEW, {"f.yaml"})


def test_somebody_removed_the_file_after_the_exchange(single: Single) -> None:
    exchanged(single, Phase.PREPARED)
    single.path.unlink()
    found = recovered(single)
    assert (found.status, found.changed_since) == (Status.COMMITTED, True)
    assert (single.root / KEPT).read_bytes() == OLD
    assert (found.recovery_name, single.names) == (KEPT, {KEPT})


@pytest.mark.parametrize(
    ("shown", "reason"),
    [(OLD, "not_committed"), (OTHER, "source_changed"), (None, "source_missing")],
)
@pytest.mark.parametrize("side", [NEW, None], ids=["side file", "no side file"])
def test_without_an_exchange_the_answer_says_what_the_name_shows(
    single: Single, side: bytes | None, shown: bytes | None, reason: str
) -> None:
    single.journal(Phase.PREPARED, side=side)
    if shown is None:
        single.path.unlink()
    else:
        single.path.write_bytes(shown)
    found = recovered(single)
    assert (found.status, found.reason) == (Status.ROLLED_BACK, reason)
    assert (single.shown if single.path.exists() else None) == shown
    assert single.names - {"f.yaml"} == set()


@pytest.mark.parametrize(("times", "newer"), [((1, 2), "target"), ((2, 1), "recovery")])
def test_of_two_kept_versions_the_later_one_is_named(
    single: Single, times: tuple[int, int], newer: str
) -> None:
    exchanged(single, Phase.PREPARED)
    (single.root / SIDE).write_bytes(OTHER)
    single.path.write_bytes(b"# third\n")
    for path, time in zip((single.root / SIDE, single.path), times, strict=True):
        os.utime(path, ns=(time, time))
    assert recovered(single).newer == newer


def test_committed_and_changed_since(single: Single) -> None:
    exchanged(single, Phase.COMMITTED)
    single.path.write_bytes(OTHER)
    found = recovered(single)
    assert (found.status, found.changed_since) == (Status.COMMITTED, True)
    assert (single.shown, single.names) == (OTHER, {"f.yaml"})


def test_committed_and_earlier_bytes_written_late(single: Single) -> None:
    exchanged(single, Phase.COMMITTED)
    (single.root / SIDE).write_bytes(OLD + OTHER)
    found = recovered(single)
    assert (found.status, found.recovery_name) == (Status.COMMITTED, KEPT)
    assert (single.root / KEPT).read_bytes() == OLD + OTHER
    assert single.shown == NEW


@pytest.mark.parametrize("data", [b"later\n", NEW], ids=["a change", "as wanted already"])
def test_what_recovery_kept_is_told_by_the_change_that_recovered(
    single: Single, data: bytes
) -> None:
    exchanged(single, Phase.COMMITTED)
    (single.root / SIDE).write_bytes(OLD + OTHER)
    outcome = single.replace(data, expected=NEW)
    assert (outcome.committed, outcome.recovery_name) == (True, KEPT)
    assert (single.shown, single.names) == (data, {"f.yaml", KEPT})


def test_what_recovery_kept_is_told_by_a_removal(single: Single) -> None:
    exchanged(single, Phase.COMMITTED)
    (single.root / SIDE).write_bytes(OLD + OTHER)
    outcome = single.confined().remove_file_if_owned(single.owned())
    assert (outcome.removed, outcome.recovery_name) == (True, KEPT)
    assert single.names == {KEPT}


def test_what_was_about_to_be_kept_is_kept(single: Single) -> None:
    single.journal(Phase.KEPT, side=OTHER)
    assert recovered(single).recovery_name == KEPT
    assert (single.root / KEPT).read_bytes() == OTHER


def test_a_recovery_name_that_is_taken_overwrites_nothing(single: Single) -> None:
    single.journal(Phase.KEPT, side=OTHER)
    (single.root / KEPT).write_bytes(b"older\n")
    found = recovered(single)
    assert found.status is Status.RECOVERY_REQUIRED
    assert (single.root / KEPT).read_bytes() == b"older\n"
    assert (single.root / SIDE).read_bytes() == OTHER


def test_staging_holds_nobodys_bytes(single: Single) -> None:
    single.journal(Phase.STAGING, side=NEW[:5])
    assert recovered(single).reason == "not_committed"
    assert single.names == {"f.yaml"}


@pytest.mark.parametrize("which", ["side", "target"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "large"])
def test_what_cannot_be_read_is_touched_by_hand_only(single: Single, which: str, kind: str) -> None:
    from tests.authoring.confined.test_refusals import KINDS

    exchanged(single, Phase.PREPARED)
    path = single.root / SIDE if which == "side" else single.path
    path.unlink()
    KINDS[kind](path)
    inode = path.lstat().st_ino
    before = single.names
    found = recovered(single)
    assert (found.status, found.reason) == (Status.RECOVERY_REQUIRED, "unsafe_path")
    assert single.names == before
    done = recovered(single, by_hand=True)
    assert done.status in (Status.RECOVERY_REQUIRED, Status.COMMITTED, Status.ROLLED_BACK)
    assert JOURNAL not in single.names
    stays = {name for name in single.names if (single.root / name).lstat().st_ino == inode}
    assert len(stays) == 1
    assert stays <= {"f.yaml", done.recovery_name}


def test_a_journal_of_a_live_owner_is_left_alone(single: Single) -> None:
    path = single.journal(Phase.PREPARED, side=NEW)
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(TransactionInProgress) as caught:
            single.replace()
        assert caught.value.exit_code == 3
    assert single.names == {"f.yaml", JOURNAL, SIDE}
    assert single.replace().committed


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_journal_that_is_no_file_is_moved_and_not_followed(
    single: Single, tmp_path: Path, kind: str
) -> None:
    from tests.authoring.confined.test_refusals import KINDS

    path = single.root / JOURNAL
    if kind == "link":
        (tmp_path / "outside").write_bytes(b"{}")
        path.symlink_to(tmp_path / "outside")
    else:
        KINDS[kind](path)
    with pytest.raises(RecoveryRequired) as caught:
        single.replace()
    name = str(caught.value.fields["recovery_name"])
    assert os.path.lexists(single.root / name)
    assert single.replace().committed


def test_a_journal_of_another_leaf_is_not_acted_on(single: Single) -> None:
    single.journal(Phase.PREPARED, side=NEW, target_name="g.yaml")
    with pytest.raises(RecoveryRequired):
        single.replace()
    assert (single.root / SIDE).read_bytes() == NEW
    assert single.shown == OLD


@pytest.mark.parametrize(
    "field", ["exchange_name", "recovery_name", "nonce", "expected_sha256", "expected_identity"]
)
def test_a_journal_with_a_senseless_field_is_not_acted_on(single: Single, field: str) -> None:
    path = single.journal(Phase.PREPARED, side=NEW)
    text = path.read_text()
    value = json.loads(text)[field]
    path.write_text(text.replace(f'"{field}":"{value}"', f'"{field}":"../{value[3:]}"'))
    with pytest.raises(RecoveryRequired):
        single.replace()
    assert (single.root / SIDE).read_bytes() == NEW


# -- version 1 -------------------------------------------------------------------------------------

EARLIER = ".f.yaml.dpone-cas-00112233445566778899aabb"
STATES = {
    "T=D, X=E": (NEW, OLD, Status.COMMITTED, NEW),
    "T=D, X other": (NEW, OTHER, Status.RECOVERY_REQUIRED, NEW),
    "T=E, X=D": (OLD, NEW, Status.ROLLED_BACK, OLD),
    "T=D, X missing": (NEW, None, Status.COMMITTED, NEW),
    "both other": (OTHER, OTHER, Status.RECOVERY_REQUIRED, OTHER),
    "T other, X=D": (OTHER, NEW, Status.RECOVERY_REQUIRED, OTHER),
    "T other, X=E": (OTHER, OLD, Status.RECOVERY_REQUIRED, OTHER),
    "T=E, X missing": (OLD, None, Status.ROLLED_BACK, OLD),
    "T missing, X=E": (None, OLD, Status.RECOVERY_REQUIRED, None),
}


def earlier_journal(**fields: object) -> bytes:
    value = {
        "schema": "dpone.confined-file-transaction",
        "version": 1,
        "target_name": "f.yaml",
        "exchange_name": EARLIER,
        "expected_sha256": sha256_of(OLD),
        "desired_sha256": sha256_of(NEW),
        "phase": "prepared",
        **fields,
    }
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize("state", STATES)
def test_a_journal_of_the_earlier_release(single: Single, state: str) -> None:
    target, side, status, shown = STATES[state]
    single.path.unlink()
    if target is not None:
        single.path.write_bytes(target)
    if side is not None:
        (single.root / EARLIER).write_bytes(side)
    (single.root / JOURNAL).write_bytes(earlier_journal())
    found = recovered(single)
    assert found.status is status
    assert (found.reason == "kept_target_missing") is (target is None)
    assert (single.shown if single.path.exists() else None) == shown
    kept = {found.recovery_name} - {None}
    assert single.names - {"f.yaml"} == kept
    if status is Status.RECOVERY_REQUIRED:
        assert [(single.root / str(name)).read_bytes() for name in kept] == [side]
    if shown is not None:
        assert single.replace(b"later\n", expected=shown).committed


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "large"])
def test_an_earlier_side_file_that_cannot_be_read_is_kept(single: Single, kind: str) -> None:
    from tests.authoring.confined.test_refusals import KINDS

    KINDS[kind](single.root / EARLIER)
    inode = (single.root / EARLIER).lstat().st_ino
    (single.root / JOURNAL).write_bytes(earlier_journal())
    found = recovered(single)
    assert found.recovery_name is not None
    assert (single.root / found.recovery_name).lstat().st_ino == inode
    assert single.replace().committed


@pytest.mark.parametrize(
    "fields",
    [
        {"exchange_name": "../out"},
        {"exchange_name": "f.yaml"},
        {"exchange_name": "mine.yaml"},
        {"phase": "exchanged"},
        {"version": 3},
        {"target_name": "g.yaml"},
        {"expected_sha256": "no"},
        {"more": 1},
    ],
    ids=str,
)
def test_a_senseless_earlier_journal_is_kept(single: Single, fields: dict[str, object]) -> None:
    (single.root / "mine.yaml").write_bytes(NEW)
    (single.root / JOURNAL).write_bytes(earlier_journal(**fields))
    with pytest.raises(RecoveryRequired):
        single.replace()
    assert single.shown == OLD
    # A file of somebody is not taken for a side file, even with the very bytes.
    assert (single.root / "mine.yaml").read_bytes() == NEW
    assert single.replace().committed
