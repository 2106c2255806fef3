"""The suite that every adapter for a cache's files passes: trees, links, logs, leases, modes.

`suite` takes a factory of fresh places. What the files port asks beside it stands in
`certification.files`. What is durable after a loss of power is not asked here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from certification.checks import Check, Suite, equal
from dpone.contracts.authoring import Kind
from dpone.ports import cachefiles, files
from dpone.ports.cachefiles import CacheFiles
from dpone.ports.files import FilesError


class CachePlace(Protocol):
    """A fresh root directory, an adapter on it, and somebody else who works there."""

    @property
    def files(self) -> CacheFiles:
        """The adapter."""

    def touch(self, path: str) -> None:
        """Somebody makes an empty file."""

    def mkdir(self, path: str, mode: int = 0o755) -> None:
        """Somebody makes directories, the last one with this mode."""

    def link(self, path: str, leads_to: str) -> None:
        """Somebody makes a symbolic link."""

    def mode(self, path: str) -> int:
        """The permission bits of what a path shows."""


CACHE: Suite[CachePlace] = Suite("cachefiles")


def suite(make: Callable[[], AbstractContextManager[CachePlace]]) -> list[Check]:
    """Every check, on fresh places made by `make`."""
    return CACHE.checks(make)


def refused(kind: type[FilesError], call: Callable[[], object], what: str) -> None:
    """Assert that a call raises exactly this error of the port."""
    try:
        call()
    except FilesError as error:
        equal(kind, type(error), what)
        return
    raise AssertionError(f"{what}: not refused")


@CACHE
def entries_tell_kinds_and_follow_nothing(place: CachePlace) -> None:
    """A listing tells files, folders and links apart, a broken link too."""
    place.touch("file")
    place.mkdir("folder")
    place.link("link", "nowhere")
    with place.files.folder("") as folder:
        wanted = {"file": Kind.FILE, "folder": Kind.FOLDER, "link": Kind.LINK}
        equal(wanted, dict(folder.entries()), "entries")


@CACHE
def a_link_is_read_and_never_entered(place: CachePlace) -> None:
    """Where a link leads is told; going below it is refused, and nothing is no link."""
    place.mkdir("folder")
    with place.files.folder("") as folder:
        folder.make_link("link", "folder")
        equal("folder", folder.read_link("link"), "where it leads")
        equal(None, folder.read_link("folder"), "a folder")
        equal(None, folder.read_link("missing"), "a missing name")
        refused(files.LinkForbidden, lambda: folder.descend("link"), "descend")


@CACHE
def a_tree_is_walked_down_and_up(place: CachePlace) -> None:
    """From a folder below, the one above is the one that was left, by its identity."""
    place.mkdir("a/b")
    with place.files.folder("a") as folder:
        below = folder.descend("b")
        above = below.ascend()
        equal(folder.itself().identity, above.itself().identity, "the way up")
        below.close()
        above.close()


@CACHE
def carry_moves_to_a_free_name_and_keeps_the_identity(place: CachePlace) -> None:
    """A directory that is carried keeps its identity; a taken name is refused, both stay."""
    place.mkdir("from/x")
    place.mkdir("to/taken")
    with place.files.folder("from") as source, place.files.folder("to") as target:
        look = source.look("x")
        assert look is not None
        refused(files.NameTaken, lambda: source.carry("x", target, "taken"), "a taken name")
        source.carry("x", target, "free")
        found = target.look("free")
        assert found is not None
        equal(look.identity, found.identity, "the identity")
        equal(None, source.look("x"), "the earlier name")
        refused(files.NameMissing, lambda: source.carry("x", target, "more"), "a missing name")


@CACHE
def a_rebuilt_directory_has_another_identity(place: CachePlace) -> None:
    """A directory that was removed and made again under its name is told apart from the first."""
    with place.files.folder("") as folder:
        seen = set()
        for _ in range(50):
            folder.make_folder("x")
            look = folder.look("x")
            assert look is not None
            seen.add(look.identity)
            folder.remove_folder("x")
        equal(50, len(seen), "identities")


@CACHE
def replace_is_one_step_over_another_name(place: CachePlace) -> None:
    """A file that replaces another has its bytes under the name."""
    with place.files.folder("") as folder:
        folder.create_record("new", b"2").close()
        folder.create_record("old", b"1").close()
        folder.replace("new", "old")
        held = folder.hold("old")
        assert held is not None
        equal(b"2", held.read(10), "the bytes")
        held.close()
        equal(None, folder.look("new"), "the temporary name")


@CACHE
def a_log_grows_and_is_cut(place: CachePlace) -> None:
    """A log keeps what was appended in order, is cut to a size, and is not made by a reader."""
    with place.files.folder("") as folder:
        equal(None, folder.log("log", create=False), "a missing log")
        log = folder.log("log", create=True)
        assert log is not None
        log.append(b"one", forced=False)
        log.append(b"two")
        log.sync()
        log.cut(4)
        log.append(b"!")
        equal(b"onet!", log.read(100), "the log")
        refused(files.FileTooLarge, lambda: log.read(3), "a bound")
        log.close()


@CACHE
def a_lock_is_exclusive_or_shared_and_its_wait_has_a_bound(place: CachePlace) -> None:
    """Shares go together; whoever wants it alone waits so long and no longer."""
    for leaf in (".lock", "."):
        with place.files.folder("") as first, place.files.folder("") as second:

            def alone(folder: cachefiles.CacheFolder = second, leaf: str = leaf) -> None:
                with folder.lock(leaf, 0.02):
                    pass

            with first.lock(leaf, 0.02, shared=True), second.lock(leaf, 0.02, shared=True):
                pass
            with first.lock(leaf, 0.02, shared=True):
                refused(cachefiles.LockBusy, alone, "beside a share")
            with first.lock(leaf, 0.02):
                refused(cachefiles.LockBusy, alone, "beside another")
            alone()


@CACHE
def only_directories_are_opened_up(place: CachePlace) -> None:
    """A closed directory is opened up for its owner; a link in its place is refused."""
    place.mkdir("closed", 0o000)
    place.link("link", "closed")
    with place.files.folder("") as folder:
        folder.unseal("closed")
        equal(0o700, place.mode("closed"), "the mode")
        refused(files.NotAFolder, lambda: folder.unseal("link"), "a link")


@CACHE
def a_mode_is_set_and_a_link_refused(place: CachePlace) -> None:
    """Files and directories get the mode that is asked for; nothing behind a link does."""
    place.touch("file")
    place.mkdir("folder")
    place.link("link", "file")
    with place.files.folder("") as folder:
        folder.set_mode("file", 0o640)
        folder.set_mode("folder", 0o700)
        refused(files.LinkForbidden, lambda: folder.set_mode("link", 0o600), "a link")
        refused(files.NameMissing, lambda: folder.set_mode("missing", 0o600), "nothing")
    equal(0o640, place.mode("file"), "the file")
    equal(0o700, place.mode("folder"), "the folder")


@CACHE
def a_tree_is_emptied_from_the_inside(place: CachePlace) -> None:
    """A directory goes only when it is empty; a file is no directory and a directory no file."""
    place.mkdir("a/b")
    place.touch("a/b/c")
    with place.files.folder("a") as folder:
        equal(False, folder.remove_folder("b"), "a full directory")
        refused(files.NotRegular, lambda: folder.unlink("b"), "a directory")
        with folder.below("b") as inner:
            equal(False, inner.remove_folder("c"), "a file")
            inner.unlink("c")
            refused(files.NameMissing, lambda: inner.unlink("c"), "nothing")
        equal(True, folder.remove_folder("b"), "an empty directory")
        equal(False, folder.remove_folder("b"), "nothing")


@CACHE
def a_directory_tells_whether_this_user_may_change_it(place: CachePlace) -> None:
    """By what stands there, without trying; user 0 may do everything."""
    place.mkdir("closed", 0o555)
    place.mkdir("open")
    with place.files.folder("open") as folder:
        equal(True, folder.may_change(), "its owner may change it")
    with place.files.folder("closed") as folder:
        equal(place.files.user == 0, folder.may_change(), "nobody may change it but user 0")
    equal(0o555, place.mode("closed"), "the mode afterwards")
