"""Makes a small local cache to try retention on: a release, deployments, and what is current.

Promise: a directory is complete and synced under an unfinished name before it gets its own; a
second run changes nothing; what stands at a name and is not what would be written is refused.
Activating is a promotion: audit, link, pointer, checkpoint, each replaced whole; a crash between
them is repaired by the same command. Source: ADR 0043.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dpone.contracts import cache_layout as layout
from dpone.contracts.authoring import Kind
from dpone.contracts.current_pointer import (
    POINTER_BYTES_MAX,
    POINTER_SCHEMA,
    decode_pointer,
)
from dpone.contracts.deployment_set import (
    SET_BYTES_MAX,
    MaterializeReport,
    deployment_files,
    preview_ack,
    preview_checkpoint,
    release_files,
)
from dpone.contracts.effects import Effect
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_cache import (
    CacheRootUnsafe,
    CacheUnreadable,
    MaterializeConflict,
    MaterializeFailed,
)
from dpone.contracts.errors_retention import RetentionError
from dpone.ports.cachefiles import CacheFiles, CacheFolder
from dpone.ports.files import FilesError, NameMissing, NameTaken
from dpone.ports.probe import Probe, quiet
from dpone.retention.authority import Current, read_authority, read_checkpoint, read_current
from dpone.retention.cache import Document, below, check_marker, file_at
from dpone.retention.locks import Locks
from dpone.retention.scrub import Undeletable, scrub

Nonces = Callable[[], str]
_ASIDE = re.compile(
    r"\.(?:current|current-pointer\.json|desired-state-checkpoint\.json|\.dpone-cache-layout\.json)"
    r"\.[0-9a-f]{32}\.tmp"
)
_SEALED_FILE, _SEALED_FOLDER, _PRIVATE = 0o444, 0o555, 0o700


@dataclass(frozen=True, slots=True)
class Preview:
    """What to make: `fixture` gives another deployment, `files` more files in it."""

    environment: str
    dag_ids: tuple[str, ...]
    fixture: str = "0"
    files: int = 0


@dataclass(frozen=True, slots=True)
class _Made:
    deployment_id: str
    release_id: str
    files: dict[str, bytes]


class Materializer:
    """Writes into one cache. `nonces` makes UUIDs of version 4, `now` is the time as text."""

    def __init__(
        self,
        files: CacheFiles,
        *,
        nonces: Nonces,
        now: Callable[[], str],
        probe: Probe = quiet,
    ) -> None:
        self.files = files
        self.probe = probe
        self.nonces = nonces
        self.now = now

    def run(
        self, preview: Preview, *, activate: bool = False, ack_file: Document | None = None
    ) -> MaterializeReport:
        """Write what is missing, and with `activate` make it current.

        `ack_file` then gets an acknowledgement as a loader would write it. Raises a
        `RetentionError`.
        """
        release_id, released = release_files(preview.dag_ids)
        deployment_id, deployed = deployment_files(
            preview.environment, release_id, released, preview.fixture, preview.files
        )
        made = _Made(deployment_id, release_id, deployed)
        with self.files.folder("") as root:
            self._mark(root)
            with Locks(root).reconcile():
                environment = preview.environment
                self._clear(root)
                self._tree(root, layout.RELEASES, release_id, released, sealed=True)
                place = f"{layout.DEPLOYMENTS}/{environment}"
                written = self._tree(root, place, deployment_id, deployed, sealed=False)
                activated = activate and self._activate(root, preview, made, ack_file)
            return MaterializeReport(
                environment=environment,
                deployment_id=deployment_id,
                release_id=release_id,
                written=written,
                activated=activated,
                current_deployment_id=_current_id(root),
                ack_file=ack_file.leaf if activate and ack_file else "",
            )

    def _mark(self, root: CacheFolder) -> None:
        """Mark an empty directory as a cache; any other one must be marked already."""
        if root.look(layout.MARKER) is None:
            if any(not layout.is_tolerated(name) for name, _ in root.entries()):
                raise CacheRootUnsafe(reason="it holds other things and has no marker")
            marker = layout.durable(layout.LayoutMarker())
            with self.probe(Effect.CACHE_PUBLISH):
                _replaced(root, layout.MARKER, marker, self.nonces)
                root.set_mode(layout.MARKER, 0o664)
        check_marker(root)

    def _clear(self, root: CacheFolder) -> None:
        try:
            with self.probe(Effect.CACHE_STAGE):
                _clear_asides(root)
                with suppress(NameMissing), root.below(layout.STATUS) as status:
                    _clear_asides(status)
        except FilesError as error:
            raise MaterializeFailed(path=layout.STATUS, reason=error.reason) from error

    # -- directories

    def _tree(
        self,
        root: CacheFolder,
        place: str,
        digest: str,
        files: Mapping[str, bytes],
        *,
        sealed: bool,
    ) -> bool:
        """Have a directory with these files; False when it was there."""
        leaf = layout.folder_name(digest)
        path = f"{place}/{leaf}"
        try:
            with self.probe(Effect.CACHE_STAGE):
                _make_folders(root, place)
            with below(root, place) as folder:
                if folder.look(leaf) is not None:
                    _compare(root, path, files)
                    return False
                with self.probe(Effect.CACHE_STAGE):
                    temporary = self._stage(folder, leaf, files, sealed=sealed)
                with self.probe(Effect.CACHE_PUBLISH):
                    folder.move(temporary, leaf)
                    folder.sync()
        except NameTaken as error:
            raise MaterializeConflict(path=path) from error
        except FilesError as error:
            raise MaterializeFailed(path=path, reason=error.reason) from error
        return True

    def _stage(
        self, folder: CacheFolder, leaf: str, files: Mapping[str, bytes], *, sealed: bool
    ) -> str:
        """A complete and synced directory under an unfinished name."""
        _clear(folder)
        temporary = f".{leaf}.tmp.{self.nonces()}"
        folder.make_folder(temporary)
        with folder.below(temporary) as made:
            _fill(made, files, sealed=sealed)
        if sealed:
            folder.set_mode(temporary, _SEALED_FOLDER)
        return temporary

    # -- promotion

    def _activate(
        self, root: CacheFolder, preview: Preview, made: _Made, ack_file: Document | None
    ) -> bool:
        environment = preview.environment
        if _is_in_force(root, environment, made.deployment_id, ack_file):
            return False
        place = f"{layout.ACTIVATIONS}/{environment}"
        self._tree(root, place, made.deployment_id, made.files, sealed=True)
        activation_id, now = self.nonces(), self.now()
        pointer = {
            "schema": POINTER_SCHEMA,
            "environment": environment,
            "deployment_id": made.deployment_id,
            "release_id": made.release_id,
            "activation_id": activation_id,
            "current_path": layout.CURRENT,
            "previous_deployment_id": _previous(root, made.deployment_id),
            "promoted_by": "local://preview",
            "promoted_at": now,
        }
        said = _said(preview, made, activation_id)
        try:
            with Locks(root).promotion():
                self._promote(root, pointer, said)
            if ack_file is not None:
                ack = preview_ack(said, now)
                with self.probe(Effect.CACHE_PUBLISH), ack_file.files.folder("") as folder:
                    _replaced(folder, ack_file.leaf, layout.durable(ack), self.nonces)
        except FilesError as error:
            raise MaterializeFailed(path=layout.POINTER, reason=error.reason) from error
        return True

    def _promote(self, root: CacheFolder, pointer: dict[str, Any], said: dict[str, Any]) -> None:
        audit = root.log(layout.AUDIT, create=True)
        assert audit is not None, "it is made when missing"
        try:
            with self.probe(Effect.CACHE_STAGE):
                audit.append(_line(pointer))
        finally:
            audit.close()
        temporary = _aside(layout.CURRENT, self.nonces)
        active = layout.activation_path(pointer["environment"], pointer["deployment_id"])
        with self.probe(Effect.CACHE_PROMOTE):
            root.make_link(temporary, active)
            root.replace(temporary, layout.CURRENT)
            root.sync()
        checkpoint = layout.compact(preview_checkpoint(said))
        with self.probe(Effect.CACHE_PUBLISH):
            _replaced(root, layout.POINTER, layout.durable(pointer), self.nonces)
            with suppress(NameTaken):
                root.make_folder(layout.STATUS)
                root.set_mode(layout.STATUS, _PRIVATE)
                root.sync()
            with root.below(layout.STATUS) as status:
                _replaced(status, layout.CHECKPOINT, checkpoint, self.nonces)


def _line(value: dict[str, Any]) -> bytes:
    return layout.compact(value) + b"\n"


def _said(preview: Preview, made: _Made, activation_id: str) -> dict[str, Any]:
    return {
        "environment": preview.environment,
        "release_id": made.release_id,
        "deployment_id": made.deployment_id,
        "airflow_index_sha256": layout.bytes_digest(made.files[layout.INDEX_FILE]),
        "activation_id": activation_id,
        "dag_ids": sorted(preview.dag_ids),
    }


def _is_in_force(
    root: CacheFolder, environment: str, deployment_id: str, ack_file: Document | None
) -> bool:
    """Whether it is current and everything agrees; an activation repairs whatever does not."""
    try:
        if ack_file is not None:
            current: Current | None = read_authority(root, environment, ack_file).current
        else:
            current = read_current(root, environment)
            checkpoint, _ = read_checkpoint(root)
            if current is None or checkpoint.activation_id != current.activation_id:
                return False
    except RetentionError:
        return False
    return current is not None and current.deployment_id == deployment_id


def _previous(root: CacheFolder, deployment_id: str) -> str | None:
    """What a rollback would lead to: what was current, or what was before it."""
    try:
        data = file_at(root, layout.POINTER, POINTER_BYTES_MAX)
        found = None if data is None else decode_pointer(data)
    except (ContractInvalid, CacheUnreadable):
        return None
    if found is None:
        return None
    earlier = found.pointer.deployment_id
    return found.previous if earlier == deployment_id else earlier


def _current_id(root: CacheFolder) -> str | None:
    try:
        data = file_at(root, layout.POINTER, POINTER_BYTES_MAX)
        return None if data is None else decode_pointer(data).pointer.deployment_id
    except ContractInvalid:
        return None


# -- files -----------------------------------------------------------------------------------------


def _aside(leaf: str, nonces: Nonces) -> str:
    return f".{leaf}.{nonces().replace('-', '')}.tmp"


def _clear_asides(folder: CacheFolder) -> None:
    """Remove what an earlier run had written aside; the reconcile lock says that it has ended."""
    for name in [name for name, kind in folder.entries() if kind in (Kind.FILE, Kind.LINK)]:
        if _ASIDE.fullmatch(name):
            folder.unlink(name)


def _replaced(folder: CacheFolder, leaf: str, data: bytes, nonces: Nonces) -> None:
    temporary = _aside(leaf, nonces)
    folder.create_record(temporary, data).close()
    folder.replace(temporary, leaf)
    folder.sync()


def _make_folders(root: CacheFolder, place: str) -> None:
    path = ""
    for part in place.split("/"):
        with suppress(NameTaken), below(root, path) as folder:
            folder.make_folder(part)
            folder.sync()
        path = f"{path}/{part}" if path else part


def _fill(folder: CacheFolder, files: Mapping[str, bytes], *, sealed: bool) -> None:
    """Write files, those in directories below too, and have all of it durable."""
    inner: dict[str, dict[str, bytes]] = {}
    for path, data in files.items():
        first, slash, rest = path.partition("/")
        if slash:
            inner.setdefault(first, {})[rest] = data
            continue
        folder.create(first, data).close()
        if sealed:
            folder.set_mode(first, _SEALED_FILE)
    for name, more in inner.items():
        folder.make_folder(name)
        with folder.below(name) as opened:
            _fill(opened, more, sealed=sealed)
        if sealed:
            folder.set_mode(name, _SEALED_FOLDER)
    folder.sync()


def _compare(root: CacheFolder, path: str, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        try:
            found = file_at(root, f"{path}/{name}", SET_BYTES_MAX)
        except CacheUnreadable as error:
            raise MaterializeConflict(path=path) from error
        if found != data:
            raise MaterializeConflict(path=f"{path}/{name}")


def _clear(folder: CacheFolder) -> None:
    """Remove what an earlier run left unfinished; the reconcile lock says that it has ended."""
    for name in [name for name, kind in folder.entries() if kind is Kind.FOLDER]:
        look = folder.look(name) if layout.is_temporary(name) and ".tmp" in name else None
        if look is not None:
            with suppress(Undeletable):
                scrub(folder, name, look.identity)
