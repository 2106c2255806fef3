"""The suite that every adapter for project files passes: looking, holding, making and naming.

`suite` takes a factory of fresh places. A place makes what other programs would make (links, pipes,
writers) by its own means, never through the adapter. Locks and the proof that nobody writes stand
in `certification.files_records`; the two are one suite. What is durable after a loss of power is
not asked here: the persistence model and the power cuts judge that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from certification.checks import Check, Suite, equal, holds
from dpone.contracts.authoring import Kind, Proof
from dpone.ports import files
from dpone.ports.files import Files, FilesError, Folder, Held, Staged

BYTES_MAX = 1000


class FilesPlace(Protocol):
    """A fresh root directory, an adapter on it, and what others do there."""

    @property
    def files(self) -> Files:
        """The adapter."""

    def put(self, leaf: str, data: bytes, mode: int = 0o644) -> None:
        """Make a file, or write into the one that is there."""

    def link(self, leaf: str, target: str) -> None:
        """Make a symbolic link."""

    def pipe(self, leaf: str) -> None:
        """Make a named pipe, or something else that is neither file, folder nor link."""

    def show(self) -> dict[str, bytes | None]:
        """Every name in the root; None for what is no file."""

    def rename(self, leaf: str, other: str) -> None:
        """Rename anything, over anything."""

    def writer(self, leaf: str) -> AbstractContextManager[None]:
        """Have a file open for writing."""

    def knock(self, leaf: str) -> None:
        """Try to open a file for writing and go away when that would wait."""


FILES: Suite[FilesPlace] = Suite("files")


def suite(make: Callable[[], AbstractContextManager[FilesPlace]]) -> list[Check]:
    """Every check, on fresh places made by `make`."""
    return complete().checks(make)


def complete() -> Suite[FilesPlace]:
    """The suite with all its parts; each part adds its checks when it is imported."""
    from certification import files_records  # noqa: F401

    return FILES


def refused(kind: type[FilesError], call: Callable[[], object], what: str) -> None:
    """Assert that a call raises exactly this error of the port."""
    try:
        call()
    except FilesError as error:
        equal(kind, type(error), what)
        return
    raise AssertionError(f"{what}: not refused")


def held_at(folder: Folder, leaf: str) -> Held:
    """Hold what has to be there."""
    held = folder.hold(leaf)
    assert held is not None, f"{leaf} is not there"
    return held


@contextmanager
def closing(held: Held) -> Iterator[Held]:
    """Close it after the block."""
    try:
        yield held
    finally:
        held.close()


def identity_at(folder: Folder, leaf: str) -> str:
    """The identity of what bears a name."""
    look = folder.look(leaf)
    assert look is not None, f"{leaf} is not there"
    return look.identity


def nameless(folder: Folder, data: bytes, like: Held | None = None) -> Staged | None:
    """A nameless file; None where there are none."""
    try:
        return folder.stage(data, like)
    except files.NamelessUnsupported:
        return None


# -- looking and holding -------------------------------------------------------------------------


@FILES
def a_name_that_nothing_bears_is_none(place: FilesPlace) -> None:
    """Looking at, holding or recording a missing name answers None."""
    with place.files.folder("") as folder:
        equal(None, folder.look("x"), "look")
        equal(None, folder.hold("x"), "hold")
        equal(None, folder.record("x"), "record")


@FILES
def a_look_tells_kinds_apart_and_follows_nothing(place: FilesPlace) -> None:
    """A link is a link, also when it points to a file, and so for every kind."""
    place.put("file", b"123")
    place.link("link", "file")
    place.pipe("pipe")
    with place.files.folder("") as folder:
        folder.make_folder("folder")
        found = {leaf: folder.look(leaf) for leaf in ("file", "link", "pipe", "folder")}
        kinds = {leaf: look.kind for leaf, look in found.items() if look is not None}
        wanted = {
            "file": Kind.FILE,
            "link": Kind.LINK,
            "pipe": Kind.OTHER,
            "folder": Kind.FOLDER,
        }
        equal(wanted, kinds, "kinds")
        look = found["file"]
        assert look is not None
        equal((3, 1), (look.size, look.links), "size and links")


@FILES
def only_regular_files_are_held(place: FilesPlace) -> None:
    """A link, a pipe and a folder are each refused by their own error, for records too."""
    place.put("file", b"1")
    place.link("link", "file")
    place.pipe("pipe")
    with place.files.folder("") as folder:
        folder.make_folder("folder")
        for call in (folder.hold, folder.record):
            refused(files.LinkForbidden, lambda call=call: call("link"), "link")  # type: ignore[misc]
            refused(files.NotRegular, lambda call=call: call("pipe"), "pipe")  # type: ignore[misc]
            refused(files.NotRegular, lambda call=call: call("folder"), "folder")  # type: ignore[misc]


@FILES
def reading_is_bounded(place: FilesPlace) -> None:
    """A file of the bound is read whole; one byte more is refused."""
    place.put("fits", b"x" * BYTES_MAX)
    place.put("large", b"x" * (BYTES_MAX + 1))
    with place.files.folder("") as folder:
        with closing(held_at(folder, "fits")) as held:
            equal(b"x" * BYTES_MAX, held.read(BYTES_MAX), "bytes")
        with closing(held_at(folder, "large")) as held:
            refused(files.FileTooLarge, lambda: held.read(BYTES_MAX), "too large")


@FILES
def a_held_file_stays_the_same_file(place: FilesPlace) -> None:
    """After a rename over its name it is read as before, and has no link left."""
    place.put("a", b"old")
    place.put("b", b"new")
    with place.files.folder("") as folder, closing(held_at(folder, "a")) as held:
        before = held.look()
        place.rename("b", "a")
        equal(b"old", held.read(BYTES_MAX), "bytes")
        equal((before.identity, 0), (held.look().identity, held.look().links), "identity, links")
        holds(identity_at(folder, "a") != before.identity, "the new file has the old identity")


@FILES
def identity_survives_a_rename_and_not_a_new_file(place: FilesPlace) -> None:
    """Moving a file keeps its identity; the same bytes in another file have another."""
    place.put("a", b"same")
    place.put("b", b"same")
    with place.files.folder("") as folder:
        first = identity_at(folder, "a")
        holds(first != identity_at(folder, "b"), "two files with one identity")
        folder.move("a", "c")
        equal(first, identity_at(folder, "c"), "identity after the move")


@FILES
def the_names_are_listed_up_to_a_limit(place: FilesPlace) -> None:
    """As many names as the limit are listed; more are refused."""
    for leaf in ("a", "b", "c"):
        place.put(leaf, b"")
    with place.files.folder("") as folder:
        equal(["a", "b", "c"], sorted(folder.names(3)), "names")
        refused(files.FileTooLarge, lambda: list(folder.names(2)), "limit")


# -- folders -------------------------------------------------------------------------------------


@FILES
def a_path_is_followed_part_by_part(place: FilesPlace) -> None:
    """A link, a file or nothing in the middle of a path is refused, each by its own error."""
    place.put("file", b"")
    with place.files.folder("") as folder:
        folder.make_folder("real")
    place.link("link", "real")
    for path, kind in (
        ("link", files.LinkForbidden),
        ("file", files.NotAFolder),
        ("absent", files.NameMissing),
        ("real/absent", files.NameMissing),
    ):
        refused(kind, lambda path=path: place.files.folder(path).__enter__(), path)  # type: ignore[misc]


@FILES
def an_open_folder_stays_the_same_folder(place: FilesPlace) -> None:
    """Whatever happens to its name, what is made in it is made there."""
    with place.files.folder("") as root:
        root.make_folder("before")
        with place.files.folder("before") as folder:
            place.rename("before", "after")
            folder.create("made", b"1").close()
        with place.files.folder("after") as renamed:
            holds(renamed.look("made") is not None, "it was made elsewhere")


@FILES
def only_an_empty_folder_is_removed(place: FilesPlace) -> None:
    """One with a file in it stays, and the answer says so; so for a file and for nothing."""
    place.put("file", b"1")
    with place.files.folder("") as root:
        root.make_folder("full")
        with place.files.folder("full") as folder:
            folder.create("x", b"").close()
        root.make_folder("empty")
        found = [root.remove_folder(leaf) for leaf in ("full", "file", "absent", "empty")]
        equal([False, False, False, True], found, "answers")
        refused(files.NameTaken, lambda: root.make_folder("full"), "make again")
    equal(["file", "full"], sorted(place.show()), "names")


# -- new files -----------------------------------------------------------------------------------


@FILES
def a_nameless_file_is_complete_before_it_has_a_name(place: FilesPlace) -> None:
    """It has no link and no name; linked, it has both, and its bytes."""
    with place.files.folder("") as folder:
        staged = nameless(folder, b"data")
        if staged is None:
            return
        with closing(staged):
            equal(({}, 0), (place.show(), staged.look().links), "before")
            folder.link(staged, "a")
            equal(({"a": b"data"}, 1), (place.show(), staged.look().links), "after")
            equal(staged.look().identity, identity_at(folder, "a"), "identity")


@FILES
def no_new_name_takes_the_place_of_another(place: FilesPlace) -> None:
    """Linking, creating and moving to a taken name are refused, and the other's bytes stay."""
    place.put("taken", b"theirs")
    place.put("mine", b"mine")
    place.link("dangling", "nowhere")
    with place.files.folder("") as folder:
        staged = nameless(folder, b"data")
        for leaf in ("taken", "dangling"):
            calls: list[Callable[[], object]] = [
                lambda leaf=leaf: folder.create(leaf, b"x"),  # type: ignore[misc]
                lambda leaf=leaf: folder.create_record(leaf, b"x"),  # type: ignore[misc]
                lambda leaf=leaf: folder.move("mine", leaf),  # type: ignore[misc]
            ]
            if staged is not None:
                calls.append(lambda leaf=leaf: folder.link(staged, leaf))  # type: ignore[misc]
            for call in calls:
                refused(files.NameTaken, call, leaf)
        if staged is not None:
            staged.close()
    shown = place.show()
    equal((b"theirs", b"mine"), (shown["taken"], shown["mine"]), "bytes")


