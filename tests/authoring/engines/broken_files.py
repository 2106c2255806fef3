"""Seeded defects of a files adapter: each takes one promise away from the real one."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dpone.adapters.posix import glance, swap
from dpone.adapters.posix.files import PosixFolder
from dpone.adapters.posix.held import PosixHeld, PosixRecord
from dpone.contracts.authoring import Look, Proof

Patch = Callable[[pytest.MonkeyPatch], None]

_LOOK = PosixFolder.look
_AT_NAME, _AT_DESCRIPTOR = glance.at_name, glance.at_descriptor


def _set(owner: Any, name: str, value: Any) -> Patch:
    return lambda patch: patch.setattr(owner, name, value)


def _move_over(folder: int, leaf: str, free: str) -> None:
    os.rename(leaf, free, src_dir_fd=folder, dst_dir_fd=folder)


def _exchange_by_moves(folder: int, left: str, right: str) -> None:
    for source, target in ((left, left + "+"), (right, left), (left + "+", right)):
        os.rename(source, target, src_dir_fd=folder, dst_dir_fd=folder)


def _exchange_of_bytes(folder: int, left: str, right: str) -> None:
    paths = [f"/proc/self/fd/{folder}/{name}" for name in (left, right)]
    data = []
    for path in paths:
        with open(path, "rb") as file:
            data.append(file.read())
    for path, bytes_ in zip(paths, data[::-1], strict=True):
        with open(path, "wb") as file:
            file.write(bytes_)


def _hold_following(self: PosixFolder, leaf: str) -> PosixHeld | None:
    try:
        return PosixHeld(os.open(leaf, os.O_RDONLY | os.O_NONBLOCK, dir_fd=self.descriptor), leaf)
    except FileNotFoundError:
        return None


def _look_following(folder: int, leaf: str) -> Look:
    try:
        descriptor = os.open(leaf, os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return _AT_NAME(folder, leaf)
    try:
        return _AT_DESCRIPTOR(descriptor)
    finally:
        os.close(descriptor)


def _without_identity(look: Look) -> Look:
    return look._replace(identity=f"{look.size:016x}.{0:016x}")


def _link_over(self: PosixFolder, staged: PosixHeld, leaf: str) -> None:
    path = f"/proc/self/fd/{self.descriptor}/{leaf}"
    if os.path.lexists(path):
        Path(path).unlink()
    os.link(
        f"/proc/self/fd/{staged.descriptor}",
        leaf,
        dst_dir_fd=self.descriptor,
        follow_symlinks=True,
    )


def _unlink_following(self: PosixFolder, leaf: str) -> None:
    Path(f"/proc/self/fd/{self.descriptor}/{leaf}").resolve().unlink()


def _created_over(self: PosixFolder, leaf: str, mode: int) -> int:
    return os.open(leaf, os.O_RDWR | os.O_CREAT, mode, dir_fd=self.descriptor)


def _patch_and_cut(self: PosixRecord, offset: int, data: bytes) -> None:
    os.pwrite(self.descriptor, data, offset)
    os.ftruncate(self.descriptor, offset + len(data))


def _read_unbounded(self: PosixHeld, bytes_max: int) -> bytes:
    return os.pread(self.descriptor, 1 << 20, 0)


def _names_unbounded(self: PosixFolder, limit: int) -> Iterator[str]:
    yield from (entry.name for entry in os.scandir(self.descriptor))


def _lock_shared(self: PosixRecord) -> bool:
    fcntl.flock(self.descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return True


def _carry_nothing(source: int, target: int, leaf: str) -> None:
    return


def _remove_anything(self: PosixFolder, leaf: str) -> bool:
    import shutil

    shutil.rmtree(f"/proc/self/fd/{self.descriptor}/{leaf}", ignore_errors=True)
    return True


DEFECTS: dict[str, tuple[str, Patch]] = {
    "move overwrites": (
        "no_new_name_takes_the_place_of_another",
        _set(swap, "move", _move_over),
    ),
    "link overwrites": (
        "no_new_name_takes_the_place_of_another",
        _set(PosixFolder, "link", _link_over),
    ),
    "create overwrites": (
        "no_new_name_takes_the_place_of_another",
        _set(PosixFolder, "_created", _created_over),
    ),
    "exchange by three renames": (
        "an_exchange_needs_both_names",
        _set(swap, "exchange", _exchange_by_moves),
    ),
    "exchange of bytes": (
        "an_exchange_swaps_both_names",
        _set(swap, "exchange", _exchange_of_bytes),
    ),
    "hold follows links": (
        "only_regular_files_are_held",
        _set(PosixFolder, "hold", _hold_following),
    ),
    "look follows links": (
        "a_look_tells_kinds_apart_and_follows_nothing",
        _set(glance, "at_name", _look_following),
    ),
    "identity is the size": (
        "identity_survives_a_rename_and_not_a_new_file",
        _set(glance, "at_name", lambda folder, leaf: _without_identity(_AT_NAME(folder, leaf))),
    ),
    "unlink follows links": (
        "unlinking_a_link_leaves_what_it_points_to",
        _set(PosixFolder, "unlink", _unlink_following),
    ),
    "a patch cuts the rest": (
        "a_patch_changes_its_bytes_and_no_other",
        _set(PosixRecord, "patch", _patch_and_cut),
    ),
    "reading has no bound": ("reading_is_bounded", _set(PosixHeld, "read", _read_unbounded)),
    "names have no limit": (
        "the_names_are_listed_up_to_a_limit",
        _set(PosixFolder, "names", _names_unbounded),
    ),
    "a lock for everybody": ("a_record_has_one_owner", _set(PosixRecord, "lock", _lock_shared)),
    "every file is proven": (
        "a_file_open_for_writing_is_never_proven",
        _set(PosixHeld, "prove", lambda self: Proof.PROVEN),
    ),
    "never disturbed": (
        "whoever_knocks_during_the_proof_is_seen",
        _set(PosixHeld, "undisturbed", lambda self: True),
    ),
    "full folders are removed": (
        "only_an_empty_folder_is_removed",
        _set(PosixFolder, "remove_folder", _remove_anything),
    ),
}
