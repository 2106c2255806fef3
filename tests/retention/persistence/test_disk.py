"""The disk below a cache in memory: its crash states are the legal ones, and no others."""

from __future__ import annotations

import pytest

from dpone.contracts.authoring import Kind
from dpone.ports import cachefiles, files
from faultinject.authoring_inodes import ROOT
from faultinject.deletion_disk import ALL_MAX, CacheDisk
from faultinject.deletion_memory import MemoryCache, MemoryCacheFolder


def made(*folders: str, is_ordered: bool = False) -> tuple[CacheDisk, MemoryCacheFolder]:
    """A durable disk with these directories, and its open root."""
    disk = CacheDisk.empty()
    disk.is_ordered = is_ordered
    for leaf in folders:
        disk.change(ROOT, (leaf, disk.make(kind=Kind.FOLDER).number))
    disk.settle()
    with MemoryCache(disk).folder("") as root:
        return disk, root


def paths(disk: CacheDisk) -> set[str]:
    return {path for path, _ in disk.tree()}


def states(disk: CacheDisk) -> list[set[str]]:
    """The paths of every state after a loss of power."""
    found = [paths(state) for state in disk.killed().power_cuts(weak=not disk.is_ordered)]
    return sorted(found, key=sorted)


def carried(disk: CacheDisk, root: MemoryCacheFolder) -> tuple[MemoryCacheFolder, ...]:
    """`left/tree` becomes `right/tree`, and nothing of it is synced."""
    source, target = root.descend("left"), root.descend("right")
    source.make_folder("tree")
    disk.settle()
    source.carry("tree", target, "tree")
    return source, target


def test_a_rename_between_directories_happened_or_not_and_never_half() -> None:
    disk, root = made("left", "right")
    carried(disk, root)
    assert states(disk) == [{"left", "left/tree", "right"}, {"left", "right", "right/tree"}]


@pytest.mark.parametrize("first", [0, 1])
def test_it_is_durable_when_both_directories_were_synced(first: int) -> None:
    disk, root = made("left", "right")
    folders = carried(disk, root)
    folders[first].sync()
    assert len(states(disk)) == 2
    folders[1 - first].sync()
    assert states(disk) == [{"left", "right", "right/tree"}]


def test_an_ordered_sync_forces_whatever_came_before_it() -> None:
    disk, root = made("left", "right", is_ordered=True)
    source, _ = carried(disk, root)
    root.make_folder("later")
    source.sync()
    assert states(disk) == [
        {"later", "left", "right", "right/tree"},
        {"left", "right", "right/tree"},
    ]


def test_what_came_first_under_a_name_is_forced_with_what_came_next() -> None:
    disk, root = made("left", "right")
    source, target = carried(disk, root)
    target.carry("tree", source, "tree")
    source.sync()
    target.sync()
    assert states(disk) == [{"left", "left/tree", "right"}]


def test_a_directory_never_has_two_names() -> None:
    disk, root = made("left", "right")
    source, target = carried(disk, root)
    target.move("tree", "again")
    for state in states(disk):
        assert len([path for path in state if path.endswith(("tree", "again"))]) == 1, state
    assert len(states(disk)) == 3
    del source


def test_a_mode_is_durable_with_its_own_inode_and_not_with_its_name() -> None:
    disk, root = made()
    root.make_folder("a")
    root.sync()
    root.unseal("a")
    inode = disk.find("a")
    assert inode is not None
    assert inode.mode == 0o755
    disk.set_mode(inode, 0o700)
    root.sync()
    modes = {state.inodes[inode.number].mode for state in disk.power_cuts(weak=True)}
    assert modes == {0o755, 0o700}
    root.set_mode("a", 0o700)
    root.descend("a").sync()
    assert {state.inodes[inode.number].mode for state in disk.power_cuts(weak=True)} == {0o700}


def test_an_append_is_absent_torn_zeros_or_whole_and_what_was_durable_stays() -> None:
    disk, root = made()
    log = root.log("log", create=True)
    assert log is not None
    root.sync()
    log.append(b"first")
    log.append(b"more", forced=False)
    found = {state.inodes[log.inode.number].data for state in disk.power_cuts(weak=True)}
    assert found == {b"first", b"firstmo", b"first\0\0\0\0", b"firstmore"}
    log.sync()
    assert [state.inodes[log.inode.number].data for state in disk.power_cuts(weak=True)] == [
        b"firstmore"
    ]


def test_what_a_dead_process_did_not_sync_may_still_go() -> None:
    disk, root = made()
    root.make_folder("a")
    twin = disk.killed()
    assert states(twin) == [set(), {"a"}]
    with MemoryCache(twin).folder("") as again:
        again.sync()
    assert states(twin) == [{"a"}]


def test_of_many_changes_the_extremes_are_states_and_the_sample_is_told() -> None:
    disk, root = made()
    names = [f"d{number}" for number in range(ALL_MAX + 2)]
    for name in names:
        root.make_folder(name)
    found = states(disk)
    assert set() in found
    assert set(names) in found
    assert all({name} in found and set(names) - {name} in found for name in names)
    list(disk.power_cuts(weak=True))
    assert disk.sampled > 0


def test_equal_disks_have_one_key_and_bytes_that_differ_do_not() -> None:
    disk, root = made()
    other, other_root = made()
    root.create_record("a", b"1").close()
    other_root.create_record("x", b"").close()
    other_root.unlink("x")
    other_root.create_record("a", b"1").close()
    disk.settle()
    other.settle()
    assert disk.key() == other.key()
    other_root.replace("a", "b")
    assert disk.key() != other.key()


def test_permissions_count_for_everybody_but_the_superuser() -> None:
    disk, root = made("sealed", "other")
    inode = disk.find("sealed")
    assert inode is not None
    inode.mode = 0o555
    target = root.descend("other")
    with pytest.raises(files.AccessDenied):
        root.descend("sealed").make_folder("x")
    with pytest.raises(files.AccessDenied):
        root.carry("sealed", target, "sealed")
    disk.user = 0
    with MemoryCache(disk).folder("") as again:
        again.descend("sealed").make_folder("x")


def test_a_lock_ends_with_its_process() -> None:
    disk, _ = made()
    first, second = MemoryCache(disk), MemoryCache(disk)
    with first.folder("") as mine, second.folder("") as theirs:
        held = mine.lock("lock", 0.0)
        held.__enter__()
        with pytest.raises(cachefiles.LockBusy), theirs.lock("lock", 0.0):
            pass
        first.die()
        with theirs.lock("lock", 0.0):
            pass
