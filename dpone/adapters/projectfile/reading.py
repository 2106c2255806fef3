"""Finds the project's folder and reads `dpone.toml`; the environment wins over the file.

Promise: no connection string and no absolute path enters a message. Not promised: that a
connection can be opened.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from dpone.contracts.codec import convert
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_loading import (
    ConnectionInvalid,
    ConnectionUnknown,
    PathOutsideProject,
    ProjectInvalid,
)
from dpone.contracts.project import ConnectionSpec, ProjectSpec

FILE = "dpone.toml"
BYTES_MAX = 1024 * 1024
_KINDS = ("duckdb", "sqlite", "postgres", "folder")


class Project:
    """A project: its root folder, its environment's name and its connections."""

    def __init__(self, root: Path, spec: ProjectSpec, environ: Mapping[str, str]) -> None:
        self.root = root
        self.environment = environ.get("DPONE_ENVIRONMENT") or spec.environment
        self._connections = spec.connections
        self._environ = environ

    def has(self, name: str, kind: str) -> bool:
        """Whether a connection of this name and kind is declared in the project file."""
        spec = self._connections.get(name)
        return spec is not None and spec.kind == kind

    def connection(self, name: str, *kinds: str) -> tuple[str, str]:
        """Return kind and connection string (or path) of a connection.

        Raises `ConnectionUnknown`, or `ConnectionInvalid` when it has none of `kinds`.
        """
        variable = variable_of(name)
        spec = self._connections.get(name)
        given = self._environ.get(variable, "")
        if spec is None and not given:
            raise ConnectionUnknown(name=name, variable=variable)
        kind, value = self._resolved(name, spec, given)
        if kind not in kinds:
            raise ConnectionInvalid(
                name=name,
                reason=f"it is of kind {kind}, and {' or '.join(kinds)} is needed",
                variable=variable,
            )
        return kind, value

    def _resolved(self, name: str, spec: ConnectionSpec | None, given: str) -> tuple[str, str]:
        if given:
            kind, value = _split(given)
            declared = spec.kind if spec is not None else ""
            if not (kind or declared):
                reason = "its environment variable does not begin with <kind>:"
            elif declared and kind and kind != declared:
                # Taken for a path, an address would name a file, with the password in it.
                reason = f"it is declared of kind {declared}, and given as {kind}"
            else:
                return kind or declared, value
            raise ConnectionInvalid(name=name, reason=reason, variable=variable_of(name))
        assert spec is not None
        value = spec.dsn or self._environ.get(spec.env, "")
        if not value:
            raise ConnectionInvalid(
                name=name,
                reason=f"the environment variable {spec.env} is not set",
                variable=variable_of(name),
            )
        return spec.kind, value

    def path(self, declared: str, what: str, kind: str) -> Path:
        """Return the place of a declared relative path or, if there is one, of a connection.

        Raises `PathOutsideProject` for an absolute path or one that climbs out.
        """
        if self.has(declared, kind) or variable_of(declared) in self._environ:
            return self.root / self.connection(declared, kind)[1]
        return self.inside(declared, what, kind)

    def inside(self, declared: str, what: str, kind: str) -> Path:
        """Return the place of a path that must stay in the project's folder."""
        depth = 0
        pure = PurePosixPath(declared)
        for part in pure.parts:
            depth += -1 if part == ".." else 1
            if depth < 0:
                break
        if pure.is_absolute() or depth < 0 or "\\" in declared:
            raise PathOutsideProject(what=what, kind=kind)
        return self.root / declared


def variable_of(name: str) -> str:
    """The environment variable that overrides a connection."""
    return "DPONE_CONNECTION_" + re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def project_of(start: Path, environ: Mapping[str, str]) -> Project:
    """The project in which the file `start` lies; without a project file, its own folder."""
    folder = start.absolute().parent
    for root in (folder, *folder.parents):
        if (root / FILE).is_file():
            return Project(root, _read(root / FILE), environ)
    return Project(folder, ProjectSpec(), environ)


def _read(path: Path) -> ProjectSpec:
    try:
        with path.open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
        if len(raw) > BYTES_MAX:
            raise ProjectInvalid(reason=f"it has more than {BYTES_MAX} bytes")
        return convert(tomllib.loads(raw.decode("utf-8")), ProjectSpec)
    except OSError as error:
        raise ProjectInvalid(reason=error.strerror or "it cannot be read") from None
    except UnicodeDecodeError:
        raise ProjectInvalid(reason="it is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        # The parser's own words name the line and never repeat a value.
        raise ProjectInvalid(reason=str(error)) from None
    except ContractInvalid as error:
        raise ProjectInvalid(reason=error.fields["reason"]) from None


def _split(given: str) -> tuple[str, str]:
    if given.startswith(("postgres://", "postgresql://")):
        return "postgres", given
    kind, colon, value = given.partition(":")
    return (kind, value) if colon and kind in _KINDS else ("", given)
