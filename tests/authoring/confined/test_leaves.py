"""No call of a folder leaves its directory, whatever name it is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dpone.adapters.posix.cachefiles import PosixCache
from dpone.adapters.posix.files import PosixFiles
from dpone.ports.files import FilesError, NameInvalid, NotAFolder
from faultinject.authoring_inodes import Disk
from faultinject.deletion_disk import CacheDisk
from faultinject.deletion_memory import MemoryCache
from faultinject.disk import MemoryFiles

BAD = {
    "up": "../outside",
    "below": "inner/file",
    "absolute": "/etc/hostname",
    "parent": "..",
    "itself": ".",
    "empty": "",
    "zero": "a\0b",
}
NAMES = {"leaf", "left", "right", "free", "over", "full"}
OTHERS = {
    "data": b"data\n",
    "mode": 0o600,
    "leads_to": "x",
    "wait_s": 0.0,
    "create": True,
    "like": None,
}


@contextmanager
def memory(_: Path) -> Iterator[Any]:
    with MemoryFiles(Disk.empty()).folder("") as folder:
        yield folder


@contextmanager
def memory_cache(_: Path) -> Iterator[Any]:
    with MemoryCache(CacheDisk.empty()).folder("") as folder:
        yield folder


FOLDERS: dict[str, Callable[[Path], AbstractContextManager[Any]]] = {
    "posix": lambda place: PosixFiles(place).folder(""),
    "posix cache": lambda place: PosixCache(place).folder(""),
    "memory": memory,
    "memory cache": memory_cache,
}


def calls(folder: Any) -> list[tuple[str, list[str]]]:
    """Every public call, with its parameters that are names."""
    found = []
    for name in dir(folder):
        call = getattr(folder, name)
        if name.startswith("_") or not callable(call):
            continue
        names = [each for each in inspect.signature(call).parameters if each in NAMES]
        found += [(name, names)] if names else []
    return found


def called(folder: Any, name: str, bad: str, where: str) -> None:
    """Call with one bad name; every other argument would do."""
    call = getattr(folder, name)
    given: dict[str, Any] = {}
    for parameter in inspect.signature(call).parameters:
        if parameter == where:
            given[parameter] = bad
        elif parameter in NAMES:
            given[parameter] = "file"
        elif parameter == "to":
            given[parameter] = folder
        elif parameter == "staged":
            given[parameter] = folder.hold("file")
        elif parameter in OTHERS:
            given[parameter] = OTHERS[parameter]
    result = call(**given)
    if hasattr(result, "__enter__"):
        with result:
            return


@pytest.mark.parametrize("kind", FOLDERS)
@pytest.mark.parametrize("bad", BAD)
def test_a_name_that_leads_elsewhere_is_refused(place: Path, kind: str, bad: str) -> None:
    inside = place / "inside"
    (inside / "inner").mkdir(parents=True)
    (inside / "inner/file").write_bytes(b"below\n")
    (place / "outside").write_bytes(b"outside\n")
    with FOLDERS[kind](inside) as folder:
        folder.create("file", b"ours\n").close()
        found = calls(folder)
        assert len(found) > 10
        for name, names in found:
            for where in names:
                if name == "lock" and bad == "itself":
                    # The one call that means the directory itself.
                    continue
                with pytest.raises((NameInvalid, NotAFolder)):
                    called(folder, name, BAD[bad], where)
    assert (place / "outside").read_bytes() == b"outside\n"
    assert (inside / "inner/file").read_bytes() == b"below\n"


def test_the_refusal_is_one_of_the_port() -> None:
    assert issubclass(NameInvalid, FilesError)
    assert NameInvalid.reason == "name_invalid"
