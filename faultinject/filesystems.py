"""Small real file systems: images, memory, overlays, bind mounts; unmounted whatever happens.

Each raises `Unavailable` with its reason where a tool or a privilege is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

IMAGE_BYTES = {"ext4": 24 << 20, "xfs": 320 << 20, "btrfs": 128 << 20}
KINDS = ("ext4", "xfs", "btrfs", "tmpfs", "overlay")


class Unavailable(RuntimeError):
    """This machine cannot make the file system; the text says why."""


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise Unavailable(f"{command[0]} failed: {words[-1]}")


def require_root() -> None:
    """Raise `Unavailable` for anybody who may not mount."""
    if os.geteuid() != 0:
        raise Unavailable("only root may mount")
    for tool in ("mount", "umount"):
        if shutil.which(tool) is None:
            raise Unavailable(f"there is no {tool}")


@contextmanager
def mounted(kind: str, options: str = "") -> Iterator[Path]:
    """A folder on a fresh file system of a kind. Raises `Unavailable`."""
    require_root()
    with tempfile.TemporaryDirectory(prefix="dpone-mount-") as name:
        base = Path(name)
        arguments = _MAKERS[kind](base, kind)
        place = base / "at"
        place.mkdir()
        _run("mount", *arguments, *(["-o", options] if options else []), str(place))
        try:
            yield place
        finally:
            _run("umount", str(place))


def _image(base: Path, kind: str) -> list[str]:
    tool = f"mkfs.{kind}"
    if shutil.which(tool) is None:
        raise Unavailable(f"there is no {tool}")
    image = base / "image"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES[kind])
    _run(tool, "-q", str(image))
    return ["-t", kind, "-o", "loop", str(image)]


def _memory(base: Path, kind: str) -> list[str]:
    del base
    return ["-t", kind, kind]


def _overlay(base: Path, kind: str) -> list[str]:
    """Upper and work folder lie on a file system of their own: an overlay may not be on one."""
    for name in ("lower", "upper", "work"):
        (base / name).mkdir()
    (base / "lower" / "f.yaml").write_bytes(LOWER)
    options = f"lowerdir={base / 'lower'},upperdir={base / 'upper'},workdir={base / 'work'}"
    return ["-t", kind, kind, "-o", options]


LOWER = b"# lower\n"
_MAKERS: dict[str, Callable[[Path, str], list[str]]] = {
    "ext4": _image,
    "xfs": _image,
    "btrfs": _image,
    "tmpfs": _memory,
    "overlay": _overlay,
}


@contextmanager
def bound(source: Path, place: Path, options: str = "") -> Iterator[None]:
    """A bind mount of a file or folder. Raises `Unavailable`."""
    require_root()
    _run("mount", "--bind", str(source), str(place))
    try:
        if options:
            _run("mount", "-o", f"remount,bind,{options}", str(place))
        yield
    finally:
        _run("umount", str(place))


def as_user(uid: int, gid: int, work: Callable[[], str]) -> str:
    """What `work` answers in a child of another user. Raises `Unavailable` for others than root."""
    if os.geteuid() != 0:
        raise Unavailable("only root may become another user")
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        text = "died"
        try:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            text = work()
        except BaseException as error:  # noqa: BLE001 - the parent reads it
            text = repr(error)
        finally:
            os.write(write, text.encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(pid, 0)
    return text
