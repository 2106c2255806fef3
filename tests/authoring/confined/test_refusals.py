"""What may not be changed is refused before anything is written, with a code that says why."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpone.contracts.authoring import FILE_BYTES_MAX, sha256_of
from dpone.contracts.errors_authoring import (
    FileUnreadable,
    PathInvalid,
    PathUnsafe,
    SourceChanged,
    SourceMissing,
)
from faultinject.writing import NEW, OLD
from tests.authoring.confined.studio import Single, codes
from tests.loading.project import Project

BAD_PATHS = {
    "empty": "",
    "parent": "../f.yaml",
    "parent in the middle": "a/../../f.yaml",
    "absolute": "/etc/passwd",
    "dot": "./f.yaml",
    "double slash": "a//f.yaml",
    "trailing slash": "f.yaml/",
    "newline": "f\n.yaml",
    "NUL": "f\0.yaml",
    "surrogate": "f\udc80.yaml",
    "long": "a/" * 2100 + "f",
    "long name": "a" * 300,
    "only dots": "..",
}


@pytest.mark.parametrize("path", BAD_PATHS.values(), ids=BAD_PATHS)
def test_a_path_that_leaves_the_project_is_refused(single: Single, path: str) -> None:
    confined = single.confined()
    for act in (
        lambda: confined.replace_file_if_digest(path, expected_sha256=sha256_of(OLD), desired=NEW),
        lambda: confined.recover_file_transaction(path),
        lambda: confined.pending(path),
    ):
        with pytest.raises(PathInvalid) as caught:
            act()
        assert caught.value.exit_code == 4
    assert (single.shown, single.names) == (OLD, {"f.yaml"})


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(before)


def device(path: Path) -> None:
    try:
        os.mknod(path, 0o020600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("UNVERIFIED: a device cannot be made here")


def link(path: Path) -> None:
    path.symlink_to("elsewhere")


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)


KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": pipe,
    "socket": listening,
    "device": device,
    "link": link,
    "folder": Path.mkdir,
    "large": large,
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_plain_file_is_refused(single: Single, kind: str) -> None:
    single.path.unlink()
    KINDS[kind](single.path)
    before = single.path.lstat()
    with pytest.raises((PathUnsafe, FileUnreadable)) as caught:
        single.replace()
    assert caught.value.exit_code == 4
    after = single.path.lstat()
    assert (after.st_ino, after.st_mode, after.st_size) == (
        before.st_ino,
        before.st_mode,
        before.st_size,
    )
    assert single.names == {"f.yaml"}


class Opens:
    """The module `os`, noting which names are opened."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def open(self, path: Any, *arguments: Any, **more: Any) -> int:
        self.names.append(str(path))
        return os.open(path, *arguments, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "link", "folder"])
def test_what_is_no_plain_file_is_not_even_opened(
    single: Single, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """To open a device may do something, and to open a pipe wakes up whoever waits there."""
    opens = Opens()
    monkeypatch.setattr("dpone.adapters.posix.files.os", opens)
    assert single.replace().committed
    assert "f.yaml" in opens.names
    single.path.unlink()
    KINDS[kind](single.path)
    opens.names.clear()
    with pytest.raises(PathUnsafe):
        single.replace()
    single.confined().recover_file_transaction("f.yaml", by_hand=True)
    assert "f.yaml" not in opens.names


CATALOG = "dpone_workloads/gitops/domains/sales.yaml"
COMMANDS = {
    "init": ("dpone.toml", ("init",)),
    "init domain": (CATALOG, ("init", "domain", "sales")),
    "init workload": (CATALOG, ("init", "workload", "sales/items")),
    "init dag": (CATALOG, ("init", "dag", "sales/daily")),
    "catalog apply": (
        CATALOG,
        ("catalog", "apply", "sales", "--workload", "orders", "--owner", "data_platform"),
    ),
    "migrate": (
        "workloads/sales/orders.yaml",
        ("authoring", "migrate", "workloads/sales/orders.yaml", "--to", "flow"),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_touches_what_is_no_plain_file(
    authored: Project, command: str, kind: str
) -> None:
    path, argv = COMMANDS[command]
    (authored.root / path).unlink()
    KINDS[kind](authored.root / path)
    before = tree(authored.root)
    for apply in ((), ("--apply",)):
        said = authored.call(*argv, *apply, "--format", "json", "--root", str(authored.root))
        assert said.code == 4
        assert codes(said)[0] in (
            "DPONE_AUTHORING_PATH_UNSAFE",
            "DPONE_AUTHORING_FILE_UNREADABLE",
        )
        assert tree(authored.root) == before


def tree(root: Path) -> dict[str, tuple[int, int, int]]:
    """Everything below a folder: kind, inode, size."""
    return {
        str(path.relative_to(root)): (found.st_mode, found.st_ino, found.st_size)
        for path in root.rglob("*")
        for found in [path.lstat()]
        if not path.is_dir()
    }


@pytest.mark.parametrize("part", ["dpone_workloads", "dpone_workloads/gitops/domains"])
@pytest.mark.parametrize("command", ["init domain", "init workload", "init dag", "catalog apply"])
def test_a_folder_on_the_way_that_leads_out_is_not_followed(
    authored: Project, command: str, part: str
) -> None:
    outside = authored.root.parent / "outside"
    (authored.root / part).rename(outside)
    (authored.root / part).symlink_to(outside)
    before = tree(outside)
    said = authored.call(*COMMANDS[command][1], "--apply", "--format", "json")
    assert (said.code, codes(said)) == (4, ["DPONE_AUTHORING_PATH_UNSAFE"])
    assert tree(outside) == before


def test_the_root_itself_may_be_a_link(authored: Project) -> None:
    # The project's folder is what the person named; what lies below it is not followed.
    alias = authored.root.parent / "alias"
    alias.symlink_to(authored.root)
    said = authored.call("init", "workload", "sales/items", "--apply", "--root", str(alias))
    assert said.code == 0


def test_a_missing_file_and_a_missing_folder(single: Single) -> None:
    confined = single.confined()
    for path in ("absent.yaml", "absent/f.yaml"):
        with pytest.raises(SourceMissing) as caught:
            confined.replace_file_if_digest(path, expected_sha256=sha256_of(OLD), desired=NEW)
        assert caught.value.exit_code == 1
    assert single.names == {"f.yaml"}


def test_too_many_bytes_are_refused(single: Single) -> None:
    with pytest.raises(FileUnreadable):
        single.replace(b"x" * (FILE_BYTES_MAX + 1))
    assert single.names == {"f.yaml"}
    assert single.replace(b"x" * FILE_BYTES_MAX).committed


def test_empty_files_are_files(single: Single) -> None:
    assert single.replace(b"").committed
    assert single.replace(NEW, expected=b"").committed
    assert (single.shown, single.names) == (NEW, {"f.yaml"})
    assert single.confined().remove_file_if_owned(single.owned()).removed


@pytest.mark.parametrize("change", ["grow", "shrink", "rewrite"])
def test_a_change_during_the_read_is_found(
    single: Single, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    from dpone.adapters.posix.held import PosixHeld

    real = PosixHeld._read
    after = {"grow": OLD + b"x", "shrink": OLD[:-3], "rewrite": OLD[::-1]}[change]

    def read(self: PosixHeld, bytes_max: int) -> bytes:
        data = real(self, bytes_max)
        single.path.write_bytes(after)
        return data

    monkeypatch.setattr(PosixHeld, "_read", read)
    with pytest.raises(SourceChanged):
        single.replace()
    assert (single.shown, single.names) == (after, {"f.yaml"})
