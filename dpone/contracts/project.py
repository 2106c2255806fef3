"""What a project file declares: the environment and the named connections."""

from __future__ import annotations

from typing import Literal

import msgspec

ConnectionKind = Literal["duckdb", "sqlite", "postgres", "folder"]


class ConnectionSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A connection: `dsn` is a path (duckdb, sqlite, folder) or a connection string.

    `env` names the environment variable that holds it instead.
    """

    kind: ConnectionKind
    dsn: str = ""
    env: str = ""

    def __post_init__(self) -> None:
        if bool(self.dsn) == bool(self.env):
            raise ValueError("give exactly one of dsn and env")


class ProjectSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of `dpone.toml`."""

    environment: str = "default"
    connections: dict[str, ConnectionSpec] = {}
