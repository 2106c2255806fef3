"""What a route stands for: one operation for each partition.

Promise: identity and intent follow from the manifest, the project's environment and the source's
bytes alone; nothing of this machine, attempt or moment enters them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dpone.contracts.codec import replaced
from dpone.contracts.columns import neutral, table_parts
from dpone.contracts.errors_loading import PartitionUnknown
from dpone.contracts.identity import Operation
from dpone.contracts.route import RouteManifest
from dpone.ports.journal import Journal
from dpone.ports.loader import Load
from dpone.ports.source import Partition, Source


class Planned(NamedTuple):
    """One operation of a route, the part it loads, and how."""

    operation: Operation
    partition: Partition
    load: Load


class Wanted(NamedTuple):
    """What a caller asked for: a revision (None: the manifest's) and labels (none: all).

    `again`: rows of an append route may be added a second time. `since`, `until`: ISO dates; of a
    route that is cut by an interval only the parts that lie in [since, until) as a whole.
    """

    revision: int | None = None
    labels: tuple[str, ...] = ()
    again: bool = False
    since: str = ""
    until: str = ""

    def has(self, part: Partition) -> bool:
        """Whether a part of the source is wanted."""
        if self.labels and part.label not in self.labels:
            return False
        if not self.until or part.kind != "interval":
            return True
        return bool(part.start) and self.since <= part.start and part.stop <= self.until


ALL = Wanted()


def operations_of(
    manifest: RouteManifest,
    source: Source,
    *,
    environment: str,
    name: str,
    wanted: Wanted = ALL,
) -> list[Planned]:
    """The wanted operations, in the order of their partitions.

    Raises `PartitionUnknown` for a label that the source does not have, and what the source
    raises for files that cannot be read.
    """
    partitions = source.partitions()
    known = {partition.label: partition for partition in partitions}
    for label in wanted.labels:
        if label not in known:
            raise PartitionUnknown(partition=label, name=name)
    number = manifest.revision if wanted.revision is None else wanted.revision
    return [
        _planned(manifest, source, part, environment, number)
        for part in partitions
        if wanted.has(part)
    ]


def followed(operations: Sequence[Planned], journal: Journal) -> list[Planned]:
    """The operations at the newest revision that the journal knows of each.

    For a run that names no revision: once a part was reloaded on purpose, its newest revision is
    what it stands for, and the schedule goes on without an edit.
    """
    found = []
    for planned in operations:
        known = [row.revision for row in journal.family(planned.operation.family)]
        newest = max([planned.operation.revision, *known])
        operation = replaced(planned.operation, revision=newest)
        found.append(planned._replace(operation=operation))
    return found


def _planned(
    manifest: RouteManifest, source: Source, part: Partition, environment: str, revision: int
) -> Planned:
    operation = Operation(
        environment=environment,
        route=manifest.route,
        source=_source_name(manifest),
        target=_target_name(manifest),
        partition=part.identity,
        revision=revision,
        intent={
            "strategy": _strategy(manifest),
            "columns": _columns(manifest),
            "source": source.fingerprint(part),
        },
        position=(part.position or None) if manifest.ordered else None,
    )
    load = Load(
        table=table_parts(manifest.target.table),
        strategy=manifest.strategy_name,
        keys=manifest.replaced or manifest.keys,
        columns=tuple(manifest.columns or ()),
        types={name: neutral(word, name) for name, word in manifest.types.items()},
        partition=part,
    )
    return Planned(operation, part, load)


def _source_name(manifest: RouteManifest) -> dict[str, str]:
    source = manifest.source
    if source.query is not None:
        return {"query": source.query.connection}
    named = {source.kind: source.pattern}
    return {**named, "connection": source.connection} if source.connection else named


def _target_name(manifest: RouteManifest) -> dict[str, str]:
    target = manifest.target
    named = {target.kind: target.place, "table": target.table}
    return {**named, "fence_schema": target.fence_schema} if target.fence_schema else named


def _strategy(manifest: RouteManifest) -> dict[str, Any]:
    return {manifest.strategy_name: list(manifest.replaced or manifest.keys)}


def _columns(manifest: RouteManifest) -> list[Any]:
    """Pairs rather than a mapping: names of columns need not be ASCII."""
    types = manifest.types
    return [[name, types.get(name, "")] for name in manifest.columns or ()]
