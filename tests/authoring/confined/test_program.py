"""The three calls that a program makes, as the package offers them."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpone
from dpone.contracts.authoring import (
    ConfinedRecoveryOutcome,
    ConfinedReplaceOutcome,
    ConfinedRollbackOutcome,
    Proof,
    Status,
    sha256_of,
)
from dpone.contracts.codec import decode, encode
from dpone.contracts.errors_authoring import (
    AuthoringError,
    DigestInvalid,
    PathInvalid,
    SourceChanged,
)
from dpone.contracts.transaction import Phase
from faultinject.writing import NEW, OLD
from tests.authoring.confined.studio import Single
from tests.authoring.confined.test_refusals import KINDS


def test_a_program_replaces_a_file_that_is_as_it_was_read(single: Single) -> None:
    outcome = dpone.replace_file_if_digest(
        single.root, "f.yaml", expected_sha256=sha256_of(OLD), desired=NEW
    )
    assert isinstance(outcome, ConfinedReplaceOutcome)
    assert (outcome.committed, outcome.changed, outcome.durable) == (True, True, True)
    assert (single.shown, single.names) == (NEW, {"f.yaml"})
    with pytest.raises(SourceChanged) as caught:
        dpone.replace_file_if_digest(
            single.root, "f.yaml", expected_sha256=sha256_of(OLD), desired=b"later\n"
        )
    assert isinstance(caught.value, dpone.DponeError)
    assert single.shown == NEW


@pytest.mark.parametrize(
    "digest",
    ["", "abc", sha256_of(OLD).upper(), f"sha256:{sha256_of(OLD)}", f"{sha256_of(OLD)}\n"],
)
def test_what_is_no_digest_is_told_apart_from_a_changed_file(single: Single, digest: str) -> None:
    """Planning again would never help."""
    with pytest.raises(DigestInvalid):
        dpone.replace_file_if_digest(single.root, "f.yaml", expected_sha256=digest, desired=NEW)
    assert (single.shown, single.names) == (OLD, {"f.yaml"})


def test_a_program_removes_the_file_of_its_receipt_and_no_other(single: Single) -> None:
    owned = single.owned()
    assert isinstance(owned, dpone.OwnedFile)
    beside = single.root / "swp"
    beside.write_bytes(OLD)
    beside.rename(single.path)
    outcome = dpone.remove_file_if_owned(single.root, owned)
    assert isinstance(outcome, ConfinedRollbackOutcome)
    assert (outcome.removed, outcome.reason) == (False, "not_owned")
    assert single.shown == OLD
    assert dpone.remove_file_if_owned(single.root, single.owned()).removed
    assert single.names == set()


def test_a_program_takes_the_receipt_of_what_it_made(single: Single) -> None:
    made = dpone.owned_file(single.root, "f.yaml", expected_sha256=sha256_of(OLD))
    kept = encode(made)
    beside = single.root / "swp"
    beside.write_bytes(OLD)
    single.path.unlink()
    beside.rename(single.path)
    # Another file with the same bytes, as somebody else may have made it.
    assert not dpone.remove_file_if_owned(single.root, made).removed
    again = dpone.owned_file(single.root, "f.yaml", expected_sha256=sha256_of(OLD))
    assert again.identity != made.identity
    assert decode(kept, dpone.OwnedFile) == made
    assert dpone.remove_file_if_owned(single.root, again).removed
    assert single.names == set()


@pytest.mark.parametrize("kind", ["other bytes", "missing", "no digest", *KINDS])
def test_there_is_no_receipt_of_what_is_another_thing(single: Single, kind: str) -> None:
    digest = "sha256:" if kind == "no digest" else sha256_of(OLD)
    if kind == "other bytes":
        single.path.write_bytes(NEW)
    elif kind != "no digest":
        single.path.unlink()
        if kind != "missing":
            KINDS[kind](single.path)
    with pytest.raises(AuthoringError):
        dpone.owned_file(single.root, "f.yaml", expected_sha256=digest)


def test_a_program_recovers_and_recovers_again(single: Single) -> None:
    single.journal(Phase.PREPARED, side=NEW)
    outcome = dpone.recover_file_transaction(single.root, "f.yaml")
    assert isinstance(outcome, ConfinedRecoveryOutcome)
    assert (outcome.status, outcome.reason) == (Status.ROLLED_BACK, "not_committed")
    assert not dpone.recover_file_transaction(single.root, "f.yaml").found


def test_a_program_may_have_moved_aside_what_cannot_be_read(single: Single) -> None:
    single.journal(Phase.PREPARED, side=NEW)
    single.path.unlink()
    KINDS["pipe"](single.path)
    stuck = dpone.recover_file_transaction(single.root, "f.yaml")
    assert (stuck.status, stuck.cleanup_required) == (Status.RECOVERY_REQUIRED, True)
    assert not dpone.recover_file_transaction(single.root, "f.yaml", by_hand=True).cleanup_required


def test_a_program_may_vouch_that_nobody_edits(
    single: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpone.adapters.posix.held.PosixHeld.prove", lambda self: Proof.UNKNOWN)
    kept = []
    for vouches, before, after in ((False, OLD, NEW), (True, NEW, OLD)):
        outcome = dpone.replace_file_if_digest(
            single.root,
            "f.yaml",
            expected_sha256=sha256_of(before),
            desired=after,
            accept_unproven=vouches,
        )
        kept.append(outcome.recovery_name is not None)
    assert kept == [True, False]


@pytest.mark.parametrize("path", ["../f.yaml", "/etc/hostname"])
def test_a_program_stays_below_its_root(single: Single, path: str) -> None:
    with pytest.raises(PathInvalid):
        dpone.replace_file_if_digest(single.root, path, expected_sha256=sha256_of(OLD), desired=NEW)
    with pytest.raises(PathInvalid):
        dpone.recover_file_transaction(Path(single.root), path)
