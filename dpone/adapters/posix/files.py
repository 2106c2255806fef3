"""Project files on a POSIX system, every directory held by descriptor and no link followed.

Promise: after `folder` a path's parts cannot be swapped under us; new bytes are complete and synced
before they can have a name. Not promised: access by programs that go round the kernel.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

from dpone.adapters.posix import glance, swap
from dpone.adapters.posix.attributes import carry_over
from dpone.adapters.posix.held import (
    PosixHeld,
    PosixRecord,
    Syncs,
    is_overlay,
    ported,
    shut,
    sync,
    translated,
    write_all,
)
from dpone.contracts.authoring import Kind, Look
from dpone.ports import files

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TMPFILE = getattr(os, "O_TMPFILE", 0)
_NO_NAMELESS = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.ENOSYS}
_NO_EXCHANGE = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EXDEV}
_LINKS = Path("/proc/self/fd")

# What rehearsals showed, for this process: by mount, device and directory.
_VERDICTS: dict[tuple[int, int, str], bool] = {}


class PosixFiles:
    """The tree below one root directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextmanager
    def folder(self, path: str) -> Iterator[PosixFolder]:
        """Open a directory part by part from the root."""
        with translated(path):
            descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in path.split("/") if path else []:
                below = open_part(descriptor, part)
                shut(descriptor)
                descriptor = below
            yield PosixFolder(descriptor, path)
        finally:
            shut(descriptor)


def open_part(descriptor: int, part: str) -> int:
    """Open a directory in a directory, following no link. Raises `FilesError`."""
    if part in ("", ".", ".."):
        raise files.NotAFolder(part)
    files.leaf_of(part)
    with translated(part):
        if glance.at_name(descriptor, part).kind is Kind.LINK:
            raise files.LinkForbidden(part)
        return os.open(part, _FOLDER, dir_fd=descriptor)


