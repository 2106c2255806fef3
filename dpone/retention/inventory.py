"""What lies in a cache: every entry of an environment's deployments, with what is wrong with it.

Promise: nothing is written; one entry is held at a time; what is not a complete and valid
deployment is in quarantine and is never deleted. Names that file systems make by themselves and
unfinished directories are reported apart. Source: ADR 0043.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dpone.contracts import cache_layout as layout
from dpone.contracts.authoring import Kind
from dpone.contracts.deployment_set import SET_BYTES_MAX, decode_deployment, decode_index
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_cache import CacheEnvironmentMismatch, CacheUnreadable
from dpone.ports.cachefiles import CacheFolder
from dpone.ports.files import FilesError, NameMissing
from dpone.retention.cache import below
from dpone.retention.store import read

SYMLINK = "DPONE_DEPLOYMENT_SYMLINK"
NOT_A_FOLDER = "DPONE_DEPLOYMENT_NOT_A_DIRECTORY"
NAME_INVALID = "DPONE_DEPLOYMENT_NAME_INVALID"
UNREADABLE = "DPONE_DEPLOYMENT_UNREADABLE"
UNFINISHED = "DPONE_DEPLOYMENT_UNFINISHED"
SET_MISSING = "DPONE_DEPLOYMENT_SET_NOT_FOUND"
SET_INVALID = "DPONE_DEPLOYMENT_SET_INVALID"
INDEX_MISSING = "DPONE_AIRFLOW_INDEX_NOT_FOUND"
INDEX_INVALID = "DPONE_AIRFLOW_INDEX_INVALID"
RELEASE_MISSING = "DPONE_RELEASE_NOT_FOUND"
_INCOMPLETE = (UNFINISHED, SET_MISSING, INDEX_MISSING, RELEASE_MISSING)


class Entry(NamedTuple):
    """One entry. `error_code` is empty for a complete and valid deployment.

    `leaf` is its name as it is on disk, `path` its text relative to the cache's root. An entry with
    `is_aside` is no deployment and belongs into no plan. `modified_ns` is of the directory.
    """

    deployment_id: str | None
    leaf: str
    path: str
    error_code: str = ""
    is_aside: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether it is a whole deployment."""
        return not self.error_code and not self.is_aside

    @property
    def reason(self) -> str:
        """Why it is in quarantine."""
        return "incomplete" if self.error_code in _INCOMPLETE else "invalid"


class Inventory:
    """The deployments of one environment in an open cache."""

    def __init__(self, root: CacheFolder, environment: str) -> None:
        self.root = root
        self.environment = environment
        self.place = f"{layout.DEPLOYMENTS}/{environment}"
        self._releases: dict[str, bool] = {}

    def entries(self) -> Iterator[Entry]:
        """Every entry, as the directory is read.

        Raises `CacheUnreadable`; `CacheEnvironmentMismatch` when only other environments are here.
        """
        try:
            with below(self.root, self.place) as folder:
                for name, kind in folder.entries():
                    entry = self._entry(folder, name, kind)
                    if entry is not None:
                        yield entry
        except NameMissing:
            self._check_others()
        except FilesError as error:
            raise CacheUnreadable(path=self.place, reason=error.reason) from error

    def _check_others(self) -> None:
        try:
            with self.root.below(layout.DEPLOYMENTS) as folder:
                others = sorted(name for name in folder.names(1000) if layout.is_environment(name))
        except NameMissing:
            return
        except FilesError as error:
            raise CacheUnreadable(path=layout.DEPLOYMENTS, reason=error.reason) from error
        if others:
            raise CacheEnvironmentMismatch(found=", ".join(others[:5]), expected=self.environment)

    def entry(self, deployment_id: str) -> Entry | None:
        """Look at one deployment again; None when nothing bears its name. Raises `FilesError`."""
        leaf = layout.folder_name(deployment_id)
        try:
            with below(self.root, self.place) as folder:
                look = folder.look(leaf)
                return None if look is None else self._entry(folder, leaf, look.kind)
        except NameMissing:
            return None

    def _entry(self, folder: CacheFolder, name: str, kind: Kind) -> Entry | None:
        path = f"{self.place}/{layout.text_of(name)}"
        if layout.is_tolerated(name) or layout.is_temporary(name):
            return Entry(None, name, path, is_aside=True)
        deployment_id = layout.digest_of(name)
        if kind is Kind.LINK:
            return Entry(deployment_id, name, path, SYMLINK)
        if deployment_id is None:
            return Entry(None, name, path, NAME_INVALID)
        if kind is not Kind.FOLDER:
            return Entry(deployment_id, name, path, NOT_A_FOLDER)
        try:
            with folder.below(name) as opened:
                return Entry(deployment_id, name, path, self._fault(opened, deployment_id))
        except NameMissing:
            return None
        except FilesError:
            return Entry(deployment_id, name, path, UNREADABLE)

    def _fault(self, folder: CacheFolder, deployment_id: str) -> str:
        """What is wrong with a deployment, as a code; empty when nothing is."""
        marker = folder.look(layout.SUCCESS)
        if marker is None:
            return UNFINISHED
        deployment = index = None
        code, missing = SET_INVALID, SET_MISSING
        try:
            data = read(folder, layout.DEPLOYMENT_FILE, SET_BYTES_MAX)
            if data is None:
                return missing
            deployment = decode_deployment(data)
            code, missing = INDEX_INVALID, INDEX_MISSING
            data = read(folder, layout.INDEX_FILE, SET_BYTES_MAX)
            if data is None:
                return missing
            index = decode_index(data)
        except (ContractInvalid, FilesError):
            return code
        if (deployment.deployment_id, deployment.environment) != (deployment_id, self.environment):
            return SET_INVALID
        ids = (index.deployment_id, index.release_id)
        if ids != (deployment_id, deployment.release_ref) or marker.kind is not Kind.FILE:
            return INDEX_INVALID
        return "" if self._has_release(deployment.release_ref) else RELEASE_MISSING

    def _has_release(self, release_id: str) -> bool:
        known = self._releases.get(release_id)
        if known is None:
            try:
                with below(self.root, layout.release_path(release_id)) as folder:
                    look = folder.look(layout.RELEASE_FILE)
                    known = look is not None and look.kind is Kind.FILE
            except FilesError:
                known = False
            self._releases[release_id] = known
        return known