@FILES
def a_new_file_is_like_the_one_it_stands_for(place: FilesPlace) -> None:
    """Mode, owner and group carry over exactly."""
    place.put("old", b"1", mode=0o640)
    with place.files.folder("") as folder, closing(held_at(folder, "old")) as old:
        wanted = old.look()
        for made in (folder.create("named", b"2", old), nameless(folder, b"2", old)):
            if made is not None:
                found = made.look()
                made.close()
                equal(
                    (wanted.mode, wanted.owner, wanted.group),
                    (found.mode, found.owner, found.group),
                    "mode, owner and group",
                )


@FILES
def our_own_descriptor_is_no_writer(place: FilesPlace) -> None:
    """A file that was just made and named can be proven quiet."""
    with place.files.folder("") as folder:
        made = folder.create("a", b"1")
        with closing(held_at(folder, "a")) as held:
            holds(held.prove() is not Proof.WRITER, "we pass for an editor ourselves")
        made.close()


# -- names ---------------------------------------------------------------------------------------


@FILES
def an_exchange_swaps_both_names(place: FilesPlace) -> None:
    """Each name shows the other's very file after it."""
    place.put("a", b"1")
    place.put("b", b"2")
    with place.files.folder("") as folder:
        before = identity_at(folder, "a"), identity_at(folder, "b")
        folder.exchange("a", "b")
        equal(before[::-1], (identity_at(folder, "a"), identity_at(folder, "b")), "identities")
    equal({"a": b"2", "b": b"1"}, place.show(), "bytes")