class PosixFolder:
    """One open directory."""

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self.path = path
        self._syncs = Syncs(path)
        try:
            self.name_bytes_max = os.fpathconf(descriptor, "PC_NAME_MAX")
        except OSError:
            self.name_bytes_max = 255

    # -- looking

    def look(self, leaf: str) -> Look | None:
        """What bears the name."""
        try:
            return glance.at_name(self.descriptor, files.leaf_of(leaf))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ported(error, leaf) from error

    def names(self, limit: int) -> Iterator[str]:
        """The names in the directory."""
        with translated(self.path):
            found = [entry.name for entry in os.scandir(self.descriptor)]
        if len(found) > limit:
            raise files.FileTooLarge(self.path)
        yield from found

    def hold(self, leaf: str) -> PosixHeld | None:
        """Hold a file for reading."""
        descriptor = self._open(leaf, _READ)
        return None if descriptor is None else PosixHeld(descriptor, leaf)

    def record(self, leaf: str) -> PosixRecord | None:
        """Hold one of our records."""
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        descriptor = self._open(leaf, flags)
        return None if descriptor is None else PosixRecord(descriptor, leaf)

    def _open(self, leaf: str, flags: int) -> int | None:
        files.leaf_of(leaf)
        try:
            # Opening a device may do something; so its kind is asked for before.
            mode = os.stat(leaf, dir_fd=self.descriptor, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                raise files.LinkForbidden(leaf)
            if not stat.S_ISREG(mode):
                raise files.NotRegular(leaf)
            descriptor = os.open(leaf, flags, dir_fd=self.descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ported(error, leaf) from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise files.NotRegular(leaf)
        except OSError as error:
            shut(descriptor)
            raise ported(error, leaf) from error
        except BaseException:
            shut(descriptor)
            raise
        return descriptor

    # -- new files

    def stage(self, data: bytes, like: files.Held | None = None) -> PosixHeld:
        """A complete, synced file without a name."""
        _copy_up(like)
        descriptor = self._nameless(0o600 if like else 0o666)
        try:
            self._fill(descriptor, data, like, "")
            # Our own descriptor for writing would pass for an editor's.
            with translated(self.path):
                return PosixHeld(os.open(f"{_LINKS}/{descriptor}", os.O_RDONLY | os.O_CLOEXEC))
        finally:
            shut(descriptor)

    def create(self, leaf: str, data: bytes, like: files.Held | None = None) -> PosixHeld:
        """A complete, synced file under a free name."""
        files.leaf_of(leaf)
        _copy_up(like)
        descriptor = self._created(leaf, 0o600 if like else 0o666)
        try:
            self._fill(descriptor, data, like, leaf)
            with translated(leaf):
                return PosixHeld(os.open(leaf, _READ, dir_fd=self.descriptor), leaf)
        finally:
            shut(descriptor)

    def stage_record(self, data: bytes) -> PosixRecord:
        """A locked record without a name."""
        return self._locked(self._nameless(0o600), data, "")

    def create_record(self, leaf: str, data: bytes) -> PosixRecord:
        """A locked record under a free name."""
        return self._locked(self._created(leaf, 0o600), data, leaf)

    def _nameless(self, mode: int) -> int:
        if not _TMPFILE or not _LINKS.is_dir():
            raise files.NamelessUnsupported
        try:
            return os.open(".", _TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode, dir_fd=self.descriptor)
        except OSError as error:
            if error.errno in _NO_NAMELESS:
                raise files.NamelessUnsupported from error
            with translated(self.path):
                raise error

    def _created(self, leaf: str, mode: int) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with translated(files.leaf_of(leaf)):
            return os.open(leaf, flags, mode, dir_fd=self.descriptor)

    def _fill(self, descriptor: int, data: bytes, like: files.Held | None, leaf: str) -> None:
        with translated(leaf):
            write_all(descriptor, data)
        if like is not None:
            carry_over(_descriptor_of(like), descriptor, leaf)
        sync(descriptor, leaf)

    def _locked(self, descriptor: int, data: bytes, leaf: str) -> PosixRecord:
        record = PosixRecord(descriptor, leaf)
        try:
            if not record.lock():
                raise files.NameTaken(leaf)
            self._fill(descriptor, data, None, leaf)
        except BaseException:
            record.close()
            raise
        return record

    # -- names

    def link(self, staged: files.Held, leaf: str) -> None:
        """Name a nameless file."""
        with translated(files.leaf_of(leaf)):
            os.link(
                f"{_LINKS}/{_descriptor_of(staged)}",
                leaf,
                dst_dir_fd=self.descriptor,
                follow_symlinks=True,
            )

    def exchange(self, left: str, right: str) -> None:
        """Swap two names."""
        try:
            swap.exchange(self.descriptor, files.leaf_of(left), files.leaf_of(right))
        except OSError as error:
            is_unknown = error.errno == errno.EPERM and not self.certified()
            if error.errno in _NO_EXCHANGE or is_unknown:
                raise files.ExchangeUnsupported(left) from error
            with translated(left):
                raise error

    def move(self, leaf: str, free: str) -> None:
        """Rename without overwriting."""
        try:
            swap.move(self.descriptor, files.leaf_of(leaf), files.leaf_of(free))
        except OSError as error:
            if error.errno in _NO_EXCHANGE:
                raise files.ExchangeUnsupported(leaf) from error
            with translated(leaf):
                raise error

    def unlink(self, leaf: str) -> None:
        """Take a file's name."""
        with translated(files.leaf_of(leaf)):
            os.unlink(leaf, dir_fd=self.descriptor)

    def make_folder(self, leaf: str) -> None:
        """Make a directory."""
        with translated(files.leaf_of(leaf)):
            os.mkdir(leaf, dir_fd=self.descriptor)

    def remove_folder(self, leaf: str) -> bool:
        """Remove an empty directory."""
        try:
            os.rmdir(files.leaf_of(leaf), dir_fd=self.descriptor)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
                return False
            with translated(leaf):
                raise error
        return True

    def sync(self) -> None:
        """Have the names durable; refused for ever once it failed."""
        self._syncs.once(lambda: sync(self.descriptor, self.path))

    # -- fitness

    def fitness(self, leaf: str) -> str:
        """Why a change here would fail for sure."""
        here = self._here
        shown = self.look(leaf)
        if shown is not None and (shown.mount, shown.device) != (here.mount, here.device):
            return files.NameBusy.reason
        if not swap.SUPPORTED:
            return files.ExchangeUnsupported.reason
        if here.immutable or (shown is not None and shown.immutable):
            # Not even its owner or root may rename; an append-only folder would keep our files.
            return "immutable"
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=self.descriptor, effective_ids=True):
            return "folder_read_only"
        me = os.geteuid()
        is_sticky = bool(here.mode & stat.S_ISVTX)
        is_foreign = shown is not None and me not in (0, here.owner, shown.owner)
        if is_sticky and is_foreign:
            return "sticky_folder"
        if shown is not None and not _can_own(me, shown):
            return files.OwnershipLost.reason
        return ""

    def certified(self) -> bool | None:
        """What a rehearsal showed."""
        return _VERDICTS.get(self._key())

    def certify(self, verdict: bool) -> None:
        """Remember it."""
        _VERDICTS[self._key()] = verdict

    def _key(self) -> tuple[int, int, str]:
        return self._here.mount, self._here.device, self._here.identity

    @cached_property
    def _here(self) -> Look:
        """The directory as it was when it was first asked for; which one it is never changes."""
        with translated(self.path):
            return glance.at_descriptor(self.descriptor)


def _copy_up(like: files.Held | None) -> None:
    """Have an overlay copy a file of a lower layer now, for its identity changes with that."""
    if like is None or not is_overlay(_descriptor_of(like)):
        return
    with suppress(OSError):
        shut(os.open(f"{_LINKS}/{_descriptor_of(like)}", os.O_WRONLY | os.O_CLOEXEC))


def _descriptor_of(held: files.Held) -> int:
    assert isinstance(held, PosixHeld), "a file of another adapter"
    return held.descriptor


def _can_own(me: int, shown: Look) -> bool:
    """Whether this user may give a new file the owner and the group of another one."""
    if me == 0:
        return True
    return shown.owner == me and shown.group in {os.getegid(), *os.getgroups()}
