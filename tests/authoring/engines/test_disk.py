"""The disk in memory behaves as disks do, and its crash states are the legal ones."""

from __future__ import annotations

import pytest

from dpone.contracts.authoring import Kind, Proof
from dpone.ports import files
from faultinject import authoring_editors as editors
from faultinject.authoring_entries import PowerModelExceeded
from faultinject.authoring_inodes import ROOT, Disk
from faultinject.disk import Crash, MemoryFiles, MemoryFolder


def opened(disk: Disk) -> MemoryFolder:
    """The root of a fresh process."""
    with MemoryFiles(disk).folder("") as folder:
        return folder


def shown(disk: Disk) -> dict[str, bytes]:
    """What the names show."""
    return {name: disk.inodes[n].data for name, n in disk.entries().live.items()}


def states(disk: Disk, *, weak: bool) -> set[tuple[tuple[str, bytes], ...]]:
    return {tuple(sorted(shown(state).items())) for state in disk.power_cuts(weak=weak)}


def test_an_unforced_exchange_happened_or_not_and_never_half() -> None:
    disk = Disk.empty()
    editors.put(disk, "a", b"1")
    editors.put(disk, "b", b"2")
    opened(disk).exchange("a", "b")
    expected = {(("a", b"1"), ("b", b"2")), (("a", b"2"), ("b", b"1"))}
    assert states(disk, weak=True) == states(disk, weak=False) == expected


def test_weak_loses_an_earlier_change_and_keeps_a_later_one() -> None:
    disk = Disk.empty()
    editors.put(disk, "a", b"1")
    editors.put(disk, "b", b"2")
    folder = opened(disk)
    folder.unlink("a")
    folder.unlink("b")
    later_only = (("a", b"1"),)
    assert later_only in states(disk, weak=True)
    assert later_only not in states(disk, weak=False)
    assert len(states(disk, weak=True)) == 4
    assert len(states(disk, weak=False)) == 3
    folder.sync()
    assert states(disk, weak=True) == {()}


def test_unsynced_bytes_are_none_all_torn_or_zeros() -> None:
    disk = Disk.empty()
    editors.save(disk, "a", b"abcd", synced=False)
    assert states(disk, weak=True) == {
        (("a", data),) for data in (b"", b"abcd", b"ab", b"\0\0\0\0")
    }


def test_a_patched_byte_is_old_or_new_until_it_is_synced() -> None:
    disk = Disk.empty()
    seen: list[set[tuple[tuple[str, bytes], ...]]] = []

    def watch(label: str) -> None:
        if label.startswith("sync-record"):
            seen.append(states(disk, weak=True))

    with MemoryFiles(disk, watch).folder("") as folder:
        record = folder.create_record("j", b"0..")
        folder.sync()
        record.patch(0, b"1")
    assert seen == [{(("j", b"0.."),), (("j", b"1.."),)}]
    assert states(disk, weak=True) == {(("j", b"1.."),)}


def test_too_many_unforced_changes_are_an_error_and_no_silent_cut() -> None:
    disk = Disk.empty()
    for number in range(12):
        disk.change(ROOT, (f"f{number}", disk.make().number))
    with pytest.raises(PowerModelExceeded):
        list(disk.power_cuts(weak=True))


def test_a_lease_is_refused_to_an_open_writer_and_holds_up_the_next() -> None:
    disk = Disk.empty()
    inode = editors.put(disk, "a", b"1")
    held = opened(disk).hold("a")
    assert held is not None
    editors.open_for_writing(disk, "a")
    assert held.prove() is Proof.WRITER
    assert editors.write_late(disk)
    assert held.prove() is Proof.PROVEN
    assert held.undisturbed()
    editors.write(disk, "a", b"3")
    assert not held.undisturbed()
    assert inode.data == editors.USER
    held.release()
    assert inode.data == b"3"


def test_death_gives_locks_back_and_ends_every_call() -> None:
    disk = Disk.empty()
    first = MemoryFiles(disk)
    with first.folder("") as folder:
        record = folder.create_record("j", b"0")
        assert record.lock()
        other = opened(disk).record("j")
        assert other is not None
        assert not other.lock()
        first.die()
        assert other.lock()
        with pytest.raises(Crash):
            folder.look("j")


def test_links_pipes_and_folders_are_told_apart() -> None:
    disk = Disk.empty()
    folder = opened(disk)
    editors.swap_in(disk, "link", Kind.LINK)
    editors.swap_in(disk, "pipe", Kind.OTHER)
    folder.make_folder("below")
    with pytest.raises(files.LinkForbidden):
        folder.hold("link")
    for leaf in ("pipe", "below"):
        with pytest.raises(files.NotRegular):
            folder.hold(leaf)


def test_what_a_user_wrote_is_owed_to_him_until_he_destroys_it() -> None:
    disk = Disk.empty()
    editors.put(disk, "a", b"1")
    editors.save(disk, "a", b"2")
    assert disk.precious == disk.secured == {b"2"}
    editors.save(disk, "a", b"3", forced=False)
    assert disk.precious == {b"3"}
    assert disk.secured == set()
    editors.unlink(disk, "a")
    assert disk.precious == set()