@FILES
def an_exchange_needs_both_names(place: FilesPlace) -> None:
    """With one missing it is refused and changes nothing."""
    place.put("a", b"1")
    with place.files.folder("") as folder:
        refused(files.NameMissing, lambda: folder.exchange("a", "b"), "right")
        refused(files.NameMissing, lambda: folder.exchange("b", "a"), "left")
    equal({"a": b"1"}, place.show(), "names")


@FILES
def an_exchange_takes_a_link_for_a_link(place: FilesPlace) -> None:
    """A link changes its name, and what it points to is not touched."""
    place.put("a", b"1")
    place.put("far", b"far")
    place.link("link", "far")
    with place.files.folder("") as folder:
        folder.exchange("a", "link")
    equal({"a": None, "link": b"1", "far": b"far"}, place.show(), "names")


@FILES
def a_missing_name_is_neither_moved_nor_unlinked(place: FilesPlace) -> None:
    """Both are refused."""
    with place.files.folder("") as folder:
        refused(files.NameMissing, lambda: folder.move("a", "b"), "move")
        refused(files.NameMissing, lambda: folder.unlink("a"), "unlink")


@FILES
def unlinking_a_link_leaves_what_it_points_to(place: FilesPlace) -> None:
    """Only the link goes."""
    place.put("far", b"far")
    place.link("link", "far")
    with place.files.folder("") as folder:
        folder.unlink("link")
        folder.sync()
    equal({"far": b"far"}, place.show(), "names")
