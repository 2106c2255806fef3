"""The loader port: writes a source's rows into one table inside a target's open transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from dpone.ports.source import Partition, Relation


class Load(NamedTuple):
    """What is to be written.

    `table` has one or two parts. `strategy` is `append`, `full_refresh`, `replace_partition` or
    `merge`; `keys` are the columns of the last two. `columns` are the names to load, or empty
    for all of the source; `types` are declared neutral types by column, possibly empty.
    """

    table: tuple[str, ...]
    strategy: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    types: Mapping[str, str]
    partition: Partition


class Loader(Protocol):
    """Performs the four strategies with the target's own bulk path."""

    def load(self, transaction: Any, load: Load, relation: Relation) -> dict[str, int]:
        """Write the rows; return `{"rows_written": n, "rows_deleted": m}`.

        `transaction` is what the target hands to a change: it has `execute`, and whatever else
        its engine offers. The table is made when it does not exist. Raises `SourceError` or
        `LoadError`; the target then rolls back. Nothing is durable when the call returns: the
        target commits.
        """
