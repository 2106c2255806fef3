"""Records, locks and proofs of a files adapter: the second part of `certification.files`."""

from __future__ import annotations

from certification.checks import equal, holds
from certification.files import (
    BYTES_MAX,
    FILES,
    FilesPlace,
    closing,
    held_at,
    identity_at,
)
from dpone.contracts.authoring import Proof
from dpone.ports import files

# -- records -------------------------------------------------------------------------------------


@FILES
def a_record_has_one_owner(place: FilesPlace) -> None:
    """It is locked from the start, nobody else gets the lock, and closing gives it back."""
    with place.files.folder("") as folder:
        first = folder.create_record("j", b"1")
        other = folder.record("j")
        assert other is not None
        holds(first.lock(), "its owner has not the lock")
        holds(not other.lock(), "two owners")
        first.close()
        holds(other.lock(), "the lock outlives its owner")
        other.close()


@FILES
def a_nameless_record_is_locked_before_it_has_a_name(place: FilesPlace) -> None:
    """Whoever finds it finds its owner too."""
    with place.files.folder("") as folder:
        try:
            record = folder.stage_record(b"1")
        except files.NamelessUnsupported:
            return
        with closing(record):
            folder.link(record, "j")
            other = folder.record("j")
            assert other is not None
            with closing(other):
                holds(not other.lock(), "named and unlocked")


@FILES
def a_patch_changes_its_bytes_and_no_other(place: FilesPlace) -> None:
    """The rest of the record, its length and its identity stay."""
    with place.files.folder("") as folder:
        record = folder.create_record("j", b"0123456789")
        before = record.look().identity
        record.patch(3, b"ab")
        equal(b"012ab56789", record.read(BYTES_MAX), "read back")
        equal(before, identity_at(folder, "j"), "identity")
        record.close()
        record.close()
    equal({"j": b"012ab56789"}, place.show(), "bytes")


# -- proof ---------------------------------------------------------------------------------------


@FILES
def a_file_open_for_writing_is_never_proven(place: FilesPlace) -> None:
    """While somebody may write the answer is WRITER, or UNKNOWN where that cannot be told."""
    place.put("a", b"1")
    with (
        place.files.folder("") as folder,
        closing(held_at(folder, "a")) as held,
        place.writer("a"),
    ):
        holds(held.prove() is not Proof.PROVEN, "proven, and somebody writes")
        holds(not held.undisturbed(), "undisturbed without proof")


@FILES
def whoever_knocks_during_the_proof_is_seen(place: FilesPlace) -> None:
    """Quiet until somebody tries to write, and disturbed from then on."""
    place.put("a", b"1")
    with place.files.folder("") as folder, closing(held_at(folder, "a")) as held:
        if held.prove() is not Proof.PROVEN:
            return
        holds(held.undisturbed(), "disturbed by nobody")
        place.knock("a")
        holds(not held.undisturbed(), "the knock was not seen")
        held.release()
        holds(not held.undisturbed(), "undisturbed after the release")


@FILES
def a_verdict_on_the_exchange_is_remembered(place: FilesPlace) -> None:
    """None at first, then what was last certified."""
    with place.files.folder("") as folder:
        equal(None, folder.certified(), "at first")
        for verdict in (True, False):
            folder.certify(verdict)
            with place.files.folder("") as again:
                equal(verdict, again.certified(), "by another object")
