"""What editors do to a file, at a chosen moment of a change or in a loop of their own.

Promise: whatever is saved carries a mark, so that a judge can ask whether it is reachable. An
action that keeps a descriptor open writes through it later.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from dpone.contracts.effects import Effect
from dpone.ports.probe import Probe

MARK = b"# saved by an editor\n"
LATE = b"# written late\n"
BIG_BYTES = 6 * 1024 * 1024
Late = Callable[[], None] | None


def _changed(path: Path) -> bytes:
    """What an editor that had just read the file saves: a comment more."""
    return path.read_bytes() + MARK


def rename_save(path: Path) -> Late:
    """Write beside, rename over: most editors."""
    beside = path.with_name(path.name + ".swp")
    beside.write_bytes(_changed(path))
    beside.rename(path)
    return None


def in_place(path: Path) -> Late:
    """Truncate and write."""
    path.write_bytes(_changed(path))
    return None


def away_then_create(path: Path) -> Late:
    """Move the old file to a backup name, create a new one."""
    data = _changed(path)
    path.rename(path.with_name(path.name + "~"))
    path.write_bytes(data)
    return None


def same_bytes(path: Path) -> Late:
    """Save the same text again: a new inode."""
    beside = path.with_name(path.name + ".swp")
    beside.write_bytes(path.read_bytes())
    beside.rename(path)
    return None


def symlink(path: Path) -> Late:
    """Put a link in its place."""
    elsewhere = path.with_name("elsewhere.txt")
    elsewhere.write_bytes(MARK)
    link = path.with_name(path.name + ".swp")
    link.symlink_to(elsewhere.name)
    link.rename(path)
    return None


def pipe(path: Path) -> Late:
    """Put a pipe in its place."""
    beside = path.with_name(path.name + ".swp")
    os.mkfifo(beside)
    beside.rename(path)
    return None


def folder(path: Path) -> Late:
    """Put a directory in its place."""
    path.unlink()
    path.mkdir()
    (path / "inside.txt").write_bytes(MARK)
    return None


def big(path: Path) -> Late:
    """Save more than can be read."""
    beside = path.with_name(path.name + ".swp")
    beside.write_bytes(MARK + b"#" * BIG_BYTES)
    beside.rename(path)
    return None


def unlink(path: Path) -> Late:
    """Remove it."""
    path.unlink()
    return None


def chmod(path: Path) -> Late:
    """Change its mode."""
    path.chmod(0o640)
    return None


def held(path: Path) -> Late:
    """Open it for writing now, write and close later."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)

    def late() -> None:
        os.write(descriptor, LATE)
        os.close(descriptor)

    return late


def knocking(path: Path) -> Late:
    """Open it for writing while the change holds the lease, and write as soon as that is let."""

    def work() -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, LATE)
        os.close(descriptor)

    thread = threading.Thread(target=work)
    thread.start()
    # Until the kernel has noted the attempt.
    threading.Event().wait(0.05)
    return thread.join


OPAQUE = {"symlink": symlink, "pipe": pipe, "folder": folder, "big": big}
SAVES = {
    "rename_save": rename_save,
    "in_place": in_place,
    "away_then_create": away_then_create,
}
ACTIONS: dict[str, Callable[[Path], Late]] = {
    **SAVES,
    **OPAQUE,
    "same_bytes": same_bytes,
    "unlink": unlink,
    "chmod": chmod,
    "held": held,
    "knocking": knocking,
}
MOMENTS = {
    "before": ("authoring.exchange", "before"),
    "at": ("authoring.exchange", "after"),
    "after": ("authoring.discard", "before"),
    "committing": ("authoring.commit", "before"),
}


class Injected:
    """Passes every effect on to `inner`; at one moment of the change an editor acts.

    `moment` is one of `MOMENTS` or `<effect>:<side>`; a moment on the discard is the first one
    after the exchange. `action` may name several by `+`: each at the next such moment. `twice` is
    the moment before the exchange and the one after it.
    """

    def __init__(self, inner: Probe, root: Path, path: str, action: str, moment: str) -> None:
        self.inner = inner
        self.path = root / path
        self.actions = action.split("+")
        effect, _, side = moment.partition(":")
        self.effect, self.side = MOMENTS.get(moment, (effect, side))
        self.is_twice = moment == "twice"
        self.is_armed = not (self.effect == "authoring.discard" and side == "")
        self.late: list[Callable[[], None]] = []

    @contextlib.contextmanager
    def __call__(self, effect: Effect, /) -> Iterator[None]:
        self._passing(effect, "before")
        with self.inner(effect):
            yield
        self._passing(effect, "after")
        if effect is Effect.AUTHORING_EXCHANGE:
            self.is_armed = True

    def _passing(self, effect: Effect, side: str) -> None:
        is_now = (effect.value, side) == (self.effect, self.side)
        if self.is_twice:
            is_now = effect is Effect.AUTHORING_EXCHANGE
        if self.actions and self.is_armed and is_now:
            name = self.actions.pop(0)
            late = ACTIONS[name](self.path if name != "knocking" else _side_of(self.path))
            if late is not None:
                self.late.append(late)

    def finish(self) -> None:
        """Write what was to be written late."""
        while self.late:
            self.late.pop()()


def _side_of(path: Path) -> Path:
    return next(found for found in path.parent.iterdir() if found.name.startswith(".dpone-side-"))


def reachable(root: Path, mark: bytes) -> list[str]:
    """The names below a folder under which marked bytes can be read."""
    found = []
    for place, _, names in os.walk(root):
        for name in names:
            path = Path(place, name)
            if path.is_file() and not path.is_symlink() and mark in path.read_bytes():
                found.append(path.relative_to(root).as_posix())
    return found


# -- an editor that saves for as long as it is left alone ------------------------------------------


def loop(path: Path, style: str, count: int, pause_s: float) -> None:
    """Save `count` times, each time with one more token `<n>;`.

    In place and after moving it away, the token goes behind what the very file held that is
    written or was moved: a change that is taken back may show other bytes for a moment. By rename
    the editor saves its own buffer.
    """
    waiting = threading.Event()
    buffer = b""
    for number in range(count):
        token = b"%d;" % number
        buffer += token
        if style == "in_place":
            with _opened(path) as file:
                data = file.read()
                file.seek(0)
                file.truncate()
                waiting.wait(pause_s / 4)
                file.write(data + token)
        elif style == "rename_save":
            beside = path.with_name(path.name + ".swp")
            beside.write_bytes(b"# 0\n" + buffer)
            beside.rename(path)
        else:
            backup = path.with_name(path.name + "~")
            with contextlib.suppress(FileNotFoundError):
                path.rename(backup)
            data = backup.read_bytes()
            waiting.wait(pause_s / 4)
            path.write_bytes(data + token)
        waiting.wait(pause_s)


def _opened(path: Path) -> BinaryIO:
    while True:
        with contextlib.suppress(FileNotFoundError):
            return cast("BinaryIO", path.open("r+b", buffering=0))


if __name__ == "__main__":
    import sys

    loop(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
