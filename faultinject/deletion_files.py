"""The files of a cache with a watcher: told before each call that changes something, and after it.

The watcher may raise a `FilesError`, wait, act as a rival, or end the run with `Stop`. Listing,
opening and looking are told too. Everything else is the real adapter on a real file system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dpone.adapters.posix.cachefiles import PosixCache, PosixCacheFolder, PosixLog
from dpone.adapters.posix.held import PosixHeld, PosixRecord
from dpone.contracts.authoring import Kind, Look
from dpone.ports import cachefiles, files

Watcher = Callable[[str, str], None]
"""Called with the call's name and the path below the cache's root."""


class Stop(BaseException):
    """The process ends here; no `except Exception` may catch it."""


def unwatched(call: str, path: str) -> None:
    """The default watcher."""


class WatchedCache(PosixCache):
    """A cache of which every call is told."""

    def __init__(self, root: Path, watch: Watcher = unwatched) -> None:
        super().__init__(root)
        self.watch = watch

    @contextmanager
    def folder(self, path: str) -> Iterator[PosixCacheFolder]:
        with super().folder(path) as inner:
            yield WatchedFolder(inner.descriptor, path, self.watch)


class WatchedLog(PosixLog):
    """A log of which every append is told."""

    watch: Watcher = staticmethod(unwatched)

    def append(self, data: bytes, *, forced: bool = True) -> None:
        self.watch("append", self.leaf)
        super().append(data, forced=forced)
        self.watch("after append", self.leaf)

    def cut(self, size: int) -> None:
        self.watch("cut", self.leaf)
        super().cut(size)


class WatchedFolder(PosixCacheFolder):
    """An open directory of which every call is told."""

    def __init__(self, descriptor: int, path: str, watch: Watcher) -> None:
        super().__init__(descriptor, path)
        self.watch = watch

    def _at(self, leaf: str) -> str:
        return f"{self.path}/{leaf}" if self.path else leaf

    @contextmanager
    def below(self, leaf: str) -> Iterator[PosixCacheFolder]:
        self.watch("below", self._at(leaf))
        with super().below(leaf) as inner:
            yield WatchedFolder(inner.descriptor, self._at(leaf), self.watch)

    def descend(self, leaf: str) -> PosixCacheFolder:
        self.watch("descend", self._at(leaf))
        inner = super().descend(leaf)
        return WatchedFolder(inner.descriptor, self._at(leaf), self.watch)

    def ascend(self) -> PosixCacheFolder:
        inner = super().ascend()
        return WatchedFolder(inner.descriptor, self.path.rpartition("/")[0], self.watch)

    def entries(self) -> Iterator[tuple[str, Kind]]:
        self.watch("entries", self.path)
        yield from super().entries()

    def look(self, leaf: str) -> Look | None:
        self.watch("look", self._at(leaf))
        return super().look(leaf)

    def hold(self, leaf: str) -> PosixHeld | None:
        self.watch("hold", self._at(leaf))
        return super().hold(leaf)

    def create_record(self, leaf: str, data: bytes) -> PosixRecord:
        self.watch("create", self._at(leaf))
        made = super().create_record(leaf, data)
        self.watch("after create", self._at(leaf))
        return made

    def replace(self, leaf: str, over: str) -> None:
        self.watch("replace", self._at(over))
        super().replace(leaf, over)
        self.watch("after replace", self._at(over))

    def carry(self, leaf: str, to: cachefiles.CacheFolder, free: str) -> None:
        self.watch("carry", self._at(leaf))
        super().carry(leaf, to, free)
        self.watch("after carry", self._at(leaf))

    def unlink(self, leaf: str) -> None:
        self.watch("unlink", self._at(leaf))
        super().unlink(leaf)

    def remove_folder(self, leaf: str) -> bool:
        self.watch("rmdir", self._at(leaf))
        return super().remove_folder(leaf)

    def make_folder(self, leaf: str) -> None:
        self.watch("mkdir", self._at(leaf))
        super().make_folder(leaf)

    def sync(self) -> None:
        self.watch("sync", self.path)
        super().sync()

    def set_mode(self, leaf: str, mode: int) -> None:
        self.watch("set_mode", self._at(leaf))
        super().set_mode(leaf, mode)

    def log(self, leaf: str, *, create: bool) -> PosixLog | None:
        self.watch("log", self._at(leaf))
        found = super().log(leaf, create=create)
        if found is None:
            return None
        watched = WatchedLog(found.descriptor, leaf)
        watched.watch = self.watch
        return watched


def stop_at(call: str, part: str = "", count: int = 1) -> Watcher:
    """Ends the run at the `count`-th such call on a path that holds `part`."""
    return acting_at(call, _stop, part, count)


def _stop() -> None:
    raise Stop


def failing_at(call: str, error: type[files.FilesError], part: str = "") -> Watcher:
    """Every such call on a path that holds `part` fails."""

    def watch(said: str, path: str) -> None:
        if said == call and part in path:
            raise error(path)

    return watch


def acting_at(call: str, act: Callable[[], None], part: str = "", count: int = 1) -> Watcher:
    """`act` is called once: at the `count`-th such call on a path that holds `part`."""
    seen = 0

    def watch(said: str, path: str) -> None:
        nonlocal seen
        if said == call and part in path:
            seen += 1
            if seen == count:
                act()

    return watch
